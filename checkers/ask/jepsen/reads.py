"""Readers: their assignments as `:assign` operations, their polls as `:poll`, and polls of the final log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.ask.jepsen.columns import UNKNOWN, Flags, Keys, array, keys_of, load, numbers, read, values_of
from checkers.ask.jepsen.form import ASSIGN, OK, POLL, Form, Longs, Operations, operations
from checkers.ask.jepsen.sends import SentMessages
from checkers.tables.source import Source

POLL_RECORDS = 1000
"""Offsets whose records one poll of the final log returns."""

_FINAL_OWNER = -1


@dataclass(frozen=True, kw_only=True)
class ReadRecords:
    """Records that somebody read, column by column."""

    key: Longs
    value: Longs
    """-1: it names no message."""
    offset: Longs

    def take(self, rows: Longs) -> ReadRecords:
        """Some of them, in the order of ``rows``."""
        return ReadRecords(key=self.key[rows], value=self.value[rows], offset=self.offset[rows])


def assign_ops(groups: pa.Table, reads: pa.Table, keys: Keys, form: Form) -> list[Operations]:
    """The assignment of a reader, each time it changes.

    A seek is written as an assignment without the partition and then one with it, because only then may the
    next poll begin at any offset. A reader without a group is assigned all partitions that it reads.
    """
    known = [row for row in groups.to_pylist() if (row["topic"], row["partition"]) in keys]
    known.sort(key=lambda row: int(row["ns"]))
    assigned: dict[int, set[int]] = {}
    pairs = np.unique(np.stack([numbers(reads, "reader"), keys_of(reads, keys)]), axis=1)
    for reader, key in pairs.T.tolist():
        assigned.setdefault(reader, set()).add(key)
    for row in known:
        if row["event"] == "assigned":
            assigned.get(row["reader"], set()).discard(keys[row["topic"], row["partition"]])
    steps: list[tuple[int, int, list[int]]] = []
    for row in known:
        now = assigned.setdefault(row["reader"], set())
        key = keys[row["topic"], row["partition"]]
        if row["event"] in ("revoked", "lost", "sought"):
            now.discard(key)
            steps.append((row["ns"], row["reader"], sorted(now)))
        if row["event"] in ("assigned", "sought"):
            now.add(key)
            steps.append((row["ns"], row["reader"], sorted(now)))
    if not steps:
        return []
    values = pa.array([f"[{form.comma.join(map(str, now))}]" for _, _, now in steps], pa.large_string())
    times = np.array([ns for ns, _, _ in steps], np.int64)
    return [
        operations(
            function=ASSIGN,
            owner=np.array([reader for _, reader, _ in steps], np.int64) * 2 + 1,
            kind=np.full(len(steps), OK),
            invoked_ns=times,
            completed_ns=times,
            ranks=(2, 2),
            invocation=values,
            completion=values,
        )
    ]


class Audit:
    """Selects the records of messages. All others are left out and counted."""

    def __init__(self, sends: SentMessages) -> None:
        self.foreign = self.misrouted = self.aborted = 0
        self._values = np.unique(sends.value)
        self._sent = np.unique(self._codes(sends.key, sends.value))
        self._aborted = np.unique(self._codes(sends.key[sends.aborted], sends.value[sends.aborted]))

    def kept(self, records: ReadRecords, uncommitted: Flags) -> Longs:
        """Rows of records that are exported; ``uncommitted`` ones may belong to an aborted transaction."""
        foreign = ~np.isin(records.value, self._values) | (records.value < 0)
        codes = self._codes(records.key, np.where(foreign, 0, records.value))
        misrouted = ~foreign & ~np.isin(codes, self._sent)
        aborted = ~foreign & ~misrouted & uncommitted & np.isin(codes, self._aborted)
        self.foreign += int(foreign.sum())
        self.misrouted += int(misrouted.sum())
        self.aborted += int(aborted.sum())
        return np.flatnonzero(~foreign & ~misrouted & ~aborted)

    def _codes(self, key: Longs, value: Longs) -> Longs:
        """One number for each key and message."""
        return key * (len(self._values) + 1) + np.searchsorted(self._values, value)


def poll_ops(reads: pa.Table, keys: Keys, audit: Audit, form: Form) -> Operations:
    """One operation for each poll of a reader; a record that names no poll counts as a poll of its own."""
    count = reads.num_rows
    reader, ns, poll = numbers(reads, "reader"), numbers(reads, "ns"), numbers(reads, "poll")
    row = np.arange(count)
    single = np.where(poll < 0, row, UNKNOWN)
    order = np.lexsort((row, ns, single, poll, reader))
    changed = [np.diff(column[order]) != 0 for column in (reader, poll, single)]
    first = np.flatnonzero(np.concatenate([[True], np.logical_or.reduce(changed)])) if count else row
    poll_of_row = np.empty(count, np.int64)
    poll_of_row[order] = np.repeat(np.arange(len(first)), np.diff(np.append(first, count)))
    time = np.maximum.reduceat(ns[order], first) if count else ns
    records = ReadRecords(key=keys_of(reads, keys), value=values_of(reads), offset=numbers(reads, "offset"))
    committed = pc.fill_null(pc.equal(reads["isolation"], "read_committed"), False)
    kept = audit.kept(records, ~array(committed).astype(np.bool_))
    kept = kept[np.lexsort((ns[kept], records.key[kept], poll_of_row[kept]))]
    returned = _poll_texts(records.take(kept), poll_of_row[kept], len(first), form)
    # Events of the same moment keep their order, so this must be the order in which the reader polled.
    by_time = np.lexsort((np.arange(len(first)), time))
    return operations(
        function=POLL,
        owner=reader[order][first][by_time] * 2 + 1,
        kind=np.full(len(first), OK),
        invoked_ns=time[by_time],
        completed_ns=time[by_time],
        ranks=(3, 3),
        invocation=_poll_invocations(len(first), form),
        completion=returned.take(pa.array(by_time)),
    )


def final_ops(source: Source, keys: Keys, audit: Audit, end_ns: int, form: Form) -> list[Operations]:
    """A process that is assigned every partition from its beginning, and polls the leaders' final logs."""
    log = _final_log(source, keys)
    records = ReadRecords(key=keys_of(log, keys), value=values_of(log), offset=numbers(log, "offset"))
    records = records.take(np.lexsort((records.offset, records.key, records.offset // POLL_RECORDS)))
    records = records.take(audit.kept(records, np.ones(len(records.key), np.bool_)))
    chunk = records.offset // POLL_RECORDS
    new = (np.diff(chunk) != 0) | (np.diff(records.key) != 0)
    poll = np.cumsum(np.concatenate([[0], new])) if len(chunk) else chunk
    count = int(poll[-1]) + 1 if len(poll) else 0
    everything = f"[{form.comma.join(map(str, sorted(keys.values())))}]"
    assigned = pa.array([f"{everything}{form.field('seek-to-beginning?')}true"], pa.large_string())

    def at_the_end(function: int, rank: int, invocation: pa.Array, completion: pa.Array) -> Operations:
        length = len(invocation)
        return operations(
            function=function,
            owner=np.full(length, _FINAL_OWNER),
            kind=np.full(length, OK),
            invoked_ns=np.full(length, end_ns),
            completed_ns=np.full(length, end_ns),
            ranks=(rank, rank),
            invocation=invocation,
            completion=completion,
        )

    polls = _poll_texts(records, poll, count, form)
    return [
        at_the_end(ASSIGN, 4, assigned, assigned),
        at_the_end(POLL, 5, _poll_invocations(count, form), polls),
    ]


def _final_log(source: Source, keys: Keys) -> pa.Table:
    """Messages in the log of each partition's leader; without one, of the replica with the most records."""
    leaders = {
        (row["topic"], row["partition"], row["broker"])
        for row in load(source, "replicas").to_pylist()
        if row["leader"]
    }
    columns = ("topic", "partition", "broker")
    counts: dict[tuple[str, int, int], int] = {}
    for path in source.paths("copies"):
        counted = read(path, "copies", columns).group_by(list(columns)).aggregate([([], "count_all")])
        for row in counted.to_pylist():
            replica = (row["topic"], row["partition"], row["broker"])
            counts[replica] = counts.get(replica, 0) + row["count_all"]
    chosen: dict[tuple[str, int], tuple[bool, int, int]] = {}
    for replica, count in counts.items():
        rank = (replica in leaders, count, -replica[2])
        chosen[replica[:2]] = max(rank, chosen.get(replica[:2], rank))
    broker_of_key = np.full(len(keys), UNKNOWN)
    for partition, (_, _, negative) in chosen.items():
        broker_of_key[keys[partition]] = -negative

    def of_leader(rows: pa.Table) -> pa.Table:
        leads = broker_of_key[keys_of(rows, keys)] == numbers(rows, "broker")
        return rows.filter(pa.array(leads & (numbers(rows, "control", 0) == 0)))

    return load(source, "copies", of_leader)


def _poll_invocations(count: int, form: Form) -> pa.Array:
    return pa.repeat(pa.scalar(f"[[{form.quoted('poll')}]]", pa.large_string()), count)


def _poll_texts(records: ReadRecords, poll: Longs, polls: int, form: Form) -> pa.Array:
    """The records that each of ``polls`` polls returned, sorted by poll and key in a stable order."""
    pairs = form.vector(pa.array(records.offset), pa.array(records.value))
    new = (np.diff(poll) != 0) | (np.diff(records.key) != 0)
    first = np.flatnonzero(np.concatenate([[True], new])) if len(poll) else poll
    lists = form.vectors(pairs, np.append(first, len(poll)))
    starts = np.searchsorted(poll[first], np.arange(polls + 1))
    returned = form.maps(pa.array(records.key[first]), lists, starts)
    return form.vector(form.vector(form.quoted("poll"), returned))
