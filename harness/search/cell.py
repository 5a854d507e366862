"""The process of one cluster that carries out schedules; the process that started it judges the runs.

`python -m harness.search.cell VERSION MODE LAB FOLDER SETTINGS [CLUSTER_FILE]` keeps the cluster in FOLDER.
SETTINGS are all that the user has set, as JSON. Each line of its input is an `Order` as JSON: the run folder,
which holds `schedule.json`. When the run has ended, it answers with a line of JSON, an `Answer`. At the end
of its input it takes the cluster down.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from harness.cluster.settings import Settings
from harness.console import Progress
from harness.errors import EXIT_AS_DECLARED, EXIT_INTERRUPTED, AckedError
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import die_with_parent, run_inside
from harness.lab.layout import Layout
from harness.run.folder import RunFolder
from harness.run.runner import RunOptions, run_scenario
from harness.run.session import layout_of, with_protocol
from harness.run.standing import Standing
from harness.search.scenario import scenario_of
from harness.search.schedule import FILE, read
from harness.series.cell import interrupt


class Order(msgspec.Struct):
    """A run to carry out."""

    folder: str


class Answer(msgspec.Struct):
    """How a run ended."""

    refused: bool = False
    """The cluster could not be made ready for it, and it was not run."""
    usable: bool = False
    """The cluster may be used for another run."""


def main(argv: list[str]) -> int:
    """Serve one cluster; the arguments are those of the module. Returns the exit code."""
    die_with_parent()
    version, mode, lab, path, given, *file = argv
    layout = layout_of(file[0] if file else None)
    settings = Settings.from_json(json.loads(given))
    serve = partial(_serve, version, mode, lab, Path(path), layout, settings)
    return run_inside(serve) if lab == "embedded" else serve()


def _serve(version: str, mode: str, lab: str, path: Path, layout: Layout, settings: Settings) -> int:
    signal.signal(signal.SIGTERM, interrupt)
    kafka = kafka_version(version, force=True)
    options = RunOptions(kafka, mode, lab, layout=layout, settings=for_runs(settings))
    try:
        with Standing(path) as standing:
            for number, order in enumerate(_orders(sys.stdin), start=1):
                folder = RunFolder.open(Path(order.folder))
                if not _restored(standing):
                    _answer(Answer(refused=True))
                    continue
                try:
                    schedule = read(folder.path / FILE)
                    suffix = "" if number == 1 else f"-{number}"
                    example = scenario_of(schedule, layout.topology(mode), mode, suffix)
                    result = run_scenario(
                        with_protocol(example, kafka), options, folder, Progress(), standing=standing
                    )
                except AckedError as error:
                    folder.update(status="crashed", problem=error.message)
                    _answer(Answer())
                    continue
                if result.problem is not None:
                    sys.stderr.write(f"{result.problem.message}\n{result.problem.detail}\n")
                _answer(Answer(usable=result.status == "complete"))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_AS_DECLARED


def for_runs(settings: Settings) -> Settings:
    """The settings without topics and their shapes: a schedule has topics of its own."""
    return replace(settings, shapes={}, topics={})


def _restored(standing: Standing) -> bool:
    try:
        standing.restore()
    except (AckedError, OSError) as error:
        sys.stderr.write(f"the cluster cannot be used again: {error}\n")
        return False
    return True


def _orders(lines: Iterable[str]) -> Iterable[Order]:
    return (msgspec.json.decode(line, type=Order) for line in lines)


def _answer(answer: Answer) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
