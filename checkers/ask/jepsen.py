"""A history as operations of Jepsen's Kafka workload (`checkers.ask.jepsen_form` writes them).

Every message is a `:send` (those of a transaction are one), every poll of a reader is a `:poll`, and every
change of a reader's assignment or position an `:assign`. At the end one more process polls the leader's final
log. Records that the form has no words for are left out and counted: see docs/analysis.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.ask.jepsen_form import EDN, FUNCTIONS, JSON, KINDS, Form, Longs, Operations, concat, text, write
from checkers.ask.sql import history_of
from checkers.tables.source import Source, line_of, open_source, partitions
from harness.errors import BadDataError, UsageError
from harness.history.schema import TABLES

WRITER_STEP = 10**12
"""A message's value is `writer * WRITER_STEP + seq`: one integer, unique in the run."""

POLL_RECORDS = 1000
"""A poll of the final log returns at most so many records."""

Flags = npt.NDArray[np.bool_]
Keys = Mapping[tuple[str, int], int]
"""The integer key of each topic partition."""

_FORMS: Mapping[str, Form] = {".edn": EDN, ".json": JSON}
_OK, _FAIL, _INFO, _ = range(len(KINDS))
_SEND, _POLL, _ASSIGN = range(len(FUNCTIONS))
_FINAL_OWNER = -1
_UNKNOWN = np.int64(-1)


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, and which records were left out because the form has no words for them."""

    operations: int
    """Events: each operation is invoked and completed."""
    sends: int
    polls: int
    foreign: int
    """Records read that nobody sent."""
    misrouted: int
    """Records read from another topic partition than the one they were sent to."""
    aborted: int
    """Records of aborted transactions, in the final log or read by a reader of uncommitted records."""
    keys: Mapping[str, int] = field(default_factory=dict)
    """The integer key of each `topic/partition`."""


@dataclass(frozen=True, kw_only=True)
class _Sends:
    """The messages, column by column."""

    key: Longs
    value: Longs
    writer: Longs
    seq: Longs
    sent_ns: Longs
    done_ns: Longs
    """Not before `sent_ns`; -1 if it is not known."""
    kind: Longs
    offset: Longs
    error: Longs
    txn: Longs
    """The number of the writer's transaction; -1 without one."""
    aborted: Flags


@dataclass(frozen=True, kw_only=True)
class _Records:
    """Records that somebody read, column by column."""

    key: Longs
    value: Longs
    """-1: it names no message."""
    offset: Longs

    def take(self, rows: Longs) -> _Records:
        return _Records(key=self.key[rows], value=self.value[rows], offset=self.offset[rows])


@dataclass(frozen=True, kw_only=True)
class _Transaction:
    """How one transaction went."""

    begin_ns: int
    end_ns: int
    kind: int


def export(run_dir: Path | str, target: Path, *, final_log: bool = True) -> Exported:
    """Write the history of a run (or of an imported folder) to a `.edn` or `.json` file.

    Two exports of one history are equal, byte for byte. Raises UsageError when the file has another ending or
    cannot be written, BadDataError for a bad history.
    """
    form = _FORMS.get(target.suffix)
    if form is None:
        raise UsageError(f"{target} ends in {target.suffix or 'nothing'!r}; exports are .edn or .json files.")
    source = open_source(history_of(Path(run_dir)))
    places = sorted(partitions(source))
    keys: Keys = {(place.topic, place.partition): number for number, place in enumerate(places)}
    transactions = _transactions(source)
    sends = _sends(source, keys, transactions)
    reads, groups = _load(source, "reads"), _load(source, "groups")
    times = [sends.sent_ns, sends.done_ns, _numbers(reads, "ns"), _numbers(groups, "ns")]
    end_ns = 1 + max(
        (int(column.max()) for column in times if len(column)),
        default=0,
    )
    end_ns = max(end_ns, 1 + max((one.end_ns for one in transactions.values()), default=0))
    audit = _Audit(sends)
    parts = [*_send_ops(sends, transactions, end_ns, form), *_assign_ops(groups, reads, keys, form)]
    parts.append(_poll_ops(reads, keys, audit, form))
    if final_log and keys:
        parts += _final_ops(source, keys, audit, end_ns, form)
    ops = concat(parts)
    del parts  # the texts are large
    try:
        with target.open("w", encoding="utf-8", newline="\n") as out:
            operations = write(ops, out, form)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}.") from error
    return Exported(
        operations=operations,
        sends=len(sends.key),
        polls=int((ops.function == _POLL).sum()),
        foreign=audit.foreign,
        misrouted=audit.misrouted,
        aborted=audit.aborted,
        keys={f"{topic}/{partition}": key for (topic, partition), key in keys.items()},
    )


