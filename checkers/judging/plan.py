"""The driver's side: a task for each topic partition, and what partitions must know of each other.

Each task reads its partition's files and writes its parts of life and findings; the driver gets counts. Only
identities concern several partitions: a writer may send a sequence number once, and a log may hold a message
that was sent to another partition. If a log does, that partition and the message's own are judged again with
this knowledge (`Identities`). In an undamaged history this never happens, and nothing else is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.judging.loading import homes_of, lookups, shared_writers
from checkers.judging.mixed import SPLIT_ROWS, chunks, laid_out
from checkers.judging.tasks import (
    FATE_COUNTS,
    HOMES,
    PARTITION_FILES,
    UNRESOLVED_MESSAGES,
    Identities,
    JudgingContext,
    PartitionTask,
    Task,
    TaskResult,
)
from checkers.partition.messages import NO_HOMES, Ints
from checkers.tables.files import remove
from checkers.tables.output import TALLY
from checkers.tables.source import numbers, partitions
from harness.kafka.model import TopicPartition

PACK_ROWS = 400_000
"""Partitions smaller than this share a Spark task: starting one costs more than judging them."""

Runner = Callable[[JudgingContext, Sequence[Sequence[Task]]], Mapping[int, TaskResult]]
"""Runs groups of tasks, one Spark task for each group; results are by position in the flattened list."""


def judge_all(
    runner: Runner,
    job: JudgingContext,
    *,
    follow_up_runner: Runner | None = None,
    slots: int = 2,
    split_rows: int = SPLIT_ROWS,
) -> pa.Table:
    """Judge every topic partition; returns counts (`TALLY`). Raises BadDataError that a task reported.

    ``follow_up_runner`` runs the tasks that look at the sends of all partitions (default: ``runner``).
    Files that mix topic partitions are split if they hold more than ``split_rows`` rows.
    """
    follow_up_runner = follow_up_runner or runner
    beside = f"{job.findings}-split"
    mixed = chunks(job.source, beside, split_rows)
    if not mixed:
        return _judge(runner, follow_up_runner, job, slots)
    try:
        written = _one_by_one(runner, job, mixed)
        files = pa.concat_tables([PARTITION_FILES.empty_table(), *(result.files for result in written)])
        job = replace(job, source=laid_out(job.source, files))
        return _judge(runner, follow_up_runner, job, slots)
    finally:
        remove(beside)


def _judge(runner: Runner, follow_up_runner: Runner, job: JudgingContext, slots: int) -> pa.Table:
    rows = _rows_by_partition(job)
    # Of a single partition it is known at once that nothing was sent to another one.
    alone = len(rows) == 1 or not job.source.rows("sends")
    initial = Identities(homes=NO_HOMES) if alone else Identities()
    tasks = [
        PartitionTask(where=where, part=f"part-{number:06}", identities=initial)
        for number, where in enumerate(rows)
    ]
    results = _judge_partitions(runner, job, tasks, rows, slots)
    seqs = {where: result.seqs for where, result in results.items()}
    _one_by_one(follow_up_runner, job, shared_writers(job.source, seqs))
    unresolved = {where: r.unresolved for where, r in results.items() if r.unresolved.num_rows}
    if unresolved:
        identities = _identities(follow_up_runner, job, unresolved)
        again = [
            replace(task, identities=identities[task.where]) for task in tasks if task.where in identities
        ]
        results |= _judge_partitions(runner, job, again, rows, slots)
    tallies = [
        tally
        for where, result in results.items()
        for tally in (_tally(where, "fate", result.fates), _tally(where, "finding", result.findings))
    ]
    return pa.concat_tables([TALLY.empty_table(), *tallies])


def _rows_by_partition(job: JudgingContext) -> dict[TopicPartition, int]:
    """The topic partitions and the rows of each in all tables of messages."""
    rows = {where: total for where, (_, total) in partitions(job.source).items()}
    for row in job.evidence.rows("replicas"):  # a partition without sends may not have been read
        rows.setdefault(TopicPartition(row["topic"], row["partition"]), 0)
    return rows


def pack(tasks: Sequence[tuple[PartitionTask, int]], slots: int) -> list[list[PartitionTask]]:
    """Tasks with their rows, grouped: big ones alone, small ones together, no fewer groups than ``slots``."""
    total = sum(rows for _, rows in tasks)
    limit = min(PACK_ROWS, max(1, total // max(1, slots)))
    groups: list[list[PartitionTask]] = []
    filled = 0
    for task, rows in sorted(tasks, key=lambda item: -item[1]):
        if groups and filled and filled + rows <= limit:
            groups[-1].append(task)
            filled += rows
        else:
            groups.append([task])
            filled = rows
    return groups


def _judge_partitions(
    runner: Runner,
    job: JudgingContext,
    tasks: Sequence[PartitionTask],
    rows: Mapping[TopicPartition, int],
    slots: int,
) -> dict[TopicPartition, TaskResult]:
    """Results by topic partition, in the order of ``tasks``."""
    groups = pack([(task, max(1, rows[task.where])) for task in tasks], slots)
    if not groups:
        return {}
    results = runner(job, groups)
    order = [task.where for group in groups for task in group]
    by_partition = {where: results[position] for position, where in enumerate(order)}
    return {task.where: by_partition[task.where] for task in tasks}


def _one_by_one(runner: Runner, job: JudgingContext, tasks: Sequence[Task]) -> list[TaskResult]:
    results = runner(job, [[task] for task in tasks]) if tasks else {}
    return [results[number] for number in range(len(tasks))]


# ---- messages of one partition in the logs of another


def _identities(
    runner: Runner, job: JudgingContext, unresolved: Mapping[TopicPartition, pa.Table]
) -> dict[TopicPartition, Identities]:
    """What partitions must know of each other: those that name unknown messages, and those messages' own."""
    named = _distinct(list(unresolved.values()))
    keys = np.stack([numbers(named, "writer").astype(np.int64), numbers(named, "seq")], axis=1)
    parts = [result.homes for result in _one_by_one(runner, job, lookups(job.source, keys))]
    homes = (
        pa.concat_tables([HOMES.empty_table(), *parts]).group_by(HOMES.names, use_threads=False).aggregate([])
    )
    homes = homes.select(HOMES.names).cast(HOMES)
    homes_of(homes)
    own = homes.group_by(["topic", "partition"], use_threads=False).aggregate([]).to_pylist()
    concerned = [*unresolved, *(TopicPartition(row["topic"], row["partition"]) for row in own)]
    return {
        where: Identities(
            homes=homes_of(_of(homes, unresolved[where])) if where in unresolved else None,
            away=_away(homes, where, [table for other, table in unresolved.items() if other != where]),
        )
        for where in dict.fromkeys(concerned)
    }


