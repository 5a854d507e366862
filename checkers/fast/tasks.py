"""Tasks and their results: the typed data that travels between the driver and the workers.

A partition that fits is one `WholePartition`. A large one is cut three ways: by sequence number (`KeyRange`:
the fates of its messages), by offset (`OffsetRange`: replicas against each other) and by time (`ReadWindow`:
the order of reads). A task carries what it needs to know of the other ranges. If merging shows that it lacked
something, it is repeated with it (`checkers.fast.plan`).

A result holds Arrow tables of fixed schemas. All results return to the driver as rows of one Arrow table
(`encode`, `decode`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from checkers.evidence import Evidence
from checkers.partition.deliveries import EdgeReads, Steps
from checkers.partition.logs import PartitionReplicas
from checkers.partition.messages import FOREVER, Flags, Homes, Ints
from checkers.partition.replicas import ReplicaRecords, all_records
from checkers.tables.source import Source, TableFile, Window
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
class Range:
    """From ``low`` up to below ``high``; None: no bound at that end."""

    low: int | None = None
    high: int | None = None

    def of(self, values: Ints) -> Flags:
        """Which values are inside."""
        inside = np.ones(len(values), dtype=bool)
        if self.low is not None:
            inside &= values >= self.low
        if self.high is not None:
            inside &= values < self.high
        return inside

    def window(self, column: str) -> Window:
        """Which row groups can hold values of it."""
        return Window(
            column,
            -FOREVER if self.low is None else self.low,
            FOREVER if self.high is None else self.high - 1,
        )


@dataclass(frozen=True, kw_only=True)
class Identities:
    """What one partition must know of all sends."""

    homes: Homes | None = None
    """Where messages were sent that the log names but that are not loaded; None: not looked up yet."""
    away: Ints = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """Messages (writer, sequence number) of this partition that were found in another one."""
    taken: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Offsets whose unreadable record belongs to a message of another range."""


@dataclass(frozen=True, kw_only=True)
class WholePartition:
    """All of a partition."""

    where: TopicPartition
    part: str
    identities: Identities = field(default_factory=Identities)


@dataclass(frozen=True, kw_only=True)
class KeyRange:
    """The messages of a large partition whose sequence numbers lie in a range: their fates and findings."""

    where: TopicPartition
    part: str
    partition: PartitionReplicas
    seqs: Range
    identities: Identities = field(default_factory=Identities)
    later_low: Mapping[int, int] = field(default_factory=dict)
    """Lowest offset of each writer in ranges of higher sequence numbers (see `out_of_order`)."""
    markers: str | None = None
    """File of what decides the partition's transactions; None: it has none."""


@dataclass(frozen=True, kw_only=True)
class OffsetRange:
    """The records of a large partition whose offsets lie in a range: damaged, foreign, or different."""

    where: TopicPartition
    part: str
    partition: PartitionReplicas
    offsets: Range
    strays: Mapping[int, Ints] = field(default_factory=dict)
    """Offsets, by broker, of records that name a message which was not sent to this partition."""
    claimed: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Offsets whose record a finding about a message already covers."""
    explained: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Offsets at which a finding about a message explains that replicas differ."""
    homes: Homes | None = None
    ends: ReplicaRecords = field(default_factory=lambda: all_records([]))
    """Where replicas' logs begin late or end early, reported by the range that holds the offset."""


@dataclass(frozen=True, kw_only=True)
class ReadWindow:
    """The reads of a large partition that fall into a window of time: their order."""

    where: TopicPartition
    partition: PartitionReplicas
    times: Range


@dataclass(frozen=True, kw_only=True)
class WindowEdges:
    """The steps from one window of time into another."""

    where: TopicPartition
    partition: PartitionReplicas
    edges: tuple[EdgeReads, ...]
    """The first and last reads of each window, in order of time."""


@dataclass(frozen=True, kw_only=True)
class IdentityLookup:
    """Where messages were sent, as far as row groups of one file of `sends` tell."""

    path: str
    groups: tuple[int, ...]
    wanted: Ints
    """Writer and sequence number of each message, one row each."""


@dataclass(frozen=True, kw_only=True)
class SharedWriters:
    """Writers that sent to several topic partitions: did any send one sequence number twice?"""

    files: tuple[TableFile, ...]
    writers: tuple[int, ...]
    seqs: Range


@dataclass(frozen=True, kw_only=True)
class PassedMessages:
    """Which messages of a range of sequence numbers the steps of readers passed over."""

    where: TopicPartition
    partition: PartitionReplicas
    seqs: Range
    jumps: Steps
    markers: str | None = None


@dataclass(frozen=True, kw_only=True)
class PartitionMarkers:
    """Gathers what decides the transactions of a large partition into a file."""

    where: TopicPartition
    partition: PartitionReplicas
    path: str