# Sends ------------------------------------------------------------------------------------------------------


def _sends(source: Source, keys: Keys, transactions: Mapping[tuple[int, int], _Transaction]) -> _Sends:
    rows = _load(source, "sends")
    sent, done = _numbers(rows, "sent_ns"), _numbers(rows, "done_ns")
    outcome = pc.index_in(rows["outcome"], pa.array(KINDS[:_INFO], pa.string()))
    writer, txn = _numbers(rows, "writer"), _numbers(rows, "txn")
    aborted = np.zeros(len(writer), np.bool_)
    for row in np.flatnonzero(txn >= 0).tolist():
        found = transactions.get((int(writer[row]), int(txn[row])))
        aborted[row] = found is not None and found.kind == _FAIL
    return _Sends(
        key=_keys(rows, keys),
        value=_values(rows),
        writer=writer,
        seq=_numbers(rows, "seq"),
        sent_ns=sent,
        done_ns=np.where(done < 0, _UNKNOWN, np.maximum(sent, done)),
        kind=_array(pc.fill_null(outcome, _INFO)),
        offset=_numbers(rows, "offset"),
        error=_numbers(rows, "error", 0),
        txn=txn,
        aborted=aborted,
    )


def _transactions(source: Source) -> dict[tuple[int, int], _Transaction]:
    """Transactions by writer and number; the last event decides, and without one the outcome is unknown."""
    kinds = {"committed": _OK, "aborted": _FAIL, "unknown": _INFO}
    found: dict[tuple[int, int], _Transaction] = {}
    for row in sorted(_load(source, "transactions").to_pylist(), key=lambda row: int(row["ns"])):
        name = (row["writer"], row["txn"])
        known = found.get(name, _Transaction(begin_ns=row["ns"], end_ns=row["ns"], kind=_INFO))
        found[name] = _Transaction(
            begin_ns=known.begin_ns, end_ns=row["ns"], kind=kinds.get(row["event"], known.kind)
        )
    return found


def _send_ops(
    sends: _Sends, transactions: Mapping[tuple[int, int], _Transaction], end_ns: int, form: Form
) -> list[Operations]:
    """One operation for each message, and one for the messages of a transaction.

    A message that failed is no part of its transaction, and one whose outcome is unknown no part of one that
    committed: the transaction's outcome is not theirs.
    """
    members: dict[tuple[int, int], list[int]] = {}
    alone = np.ones(len(sends.key), np.bool_)
    for row in np.flatnonzero((sends.txn >= 0) & (sends.kind != _FAIL)).tolist():
        name = (int(sends.writer[row]), int(sends.txn[row]))
        kind = transactions[name].kind if name in transactions else _INFO
        if kind != _OK or sends.kind[row] == _OK:
            members.setdefault(name, []).append(row)
            alone[row] = False
    invocation, completion = _send_texts(sends, sends.kind, form)
    single = np.flatnonzero(alone)
    done = sends.done_ns[single]
    parts = [
        _operations(
            function=_SEND,
            owner=sends.writer[single] * 2,
            kind=sends.kind[single],
            invoked_ns=sends.sent_ns[single],
            completed_ns=np.where(done < 0, end_ns, done),
            ranks=(0, 1),
            invocation=form.vector(invocation.take(pa.array(single))),
            completion=text(
                form.vector(completion.take(pa.array(single))),
                _errors(sends.error[single], sends.kind[single], form),
            ),
        )
    ]
    if members:
        parts.append(_transaction_ops(sends, transactions, members, end_ns, form))
    return parts


