"""Tasks and their results: the typed data that travels between the driver and the workers.

A topic partition is judged by one `PartitionTask`. The other tasks look at all partitions: they find out
where messages were sent, and split files that mix partitions. A result consists of Arrow tables of fixed
schemas. All results return to the driver as rows of one Arrow table (`encode`, `decode`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import pyarrow as pa

from checkers.evidence import Evidence
from checkers.partition.messages import Homes, Ints
from checkers.tables.source import Source, TableFile
from harness.errors import BadDataError
from harness.kafka.model import TopicPartition


@dataclass(frozen=True, kw_only=True)
class JudgingContext:
    """What all tasks have in common; pickled to the workers."""

    source: Source
    evidence: Evidence
    life: str | None
    """Folder for the parts of `life`; None: not wanted."""
    findings: str
    transactions: str | None = None
    """Folder for the tables about transactions; None: not wanted."""


@dataclass(frozen=True, kw_only=True)
class Identities:
    """What a partition must know of the sends and the logs of other partitions."""

    homes: Homes | None = None
    """Where messages were sent that the partition's logs name but nobody sent to it; None: not looked up."""
    away: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """Messages (writer, sequence number) of this partition that the logs of others hold."""


@dataclass(frozen=True, kw_only=True)
class PartitionTask:
    """Judges a topic partition; its parts of the output tables are called ``part``."""

    where: TopicPartition
    part: str
    identities: Identities = field(default_factory=Identities)


@dataclass(frozen=True, kw_only=True)
class IdentityLookup:
    """Finds out where messages were sent, as far as row groups of one file of `sends` tell."""

    path: str
    groups: tuple[int, ...]
    messages: Ints
    """Writer and sequence number of each message, one row each."""


@dataclass(frozen=True, kw_only=True)
class SharedWriters:
    """Makes sure that no writer sent one sequence number to several topic partitions.

    Looks at sequence numbers from ``low`` up to below ``high``.
    """

    files: tuple[TableFile, ...]
    writers: tuple[int, ...]
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class MixedRows:
    """Splits row groups of a file that mixes topic partitions (`mixed.split`)."""

    table: str
    path: str
    groups: tuple[int, ...]
    folder: str
    name: str


Task = PartitionTask | IdentityLookup | SharedWriters | MixedRows


# ---- results

_INT, _LONG, _TEXT = pa.int32(), pa.int64(), pa.string()

FATE_COUNTS = pa.schema([("writer", _INT), ("outcome", _TEXT), ("fate", _TEXT), ("count", _LONG)])
"""Messages by writer, outcome and fate."""
CLASS_COUNTS = pa.schema([("class", _TEXT), ("count", _LONG)])
"""Findings by class."""
SEQS = pa.schema([("writer", _INT), ("low", _LONG), ("high", _LONG)])
"""Lowest and highest sequence number that each writer sent."""
UNRESOLVED_MESSAGES = pa.schema([("writer", _INT), ("seq", _LONG)])
"""Messages that intact records name and that nobody sent to their partition."""
HOMES = pa.schema([("writer", _INT), ("seq", _LONG), ("topic", _TEXT), ("partition", _INT)])
PARTITION_FILES = pa.schema(
    [("table", _TEXT), ("topic", _TEXT), ("partition", _INT), ("path", _TEXT), ("rows", _LONG)]
)


def _empty(schema: pa.Schema) -> pa.Table:
    return field(default_factory=schema.empty_table, metadata={"schema": schema})


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What a task tells the driver; tables that its kind does not fill are empty."""

    fates: pa.Table = _empty(FATE_COUNTS)
    findings: pa.Table = _empty(CLASS_COUNTS)
    seqs: pa.Table = _empty(SEQS)
    unresolved: pa.Table = _empty(UNRESOLVED_MESSAGES)
    """Not empty: the partition is not judged, since these messages must be looked up first."""
    homes: pa.Table = _empty(HOMES)
    """Where messages were sent."""
    files: pa.Table = _empty(PARTITION_FILES)
    """Files that hold one topic partition each."""


# ---- how results travel

WIRE = pa.schema([("task", _INT), ("field", _TEXT), ("rows", pa.binary()), ("error", _TEXT)])
"""One row for each table of a result (an Arrow stream); ``error`` is why there is no result."""
WIRE_DDL = "task int, field string, rows binary, error string"


def encode(task: int, result: TaskResult) -> pa.RecordBatch:
    """A result as rows of `WIRE`."""
    rows = []
    for table_field in fields(result):
        table, schema = getattr(result, table_field.name), table_field.metadata["schema"]
        if table.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as stream:
                stream.write_table(table.cast(schema))
            rows.append({"task": task, "field": table_field.name, "rows": sink.getvalue().to_pybytes()})
    return pa.RecordBatch.from_pylist(rows or [{"task": task}], schema=WIRE)


def encode_error(task: int, message: str) -> pa.RecordBatch:
    """A failure as a row of `WIRE`."""
    return pa.RecordBatch.from_pylist([{"task": task, "error": message}], schema=WIRE)


def decode(table: pa.Table) -> dict[int, TaskResult]:
    """Results by task. Raises BadDataError that a task reported."""
    tables: dict[int, dict[str, pa.Table]] = {}
    for row in table.to_pylist():
        if row["error"] is not None:
            raise BadDataError(row["error"])
        result = tables.setdefault(row["task"], {})
        if row["field"] is not None:
            result[row["field"]] = pa.ipc.open_stream(row["rows"]).read_all()
    return {task: TaskResult(**result) for task, result in tables.items()}