def _away(homes: pa.Table, where: TopicPartition, others: Sequence[pa.Table]) -> Ints:
    """Messages of a partition that the logs of other partitions hold."""
    here = pc.and_(pc.equal(homes["topic"], where.topic), pc.equal(homes["partition"], where.partition))
    away = _of(homes.filter(here), _distinct(others))
    return np.stack([numbers(away, "writer").astype(np.int64), numbers(away, "seq")], axis=1)


def _of(homes: pa.Table, named: pa.Table) -> pa.Table:
    """The homes of some messages, in a fixed order."""
    joined = homes.join(named, ["writer", "seq"], join_type="inner")
    return joined.sort_by([("writer", "ascending"), ("seq", "ascending")])


def _distinct(tables: Sequence[pa.Table]) -> pa.Table:
    return (
        pa.concat_tables([UNRESOLVED_MESSAGES.empty_table(), *tables])
        .group_by(UNRESOLVED_MESSAGES.names, use_threads=False)
        .aggregate([])
    )


# ---- counts


def _tally(where: TopicPartition, kind: str, counts: pa.Table) -> pa.Table:
    rows = counts.num_rows
    columns = {name: counts[name] for name in ("writer", "outcome", "count") if name in counts.column_names}
    columns["name"] = counts["fate"] if counts.schema.names == FATE_COUNTS.names else counts["class"]
    columns |= {
        "kind": pa.repeat(kind, rows),
        "topic": pa.repeat(where.topic, rows),
        "partition": pa.repeat(where.partition, rows),
    }
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in TALLY
    ]
    return pa.table(arrays, schema=TALLY)
