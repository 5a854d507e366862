"""What the checker writes: the schemas of `life` and `findings`, classes of findings, and writing parts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.partition import messages
from checkers.partition.fate import BENIGN, FATES
from checkers.tables.files import inside, parquet_writer, remove, write_parquet

FATE_MEANINGS: Mapping[str, str] = MappingProxyType({fate.name: fate.meaning for fate in FATES})
"""What became of a message; every message has exactly one fate."""

FINDINGS: Mapping[str, str] = MappingProxyType(
    {
        **{name: text for name, text in FATE_MEANINGS.items() if name not in BENIGN},
        "diverged": "replicas disagree at an offset, in content, epoch or length",
        "truncated": "a committed batch of a watched topic is on no replica any more",
        "foreign": "a record in the final log that nobody sent",
        "out_of_order": "it comes after a later message of the same writer, both acknowledged",
        "aborted_read": "a message that was aborted, or was never in the log, was read or can be read",
        "offset_conflict": "a reader received a message at an offset that is not the message's own",
        "skip": "a reader skipped records that are in the final log",
        "non_monotonic": "a reader went back without a seek",
        "replay": "a consumer group received again what it had committed",
        "commit_lost": "a consumer group's acknowledged commit is gone: an older offset was answered later",
        "stale_offset": "a coordinator that had been replaced answered with an older offset",
        "offset_expired": "a consumer group's committed offset was removed after offsets.retention.minutes",
        "group_reset": "a consumer group's position was not in the log, and a member continued elsewhere",
        "offset_outside": "a consumer group's committed offset is not in the log of a watched topic",
        "group_stalled": "a consumer group received nothing, although there were messages to read",
        "double_ownership": "two members of a consumer group owned a partition at the same time",
        "accept_lost": "a share group was handed a record again that a member had accepted, or will be",
        "not_delivered": "a record was available to a share group for long, and no member was handed it",
        "over_delivered": "a share group was handed a record more often than its limit allows",
        "held_twice": "two members of a share group had a record in their hands at the same time",
        "lock_outlived": "a member acknowledged a record after its lock had ended, and nobody refused",
        "archived": "a share group is done with a record that no member accepted or rejected",
        "not_counted": "an application of Kafka Streams went on, and what it made of a message is missing",
        "counted_twice": "an application of Kafka Streams wrote what it made of a message more than once",
        "store_differs": "a store of an application of Kafka Streams is not the count of its messages",
        "lost_transaction": "its application learned that it committed, but no reader can see any of it",
        "torn_transaction": "a part of it was committed; another was aborted, is missing, or followed later",
        "hanging_transaction": "no marker ends it although its application does not hold it open",
        "hung_transaction": "it was open in a partition although its coordinator knew it to be over, and "
        "ended before the run did",
        "fenced_write_read": "a record that a fenced producer wrote can be read",
        "precommitted_read": "a transaction read its own message",
        "circular_read": "transactions read each other's messages in a circle",
        "process_exit": "a process of the cluster ended although no fault ended it",
        "server_error": "a log complains (ERROR, FATAL) of something that no fault explains",
        "not_converged": "a replica was not in sync at the end, though all were read whole",
        "config_mismatch": "another configuration took effect than was asked for",
    }
)
"""Classes of findings; one row per root cause."""

_TEXTS = pa.list_(pa.string())
_INTS = pa.list_(pa.int32())

LIFE = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("writer", pa.int32()),
        ("seq", pa.int64()),
        ("label", pa.string()),
        ("txn", pa.int64()),
        ("writer_name", pa.string()),
        ("host", pa.string()),
        ("az", pa.string()),
        ("role", pa.string()),
        ("client", pa.string()),
        ("acks", pa.int32()),
        ("idempotent", pa.bool_()),
        ("sent_ns", pa.int64()),
        ("done_ns", pa.int64()),
        ("outcome", pa.string()),
        ("error", pa.int32()),
        ("offset", pa.int64()),
        ("attempts", pa.int32()),
        ("broker", pa.int32()),
        ("acked_by", pa.int32()),
        ("copies", pa.int32()),
        ("replicas", _INTS),
        ("found_offset", pa.int64()),
        ("found_epoch", pa.int32()),
        ("reads", pa.int32()),
        ("sent_during", pa.string()),
        ("acked_during", pa.string()),
        ("acked_fault", pa.int32()),
        ("last_broker", pa.int32()),
        ("last_offset", pa.int64()),
        ("last_epoch", pa.int32()),
        ("gone_ns", pa.int64()),
        ("overwritten_by", pa.string()),
        ("fate", pa.string()),
        ("state", pa.string()),
        ("cause", pa.string()),
        ("cause_facts", pa.string()),
    ]
)

FINDING = pa.schema(
    [
        ("class", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
        ("brokers", _INTS),
        ("writer", pa.int32()),
        ("seq", pa.int64()),
        ("label", pa.string()),
        ("txn", pa.int64()),
        ("found_offset", pa.int64()),
        ("count", pa.int64()),
        ("acked_ns", pa.int64()),
        ("acked_by", pa.int32()),
        ("acked_during", pa.string()),
        ("acked_fault", pa.int32()),
        ("last_broker", pa.int32()),
        ("reader", pa.string()),
        ("cause", pa.string()),
        ("cause_facts", pa.string()),
        ("evidence", _TEXTS),
        ("detail", pa.string()),
        ("expected", pa.bool_()),
        ("promise", pa.string()),
        ("promise_row", pa.string()),
        ("promise_reason", pa.string()),
        ("known_bug", pa.string()),
    ]
)

TRANSACTION = pa.schema(
    [
        ("writer", pa.int32()),
        ("txn", pa.int64()),
        ("writer_name", pa.string()),
        ("transactional_id", pa.string()),
        ("begin_ns", pa.int64()),
        ("ending_ns", pa.int64()),
        ("ended_ns", pa.int64()),
        ("asked", pa.string()),
        ("reported", pa.string()),
        ("visible", pa.string()),
        ("messages", pa.int64()),
        ("acknowledged", pa.int64()),
        ("readable", pa.int64()),
        ("blocked", pa.int64()),
        ("aborted", pa.int64()),
        ("undecided", pa.int64()),
        ("lost", pa.int64()),
        ("dropped", pa.int64()),
        ("absent", pa.int64()),
        ("unknown", pa.int64()),
        ("fenced", pa.int64()),
        ("finding", pa.string()),
    ]
)
"""`transaction_fates`: one row per transaction."""

TRANSACTION_RECORD = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("writer", pa.int32()),
        ("seq", pa.int64()),
        ("txn", pa.int64()),
        ("sent_ns", pa.int64()),
        ("acked_ns", pa.int64()),
        ("offset", pa.int64()),
        ("state", pa.string()),
        ("fenced", pa.bool_()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("marker", pa.string()),
        ("marker_offset", pa.int64()),
        ("marker_epoch", pa.int32()),
        ("coordinator_epoch", pa.int32()),
    ]
)
"""`transaction_records`: one row per message of a transaction."""

ANOMALY = pa.schema(
    [
        ("anomaly", pa.string()),
        ("allowed", pa.bool_()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("writer", pa.int32()),
        ("seq", pa.int64()),
        ("txn", pa.int64()),
        ("transactions", _TEXTS),
        ("detail", pa.string()),
    ]
)
"""`isolation_anomalies`: one row per anomaly between transactions that read and write."""

TRANSACTION_TABLES: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "transaction_fates": TRANSACTION,
        "transaction_records": TRANSACTION_RECORD,
        "isolation_anomalies": ANOMALY,
    }
)
"""Output tables about transactions; those of a history without transactions are empty."""

COUNTS = ("readable", "blocked", "aborted", "undecided", "lost", "dropped", "absent", "unknown", "fenced")
"""Columns of `transaction_fates` that count messages by what became of them."""

TRANSACTION_PARTS = pa.schema(
    [
        ("writer", pa.int32()),
        ("txn", pa.int64()),
        ("messages", pa.int64()),
        ("acknowledged", pa.int64()),
        *((name, pa.int64()) for name in COUNTS),
        ("owed", pa.int64()),
        ("last_sent_ns", pa.int64()),
        ("undecided_ns", pa.int64()),
        ("first_commit", pa.int64()),
        ("last_before", pa.int64()),
    ]
)
"""Messages of one partition by transaction; an internal table.

