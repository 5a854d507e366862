"""Scenario × version × mode: which cells there are, running them side by side, judging them as they end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.partition.fate import LOSSES
from harness.errors import AckedError, UsageError
from harness.kafka.versions import KafkaVersion, kafka_version, version_key
from harness.scenario import Scenario
from harness.series.cell import Cell, Ran, Running, run_cell
from harness.series.shared import groups, hand_over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.verdict import Judgement

Say = Callable[[str], None]


@dataclass(frozen=True)
class CellResult:
    """What a cell came to; ``problem`` says why it could not be judged."""

    cell: Cell
    folder: Path
    verdict: str
    reasons: tuple[str, ...] = ()
    lost: int = 0
    duplicated: int = 0
    kept: int = 0
    claims: Mapping[str, str] = field(default_factory=dict)
    """Status of each claim's own words (not of its erratum), by name."""
    observed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def versions_of(text: str, *, force: bool = False) -> tuple[KafkaVersion, ...]:
    """Versions out of a comma-separated list, oldest first. Raises UsageError for one that is not known."""
    names = sorted({name.strip() for name in text.split(",") if name.strip()}, key=column_key)
    return tuple(kafka_version(name, force=force) for name in names)


def column_key(label: str) -> tuple[tuple[int, ...], str]:
    """Sorts versions; one that speaks an older protocol comes behind itself."""
    return version_key(label), label


def plan(
    scenarios: Iterable[Scenario],
    versions: Sequence[KafkaVersion] = (),
    modes: Sequence[str] = (),
    repeat: int = 1,
) -> tuple[Cell, ...]:
    """The cells that make sense, ``repeat`` times in rounds: a version that cannot run in a mode gives none.

    Without ``versions`` or ``modes``, those whose difference a scenario shows. Raises UsageError where
    nothing is left.
    """
    if repeat < 1:
        raise UsageError(f"--repeat {repeat}: say 1 or more.")
    cells: list[Cell] = []
    tried: dict[str, None] = {}
    for scenario in scenarios:
        wanted = versions or tuple(kafka_version(name) for name in scenario.versions or (scenario.kafka,))
        for version in wanted:
            for mode in modes or scenario.modes or (scenario.mode,):
                tried[f"{version.label} {mode}"] = None
                if mode in version.modes:
                    cells.append(Cell(scenario.name, version.label, mode))
    if not cells:
        raise UsageError(
            f"None of these can be run here: {', '.join(tried)}; `acked versions` shows what each can do."
        )
    return tuple(cells) * repeat


SIDE_BY_SIDE = 3
"""A scenario mostly waits for sessions and lags to end, so that two cores carry three clusters."""
_UNJUDGED = 2
"""So many runs may wait for their judgement beside those that run: Spark has to keep up with them."""


def run_cells(
    cells: Sequence[Cell], runs: Path, *, parallel: int, lab: str = "embedded", say: Say
) -> Generator[CellResult]:
    """Run cells side by side and judge each as it ends, in one Spark session that starts meanwhile.

    Cells that are one case (`harness.series.shared`) are judged on one run.
    """
    from checkers.spark.session import start_session

    room = threading.Semaphore(parallel + _UNJUDGED)

    def run_when_there_is_room(cell: Cell) -> Ran:
        room.acquire()
        return run_cell(cell, runs, lab, running)

    with Running() as running, ThreadPoolExecutor(parallel, thread_name_prefix="cell") as pool:
        waiting = {pool.submit(run_when_there_is_room, group[0]): group for group in groups(cells)}
        try:
            session = start_session()
            for done in as_completed(waiting):
                ran = done.result()
                result = judge_cell(session, ran)
                room.release()
                say(f"{ran.cell}: {summary(result)} ({ran.seconds:.0f} s)")
                yield result
                for cell in waiting[done][1:]:
                    result = judge_cell(session, hand_over(ran, cell, runs))
                    say(f"{cell}: {summary(result)} (the same run)")
                    yield result
        finally:
            for future in waiting:
                future.cancel()
            running.end_all()
            room.release(parallel)


def judge_cell(session: SparkSession, ran: Ran) -> CellResult:
    """Judge one run; what cannot be judged is a crash with its reason."""
    from checkers.judge import judge

    try:
        found = judge(session, ran.folder)
    except AckedError as error:
        return CellResult(ran.cell, ran.folder, "crashed", (error.message,), seconds=ran.seconds)
    return from_judgement(ran, found)


def from_judgement(ran: Ran, found: Judgement) -> CellResult:
    """The figures of a cell out of its judgement."""
    return CellResult(
        cell=ran.cell,
        folder=ran.folder,
        verdict=found.verdict,
        reasons=tuple(found.reasons),
        lost=sum(found.fates.get(fate, 0) for fate in LOSSES),
        duplicated=found.findings_by_class.get("duplicated", 0),
        kept=found.fates.get("kept", 0),
        claims={claim.name: claim.status for claim in found.claims},
        observed={claim.name: claim.observed for claim in found.claims},
        seconds=ran.seconds,
    )


def summary(result: CellResult) -> str:
    """A cell as the table shows it: verdict, and what was lost or duplicated."""
    if result.verdict in ("crashed", "invalid"):
        return result.verdict
    counts = [f"{result.lost} lost"] if result.lost else []
    counts += [f"{result.duplicated} duplicated"] if result.duplicated else []
    return f"{result.verdict}, {', '.join(counts) or 'nothing lost'}"
