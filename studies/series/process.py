"""The process of a cluster that runs scenarios, of the catalogue or of files (`studies.series.serving`)."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from run.catalogue import find
from run.client_choice import client_of
from run.folder import RunFolder
from run.runner import RunOptions
from run.scenario import Scenario
from run.scenario_file import kept
from studies.series.serving import RunOrder, serve


def choose(options: RunOptions, order: RunOrder, _number: int) -> tuple[Scenario, RunOptions]:
    """The scenario that an order names: the one that its run folder keeps, or else that of the catalogue."""
    scenario = kept(RunFolder.open(Path(order.folder)), order.scenario) or find(order.scenario)
    return scenario, replace(options, client=client_of(order.client))


def main(argv: list[str]) -> int:
    """Serve one cluster. Returns the exit code."""
    return serve(argv, choose)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
