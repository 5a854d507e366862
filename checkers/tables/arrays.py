"""Turns Arrow tables into arrays: checks columns, replaces nulls, and puts replicas together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.evidence import Evidence
from checkers.partition.deliveries import GroupRow
from checkers.partition.logs import CopyArrays, PartitionReplicas, Replica, choose_reference, together
from checkers.partition.messages import FOREVER, Flags, Ints, KeyIndex, ReadArrays, SendArrays, distinct
from checkers.removals import removals_of
from checkers.tables.source import Source, numbers
from checkers.transactions.answers import ABORTED, COMMITTED
from harness.errors import BadDataError
from harness.history.schema import OUTCOMES
from harness.kafka.model import TopicPartition

_BEGINS = ("log_start", "watched_from")
"""Columns of `replicas`: no record before any of them is compared."""


def copy_arrays(blocks: Iterable[pa.Table], name: str) -> dict[int, CopyArrays]:
    """Columns of `copies` as arrays, by broker; refuses impossible values.

    Of the tables in ``blocks``, one is in memory at a time.
    """
    parts: dict[int, list[CopyArrays]] = {}
    for table in blocks:
        for broker, part in _split(table, name).items():
            parts.setdefault(broker, []).append(part)
        del table
    return {broker: together(its_parts) for broker, its_parts in sorted(parts.items())}


def _split(table: pa.Table, name: str) -> dict[int, CopyArrays]:
    brokers = numbers(table, "broker")
    batch_crc: Ints = np.broadcast_to(np.int8(-1), table.num_rows)
    if "crc" in table.column_names:
        nameless = pc.or_(pc.is_null(table["writer"]), pc.is_null(table["seq"]))
        batch_crc = np.where(nameless.to_numpy(), numbers(table, "crc"), -1)
    copies = CopyArrays(
        offset=numbers(table, "offset"),
        epoch=numbers(table, "epoch"),
        writer=numbers(table, "writer"),
        seq=numbers(table, "seq"),
        intact=numbers(table, "intact", 1).astype(bool),
        at_home=at_home(table["home"], name),
        control=numbers(table, "control", 0).astype(bool),
        batch_crc=batch_crc,
    )
    place = {"broker": brokers, "offset": copies.offset}
    refuse(brokers < 0, "broker", f"copies of {name}", place)
    refuse(copies.offset < 0, "offset", f"copies of {name}", place)
    refuse_negative_identities(table, f"copies of {name}", place)
    by_broker = {}
    for broker in distinct(brokers).tolist():
        rows = np.flatnonzero(brokers == broker)
        adjacent = len(rows) == rows[-1] - rows[0] + 1
        by_broker[broker] = copies.take(slice(rows[0], rows[-1] + 1) if adjacent else rows)
    return by_broker


def at_home(column: pa.ChunkedArray, name: str) -> Flags:
    """Whether each message names this partition as its home, or names no home."""
    if column.null_count == len(column):
        return np.ones(len(column), dtype=bool)
    parts = []
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        fits = np.append(pc.equal(coded.dictionary, name).to_numpy(zero_copy_only=False), True)
        codes = coded.indices.fill_null(len(fits) - 1).to_numpy(zero_copy_only=False)
        parts.append(fits[codes])
    return np.concatenate(parts).astype(bool)


def refuse(bad: Flags, column: str, where: str, values: Mapping[str, Ints], note: str = "") -> None:
    """Raise BadDataError naming the first impossible value of ``column``.

    ``values`` has that column and those that tell which row it is: a table's file may be read in blocks.
    """
    if np.any(bad):
        row = int(np.argmax(bad))
        others = " and ".join(
            f"{key} {int(numbers_of_key[row])}" for key, numbers_of_key in values.items() if key != column
        )
        raise BadDataError(
            f"{where} hold {column} {int(values[column][row])}{note} in the row with {others}, which is "
            f"impossible."
        )


def refuse_negative_identities(table: pa.Table, where: str, place: Mapping[str, Ints]) -> None:
    """Raise BadDataError for a record that names a negative number; null says that it names no message."""
    for column in ("writer", "seq"):
        least = pc.min(table[column]).as_py()
        if least is not None and least < 0:
            values = numbers(table, column, 0)
            refuse(values < 0, column, where, {**place, column: values})


def partition_of(
    source: Source, evidence: Evidence, where: TopicPartition, copies: Mapping[int, CopyArrays]
) -> PartitionReplicas:
    """Replicas of a partition, and which of them is the reference; ``copies`` are by broker."""
    ends: dict[int, tuple[int, int]] = {}
    spans: dict[int, tuple[int, int]] = {}
    for number, part in copies.items():
        last = int(np.argmax(part.offset))
        ends[number] = (int(part.epoch[last]), int(part.offset[last]))
        spans[number] = (int(part.offset.min()), int(part.offset[last]))
    replicas = {}
    for row in evidence.rows_about("replicas", where):
        replicas[int(row["broker"])] = Replica(
            broker=int(row["broker"]),
            complete=bool(row["complete"]),
            log_start=max(*(-1 if row[name] is None else int(row[name]) for name in _BEGINS)),
            leo=-1 if row["leo"] is None else int(row["leo"]),
            leader=bool(row["leader"]),
            in_sync=row["in_sync"],
            compacted="compact" in (row["cleanup"] or ("" if row["watched_from"] is None else "compact")),
            read_ns=-1 if row["ns"] is None else int(row["ns"]),
            size_bytes=-1 if row["size_bytes"] is None else int(row["size_bytes"]),
            watched_from=-1 if row["watched_from"] is None else int(row["watched_from"]),
        )
    reference, conclusive = choose_reference(replicas, ends, "replicas" in source.files)
    removals = removals_of(evidence, where, replicas.get(reference))
    if removals.topic_deleted_ns >= 0 and not replicas and not ends:
        conclusive = True  # the topic does not exist any more, so there is nothing to read
    return PartitionReplicas(
        topic=where.topic,
        number=where.partition,
        replicas=replicas,
        reference=reference,
        conclusive=conclusive,
        compacted=any(replica.compacted for replica in replicas.values()),
        spans=spans,
        removals=removals,
        producers_recorded=producers_recorded(source, evidence, where),
    )


def producers_recorded(source: Source, evidence: Evidence, where: TopicPartition) -> bool:
    """Whether the history holds producers, or messages that they sent, and those that write to a partition.

    It does not hold those of applications of Kafka Streams.
    """
    if where.topic in evidence.application_topics:
        return False
    return bool(source.rows("sends") or evidence.writers)


def group_events(evidence: Evidence, where: TopicPartition) -> list[GroupRow]:
    """Events of consumer groups that concern a partition; an event without a partition concerns all."""
    return [
        GroupRow(
            ns=int(row["ns"]),
            group=row["group"],
            reader=int(row["reader"]),
            event=row["event"],
            offset=-1 if row["offset"] is None else int(row["offset"]),
        )
        for row in evidence.rows_about("groups", where, or_all=True)
        if row["event"] != "committed" or row["topic"] is not None
    ]


def read_arrays(table: pa.Table, index: KeyIndex, evidence: Evidence, name: str) -> ReadArrays:
    """Columns of `reads` as arrays; refuses impossible values."""
    coded = pc.dictionary_encode(table["group"].cast(pa.string()).combine_chunks())
    writer, seq = numbers(table, "writer"), numbers(table, "seq")
    reader, offset = numbers(table, "reader"), numbers(table, "offset")
    refuse_negative_identities(table, f"reads of {name}", {"reader": reader, "offset": offset})
    undone, floor = _undone(table, offset, evidence)
    return ReadArrays(
        reader=reader,
        ns=numbers(table, "ns"),
        offset=offset,
        writer=writer,
        seq=seq,
        row=index.find(writer, seq),
        group=coded.indices.fill_null(-1).to_numpy(zero_copy_only=False),
        groups=tuple(coded.dictionary.to_pylist()),
        committed=_is(table["isolation"], "read_committed"),
        uncommitted=_is(table["isolation"], "read_uncommitted"),
        undone=undone,
        floor=floor,
    )


def _undone(table: pa.Table, offset: Ints, evidence: Evidence) -> tuple[Ints, Ints]:
    """The transaction of each read that is known not to have been reported as committed, and its floor."""
    if table["txn"].null_count == len(table):
        nothing, forever = (np.broadcast_to(np.int64(value), len(table)) for value in (-1, FOREVER))
        return nothing, forever
    undone = np.full(len(table), -1, dtype=np.int64)
    transactions = evidence.transactions
    rows = np.flatnonzero(pc.and_(pc.is_valid(table["txn"]), pc.is_valid(table["txn_writer"])).to_numpy())
    places = transactions.find(numbers(table, "txn_writer")[rows], numbers(table, "txn")[rows])
    undone[rows] = np.where(transactions.reported_of(places) == COMMITTED, -1, places)
    return undone, np.where(undone >= 0, offset, FOREVER)


def _is(column: pa.ChunkedArray, text: str) -> Flags:
    equal: Flags = pc.fill_null(pc.equal(column, text), False).to_numpy().astype(bool)
    return equal


def send_arrays(table: pa.Table, evidence: Evidence, name: str) -> SendArrays:
    """Columns of `sends` that decide a fate; refuses impossible values."""
    writer = numbers(table, "writer")
    transaction, aborted, visible = _transactions(table, evidence, writer)
    sends = SendArrays(
        writer=writer,
        seq=numbers(table, "seq"),
        outcome=outcome_codes(table["outcome"], name),
        offset=numbers(table, "offset"),
        sent_ns=numbers(table, "sent_ns"),
        aborted=aborted,
        visible=visible,
        withheld=aborted,
        transaction=transaction,
    )
    where, message = f"sends of {name}", {"writer": sends.writer, "seq": sends.seq}
    refuse(sends.writer < 0, "writer", where, message)
    refuse(sends.seq < 0, "seq", where, message)
    refuse(sends.offset < -1, "offset", where, {**message, "offset": sends.offset})
    done = numbers(table, "done_ns")
    early = (done >= 0) & (done < sends.sent_ns)
    refuse(early, "done_ns", where, {**message, "done_ns": done}, " (before it was sent)")
    return sends


def _transactions(table: pa.Table, evidence: Evidence, writer: Ints) -> tuple[Ints, Flags, Flags]:
    """Each message's transaction, whether that was aborted, and whether committed (or there is none)."""
    column, count = table["txn"], len(writer)
    if column.null_count == len(column):
        nowhere: Ints = np.broadcast_to(np.int64(-1), count)
        return nowhere, np.broadcast_to(np.False_, count), np.broadcast_to(np.True_, count)
    transaction = np.full(count, -1, dtype=np.int64)
    aborted, visible = np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
    rows = transaction_rows(table)
    visible[rows] = False
    transactions = evidence.transactions
    transaction[rows] = transactions.find(writer[rows], numbers(table, "txn")[rows])
    reported = transactions.reported_of(transaction[rows])
    aborted[rows[reported == ABORTED]] = True
    visible[rows[reported == COMMITTED]] = True
    return transaction, aborted, visible


def transaction_rows(table: pa.Table) -> Ints:
    """Rows of `sends` whose messages belong to a transaction."""
    return np.flatnonzero(pc.is_valid(table["txn"]).to_numpy())


def outcome_codes(column: pa.ChunkedArray, name: str) -> Ints:
    """`ok`, `fail`, `info` as 0, 1, 2; null is 2."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    parts = []
    for chunk in coded.chunks:
        dictionary_codes = []
        for text in chunk.dictionary.to_pylist():
            if text not in OUTCOMES:
                raise BadDataError(
                    f"sends of {name} hold outcome {text!r}; it must be one of {', '.join(OUTCOMES)} or null."
                )
            dictionary_codes.append(OUTCOMES.index(text))
        codes = chunk.indices.fill_null(len(dictionary_codes)).to_numpy(zero_copy_only=False)
        parts.append(np.array([*dictionary_codes, 2], dtype=np.int8)[codes])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int8)
