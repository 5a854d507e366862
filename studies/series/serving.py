"""The process of a cluster that outlasts a run, from inside: it carries out orders and answers them.

The arguments of such a process are VERSION MODE LAB FOLDER SETTINGS [CLUSTER_FILE]: it keeps the cluster in
FOLDER, and SETTINGS are all the user's settings, as JSON. Each line of its input is an order as JSON, which
names a run folder. When the run has ended, it writes a `RunAnswer`, a line of JSON. At the end of its input
it takes the cluster down. `studies.series.standing` is the other side.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, EXIT_INTERRUPTED, AckedError
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import die_with_parent, run_inside
from run.folder import RunFolder
from run.runner import RunOptions, run_scenario
from run.scenario import Scenario
from run.session import layout_of, settings_of, with_protocol
from run.standing import Standing
from studies.series.cell import interrupt


class RunOrder(msgspec.Struct):
    """A run to carry out; `folder` is its run folder."""

    folder: str


class RunAnswer(msgspec.Struct):
    """How a run ended."""

    refused: bool = False
    """The cluster could not be made ready for it, and it was not run."""
    usable: bool = False
    """The cluster may be used for another run."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """What all runs on the cluster have in common."""

    options: RunOptions
    """The options, with all the user's settings."""
    path: Path
    """The folder of the cluster."""


OrderT = TypeVar("OrderT", bound=RunOrder)
Choose: TypeAlias = Callable[[Site, OrderT, int], tuple[Scenario, RunOptions]]
"""The scenario and the options for an order; the number counts the runs on the cluster, from 1."""


def serve(argv: list[str], kind: type[OrderT], choose: Choose[OrderT]) -> int:
    """Serve one cluster until the input ends; ``kind`` is the type of the orders. Returns the exit code."""
    die_with_parent()
    version, mode, lab, path, given, *file = argv
    options = RunOptions(
        version=kafka_version(version, force=True),
        mode=mode,
        lab=lab,
        layout=layout_of(file[0] if file else None),
        settings=settings_of(json.loads(given)),
    )
    work = partial(_work, Site(options=options, path=Path(path)), kind, choose)
    return run_inside(work) if lab == "embedded" else work()


def _work(site: Site, kind: type[OrderT], choose: Choose[OrderT]) -> int:
    signal.signal(signal.SIGTERM, interrupt)
    try:
        with Standing(site.path) as standing:
            for number, line in enumerate(sys.stdin, start=1):
                order = msgspec.json.decode(line, type=kind)
                sys.stdout.write(
                    msgspec.json.encode(_run(site, standing, order, number, choose)).decode() + "\n"
                )
                sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_AS_DECLARED


def _run(site: Site, standing: Standing, order: OrderT, number: int, choose: Choose[OrderT]) -> RunAnswer:
    folder = RunFolder.open(Path(order.folder))
    try:
        scenario, options = choose(site, order, number)
    except AckedError as error:
        folder.update(status="crashed", problem=error.message)
        return RunAnswer()
    try:
        standing.restore(scenario.setup.zookeeper_sessions)
    except (AckedError, OSError) as error:
        sys.stderr.write(f"the cluster cannot be used again: {error}\n")
        return RunAnswer(refused=True)
    try:
        example = with_protocol(scenario, options.version)
        result = run_scenario(example, options, folder, Progress(), standing=standing)
    except AckedError as error:
        folder.update(status="crashed", problem=error.message)
        return RunAnswer()
    if result.problem is not None:
        sys.stderr.write(f"{result.problem.message}\n{result.problem.detail}\n")
    return RunAnswer(usable=result.status == "complete")
