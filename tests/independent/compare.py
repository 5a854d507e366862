"""Judge random histories with the checker and by the truth, and print where the two differ.

python -m tests.independent.compare --histories 2000 --seed 1

Without ``--spark`` everything runs in this process, task by task. With it, the histories are judged as
`acked check --import` judges them.

Histories of one layout (which tables and columns there are, how they lie in files) are judged together, as
topics of one big history. Ids and names are disjoint, so that the result can be split by topic again. The
exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from checkers.evidence import gather
from checkers.health import check_health
from checkers.judging.plan import judge_all
from checkers.judging.run import run_here
from checkers.judging.tasks import JudgingContext
from checkers.tables.source import open_source
from tests.blocks import blocks_of_rows
from tests.independent.generate import COMBINATIONS, KINDS, PAIRS, RUN_DAMAGE, generate, layout_of
from tests.independent.layout import LAYOUTS, TELLING, Layout, layout
from tests.independent.model import Finding, History, MessageId
from tests.independent.truth import Truth, truth_of, truths_of
from tests.independent.world import EXTREMES

RUN_WIDE = ("process_exit", "server_error", "config_mismatch")
"""Findings about a run as a whole; of histories that are judged together only their number is compared."""
SLOW_S = 60
"""Time-out for judging a batch, besides one second for each of its histories."""
BLOCKS = (1, 3, 8, 1_000_000)
"""Rows that the checker deals with at a time, in batches in turn. Most partitions have 1 to 40 messages."""
MOST_REFERENCES = 64
"""At most this many combinations of equally good references are tried."""


@dataclass
class Case:
    """One generated history, its truth, and what the checker says of it."""

    number: int
    layout: int
    history: History
    planted: list[str]
    fates: dict[MessageId, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    """Tables with rows in hidden files, which nobody reads."""

    @property
    def size(self) -> int:
        return sum(len(rows) for rows in self.history.values())


@dataclass(frozen=True)
class Disagreement:
    """One difference: ``kind`` groups similar ones, ``text`` describes this one."""

    number: int
    kind: str
    text: str
    size: int
    planted: tuple[str, ...]


def cases(seed: int, numbers: Iterable[int], count: int = LAYOUTS) -> Iterator[Case]:
    """Generated histories in ``count`` layouts, without the tables and columns that these leave out."""
    layouts = [layout(seed, number) for number in range(count)]
    for number in numbers:
        history, planted = generate(seed, number)
        lies = layout_of(seed, number, count)
        yield Case(number, lies, layouts[lies].strip(history), planted)


def judge(session: Any, batch: Sequence[Case], lies: Layout, folder: Path) -> Counter[str]:
    """Let the checker judge a batch; fills in its cases, and counts the findings that belong to none.

    ``session`` is a Spark session, or None.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    merged: dict[str, list[Any]] = {}
    for case in batch:
        for name, rows in case.history.items():
            merged.setdefault(name, []).extend(rows)
    if session is not None:
        from checkers.judge import judge_import

        lies.write(merged, folder)
        judge_import(session, folder)
    else:
        lies.write(merged, folder)
        with blocks_of_rows(BLOCKS[batch[0].number % len(BLOCKS)]):
            judge_here(folder)
    owner = {
        row["topic"]: case
        for case in batch
        for name in ("sends", "copies", "replicas", "reads", "groups")
        for row in case.history.get(name, ())
        if row.get("topic") is not None
    }
    for case in batch:
        case.fates, case.findings, case.hidden = {}, [], set()
    for row, hidden in _rows(folder / "life.parquet", ("topic", "writer", "seq", "fate")):
        case = owner[row["topic"]]
        case.fates[row["writer"], row["seq"]] = row["fate"]
        case.hidden |= {"life"} if hidden else set()
    alone: Counter[str] = Counter()
    for row, hidden in _rows(folder / "findings.parquet", ("class", *Finding._fields[1:])):
        if row["class"] in RUN_WIDE or row["topic"] not in owner:
            alone[row["class"]] += 1
        else:
            case = owner[row["topic"]]
            case.findings.append(Finding(*row.values()))
            case.hidden |= {"findings"} if hidden else set()
    return alone