@dataclass(frozen=True, kw_only=True)
class MixedRows:
    """Row groups of a file that mixes topic partitions, to be split (`cut.sort_apart`)."""

    table: str
    path: str
    groups: tuple[int, ...]
    folder: str
    name: str


Task = (
    WholePartition
    | KeyRange
    | OffsetRange
    | ReadWindow
    | WindowEdges
    | PassedMessages
    | PartitionMarkers
    | IdentityLookup
    | SharedWriters
    | MixedRows
)


# ---- what results hold

_INT, _LONG, _TEXT, _FLAG = pa.int32(), pa.int64(), pa.string(), pa.bool_()

FATES = pa.schema([("writer", _INT), ("outcome", _TEXT), ("fate", _TEXT), ("count", _LONG)])
"""Messages by writer, outcome and fate."""
CLASSES = pa.schema([("class", _TEXT), ("count", _LONG)])
"""Findings that the task has written, by class."""
SEQS = pa.schema([("writer", _INT), ("low", _LONG), ("high", _LONG)])
"""Lowest and highest sequence number that each writer sent."""
UNRESOLVED = pa.schema([("writer", _INT), ("seq", _LONG), ("intact", _FLAG)])
"""Messages that records name and that are not loaded."""
STRAYS = pa.schema([("broker", _INT), ("offset", _LONG)])
"""Intact records that name a message which was not sent to their partition."""
OFFSETS = pa.schema([("offset", _LONG)])
CLAIMS = pa.schema([("offset", _LONG), ("sent_ns", _LONG), ("writer", _INT), ("seq", _LONG)])
"""Unreadable records, and the message of the range that each is taken for."""
OFFSET_SPANS = pa.schema([("writer", _INT), ("low", _LONG), ("high", _LONG)])
"""Lowest and highest offset of each writer's ordered messages."""
RECORDS = pa.schema([(f.name, _LONG) for f in fields(ReplicaRecords)])
_STREAM = [("reader", _LONG), ("group", _TEXT), ("offset", _LONG), ("writer", _LONG), ("seq", _LONG)]
STEPS = pa.schema(
    [*_STREAM, ("ns", _LONG), ("uncommitted", _FLAG), ("back", _FLAG), ("past", _FLAG), ("low", _LONG)]
    + [("since_ns", _LONG), ("until_ns", _LONG), ("before_reader", _LONG), ("before_ns", _LONG)]
)
EDGES = pa.schema([*_STREAM, ("ns", _LONG), ("uncommitted", _FLAG), ("undone", _LONG), ("floor", _LONG)])
UNSENT = pa.schema([("offset", _LONG), ("ns", _LONG), ("writer", _LONG), ("seq", _LONG), ("reader", _TEXT)])
"""Reads of records that do not name both writer and seq, and that no replica holds."""
PASSED = pa.schema([("jump", _LONG), ("count", _LONG), ("offset", _LONG), ("writer", _LONG), ("seq", _LONG)])
"""Messages that a step of a reader passed over: how many, and the first of them."""
HOMES = pa.schema([("writer", _INT), ("seq", _LONG), ("topic", _TEXT), ("partition", _INT)])
FILES = pa.schema([("table", _TEXT), ("topic", _TEXT), ("partition", _INT), ("path", _TEXT), ("rows", _LONG)])


def _empty(schema: pa.Schema) -> pa.Table:
    return field(default_factory=schema.empty_table)


@dataclass(frozen=True, kw_only=True)
class WholeResult:
    """What became of a partition that was judged whole."""

    SCHEMAS: ClassVar[Mapping[str, pa.Schema]] = MappingProxyType(
        {"fates": FATES, "findings": CLASSES, "seqs": SEQS, "unresolved": UNRESOLVED}
    )
    fates: pa.Table = _empty(FATES)
    findings: pa.Table = _empty(CLASSES)
    seqs: pa.Table = _empty(SEQS)
    unresolved: pa.Table = _empty(UNRESOLVED)
    """Not empty: nothing was judged, since these messages must be looked up first."""


@dataclass(frozen=True, kw_only=True)
class KeyResult:
    """What became of the messages of a range of sequence numbers."""

    SCHEMAS: ClassVar[Mapping[str, pa.Schema]] = MappingProxyType(
        {
            "fates": FATES,
            "findings": CLASSES,
            "seqs": SEQS,
            "unresolved": UNRESOLVED,
            "strays": STRAYS,
            "claimed": OFFSETS,
            "explained": OFFSETS,
            "claims": CLAIMS,
            "spans": OFFSET_SPANS,
        }
    )
    fates: pa.Table = _empty(FATES)
    findings: pa.Table = _empty(CLASSES)
    seqs: pa.Table = _empty(SEQS)
    unresolved: pa.Table = _empty(UNRESOLVED)
    """Not empty: nothing was judged, since these messages must be looked up first."""
    strays: pa.Table = _empty(STRAYS)
    claimed: pa.Table = _empty(OFFSETS)
    """Offsets whose record a finding about a message already covers."""
    explained: pa.Table = _empty(OFFSETS)
    """Offsets at which a finding about a message explains that replicas differ."""
    claims: pa.Table = _empty(CLAIMS)
    spans: pa.Table = _empty(OFFSET_SPANS)


