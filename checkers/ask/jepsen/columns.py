"""The columns of a history that are exported, as numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from checkers.ask.jepsen.form import Longs
from checkers.tables.files import line_of
from checkers.tables.source import Source
from harness.errors import BadDataError
from harness.history.imports.jepsen import WRITER_STEP
from harness.history.schema import TABLES

MAX_WRITER = 2**63 // WRITER_STEP - 1
"""Values of higher writers do not fit 64 bits."""

UNKNOWN = np.int64(-1)

Keys = Mapping[tuple[str, int], int]
"""The integer key of each topic partition."""

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "sends": (
        *("topic", "partition", "writer", "seq", "sent_ns", "done_ns", "outcome", "error", "offset", "txn"),
    ),
    "reads": ("topic", "partition", "reader", "ns", "offset", "writer", "seq", "poll", "group", "isolation"),
    "copies": ("topic", "partition", "broker", "offset", "writer", "seq", "control"),
    "replicas": ("topic", "partition", "broker", "complete", "leo", "leader", "in_sync"),
    "groups": ("ns", "reader", "event", "topic", "partition"),
    "transactions": ("ns", "writer", "txn", "event"),
    "faults": ("ns", "fault", "name", "moment", "mechanism"),
}


def load(source: Source, table: str, keep: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> pa.Table:
    """The exported columns of a table, file by file; ``keep`` selects the rows."""
    parts = [keep(read(path, table, _COLUMNS[table])) for path in source.paths(table)]
    schema = pa.schema([TABLES[table].arrow().field(name).with_nullable(True) for name in _COLUMNS[table]])
    return pa.concat_tables(parts) if parts else schema.empty_table()


def read(path: str, table: str, columns: Sequence[str]) -> pa.Table:
    """Columns of one file, in the order of its rows; absent ones are null."""
    schema = pa.schema([TABLES[table].arrow().field(name).with_nullable(True) for name in columns])
    try:
        present = set(pq.read_schema(path).names)
        rows = pq.read_table(path, columns=[name for name in columns if name in present])
        arrays = [
            rows[field.name].cast(field.type)
            if field.name in present
            else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.table(arrays, schema=schema)
    except (pa.ArrowException, OSError) as error:
        raise BadDataError(f"{path} cannot be read: {line_of(error)}") from error


def array(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """A column without nulls as a numpy array."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def numbers(rows: pa.Table, column: str, null: int = -1) -> Longs:
    """A column of integers, or of flags as 0 and 1; ``null`` stands for nulls."""
    return array(pc.fill_null(rows[column].cast(pa.int64()), null)).astype(np.int64, copy=False)


def keys_of(rows: pa.Table, keys: Keys) -> Longs:
    """The key of each row's topic partition."""
    if not rows.num_rows:
        return np.empty(0, np.int64)
    topics = rows["topic"].combine_chunks().dictionary_encode()
    codes = array(topics.indices).astype(np.int64) << 32 | numbers(rows, "partition")
    distinct, places = np.unique(codes, return_inverse=True)
    names = topics.dictionary.to_pylist()
    distinct_keys = np.array(
        [keys.get((names[code >> 32], code & 0xFFFFFFFF), -1) for code in distinct.tolist()]
    )
    return distinct_keys[places].astype(np.int64)


def values_of(rows: pa.Table) -> Longs:
    """The value of each row's message; -1 where it names no message, or one without a value."""
    writer, seq = numbers(rows, "writer"), numbers(rows, "seq")
    fits = (writer >= 0) & (writer <= MAX_WRITER) & (seq >= 0) & (seq < WRITER_STEP)
    return np.where(fits, np.where(fits, writer, 0) * WRITER_STEP + seq, UNKNOWN)
