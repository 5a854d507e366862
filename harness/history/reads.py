"""The table `reads`: what the journals of consumers say, read in blocks and written as they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import BadDataError
from harness.history.read_journal import MAGIC, ROW_BYTES, SUFFIX
from harness.history.row_journal import parse_header
from harness.history.schema import TABLES
from harness.history.sends import ROWS_CONVERTED
from harness.history.stream_journal import LONGEST_HEADER_BYTES
from harness.history.tables import PartitionedWriter, history_dir

ROW = np.dtype(
    [
        *(("ns", "<i8"), ("offset", "<i8"), ("seq", "<i8"), ("txn", "<i8")),
        *(("topic", "<i4"), ("partition", "<i4"), ("epoch", "<i4"), ("writer", "<i4")),
        *(("poll", "<i4"), ("txn_writer", "<i4")),
    ]
)
"""A row of a consumer's journal."""
assert ROW.itemsize == ROW_BYTES
_SCHEMA = TABLES["reads"].arrow()


@dataclass(frozen=True, kw_only=True)
class ReadHeader:
    """What the journal of a consumer says of it."""

    reader: int
    group: str | None
    isolation: str | None
    topics: tuple[str, ...]
    header_bytes: int
    """Where the rows begin."""


@dataclass(frozen=True, kw_only=True)
class _Journal:
    path: Path
    header: ReadHeader

    def rows(self) -> npt.NDArray[np.void]:
        begin = self.header.header_bytes
        count = max(0, self.path.stat().st_size - begin) // ROW_BYTES
        if count == 0:
            return np.zeros(0, dtype=ROW)
        return np.memmap(self.path, ROW, mode="r", offset=begin, shape=(count,))


def write_reads(run_dir: Path) -> int:
    """Write the table of a run; returns its number of rows.

    Rows are in the order of `reader` and `ns`. Raises BadDataError for a malformed journal.
    """
    with PartitionedWriter(history_dir(run_dir), "reads") as table:
        for block in read_blocks(run_dir / "journal"):
            table.add(block)
    return table.rows


def read_blocks(folder: Path) -> Iterator[pa.Table]:
    """The rows of the journals in a folder as blocks of rows of `reads`, one journal after another.

    Raises BadDataError, with file and row, for a row that no consumer writes.
    """
    opened = [_opened(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    for journal in sorted((one for one in opened if one is not None), key=lambda one: one.header.reader):
        rows = journal.rows()
        if (np.diff(rows["ns"]) < 0).any():  # the clock of a client program
            rows = rows[np.argsort(rows["ns"], kind="stable")]
        for first in range(0, len(rows), ROWS_CONVERTED):
            block = np.array(rows[first : first + ROWS_CONVERTED])
            check_rows(str(journal.path), journal.header, first, block)
            yield reads_table(journal.header, block)


def _opened(path: Path) -> _Journal | None:
    """A journal; None if its process was killed before the header was complete."""
    with path.open("rb") as file:
        header = parse_read_header(file.readline(LONGEST_HEADER_BYTES), str(path))
    return None if header is None else _Journal(path=path, header=header)


def parse_read_header(head: bytes, path: str) -> ReadHeader | None:
    """What the first line of a journal states; None if it is not complete. Raises BadDataError."""
    parsed = parse_header(head, path, "a consumer", MAGIC, ROW_BYTES, LONGEST_HEADER_BYTES)
    if parsed is None:
        return None
    stated, header_bytes = parsed
    reader, topics = stated.get("reader"), stated.get("topics")
    group, isolation = stated.get("group"), stated.get("isolation")
    if type(reader) is not int or not 0 <= reader < 1 << 31:
        raise BadDataError(f"The header of {path} names the reader {str(reader)[:40]!r}, which is no number.")
    if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
        raise BadDataError(f"The header of {path} names no topics.")
    if not isinstance(group, str | None) or not isinstance(isolation, str | None):
        raise BadDataError(f"The header of {path} names a group or an isolation level that is no text.")
    return ReadHeader(
        reader=reader, group=group, isolation=isolation, topics=tuple(topics), header_bytes=header_bytes
    )


def check_rows(path: str, header: ReadHeader, first: int, rows: npt.NDArray[np.void]) -> None:
    """Raise BadDataError for rows that no consumer writes; ``first`` is the number of the first one."""
    wrong = {
        "names a topic that its header has not": (rows["topic"] < 0) | (rows["topic"] >= len(header.topics)),
        "has a negative time, offset or partition": (rows["ns"] < 0)
        | (rows["offset"] < 0)
        | (rows["partition"] < 0),
    }
    for what, where in wrong.items():
        if where.any():
            raise BadDataError(f"{path}: row {first + int(np.argmax(where))} {what}.")


def reads_table(header: ReadHeader, rows: npt.NDArray[np.void]) -> pa.Table:
    """Rows of a consumer's journal (`ROW`) as rows of `reads`."""
    count = len(rows)

    def optional(name: str, of: str) -> pa.Array:
        return pa.array(rows[name], mask=rows[of] < 0)

    columns = {
        "topic": pa.array(header.topics, pa.string()).take(pa.array(rows["topic"])),
        "reader": pa.repeat(pa.scalar(header.reader, pa.int32()), count),
        "poll": pa.array(rows["poll"]).cast(pa.int64()),
        "epoch": optional("epoch", "epoch"),
        "writer": optional("writer", "writer"),
        "seq": optional("seq", "writer"),
        "txn_writer": optional("txn_writer", "txn_writer"),
        "txn": optional("txn", "txn"),
        "group": pa.repeat(pa.scalar(header.group, pa.string()), count),
        "isolation": pa.repeat(pa.scalar(header.isolation, pa.string()), count),
        **{name: pa.array(rows[name]) for name in ("partition", "ns", "offset")},
    }
    absent = {field.name: pa.nulls(count, field.type) for field in _SCHEMA if field.name not in columns}
    return pa.table({**columns, **absent}).select(_SCHEMA.names).cast(_SCHEMA)
