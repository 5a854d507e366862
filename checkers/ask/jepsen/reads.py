"""Readers: their assignments as `:assign` operations, their polls as `:poll`, and polls of the final log."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.ask.jepsen.columns import UNKNOWN, Keys, array, keys_of, load, numbers, read, values_of
from checkers.ask.jepsen.form import ASSIGN, OK, POLL, Form, Longs, Operations, operations
from checkers.ask.jepsen.sends import SentMessages
from checkers.partition.logs import Replica, choose_reference
from checkers.partition.messages import Flags
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
    next poll begin at any offset. A reader without a group is assigned all partitions that it reads. As the
    checker judges it, it may begin anywhere when it is assigned a partition again, but it keeps its place in
    one that it gave up.
    """
    members = set(reads["reader"].filter(pc.is_valid(reads["group"])).unique().to_pylist())
    assigned: dict[int, set[int]] = {}
    pairs = np.unique(np.stack([numbers(reads, "reader"), keys_of(reads, keys)]), axis=1)
    for reader, key in pairs.T.tolist():
        assigned.setdefault(reader, set()).add(key)
    events = _events(groups, assigned, keys)
    for _, reader, event, key in events:
        if event == "assigned" and reader in members:
            assigned.get(reader, set()).discard(key)
    steps: list[tuple[int, int, list[int]]] = []
    for ns, reader, event, key in events:
        now = assigned.setdefault(reader, set())
        away = ("revoked", "lost", "sought") if reader in members else ("assigned", "sought")
        if event in away:
            now.discard(key)
            steps.append((ns, reader, sorted(now)))
        if event in ("assigned", "sought"):
            now.add(key)
            steps.append((ns, reader, sorted(now)))
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


def _events(groups: pa.Table, readers: Mapping[int, Set[int]], keys: Keys) -> list[tuple[int, int, str, int]]:
    """Time, reader, event and key, in order. An event without a partition concerns all that it reads."""
    events = []
    for row in sorted(groups.to_pylist(), key=lambda row: int(row["ns"])):
        key = keys.get((row["topic"], row["partition"]))
        everything = row["topic"] is None and row["partition"] is None
        concerned = sorted(readers.get(row["reader"], ())) if everything else [] if key is None else [key]
        events += [(row["ns"], row["reader"], row["event"], key) for key in concerned]
    return events


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
    """A process that is assigned every partition from its beginning, and polls the final logs.

    The assignment names the end of each log that was read to its end, in a field of its own, which Jepsen's
    checker does not look at.
    """
    log, ends = _final_log(source, keys)
    records = ReadRecords(key=keys_of(log, keys), value=values_of(log), offset=numbers(log, "offset"))
    records = records.take(np.lexsort((records.offset, records.key, records.offset // POLL_RECORDS)))
    records = records.take(audit.kept(records, np.ones(len(records.key), np.bool_)))
    chunk = records.offset // POLL_RECORDS
    new = (np.diff(chunk) != 0) | (np.diff(records.key) != 0)
    poll = np.cumsum(np.concatenate([[0], new])) if len(chunk) else chunk
    count = int(poll[-1]) + 1 if len(poll) else 0
    everything = f"[{form.comma.join(map(str, sorted(keys.values())))}]"
    read_to_end = ", ".join(f"{str(key).join(form.key)}{end}" for key, end in sorted(ends.items()))
    whole = f"{form.field('seek-to-beginning?')}true{form.field('log-ends')}{{{read_to_end}}}"
    assigned = pa.array([f"{everything}{whole}"], pa.large_string())

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


def _final_log(source: Source, keys: Keys) -> tuple[pa.Table, dict[int, int]]:
    """Messages in the log of each partition's reference replica, by which the checker judges.

    Also the end of each log whose absences prove something, by key.
    """
    replicas: dict[tuple[str, int], dict[int, Replica]] = {}
    for row in load(source, "replicas").to_pylist():
        replicas.setdefault((row["topic"], row["partition"]), {})[row["broker"]] = Replica(
            broker=row["broker"],
            complete=row["complete"],
            leo=-1 if row["leo"] is None else row["leo"],
            leader=bool(row["leader"]),
            in_sync=row["in_sync"],
        )
    ends = _ends(source, keys)
    broker_of_key = np.full(len(keys), UNKNOWN)
    end_of_key: dict[int, int] = {}
    for partition, key in keys.items():
        states, listed = replicas.get(partition, {}), "replicas" in source.files
        broker, conclusive = choose_reference(states, ends.get(key, {}), listed)
        broker_of_key[key] = broker
        if conclusive:
            last = ends.get(key, {}).get(broker, (UNKNOWN, -1))[1]
            stated = states[broker].leo if broker in states else -1
            end_of_key[key] = int(max(stated, last + 1))

    def of_reference(rows: pa.Table) -> pa.Table:
        chosen = broker_of_key[keys_of(rows, keys)] == numbers(rows, "broker")
        return rows.filter(pa.array(chosen & (numbers(rows, "control", 0) == 0)))

    return load(source, "copies", of_reference), end_of_key


def _ends(source: Source, keys: Keys) -> dict[int, dict[int, tuple[int, int]]]:
    """Last epoch and offset of each replica that holds records, by key and broker."""
    replica_ends: dict[int, dict[int, tuple[int, int]]] = {}
    for path in source.paths("copies"):
        rows = read(path, "copies", ("topic", "partition", "broker", "offset", "epoch"))
        key, broker, offset, epoch = (
            keys_of(rows, keys),
            *(numbers(rows, name) for name in ("broker", "offset", "epoch")),
        )
        order = np.lexsort((offset, broker, key))
        last = (np.diff(key[order], append=UNKNOWN) != 0) | (np.diff(broker[order], append=UNKNOWN) != 0)
        for row in order[last].tolist():
            ends = replica_ends.setdefault(int(key[row]), {})
            end = int(epoch[row]), int(offset[row])
            ends[int(broker[row])] = max(end, ends.get(int(broker[row]), end), key=lambda one: one[1])
    return replica_ends


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
