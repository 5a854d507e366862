"""The fast path: one Spark task per topic partition, no shuffle, numpy inside `mapInArrow`.

Each task reads its own files and writes its own part of life and findings; what comes back to the driver are
counts. A task that is tried again replaces its earlier parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from checkers.columns import TALLY, build, ddl
from checkers.evidence import Evidence
from checkers.source import Source, TopicPartition, partitions
from checkers.task import judge_partition, load, write
from harness.errors import BadDataError

PACK_ROWS = 400_000
"""Partitions smaller than this share a task: starting one costs more than judging them."""


@dataclass(frozen=True)
class Job:
    """Everything a task needs, pickled to the workers."""

    source: Source
    evidence: Evidence
    life: str | None
    """Folder for the parts of `life`; None: not wanted."""
    findings: str


def pack(sizes: dict[TopicPartition, int], slots: int) -> list[list[TopicPartition]]:
    """Topic partitions by task: big ones alone, small ones together, no fewer tasks than ``slots``."""
    total = sum(sizes.values())
    limit = min(PACK_ROWS, max(1, total // max(1, slots)))
    tasks: list[list[TopicPartition]] = []
    filled = 0
    for holds, rows in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if tasks and filled and filled + rows <= limit:
            tasks[-1].append(holds)
            filled += rows
        else:
            tasks.append([holds])
            filled = rows
    return tasks


def run(session: Any, job: Job, slots: int = 2) -> Any:
    """Judge every topic partition; returns the tallies. Raises BadDataError that a task reported."""
    tasks = pack(partitions(job.source), slots)
    if not tasks:
        return TALLY.empty_table()
    return run_tasks(session, tasks, lambda holds: _judge(job, holds))


def run_tasks(session: Any, tasks: Sequence[Sequence[Any]], judge: Callable[[Any], Iterable[Any]]) -> Any:
    """Run ``judge`` on the items of every task in the workers and gather the tallies it yields."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for item in tasks[number]:
                    yield from _guarded(judge, item)

    frame = session.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, ddl(TALLY))
    tallies = frame.toArrow().cast(TALLY)
    failed = tallies.filter(pa.compute.equal(tallies["kind"], "error"))
    if failed.num_rows:
        raise BadDataError(failed["text"][0].as_py())
    return tallies


def _guarded(judge: Callable[[Any], Iterable[Any]], item: Any) -> Iterator[Any]:
    try:
        for table in judge(item):
            yield from table.to_batches()
    except BadDataError as error:
        yield from build(TALLY, {"kind": "error", "count": 1, "text": error.message}, 1).to_batches()


def _judge(job: Job, holds: TopicPartition) -> Iterator[Any]:
    outcome = judge_partition(load(job.source, job.evidence, holds), job.evidence)
    part = f"{holds[0]}-{holds[1]}"
    if job.life is not None:
        write(job.life, part, outcome.life)
    if outcome.findings.num_rows:
        write(job.findings, part, outcome.findings)
    yield outcome.tallies