def _transaction_ops(
    sends: _Sends,
    transactions: Mapping[tuple[int, int], _Transaction],
    members: Mapping[tuple[int, int], Sequence[int]],
    end_ns: int,
    form: Form,
) -> Operations:
    lasting = _Transaction(begin_ns=end_ns, end_ns=end_ns, kind=_INFO)
    ended = [transactions.get(name, lasting) for name in members]
    kind = np.array([one.kind for one in ended], np.int64)
    rows = [np.array(sorted(found, key=lambda row: int(sends.seq[row]))) for found in members.values()]
    sizes = np.array([len(found) for found in rows], np.int64)
    starts, every = np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(rows)
    begun = np.array([one.begin_ns for one in ended], np.int64)
    over = np.array([end_ns if one.kind == _INFO else one.end_ns for one in ended], np.int64)
    whole = _Sends(**{name: column[every] for name, column in vars(sends).items()})
    invocation, completion = _send_texts(whole, np.repeat(kind, sizes), form)
    return _operations(
        function=_SEND,
        owner=np.array([writer for writer, _ in members], np.int64) * 2,
        kind=kind,
        invoked_ns=np.minimum(begun, np.minimum.reduceat(whole.sent_ns, starts[:-1])),
        completed_ns=np.maximum(over, np.maximum.reduceat(whole.done_ns, starts[:-1])),
        ranks=(0, 1),
        invocation=form.vectors(invocation, starts),
        completion=form.vectors(completion, starts),
    )


def _send_texts(sends: _Sends, kind: Longs, form: Form) -> tuple[pa.Array, pa.Array]:
    """Each message as it is invoked, and as it is completed: with its offset, unless it failed."""
    send, key, value = form.quoted("send"), pa.array(sends.key), pa.array(sends.value)
    offset = pa.array(sends.offset).cast(pa.large_string())
    known = pc.if_else(pa.array(sends.offset >= 0), offset, pa.scalar(form.null, pa.large_string()))
    invocation = form.vector(send, key, value)
    completion = form.vector(send, key, form.vector(known, value))
    return invocation, pc.if_else(pa.array(kind == _FAIL), invocation, completion)


def _errors(error: Longs, kind: Longs, form: Form) -> pa.Array:
    shown = text(form.field("error"), pa.array(error))
    return pc.if_else(pa.array((error != 0) & (kind != _OK)), shown, pa.scalar("", pa.large_string()))


# Assignments ------------------------------------------------------------------------------------------------


def _assign_ops(groups: pa.Table, reads: pa.Table, keys: Keys, form: Form) -> list[Operations]:
    """What a reader is assigned, whenever that changes.

    A seek is written as a partition taken away and given back: only then may its next poll begin anywhere. A
    reader that was assigned by hand is taken to have all that it reads.
    """
    known = [row for row in groups.to_pylist() if (row["topic"], row["partition"]) in keys]
    known.sort(key=lambda row: int(row["ns"]))
    assigned: dict[int, set[int]] = {}
    read = np.unique(np.stack([_numbers(reads, "reader"), _keys(reads, keys)]), axis=1)
    for reader, key in read.T.tolist():
        assigned.setdefault(reader, set()).add(key)
    for row in known:
        if row["event"] == "assigned":
            assigned.get(row["reader"], set()).discard(keys[row["topic"], row["partition"]])
    steps: list[tuple[int, int, list[int]]] = []
    for row in known:
        now = assigned.setdefault(row["reader"], set())
        key = keys[row["topic"], row["partition"]]
        if row["event"] in ("revoked", "sought"):
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
        _operations(
            function=_ASSIGN,
            owner=np.array([reader for _, reader, _ in steps], np.int64) * 2 + 1,
            kind=np.full(len(steps), _OK),
            invoked_ns=times,
            completed_ns=times,
            ranks=(2, 2),
            invocation=values,
            completion=values,
        )
    ]


# Polls ------------------------------------------------------------------------------------------------------


class _Audit:
    """Tells records of messages apart from others, which are left out, and counts these."""

    def __init__(self, sends: _Sends) -> None:
        self.foreign = self.misrouted = self.aborted = 0
        self._values = np.unique(sends.value)
        self._sent = np.unique(self._codes(sends.key, sends.value))
        self._aborted = np.unique(self._codes(sends.key[sends.aborted], sends.value[sends.aborted]))

    def kept(self, records: _Records, uncommitted: Flags) -> Longs:
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


