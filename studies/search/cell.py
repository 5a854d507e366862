"""The process of one cluster that carries out schedules; the process that started it judges the runs.

Its arguments, orders and answers are those of `studies.series.serving`. The run folder of an order holds
`schedule.json`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from harness.cluster.settings import Settings
from run.client_choice import client_of
from run.runner import RunOptions
from run.scenario import Scenario
from studies.search.rules import read
from studies.search.scenario import scenario_of
from studies.search.schedule import FILE
from studies.series.serving import RunOrder, Site, serve


class ScheduleOrder(RunOrder):
    """A schedule to carry out."""

    client: str = ""
    """The client library, as `--client` takes it; empty: librdkafka."""


def choose(site: Site, order: ScheduleOrder, number: int) -> tuple[Scenario, RunOptions]:
    """The schedule in the run folder of an order as a scenario, the ``number``-th one on its cluster."""
    options = site.options
    suffix = "" if number == 1 else f"-{number}"
    scenario = scenario_of(
        read(Path(order.folder) / FILE), options.layout.topology(options.mode), options.mode, suffix
    )
    return scenario, replace(options, settings=for_runs(options.settings), client=client_of(order.client))


def for_runs(settings: Settings) -> Settings:
    """The settings without topics and their shapes: a schedule has topics of its own."""
    return replace(settings, shapes={}, topics={})


def main(argv: list[str]) -> int:
    """Serve one cluster. Returns the exit code."""
    return serve(argv, ScheduleOrder, choose)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
