"""The journal of one replica's sightings, and the table that follows from all of them.

While a run lasts, the observer appends a row of 32 bytes for each record that it sees on a replica. That
records have vanished is a line `gone` of the process's journal of lines: all records seen until then, in a
range of offsets.

A file begins with a line of JSON, padded to a multiple of 32 bytes:
``{"magic": "ackedse1", "topic": "orders", "partition": 0, "broker": 2}``. Its rows follow, in the order in
which the records were seen. All numbers are little-endian. A kill leaves at most part of one append, of which
the complete rows count.

| bytes | content |
|---|---|
| 0–7 | when the record was seen, in ns |
| 8–15 | its offset |
| 16–23 | sequence named in the message; -1: none |
| 24–27 | leader epoch of its batch; -1: none (format 0 or 1) |
| 28–31 | writer named in the message; -1: none |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import BadDataError
from harness.history.row_journal import create, read_header
from harness.history.schema import TABLES
from harness.history.sends import ROWS_CONVERTED
from harness.history.tables import history_dir, table_writer, write_table

SUFFIX = ".seen"
"""The end of the names of these files."""
MAGIC = "ackedse1"
ROW = np.dtype([("seen_ns", "<i8"), ("offset", "<i8"), ("seq", "<i8"), ("epoch", "<i4"), ("writer", "<i4")])
Rows = npt.NDArray[np.void]
"""Rows of `ROW`."""
Replica = tuple[str, int, int]
"""Topic, partition and broker."""
_SCHEMA = TABLES["sightings"].arrow()
_LONGEST_HEADER = 1 << 16


class SightingsJournal:
    """The journal of one replica, open for appending. Used by one thread."""

    def __init__(self, journal: Path, topic: str, partition: int, broker: int) -> None:
        """Create the file beside the ``journal`` of lines, under a name that is free. Raises OSError."""
        stated = {"magic": MAGIC, "topic": topic, "partition": partition, "broker": broker}
        journal.parent.mkdir(parents=True, exist_ok=True)
        # With the partition in its name, no file of hundreds has to be tried before one is free.
        self.path = create(journal, f"{broker}-{partition}", SUFFIX, stated, ROW.itemsize)

    def append(self, rows: Rows) -> None:
        """Append rows with one write. The file is not kept open: there may be thousands. Raises OSError."""
        if len(rows):
            with self.path.open("ab", buffering=0) as file:
                file.write(rows.tobytes())


@dataclass(frozen=True, kw_only=True)
class _File:
    path: Path
    replica: Replica
    header_bytes: int

    def rows(self) -> Rows:
        size = max(0, self.path.stat().st_size - self.header_bytes)
        if size < ROW.itemsize:
            return np.zeros(0, dtype=ROW)
        return np.memmap(self.path, ROW, mode="r", offset=self.header_bytes, shape=(size // ROW.itemsize,))


def write_sightings(run_dir: Path, gone: pa.Table) -> int:
    """Write the table of a run; returns its number of rows.

    Memory holds the rows of one replica if they are not in order, as after a truncation; otherwise a block.
    ``gone`` are the lines of its journals: topic, partition, broker, from_offset, to_offset, gone_ns. Rows
    are in the order of broker, offset and time. Raises BadDataError for a malformed journal.
    """
    opened = [_opened(path) for path in sorted((run_dir / "journal").glob(f"*{SUFFIX}"))]
    files = sorted((file for file in opened if file is not None), key=lambda file: file.replica)
    write_table(run_dir, "sightings", _SCHEMA.empty_table())
    target, written = history_dir(run_dir) / "sightings.parquet", 0
    for number, (_, of_partition) in enumerate(groupby(files, key=lambda file: file.replica[:2])):
        with table_writer(target / f"{number:05}.parquet", "sightings") as writer:
            for replica, of_replica in groupby(of_partition, key=lambda file: file.replica):
                rows = _in_order([file.rows() for file in of_replica])
                gone_ns = _gone_ns(rows, _of_replica(gone, replica))
                for block in _blocks(rows):
                    some = np.array(rows[block])
                    _check(some, replica)
                    writer.write_table(_sightings(some, gone_ns[block], replica))
                written += len(rows)
    return written


def _blocks(rows: Rows) -> Iterator[slice]:
    return (slice(begin, begin + ROWS_CONVERTED) for begin in range(0, len(rows), ROWS_CONVERTED))


def _in_order(parts: Sequence[Rows]) -> Rows:
    """The rows of a replica by offset and time; what is mapped and in order stays mapped."""
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
    end = -1
    for block in _blocks(rows):
        offsets = rows["offset"][block]
        if offsets[0] <= end or (np.diff(offsets) <= 0).any():
            return rows[np.lexsort((rows["seen_ns"], rows["offset"]))]
        end = int(offsets[-1])
    return rows


def _opened(path: Path) -> _File | None:
    """A journal; None if its process was killed before the header was complete."""
    header = read_header(path, "sightings", MAGIC, ROW.itemsize, _LONGEST_HEADER)
    if header is None:
        return None
    stated, header_bytes = header
    topic, partition, broker = stated.get("topic"), stated.get("partition"), stated.get("broker")
    if not isinstance(topic, str) or type(partition) is not int or type(broker) is not int:
        raise BadDataError(f"The header of {path} names no replica: {str(stated)[:80]}.")
    return _File(path=path, replica=(topic, partition, broker), header_bytes=header_bytes)


def _check(rows: Rows, replica: Replica) -> None:
    topic, partition, broker = replica
    wrong = (rows["seen_ns"] < 0) | (rows["offset"] < 0)
    if wrong.any():
        raise BadDataError(
            f"The journals of sightings of {topic}/{partition} on broker {broker} hold a row that the "
            f"observer does not write: {rows[int(np.argmax(wrong))]}."
        )


def _of_replica(gone: pa.Table, replica: Replica) -> list[tuple[int, int, int]]:
    """What vanished of a replica, by time: from and to offset, and when that was seen."""
    topic, partition, broker = replica
    here = pc.and_(pc.equal(gone["topic"], topic), pc.equal(gone["partition"], partition))
    some = gone.filter(pc.and_(here, pc.equal(gone["broker"], broker)))
    columns = [some[name].to_pylist() for name in ("from_offset", "to_offset", "gone_ns")]
    return sorted(zip(*columns, strict=True), key=lambda row: row[2])


def _gone_ns(rows: Rows, gone: list[tuple[int, int, int]]) -> npt.NDArray[np.int64]:
    """When each record vanished, -1 for never. ``rows`` are in the order of their offsets."""
    if not gone:
        return np.broadcast_to(np.int64(-1), len(rows))
    gone_ns = np.full(len(rows), -1, dtype=np.int64)
    for begin, end, ns in gone:
        low, high = np.searchsorted(rows["offset"], [begin, end])
        there = (rows["seen_ns"][low:high] < ns) & (gone_ns[low:high] < 0)
        gone_ns[low:high][there] = ns
    return gone_ns


def _sightings(rows: Rows, gone_ns: npt.NDArray[np.int64], replica: Replica) -> pa.Table:
    topic, partition, broker = replica
    arrays = {
        "topic": pa.repeat(topic, len(rows)),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(rows)),
        "broker": pa.repeat(pa.scalar(broker, pa.int32()), len(rows)),
        "offset": pa.array(rows["offset"]),
        "seen_ns": pa.array(rows["seen_ns"]),
        "epoch": pa.array(rows["epoch"], mask=rows["epoch"] < 0),
        "writer": pa.array(rows["writer"], mask=rows["writer"] < 0),
        "seq": pa.array(rows["seq"], mask=rows["writer"] < 0),
        "gone_ns": pa.array(gone_ns, mask=gone_ns < 0),
    }
    return pa.table([arrays[name] for name in _SCHEMA.names], schema=_SCHEMA)
