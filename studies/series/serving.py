"""The process of a cluster, from inside: it carries out orders and answers them.

Its arguments are VERSION MODE LAB SETTINGS CLUSTER_FILE UPGRADE_TO FOLDER. SETTINGS are all the user's
settings, as JSON. An empty CLUSTER_FILE means three AZs, an empty UPGRADE_TO no upgrade. The cluster is
kept in FOLDER; an empty one means that it serves a single run and is kept in its folder. Each line of the
input is a `RunOrder` in JSON. When the run has ended, the process writes a `RunAnswer`, a line of JSON. At
the end of its input it takes the cluster down. `studies.series.processes` is the other side.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import FrameType
from typing import BinaryIO, TypeAlias

import msgspec

from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, EXIT_INTERRUPTED, AckedError
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import die_with_parent
from harness.lab.registry import lab_kind
from run.folder import RunFolder
from run.runner import RunOptions, run_scenario
from run.scenario import Scenario
from run.session import layout_of, settings_of, with_protocol
from run.standing import StandingCluster


class RunOrder(msgspec.Struct):
    """A run to carry out."""

    folder: str
    """Its run folder, which exists."""
    scenario: str
    """The name of a scenario, or of a case of an assessment."""
    client: str = ""
    """The client library, as `--client` takes it; empty: librdkafka."""


class RunAnswer(msgspec.Struct):
    """How a run ended."""

    refused: bool = False
    """The cluster could not be made ready for it, and it was not run."""
    usable: bool = False
    """The cluster may be used for another run."""


Choose: TypeAlias = Callable[[RunOptions, RunOrder, int], tuple[Scenario, RunOptions]]
"""The scenario and the options for an order. Gets the options of the cluster, which have all the user's
settings, and the number of the run on the cluster, from 1."""


def serve(argv: list[str], choose: Choose) -> int:
    """Serve one cluster; returns the exit code."""
    die_with_parent()  # so that a command that is killed leaves no cluster behind
    version, mode, lab, settings, file, upgrade_to, path = argv
    options = RunOptions(
        version=kafka_version(version, force=True),
        mode=mode,
        lab=lab,
        layout=layout_of(file or None),
        settings=settings_of(json.loads(settings)),
        upgrade_to=upgrade_to,
    )
    work = partial(_work, options, Path(path) if path else None, choose)
    return lab_kind(lab).enter(work)


def _work(options: RunOptions, path: Path | None, choose: Choose) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with ExitStack() as stack:
            orders, answers = map(stack.enter_context, _channels())
            standing = None if path is None else stack.enter_context(StandingCluster(path))
            for number, line in enumerate(orders, start=1):
                order = msgspec.json.decode(line, type=RunOrder)
                answers.write(msgspec.json.encode(_run(options, standing, order, number, choose)) + b"\n")
                answers.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_AS_DECLARED


def _channels() -> tuple[BinaryIO, BinaryIO]:
    """Orders and answers. What else reads or prints here, such as the body of a scenario, gets neither."""
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return orders, answers


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Handle SIGTERM as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one signal is enough: the hosts are being taken down
    raise KeyboardInterrupt


def _run(
    options: RunOptions, standing: StandingCluster | None, order: RunOrder, number: int, choose: Choose
) -> RunAnswer:
    folder = RunFolder.open(Path(order.folder))
    try:
        scenario, options = choose(options, order, number)
    except AckedError as error:
        folder.ended("crashed", error)
        return RunAnswer()
    if standing is not None:
        try:
            standing.restore(scenario.setup.zookeeper_sessions)
        except (AckedError, OSError) as error:
            sys.stderr.write(f"the cluster cannot be used again: {error}\n")
            return RunAnswer(refused=True)
    try:
        example = with_protocol(scenario, options.version)
        result = run_scenario(example, options, folder, Progress(), standing=standing)
    except AckedError as error:
        folder.ended("crashed", error)
        return RunAnswer()
    if result.problem is not None:
        sys.stderr.write(f"{result.problem.message}\n{result.problem.detail}\n")
    return RunAnswer(usable=standing is not None and result.status == "complete")
