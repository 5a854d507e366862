"""The process of one cluster of an assessment; the process that started it judges and measures the runs.

Its arguments, orders and answers are those of `studies.series.serving`; an order also names a case.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

from harness.cluster.settings import Settings
from harness.lab.model import Topology
from run.runner import RunOptions
from run.scenario import Scenario
from studies.assess.battery import Case, battery
from studies.assess.described import for_runs, producers, setup, topic_names
from studies.assess.load import run_case
from studies.series import serving
from studies.series.serving import Site, serve


class CaseOrder(serving.RunOrder):
    """A case to run, by name."""

    case: str


def scenario(case: Case, topology: Topology, mode: str, settings: Settings, number: int = 1) -> Scenario:
    """A case as a scenario without claims, the ``number``-th one on its cluster."""
    return Scenario(
        name=case.name,
        title=case.says,
        article="assessment",
        section="",
        body=partial(run_case, case=case, producers=producers(settings), names=topic_names(settings)),
        setup=setup(case, topology, settings, number),
        modes=(mode,),
        judged_by="promises",
    )


def choose(site: Site, order: CaseOrder, number: int) -> tuple[Scenario, RunOptions]:
    """The case of an order as a scenario, the ``number``-th one on its cluster."""
    options = site.options
    topology = options.layout.topology(options.mode)
    case = next(one for one in battery(topology, options.mode) if one.name == order.case)
    example = scenario(case, topology, options.mode, options.settings, number)
    return example, replace(options, settings=for_runs(options.settings, number))


def main(argv: list[str]) -> int:
    """Serve one cluster. Returns the exit code."""
    return serve(argv, CaseOrder, choose)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