`owed` counts undecided messages whose marker a coordinator still had to write. `first_commit` is the offset
of the first commit marker that decided some of them (`FOREVER` for none). `last_before` is that of the last
message that was acknowledged before the application asked for an end (-1 for none).
`undecided_ns` is when the log of undecided messages was read, -1 if there are none or the time is not known.
"""

TALLY = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("writer", pa.int32()),
        ("outcome", pa.string()),
        ("name", pa.string()),
        ("count", pa.int64()),
    ]
)
"""Counts of messages (``kind`` `fate`) and of findings (`finding`); ``name`` is the fate or the class."""

_DDL = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    _INTS: "array<int>",
    _TEXTS: "array<string>",
}


def ddl(schema: pa.Schema) -> str:
    """An Arrow schema of this module as Spark DDL."""
    return ", ".join(f"`{field.name}` {_DDL[field.type]}" for field in schema)


def build(schema: pa.Schema, columns: Mapping[str, object], rows: int) -> pa.Table:
    """An Arrow table of ``schema``; absent columns are null, and Python scalars fill the whole column."""
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if value is None and field.name == "expected":
            value = False
        if value is None:
            arrays.append(pa.nulls(rows, field.type))
        elif isinstance(value, str | int | bool):
            arrays.append(pa.repeat(pa.scalar(value, field.type), rows))
        else:
            array = value if isinstance(value, pa.Array | pa.ChunkedArray) else pa.array(value)
            arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.table(arrays, schema=schema)


def write(folder: str, part: str, table: pa.Table) -> None:
    """Write one part of an output table; it replaces the part of an earlier attempt of the task."""
    place = inside(folder, f"{part}.parquet")
    if table.num_rows:
        write_parquet(place, table, **_options(table.schema))
    else:
        remove(place)


class PartWriter:
    """Writes one part of an output table bit by bit, as `write` does."""

    def __init__(self, folder: str, part: str) -> None:
        self._folder, self._part = folder, part
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._file: pq.ParquetWriter | None = None
        self._stack = ExitStack()

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._stack:
            if kind is None:
                self._flush(last=True)

    def add(self, table: pa.Table) -> None:
        """Append rows."""
        if table.num_rows:
            self._pending.append(table)
            self._pending_rows += table.num_rows
            if self._pending_rows >= messages.BLOCK_ROWS:
                self._flush(last=False)

    def _flush(self, *, last: bool) -> None:
        place = inside(self._folder, f"{self._part}.parquet")
        if not self._pending:
            if self._file is None:
                remove(place)
            return
        table = pa.concat_tables(self._pending)
        self._pending, self._pending_rows = [], 0
        if self._file is None and last:
            write(self._folder, self._part, table)
            return
        if self._file is None:
            self._file = self._stack.enter_context(
                parquet_writer(place, table.schema, **_options(table.schema))
            )
        self._file.write_table(table)


def _options(schema: pa.Schema) -> dict[str, object]:
    """How Parquet files are written: only texts recur so often that they are worth a dictionary."""
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return {"compression": "snappy", "use_dictionary": texts}
