"""The driver's side: which tasks there are, and what each must know of the others.

There is one task per topic partition. Each reads its own files and writes its own part of life and findings.
The driver gets counts, and what other tasks must know. A task that runs again replaces its earlier parts.

A large partition is several tasks, which at first know nothing of each other. If merging shows that a task
lacked something, that task is repeated with it. In an undamaged history this never happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.fast.cut import PIECE_MESSAGES, SPLIT_ROWS, Piece, chunks, cut, in_transactions, laid_out
from checkers.fast.loading import homes_of, lookups, shared_writers
from checkers.fast.merge import (
    PartitionResult,
    jumps,
    later_lows,
    log_ends,
    merge,
    offsets_by_broker,
    taken_offsets,
)
from checkers.fast.tasks import (
    FATES,
    FILES,
    HOMES,
    UNRESOLVED,
    FilesResult,
    HomesResult,
    Identities,
    JudgingContext,
    KeyRange,
    KeyResult,
    OffsetRange,
    OffsetResult,
    PartitionMarkers,
    PassedMessages,
    PassedResult,
    ReadOrderResult,
    ReadWindow,
    Result,
    Task,
    WholePartition,
    WholeResult,
    WindowEdges,
    record_of,
)
from checkers.partition.deliveries import EdgeReads
from checkers.partition.logs import PartitionReplicas
from checkers.partition.messages import NO_HOMES, Homes, Ints
from checkers.tables.files import make_folder, remove
from checkers.tables.output import TALLY, write
from checkers.tables.source import numbers, partitions
from harness.kafka.model import TopicPartition

PACK_ROWS = 400_000
"""Partitions smaller than this share a task: starting one costs more than judging them."""

_ROUNDS = 8
"""Rounds after which no task can have learnt anything new."""

Runner = Callable[[JudgingContext, Sequence[Sequence[Task]]], Mapping[int, Result]]
"""Runs groups of tasks, one Spark task for each group; results are by position in the flattened list."""


def judge_all(
    runner: Runner,
    job: JudgingContext,
    *,
    follow_up_runner: Runner | None = None,
    slots: int = 2,
    piece_messages: int = PIECE_MESSAGES,
    split_rows: int = SPLIT_ROWS,
) -> pa.Table:
    """Judge every topic partition; returns counts (`TALLY`). Raises BadDataError that a task reported.

    ``follow_up_runner`` runs the tasks that judged partitions ask for (default: ``runner``).
    """
    follow_up_runner = follow_up_runner or runner
    beside = f"{job.findings}-split"
    mixed = chunks(job.source, beside, split_rows)
    try:
        if not mixed:
            return _Plan(runner, follow_up_runner, job, slots, piece_messages).judge()
        written = runner(job, [[task] for task in mixed]).values()
        files = pa.concat_tables(
            [FILES.empty_table(), *(r.files for r in written if isinstance(r, FilesResult))]
        )
        job = replace(job, source=laid_out(job.source, files))
        return _Plan(runner, follow_up_runner, job, slots, piece_messages).judge()
    finally:
        remove(beside)
        remove(_markers_folder(job))


def _markers_folder(job: JudgingContext) -> str:
    """Scratch files about the transactions of large partitions."""
    return f"{job.findings}-markers"


def pack(pieces: Sequence[tuple[Task, int]], slots: int) -> list[list[Task]]:
    """Tasks with their rows, grouped: big ones alone, small ones together, no fewer groups than ``slots``."""
    total = sum(rows for _, rows in pieces)
    limit = min(PACK_ROWS, max(1, total // max(1, slots)))
    groups: list[list[Task]] = []
    filled = 0
    for task, rows in sorted(pieces, key=lambda item: -item[1]):
        if groups and filled and filled + rows <= limit:
            groups[-1].append(task)
            filled += rows
        else:
            groups.append([task])
            filled = rows
    return groups


@dataclass
class _Judged:
    """One topic partition: its pieces as they were last judged, and their results."""

    where: TopicPartition
    pieces: list[Piece]
    rows: int
    results: dict[int, Result] = field(default_factory=dict)

    def of(self, kind: type[Some], results: type[SomeResult]) -> list[tuple[int, Some, SomeResult]]:
        """Pieces of one kind in order, each with its number and result."""
        found = []
        for number, piece in enumerate(self.pieces):
            result = self.results.get(number)
            if isinstance(piece, kind) and isinstance(result, results):
                found.append((number, piece, result))
        return found

    @property
    def partition(self) -> PartitionReplicas | None:
        """What all pieces know; None if the partition is judged whole."""
        first = self.pieces[0]
        return None if isinstance(first, WholePartition) else first.partition


Some = TypeVar("Some", WholePartition, KeyRange, OffsetRange, ReadWindow)
SomeResult = TypeVar("SomeResult", WholeResult, KeyResult, OffsetResult, ReadOrderResult)


class _Plan:
    def __init__(
        self, runner: Runner, follow_up_runner: Runner, job: JudgingContext, slots: int, piece_messages: int
    ) -> None:
        self._runner, self._follow_up_runner, self._job, self._slots = runner, follow_up_runner, job, slots
        counts = partitions(job.source)
        for row in job.evidence.rows("replicas"):  # a partition without sends may not have been read
            counts.setdefault(TopicPartition(row["topic"], row["partition"]), (0, 0))
        self._partitions = []
        for number, (where, (sends, rows)) in enumerate(counts.items()):
            name = f"part-{number:06}"
            pieces = cut(job, where, name, sends=sends, rows=rows, size=piece_messages)
            if len(counts) == 1:  # there is no other partition to which anything can have been sent
                alone = Identities(homes=NO_HOMES)
                pieces = [
                    replace(p, identities=alone) if isinstance(p, WholePartition) else p for p in pieces
                ]
            self._partitions.append(_Judged(where=where, pieces=pieces, rows=rows))
        self._homes: pa.Table = HOMES.empty_table()
        self._asked: dict[TopicPartition, dict[int, pa.Table]] = {}

    def judge(self) -> pa.Table:
        """Judge until no task lacks anything; returns counts."""
        if not self._partitions:
            return TALLY.empty_table()
        self._write_markers()
        todo = [(one, number) for one in self._partitions for number in range(len(one.pieces))]
        self._run(todo)
        self._check_identities()
        for _ in range(_ROUNDS):
            self._look_up()
            todo = [(one, number) for one in self._partitions for number in self._learn(one)]
            if not todo:
                break
            self._run(todo)
        else:
            raise AssertionError("tasks never agreed")
        return self._put_together()

    def _write_markers(self) -> None:
        """Gather the markers of large partitions with transactions, for all their pieces."""
        tasks: list[PartitionMarkers] = []
        for number, one in enumerate(self._partitions):
            if one.partition is None or not in_transactions(self._job.source, one.where):
                continue
            folder = _markers_folder(self._job)
            make_folder(folder)
            path = f"{folder}/part-{number:06}.parquet"
            tasks.append(PartitionMarkers(where=one.where, partition=one.partition, path=path))
            one.pieces = [replace(p, markers=path) if isinstance(p, KeyRange) else p for p in one.pieces]
        self._one_by_one(tasks)

    def _run(self, todo: Sequence[tuple[_Judged, int]]) -> None:
        sized = [(number, max(1, one.rows // len(one.pieces))) for number, (one, _) in enumerate(todo)]
        tasks: dict[int, Task] = {number: one.pieces[piece] for number, (one, piece) in enumerate(todo)}
        by_task = {id(task): number for number, task in tasks.items()}
        groups = pack([(tasks[number], rows) for number, rows in sized], self._slots)
        order = [by_task[id(task)] for group in groups for task in group]
        for position, result in self._runner(self._job, groups).items():
            one, piece = todo[order[position]]
            one.results[piece] = result

    # ---- what tasks must know of all sends

    def _check_identities(self) -> None:
        seqs = {
            one.where: [r.seqs for r in one.results.values() if isinstance(r, WholeResult | KeyResult)]
            for one in self._partitions
        }
        self._one_by_one(shared_writers(self._job.source, seqs))

    def _look_up(self) -> None:
        """Look up the messages that tasks named and did not find among their own."""
        fresh = []
        for one in self._partitions:
            for number, result in one.results.items():
                if isinstance(result, WholeResult | KeyResult) and result.unresolved.num_rows:
                    self._asked.setdefault(one.where, {})[number] = result.unresolved
                    fresh.append(result.unresolved)
        if not fresh:
            return
        wanted = pa.concat_tables(fresh).group_by(["writer", "seq"]).aggregate([])
        keys = np.stack([numbers(wanted, "writer").astype(np.int64), numbers(wanted, "seq")], axis=1)
        found = self._one_by_one(lookups(self._job.source, keys))
        parts = [result.homes for result in found if isinstance(result, HomesResult)]
        known = pa.concat_tables([self._homes, *parts]).group_by(HOMES.names).aggregate([])
        homes_of(known)
        self._homes = known.select(HOMES.names).cast(HOMES)

    def _identities(self, one: _Judged, number: int, now: Identities) -> Identities:
        if not self._asked:
            return now
        asked = self._asked.get(one.where, {}).get(number)
        homes = now.homes if asked is None else self._homes_of([asked])
        return replace(now, homes=homes, away=self._away(one.where))

    def _away(self, where: TopicPartition) -> Ints:
        """Messages of a partition that other partitions hold."""
        mine = pc.and_(
            pc.equal(self._homes["topic"], where.topic), pc.equal(self._homes["partition"], where.partition)
        )
        homes = self._homes.filter(mine)
        others = [t for other, asked in self._asked.items() if other != where for t in asked.values()]
        if not homes.num_rows or not others:
            return np.empty((0, 2), np.int64)
        named = pa.concat_tables([UNRESOLVED.empty_table(), *others])
        named = named.filter(named["intact"]).group_by(["writer", "seq"]).aggregate([])
        found = homes.join(named, ["writer", "seq"], join_type="inner").sort_by(
            [("writer", "ascending"), ("seq", "ascending")]
        )
        return np.stack([numbers(found, "writer").astype(np.int64), numbers(found, "seq")], axis=1)

    # ---- what pieces of a partition must know of each other

    def _learn(self, one: _Judged) -> list[int]:
        """Give pieces what they lacked; returns the numbers of those that did."""
        changed = []
        for number, piece in enumerate(one.pieces):
            fresh = self._informed(one, number, piece)
            if not _same(piece, fresh):
                one.pieces[number] = fresh
                changed.append(number)
        return changed

    def _informed(self, one: _Judged, number: int, piece: Piece) -> Piece:
        if isinstance(piece, WholePartition):
            return replace(piece, identities=self._identities(one, number, piece.identities))
        if isinstance(piece, KeyRange):
            keys = one.of(KeyRange, KeyResult)
            place = [n for n, _, _ in keys].index(number)
            identities = self._identities(one, number, piece.identities)
            taken = taken_offsets([result.claims for _, _, result in keys])[place]
            identities = replace(identities, taken=np.union1d(identities.taken, taken))
            if piece.seqs.low is not None or piece.seqs.high is not None:
                away = identities.away
                identities = replace(identities, away=away[piece.seqs.of(away[:, 1])])
            later = later_lows([result.spans for _, _, result in keys])[place]
            return replace(piece, identities=identities, later_low=later)
        if isinstance(piece, OffsetRange):
            keys = one.of(KeyRange, KeyResult)
            strays = pa.concat_tables([result.strays for _, _, result in keys])
            ends = log_ends([result.ends for _, _, result in one.of(OffsetRange, OffsetResult)])
            claimed, explained = (
                pa.concat_tables([getattr(result, name) for _, _, result in keys])["offset"].to_numpy()
                for name in ("claimed", "explained")
            )
            by_broker = {
                broker: offsets[piece.offsets.of(offsets)]
                for broker, offsets in offsets_by_broker(strays).items()
            }
            return replace(
                piece,
                strays={broker: offsets for broker, offsets in by_broker.items() if len(offsets)},
                claimed=np.unique(claimed[piece.offsets.of(claimed)]),
                explained=np.unique(explained[piece.offsets.of(explained)]),
                homes=self._homes_here(one) if any(len(o) for o in by_broker.values()) else None,
                ends=ends.take(piece.offsets.of(ends.offset)),
            )
        return piece

    def _homes_here(self, one: _Judged) -> Homes | None:
        asked = self._asked.get(one.where, {}).values()
        if not asked:
            return None
        return self._homes_of(list(asked))

    def _homes_of(self, asked: Sequence[pa.Table]) -> Homes:
        """Where the messages that were asked for were sent."""
        named = pa.concat_tables(asked).group_by(["writer", "seq"]).aggregate([])
        found = self._homes.join(named, ["writer", "seq"], join_type="inner")
        return homes_of(found.sort_by([("writer", "ascending"), ("seq", "ascending")]))

    # ---- the partitions' results

    def _put_together(self) -> pa.Table:
        windows = {
            one.where: [r for _, _, r in one.of(ReadWindow, ReadOrderResult)] for one in self._partitions
        }
        edges: list[WindowEdges] = []
        for one in self._partitions:
            known = [record_of(EdgeReads, result.edges) for result in windows[one.where]]
            if one.partition is not None and len(known) > 1:
                edges.append(WindowEdges(where=one.where, partition=one.partition, edges=tuple(known)))
        for task, result in zip(edges, self._one_by_one(edges), strict=True):
            if isinstance(result, ReadOrderResult):
                windows[task.where].append(result)
        asking: list[PassedMessages] = []
        for one in self._partitions:
            ahead = jumps(windows[one.where])
            for piece in one.pieces if len(ahead) else ():
                if isinstance(piece, KeyRange):
                    asking.append(
                        PassedMessages(
                            where=one.where,
                            partition=piece.partition,
                            seqs=piece.seqs,
                            jumps=ahead,
                            markers=piece.markers,
                        )
                    )
        passed: dict[TopicPartition, list[PassedResult]] = {}
        for question, result in zip(asking, self._one_by_one(asking), strict=True):
            if isinstance(result, PassedResult):
                passed.setdefault(question.where, []).append(result)
        tallies = []
        for one in self._partitions:
            if one.partition is None:
                tallies += [
                    _tally(one.where, "fate", r.fates) for _, _, r in one.of(WholePartition, WholeResult)
                ]
                tallies += [
                    _tally(one.where, "finding", r.findings)
                    for _, _, r in one.of(WholePartition, WholeResult)
                ]
                continue
            merged = merge(
                one.partition,
                self._job.evidence,
                keys=[r for _, _, r in one.of(KeyRange, KeyResult)],
                offsets=[r for _, _, r in one.of(OffsetRange, OffsetResult)],
                windows=windows[one.where],
                passed=passed.get(one.where, []),
            )
            self._write(one, merged)
            tallies += [
                _tally(one.where, "fate", merged.fates),
                _tally(one.where, "finding", merged.classes()),
            ]
        return pa.concat_tables([TALLY.empty_table(), *tallies])

    def _one_by_one(self, tasks: Sequence[Task]) -> list[Result]:
        results = self._follow_up_runner(self._job, [[task] for task in tasks]) if tasks else {}
        return [results[number] for number in range(len(tasks))]

    def _write(self, one: _Judged, merged: PartitionResult) -> None:
        number = self._partitions.index(one)
        write(self._job.findings, f"part-{number:06}-merged", merged.findings)


def _tally(where: TopicPartition, kind: str, counts: pa.Table) -> pa.Table:
    rows = counts.num_rows
    columns = {name: counts[name] for name in ("writer", "outcome", "count") if name in counts.column_names}
    columns["name"] = counts["fate"] if counts.schema.names == FATES.names else counts["class"]
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


def _same(one: object, other: object) -> bool:
    """Whether two tasks are equal, arrays included."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if type(one) is not type(other):
        return False
    if is_dataclass(one) and not isinstance(one, type):
        return all(_same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)