def judge_here(folder: Path) -> None:
    """Judge in this process, without Spark; life and findings go beside the history."""
    life, findings = folder / "life.parquet", folder / "findings.parquet"
    source = open_source(folder)
    evidence = gather(source)
    life.mkdir()
    findings.mkdir()
    job = JudgingContext(source=source, evidence=evidence, life=str(life), findings=str(findings))
    check_health(evidence, findings, judge_all(run_here, job))


def _rows(table: Path, columns: Sequence[str]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Rows of a table, and whether they lie in a file that readers of Parquet folders ignore."""
    files = sorted(table.rglob("*")) if table.is_dir() else [table]
    for file in files:
        if file.suffix == ".parquet" and file.is_file():
            for row in pq.ParquetFile(file).read(columns=list(columns)).to_pylist():
                yield {column: row[column] for column in columns}, file.name.startswith(("_", "."))


def differences(truth: Truth, case: Case) -> list[tuple[str, str]]:
    """Kind and text of every difference between a truth and what the checker said of a history."""
    mismatches = [
        (f"hidden rows of {table}", f"rows of {table} in hidden files") for table in sorted(case.hidden)
    ]
    for message in sorted({*truth.fates, *case.fates}):
        right, said = truth.fates.get(message, "nothing"), case.fates.get(message, "nothing")
        if right != said:
            mismatches.append(
                (f"fate {right}, checker says {said}", f"message {message}: {right}, not {said}")
            )
    spare = Counter(case.findings)
    missed = []
    expected = [finding for finding in truth.findings.elements() if finding.name not in RUN_WIDE]
    for finding in sorted(expected, key=lambda finding: finding.count(None)):
        fitting = next((said for said in spare if spare[said] and _fits(finding, said)), None)
        if fitting is None:
            missed.append(finding)
        else:
            spare[fitting] -= 1
    mismatches += [(f"missed {finding.name}", f"missed {tuple(finding)}") for finding in missed]
    mismatches += [(f"false {finding.name}", f"false {tuple(finding)}") for finding in (+spare).elements()]
    return mismatches


def _fits(expected: Finding, said: Finding) -> bool:
    return all(want is None or want == have for want, have in zip(expected, said, strict=True))


def compare(case: Case) -> list[Disagreement]:
    """Differences from the truth; if several references are equally good, from the truth that fits best."""
    truths = islice(truths_of(case.history), MOST_REFERENCES)
    best: list[tuple[str, str]] | None = None
    for truth in truths:
        mismatches = differences(truth, case)
        if not mismatches:
            return []
        best = mismatches if best is None or len(mismatches) < len(best) else best
    return [
        Disagreement(number=case.number, kind=kind, text=text, size=case.size, planted=tuple(case.planted))
        for kind, text in best or ()
    ]


def run_wide(batch: Sequence[Case], alone: Counter[str]) -> list[Disagreement]:
    """Differences in the number of findings that belong to the run as a whole."""
    expected: Counter[str] = Counter()
    for case in batch:
        for finding in next(iter(truths_of(case.history))).findings.elements():
            expected[finding.name] += finding.name in RUN_WIDE
    return [
        Disagreement(
            number=batch[0].number,
            kind=f"number of {name}",
            text=f"{name}: {expected[name]}, not {alone[name]}, in the batch of layout {batch[0].layout}",
            size=0,
            planted=(),
        )
        for name in sorted({*expected, *alone})
        if expected[name] != alone[name]
    ]


def batches(seed: int, numbers: Iterable[int], size: int, layouts: int) -> Iterator[list[Case]]:
    """Up to ``size`` cases of one layout; cases over which a batch may fail are kept separate."""

    def key(case: Case) -> tuple[int, bool]:
        return case.layout, any(kind in (*RUN_DAMAGE, *EXTREMES) for kind in case.planted)

    waiting: dict[tuple[int, bool], list[Case]] = {}
    for case in cases(seed, numbers, layouts):
        batch = waiting.setdefault(key(case), [])
        batch.append(case)
        if len(batch) >= min(size, layout(seed, case.layout).batch):
            yield waiting.pop(key(case))
    yield from waiting.values()


def disagreements(
    session: Any,
    seed: int,
    numbers: Iterable[int],
    *,
    size: int = 200,
    layouts: int = LAYOUTS,
    folder: Path | None = None,
) -> Iterator[Disagreement]:
    """Judge histories, batch by batch; a batch that the checker refuses is judged one by one."""
    with tempfile.TemporaryDirectory(prefix="acked-independent-") as scratch:
        for batch in batches(seed, numbers, size, layouts):
            lies = layout(seed, batch[0].layout)
            yield from _judge_and_compare(session, batch, lies, folder or Path(scratch) / "history")


# ---- many histories, in several processes


@dataclass
class Coverage:
    """What histories contain, by what was planted and what the truth found."""

    histories: int = 0
    alone: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    """A kind of damage that was planted alone, and the tables of `TELLING` that the history lacks."""
    pairs: set[tuple[str, ...]] = field(default_factory=set)
    """Two kinds that were planted together, in the order of `KINDS`, and nothing else."""
    classes: set[str] = field(default_factory=set)
    """Classes of findings that the truth found."""

    def add(self, case: Case, absent: frozenset[str]) -> None:
        planted = tuple(kind for kind in KINDS if kind in case.planted)
        self.histories += 1
        if len(planted) == 1:
            self.alone.add((planted[0], absent & frozenset(TELLING)))
        if len(planted) == 2:
            self.pairs.add(planted)

    def merge(self, other: Coverage) -> None:
        self.histories += other.histories
        self.alone |= other.alone
        self.pairs |= other.pairs
        self.classes |= other.classes

    @property
    def complete(self) -> bool:
        """Every kind occurs alone with every combination of tables, and every pair occurs."""
        return len(self.alone) == len(KINDS) * COMBINATIONS and len(self.pairs) == len(PAIRS)

    def __str__(self) -> str:
        kinds = {kind for kind, _ in self.alone}
        return (
            f"{self.histories} histories; {len(kinds)} kinds of damage, each alone, "
            f"{len(self.alone)} of {len(KINDS) * COMBINATIONS} times with other tables; "
            f"{len(self.pairs)} of {len(PAIRS)} pairs; {len(self.classes)} classes of findings"
        )


def coverage(seed: int, numbers: Iterable[int], *, truths: bool = True) -> Coverage:
    """What these histories cover; without ``truths`` not which classes they have."""
    seen = Coverage()
    absent = [layout(seed, number).absent_tables for number in range(LAYOUTS)]
    for case in cases(seed, numbers):
        seen.add(case, absent[case.layout])
        if truths:
            seen.classes |= {finding.name for finding in truth_of(case.history).findings}
    return seen


def judge_many(seed: int, numbers: Sequence[int], processes: int) -> tuple[list[Disagreement], Coverage]:
    """Judge histories in several processes, all of a layout in one; shows on stderr how far it is."""
    units: dict[int, list[int]] = {}
    for number in numbers:
        units.setdefault(layout_of(seed, number), []).append(number)
    mismatches: list[Disagreement] = []
    seen = Coverage()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for one, covered in pool.map(partial(_judge_unit, seed), units.values()):
            mismatches += one
            seen.merge(covered)
            print(f"{seen.histories} of {len(numbers)}: {in_words(mismatches)}", file=sys.stderr, flush=True)
    return mismatches, seen


def _judge_unit(seed: int, numbers: Sequence[int]) -> tuple[list[Disagreement], Coverage]:
    return list(disagreements(None, seed, numbers)), coverage(seed, numbers)


def in_words(mismatches: Sequence[Disagreement]) -> str:
    """How many findings were missed, false, or otherwise different."""
    kinds = Counter(one.kind.split()[0] for one in mismatches)
    other = len(mismatches) - kinds["missed"] - kinds["false"]
    return f"{kinds['missed']} missed, {kinds['false']} false, {other} other differences"


def _judge_and_compare(session: Any, batch: list[Case], lies: Layout, folder: Path) -> list[Disagreement]:
    limit_s = SLOW_S + len(batch)
    stop = threading.Timer(limit_s, session.sparkContext.cancelAllJobs if session else lambda: None)
    stop.start()
    begun = time.monotonic()
    try:
        alone = judge(session, batch, lies, folder)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the checker's answer
        if len(batch) > 1:
            half = len(batch) // 2
            return [
                one
                for part in (batch[:half], batch[half:])
                for one in _judge_and_compare(session, part, lies, folder)
            ]
        text = f"too slow (over {SLOW_S} s)" if time.monotonic() - begun > limit_s else reason(error)
        case = batch[0]
        return [Disagreement(case.number, f"refused: {text[:100]}", text, case.size, tuple(case.planted))]
    finally:
        stop.cancel()
    mismatches = [one for case in batch for one in compare(case)]
    return mismatches + run_wide(batch, alone)


def reason(error: BaseException) -> str:
    """The last line of an error (also of an error in Spark's Python worker), and the place that raised it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    places = re.findall(r'File ".*?/(checkers/[\w/]+\.py)", line (\d+)', str(error)) or [
        (Path(frame.filename).name, str(frame.lineno))
        for frame in traceback.extract_tb(error.__traceback__)
        if "checkers" in frame.filename
    ]
    last = raised[-1] if raised else f"{type(error).__name__}: {lines[0] if lines else ''}"
    said = re.sub(r"'?[^' ]*/[^ ]*", "PATH", last)
    return f"{said} at {':'.join(places[-1]) if places else '?'}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    parser.add_argument(
        "--only", type=int, help="judge this history alone, keep its files, and print where they are"
    )
    parser.add_argument("--jobs", type=int, default=1, help="Spark tasks side by side")
    parser.add_argument("--processes", type=int, help="judge in so many processes, with every layout")
    parser.add_argument("--spark", action="store_true", help="judge in a Spark session")
    parser.add_argument("--batch", type=int, default=200, help="histories that are judged together, at most")
    parser.add_argument("--layouts", type=int, default=LAYOUTS, help="ways to lay histories down")
    parser.add_argument("--show", type=int, default=3, help="disagreements of a kind that are printed")
    arguments = parser.parse_args()
    numbers = range(arguments.first, arguments.first + arguments.histories)
    folder = None
    if arguments.only is not None:
        numbers = range(arguments.only, arguments.only + 1)
        folder = Path(tempfile.mkdtemp(prefix="acked-independent-"))
        print(f"files: {folder}")
    if arguments.processes is not None:
        begun = time.monotonic()
        mismatches, seen = judge_many(arguments.seed, numbers, arguments.processes)
        print(f"{seen}: {in_words(mismatches)} ({time.monotonic() - begun:.0f} s)")
        report(mismatches, arguments.show)
        return 1 if mismatches else 0
    session = None
    if arguments.spark:
        from checkers.spark.session import start_session

        session = start_session(master=f"local[{arguments.jobs}]")
    begun = time.monotonic()
    mismatches = list(
        disagreements(
            session,
            arguments.seed,
            numbers,
            size=arguments.batch,
            layouts=arguments.layouts,
            folder=folder,
        )
    )
    seconds = time.monotonic() - begun
    if session is not None:
        session.stop()
    pace = f"{len(numbers) / seconds:.1f} a second"
    print(f"{len(numbers)} histories, seed {arguments.seed}: {pace}")
    report(mismatches, arguments.show)
    return 1 if mismatches else 0


def report(mismatches: Sequence[Disagreement], show: int) -> None:
    """Every kind with its count and its smallest histories."""
    kinds = Counter(one.kind for one in mismatches)
    for kind, count in kinds.most_common():
        alike = sorted((one for one in mismatches if one.kind == kind), key=lambda one: one.size)
        histories = {one.number for one in alike}
        print(f"\n{count} x {kind} (in {len(histories)} histories)")
        for one in alike[:show]:
            print(f"    --only {one.number} (planted {', '.join(one.planted)}): {one.text}")
    numbers = {one.number for one in mismatches}
    print(f"\n{len(mismatches)} disagreements of {len(kinds)} kinds, in {len(numbers)} of the histories")


if __name__ == "__main__":
    sys.exit(main())