def _poll_ops(reads: pa.Table, keys: Keys, audit: _Audit, form: Form) -> Operations:
    """One operation for each poll of a reader; a record that names no poll was one of its own."""
    count = reads.num_rows
    reader, ns, poll = _numbers(reads, "reader"), _numbers(reads, "ns"), _numbers(reads, "poll")
    row = np.arange(count)
    single = np.where(poll < 0, row, _UNKNOWN)
    order = np.lexsort((row, ns, single, poll, reader))
    changed = [np.diff(column[order]) != 0 for column in (reader, poll, single)]
    first = np.flatnonzero(np.concatenate([[True], np.logical_or.reduce(changed)])) if count else row
    poll_of_row = np.empty(count, np.int64)
    poll_of_row[order] = np.repeat(np.arange(len(first)), np.diff(np.append(first, count)))
    time = np.maximum.reduceat(ns[order], first) if count else ns
    records = _Records(key=_keys(reads, keys), value=_values(reads), offset=_numbers(reads, "offset"))
    committed = pc.fill_null(pc.equal(reads["isolation"], "read_committed"), False)
    kept = audit.kept(records, ~_array(committed).astype(np.bool_))
    kept = kept[np.lexsort((ns[kept], records.key[kept], poll_of_row[kept]))]
    returned = _poll_texts(records.take(kept), poll_of_row[kept], len(first), form)
    # Their order decides between events of one moment: keep that in which a reader made its polls.
    by_time = np.lexsort((np.arange(len(first)), time))
    return _operations(
        function=_POLL,
        owner=reader[order][first][by_time] * 2 + 1,
        kind=np.full(len(first), _OK),
        invoked_ns=time[by_time],
        completed_ns=time[by_time],
        ranks=(3, 3),
        invocation=_poll_invocations(len(first), form),
        completion=returned.take(pa.array(by_time)),
    )


def _final_ops(source: Source, keys: Keys, audit: _Audit, end_ns: int, form: Form) -> list[Operations]:
    """A process that is assigned every partition from its beginning, and polls the leaders' final logs."""
    log = _final_log(source, keys)
    records = _Records(key=_keys(log, keys), value=_values(log), offset=_numbers(log, "offset"))
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
        return _operations(
            function=function,
            owner=np.full(length, _FINAL_OWNER),
            kind=np.full(length, _OK),
            invoked_ns=np.full(length, end_ns),
            completed_ns=np.full(length, end_ns),
            ranks=(rank, rank),
            invocation=invocation,
            completion=completion,
        )

    polls = _poll_texts(records, poll, count, form)
    return [
        at_the_end(_ASSIGN, 4, assigned, assigned),
        at_the_end(_POLL, 5, _poll_invocations(count, form), polls),
    ]


def _final_log(source: Source, keys: Keys) -> pa.Table:
    """Messages in the log of each partition's leader; without one, of the replica with most records."""
    leaders = {
        (row["topic"], row["partition"], row["broker"])
        for row in _load(source, "replicas").to_pylist()
        if row["leader"]
    }
    columns = ("topic", "partition", "broker")
    counts: dict[tuple[str, int, int], int] = {}
    for path in source.paths("copies"):
        counted = _read(path, "copies", columns).group_by(list(columns)).aggregate([([], "count_all")])
        for row in counted.to_pylist():
            replica = (row["topic"], row["partition"], row["broker"])
            counts[replica] = counts.get(replica, 0) + row["count_all"]
    chosen: dict[tuple[str, int], tuple[bool, int, int]] = {}
    for replica, count in counts.items():
        rank = (replica in leaders, count, -replica[2])
        chosen[replica[:2]] = max(rank, chosen.get(replica[:2], rank))
    broker_of_key = np.full(len(keys), _UNKNOWN)
    for partition, (_, _, negative) in chosen.items():
        broker_of_key[keys[partition]] = -negative

    def of_leader(rows: pa.Table) -> pa.Table:
        leads = broker_of_key[_keys(rows, keys)] == _numbers(rows, "broker")
        return rows.filter(pa.array(leads & (_numbers(rows, "control", 0) == 0)))

    return _load(source, "copies", of_leader)


def _poll_invocations(count: int, form: Form) -> pa.Array:
    return pa.repeat(pa.scalar(f"[[{form.quoted('poll')}]]", pa.large_string()), count)


