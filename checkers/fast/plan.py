"""The fast path: one Spark task per topic partition, no shuffle, numpy inside `mapInArrow`.

Each task reads its own files and writes its own part of life and findings; what comes back to the driver are
counts. A task that is tried again replaces its earlier parts. A large partition is several tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.fast.cut import PIECE_MESSAGES, crossings, cut, joints, settle_pieces, with_strays
from checkers.fast.regroup import SPLIT_ROWS, chunks, laid_out, split_chunk
from checkers.fast.task import Job, Piece, judge_piece
from checkers.tables.output import TALLY, build, ddl
from checkers.tables.source import TopicPartition, partitions, remove
from harness.errors import BadDataError

PACK_ROWS = 400_000
"""Partitions smaller than this share a task: starting one costs more than judging them."""


def pack(pieces: Sequence[tuple[Piece, int]], slots: int) -> list[list[Piece]]:
    """Pieces by task: big ones alone, small ones together, no fewer tasks than ``slots``."""
    total = sum(rows for _, rows in pieces)
    limit = min(PACK_ROWS, max(1, total // max(1, slots)))
    tasks: list[list[Piece]] = []
    filled = 0
    for piece, rows in sorted(pieces, key=lambda item: (-item[1], item[0].part)):
        if tasks and filled and filled + rows <= limit:
            tasks[-1].append(piece)
            filled += rows
        else:
            tasks.append([piece])
            filled = rows
    return tasks


Runner = Callable[[Sequence[Sequence[Any]], Callable[[Any], Iterable[Any]]], Any]
"""Runs tasks of items and gathers what they tell (see `run_tasks`)."""


def run(session: Any, job: Job, *, slots: int = 2, piece_messages: int = PIECE_MESSAGES) -> Any:
    """Judge every topic partition; returns the tallies. Raises BadDataError that a task reported."""
    return judge_all(partial(run_tasks, session), job, slots=slots, piece_messages=piece_messages)


def judge_all(
    runner: Runner,
    job: Job,
    *,
    slots: int = 2,
    piece_messages: int = PIECE_MESSAGES,
    split_rows: int = SPLIT_ROWS,
) -> Any:
    """The same, with tasks run by ``runner``."""
    mixed = chunks(job.source, split_rows)
    if not mixed:
        return _judge_all(runner, job, slots, piece_messages)
    beside = f"{job.findings}-split"
    try:
        written = runner([[chunk] for chunk in mixed], lambda chunk: split_chunk(chunk, beside))
        job = replace(job, source=laid_out(job.source, written))
        return _judge_all(runner, job, slots, piece_messages)
    finally:
        remove(beside)


def _judge_all(runner: Runner, job: Job, slots: int, piece_messages: int) -> Any:
    pieces = []
    for holds, (sends, rows) in partitions(job.source).items():
        mine = cut(job, holds, sends, piece_messages, rows)
        pieces += [(piece, max(1, rows // len(mine))) for piece in mine]
    if not pieces:
        return TALLY.empty_table()
    judge = partial(judge_piece, job)
    now = [(piece, rows) for piece, rows in pieces if piece.kind != "reads"]
    tallies = runner(pack(now, slots), judge)
    large = {piece.holds for piece, _ in pieces if piece.kind != "whole"}
    if large:
        tallies = _settle(runner, job, [piece for piece, _ in pieces], large, tallies)
    return tallies


def _settle(runner: Runner, job: Job, pieces: list[Piece], large: set[TopicPartition], tallies: Any) -> Any:
    judge = partial(judge_piece, job)
    again = crossings(pieces, tallies)
    if again:
        fresh = runner([[piece] for piece in again], judge)
        redone = pa.array([piece.part for piece in again])
        keep = pc.or_(pc.is_null(tallies["text"]), pc.invert(pc.is_in(tallies["text"], redone)))
        tallies = pa.concat_tables([tallies.filter(keep), fresh])
    reads = [with_strays(job.findings, piece) for piece in pieces if piece.kind == "reads"]
    if reads:
        told = runner([[piece] for piece in reads], judge)
        over = joints(reads, told)
        tallies = pa.concat_tables([tallies, told, *([runner([over], judge)] if over else [])])
    for holds in large:
        for name, count in settle_pieces(Path(job.findings), holds).items():
            tallies = _count(tallies, holds, name, -count)
    return tallies


def _count(tallies: Any, holds: TopicPartition, name: str, count: int) -> Any:
    row = {"kind": "finding", "topic": holds[0], "partition": holds[1], "name": name, "count": count}
    return pa.concat_tables([tallies, build(TALLY, row, 1)])


def run_tasks(session: Any, tasks: Sequence[Sequence[Any]], judge: Callable[[Any], Iterable[Any]]) -> Any:
    """Run ``judge`` on the items of every task in the workers and gather the tallies it yields."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for item in tasks[number]:
                    yield from _guarded(judge, item)

    frame = session.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, ddl(TALLY))
    tallies = frame.toArrow().cast(TALLY)
    failed = tallies.filter(pc.equal(tallies["kind"], "error"))
    if failed.num_rows:
        raise BadDataError(failed["text"][0].as_py())
    return tallies


def _guarded(judge: Callable[[Any], Iterable[Any]], item: Any) -> Iterator[Any]:
    try:
        for table in judge(item):
            yield from table.to_batches()
    except BadDataError as error:
        yield from build(TALLY, {"kind": "error", "count": 1, "text": error.message}, 1).to_batches()
