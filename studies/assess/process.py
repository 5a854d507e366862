"""The process of a cluster that runs cases of an assessment (`studies.series.serving`)."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

from harness.cluster.settings import Settings
from harness.lab.model import Topology
from run.runner import RunOptions
from run.scenario import Scenario
from studies.assess.battery import Case, battery
from studies.assess.described import for_runs, producers, rate_of, setup, topic_names
from studies.assess.load import run_case
from studies.series.serving import RunOrder, serve


def scenario(case: Case, topology: Topology, mode: str, settings: Settings, number: int = 1) -> Scenario:
    """A case as a scenario without claims, the ``number``-th one on its cluster."""
    compared = producers(settings)
    return Scenario(
        name=case.name,
        title=case.says,
        article="assessment",
        section="",
        body=partial(
            run_case, case=case, producers=compared, names=topic_names(settings), rate=rate_of(settings)
        ),
        setup=setup(case, topology, settings, number),
        modes=(mode,),
        judged_by="promises",
        described=compared[0].name,
    )


def choose(options: RunOptions, order: RunOrder, number: int) -> tuple[Scenario, RunOptions]:
    """The case that an order names as a scenario, the ``number``-th one on its cluster."""
    topology = options.layout.topology(options.mode)
    case = next(
        one for one in battery(topology, options.mode, options.upgrade_to) if one.name == order.scenario
    )
    example = scenario(case, topology, options.mode, options.settings, number)
    return example, replace(options, settings=for_runs(options.settings, number))


def main(argv: list[str]) -> int:
    """Serve one cluster. Returns the exit code."""
    return serve(argv, choose)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
