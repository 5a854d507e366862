"""The process of a cluster that carries out schedules (`studies.series.serving`).

The run folder of an order holds `schedule.json`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from harness.cluster.settings import Settings
from run.client_choice import client_of
from run.runner import RunOptions
from run.scenario import Scenario
from studies.assess.described import rate_of
from studies.search.rules import read
from studies.search.scenario import scenario_of
from studies.search.schedule import FILE
from studies.series.serving import RunOrder, serve


def choose(options: RunOptions, order: RunOrder, number: int) -> tuple[Scenario, RunOptions]:
    """The schedule in the run folder of an order as a scenario, the ``number``-th one on its cluster."""
    suffix = "" if number == 1 else f"-{number}"
    scenario = scenario_of(
        read(Path(order.folder) / FILE),
        options.layout.topology(options.mode),
        options.mode,
        suffix,
        rate=rate_of(options.settings),
        share_groups=options.version.share_groups,
    )
    return scenario, replace(options, settings=for_runs(options.settings), client=client_of(order.client))


def for_runs(settings: Settings) -> Settings:
    """The settings without topics and their shapes: a schedule has topics of its own."""
    return replace(settings, shapes={}, topics={})


def main(argv: list[str]) -> int:
    """Serve one cluster. Returns the exit code."""
    return serve(argv, choose)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