def _poll_texts(records: _Records, poll: Longs, polls: int, form: Form) -> pa.Array:
    """What each of so many polls returned; records are sorted by poll and key, and keep their order."""
    pairs = form.vector(pa.array(records.offset), pa.array(records.value))
    new = (np.diff(poll) != 0) | (np.diff(records.key) != 0)
    first = np.flatnonzero(np.concatenate([[True], new])) if len(poll) else poll
    lists = form.vectors(pairs, np.append(first, len(poll)))
    starts = np.searchsorted(poll[first], np.arange(polls + 1))
    returned = form.maps(pa.array(records.key[first]), lists, starts)
    return form.vector(form.vector(form.quoted("poll"), returned))


# Columns ----------------------------------------------------------------------------------------------------

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "sends": (
        *("topic", "partition", "writer", "seq", "sent_ns", "done_ns", "outcome", "error", "offset", "txn"),
    ),
    "reads": ("topic", "partition", "reader", "ns", "offset", "writer", "seq", "poll", "isolation"),
    "copies": ("topic", "partition", "broker", "offset", "writer", "seq", "control"),
    "replicas": ("topic", "partition", "broker", "leader"),
    "groups": ("ns", "reader", "event", "topic", "partition"),
    "transactions": ("ns", "writer", "txn", "event"),
}


def _load(source: Source, table: str, keep: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> pa.Table:
    """The columns of a table that are exported, file after file, with the rows that ``keep`` leaves."""
    parts = [keep(_read(path, table, _COLUMNS[table])) for path in source.paths(table)]
    schema = pa.schema([TABLES[table].arrow().field(name).with_nullable(True) for name in _COLUMNS[table]])
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _read(path: str, table: str, columns: Sequence[str]) -> pa.Table:
    """Columns of one file, in the order of its rows; absent ones are null."""
    schema = pa.schema([TABLES[table].arrow().field(name).with_nullable(True) for name in columns])
    try:
        present = set(pq.read_schema(path).names)
        read = pq.read_table(path, columns=[name for name in columns if name in present])
        return pa.table(
            [
                read[one.name].cast(one.type) if one.name in present else pa.nulls(read.num_rows, one.type)
                for one in schema
            ],
            schema=schema,
        )
    except (pa.ArrowException, OSError) as error:
        raise BadDataError(f"{path} cannot be read: {line_of(error)}") from error


def _array(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def _numbers(rows: pa.Table, column: str, null: int = -1) -> Longs:
    """A column of integers, or of flags as 0 and 1, with ``null`` where there is none."""
    return _array(pc.fill_null(rows[column].cast(pa.int64()), null)).astype(np.int64, copy=False)


def _keys(rows: pa.Table, keys: Keys) -> Longs:
    """The key of each row's topic partition."""
    if not rows.num_rows:
        return np.empty(0, np.int64)
    topics = rows["topic"].combine_chunks().dictionary_encode()
    codes = _array(topics.indices).astype(np.int64) << 32 | _numbers(rows, "partition")
    found, places = np.unique(codes, return_inverse=True)
    names = topics.dictionary.to_pylist()
    known = np.array([keys.get((names[code >> 32], code & 0xFFFFFFFF), -1) for code in found.tolist()])
    return known[places].astype(np.int64)


def _values(rows: pa.Table) -> Longs:
    """The value of each row's message; -1 where the row names none. Raises BadDataError for one too large."""
    writer, seq = _numbers(rows, "writer"), _numbers(rows, "seq")
    largest = np.iinfo(np.int64).max // WRITER_STEP - 1
    wrong = np.flatnonzero((writer > largest) | (seq >= WRITER_STEP))
    if len(wrong):
        raise BadDataError(
            f"Message {writer[wrong[0]]}/{seq[wrong[0]]} cannot be exported: writers go up to {largest}, and "
            f"sequence numbers stay below {WRITER_STEP}."
        )
    return np.where((writer < 0) | (seq < 0), _UNKNOWN, writer * WRITER_STEP + seq)


def _operations(*, function: int, ranks: tuple[int, int], **columns: Any) -> Operations:
    """Operations of one function, whose events have the same ranks."""
    count = len(columns["owner"])
    return Operations(
        function=np.full(count, function),
        invoked_rank=np.full(count, ranks[0]),
        completed_rank=np.full(count, ranks[1]),
        **columns,
    )