@dataclass(frozen=True, kw_only=True)
class OffsetResult:
    """What the replicas hold in a range of offsets."""

    SCHEMAS: ClassVar[Mapping[str, pa.Schema]] = MappingProxyType({"findings": CLASSES, "ends": RECORDS})
    findings: pa.Table = _empty(CLASSES)
    ends: pa.Table = _empty(RECORDS)
    """What replicas lack because their logs begin late or end early: one finding for the partition."""


@dataclass(frozen=True, kw_only=True)
class ReadOrderResult:
    """In which order readers received records, in a window of time or from window to window."""

    SCHEMAS: ClassVar[Mapping[str, pa.Schema]] = MappingProxyType(
        {"steps": STEPS, "edges": EDGES, "unsent": UNSENT}
    )
    steps: pa.Table = _empty(STEPS)
    edges: pa.Table = _empty(EDGES)
    unsent: pa.Table = _empty(UNSENT)


@dataclass(frozen=True, kw_only=True)
class PassedResult:
    """What steps of readers passed over in a range of sequence numbers."""

    SCHEMAS: ClassVar[Mapping[str, pa.Schema]] = MappingProxyType({"passed": PASSED})
    passed: pa.Table = _empty(PASSED)


@dataclass(frozen=True, kw_only=True)
class HomesResult:
    """Where messages were sent."""

    SCHEMAS: ClassVar[Mapping[str, pa.Schema]] = MappingProxyType({"homes": HOMES})
    homes: pa.Table = _empty(HOMES)


@dataclass(frozen=True, kw_only=True)
class FilesResult:
    """Files that hold one topic partition each."""

    SCHEMAS: ClassVar[Mapping[str, pa.Schema]] = MappingProxyType({"files": FILES})
    files: pa.Table = _empty(FILES)


Result = WholeResult | KeyResult | OffsetResult | ReadOrderResult | PassedResult | HomesResult | FilesResult
_TYPES: Mapping[str, type[Result]] = {
    kind.__name__: kind
    for kind in (
        WholeResult,
        KeyResult,
        OffsetResult,
        ReadOrderResult,
        PassedResult,
        HomesResult,
        FilesResult,
    )
}

# ---- how results travel

WIRE = pa.schema([("task", _INT), ("type", _TEXT), ("field", _TEXT), ("rows", pa.binary()), ("error", _TEXT)])
"""One row for each table of a result (an Arrow stream); ``error`` is why there is no result."""
WIRE_DDL = "task int, type string, field string, rows binary, error string"


def encode(task: int, result: Result) -> pa.RecordBatch:
    """A result as rows of `WIRE`."""
    rows = []
    for name, schema in result.SCHEMAS.items():
        table = getattr(result, name)
        if table.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as stream:
                stream.write_table(table.cast(schema))
            rows.append((name, sink.getvalue().to_pybytes()))
    row = {"task": task, "type": type(result).__name__}
    tables = [{**row, "field": name, "rows": data} for name, data in rows]
    return pa.RecordBatch.from_pylist(tables or [row], schema=WIRE)


def encode_error(task: int, message: str) -> pa.RecordBatch:
    """A failure as a row of `WIRE`."""
    return pa.RecordBatch.from_pylist([{"task": task, "error": message}], schema=WIRE)


def decode(table: pa.Table) -> dict[int, Result]:
    """Results by task. Raises BadDataError that a task reported."""
    kinds: dict[int, str] = {}
    parts: dict[int, dict[str, pa.Table]] = {}
    for row in table.to_pylist():
        if row["error"] is not None:
            raise BadDataError(row["error"])
        kinds[row["task"]] = row["type"]
        if row["field"] is not None:
            read = pa.ipc.open_stream(row["rows"]).read_all()
            parts.setdefault(row["task"], {})[row["field"]] = read
    return {task: _TYPES[kind](**parts.get(task, {})) for task, kind in kinds.items()}


_NUMPY: Mapping[pa.DataType, type] = {_TEXT: object, _FLAG: bool}
Record = TypeVar("Record", Steps, EdgeReads, ReplicaRecords)


def table_of(record: Steps | EdgeReads | ReplicaRecords, schema: pa.Schema) -> pa.Table:
    """Arrays as a table; each field is a column."""
    return pa.table([pa.array(getattr(record, f.name), f.type) for f in schema], schema=schema)


def record_of(kind: type[Record], table: pa.Table) -> Record:
    """The arrays of such a table."""
    return kind(
        **{f.name: table[f.name].to_numpy().astype(_NUMPY.get(f.type, np.int64)) for f in table.schema}
    )
