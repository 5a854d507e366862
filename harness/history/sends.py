"""The table `sends`: what journals of lines and journals of streams say about every message.

Streams are read in blocks and written as they come, so memory holds neither a whole stream nor an object per
message.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import BadDataError
from harness.history.schema import TABLES
from harness.history.stream_journal import (
    ACKNOWLEDGED,
    BEGUN,
    ROW_BYTES,
    STATES,
    SUFFIX,
    StreamHeader,
    read_header,
)
from harness.history.tables import PartitionedWriter, history_dir

_SCHEMA = TABLES["sends"].arrow()
ROW = np.dtype(
    [
        ("sent_ns", "<i8"),
        ("done_ns", "<i8"),
        ("offset", "<i8"),
        ("target", "<i4"),
        ("broker", "<i4"),
        ("error", "<i4"),
        ("attempts", "<i2"),
        ("state", "<i2"),
    ]
)
"""A row of a stream's journal."""
assert ROW.itemsize == ROW_BYTES
ROWS_CONVERTED = 1 << 18
"""Rows of a stream that are converted together: some 40 MB."""
_WORDS = pa.array(STATES)


def write_sends(run_dir: Path, sent: pa.Table, done: pa.Table) -> int:
    """Write the table of a run; returns its number of rows.

    ``sent`` and ``done`` are the lines of its journals; the journals of its streams lie beside those. Rows
    are in the order of `writer` and `seq`. Raises BadDataError for a malformed journal.
    """
    scripted = _joined(sent, done)
    writers = scripted["writer"].to_numpy()
    begin = 0
    with PartitionedWriter(history_dir(run_dir), "sends") as table:
        for file, header in _streams(run_dir / "journal"):
            end = int(np.searchsorted(writers, header.writer))
            table.add(scripted.slice(begin, end - begin))
            if end < len(writers) and writers[end] == header.writer:
                raise BadDataError(
                    f"The journals hold lines of messages of writer {header.writer}, and {file} is the "
                    f"journal of its stream; give every producer a number of its own."
                )
            begin = end
            for block in stream_rows(file, header):
                table.add(block)
        table.add(scripted.slice(begin))
    return table.rows


def _streams(folder: Path) -> list[tuple[Path, StreamHeader]]:
    """The journals of streams in a folder, by writer. An empty one is that of a client that was killed."""
    files = [file for file in sorted(folder.glob(f"*{SUFFIX}")) if not file.is_file() or file.stat().st_size]
    found = sorted(((file, read_header(file)) for file in files), key=lambda one: one[1].writer)
    for (one, header), (other, following) in zip(found, found[1:], strict=False):
        if header.writer == following.writer:
            raise BadDataError(
                f"{one} and {other.name} are both journals of the stream of writer {header.writer}; give "
                f"every producer a number of its own."
            )
    return found


def stream_rows(file: Path, header: StreamHeader, rows_at_once: int = ROWS_CONVERTED) -> Iterator[pa.Table]:
    """The rows of a stream's journal as blocks of rows of `sends`, in the order of `seq`.

    Raises BadDataError, with file and message, for a row that no client writes.
    """
    count = max(0, file.stat().st_size - header.header_bytes) // ROW_BYTES
    if count == 0:
        return
    rows = np.memmap(file, ROW, mode="r", offset=header.header_bytes, shape=(count,))
    absent = False
    for first in range(0, count, rows_at_once):
        block = np.array(rows[first : first + rows_at_once])
        used = int(np.count_nonzero(block["state"]))
        if used and absent:
            raise BadDataError(f"{file}: message {first - 1} is absent, and a later one is not.")
        _check(file, first, block[:used], len(header.targets))
        absent = used < len(block)
        if used:
            yield sends_table(block[:used], np.arange(first, first + used, dtype=np.int64), header)


def acknowledged_ns(
    file: Path, header: StreamHeader, first: int
) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """When messages of a stream that is being written were acknowledged, from message ``first`` on.

    Returns the first message without an outcome, and the times in ns of those before it and of those after.
    """
    count = max(0, file.stat().st_size - header.header_bytes) // ROW_BYTES
    if count <= first:
        return first, np.empty(0, np.int64), np.empty(0, np.int64)
    rows = np.memmap(file, ROW, mode="r", offset=header.header_bytes, shape=(count,))
    state = np.array(rows["state"][first : first + ROWS_CONVERTED])
    block = np.array(rows[first : first + ROWS_CONVERTED])  # later, as a state is stored after its row
    pending = np.flatnonzero(state <= BEGUN)
    open_at = int(pending[0]) if len(pending) else len(block)
    ok = state == ACKNOWLEDGED
    ended, later = block[:open_at], block[open_at:]
    return first + open_at, ended["done_ns"][ok[:open_at]], later["done_ns"][ok[open_at:]]


def _check(file: Path, first: int, rows: npt.NDArray[np.void], targets: int) -> None:
    """Refuse rows that no client writes. As many ``rows`` as are not absent were chosen, so none may be."""
    state = rows["state"]
    wrong = {
        "is absent, and a later one is not": state == 0,
        "has a state that there is not": (state < 0) | (state >= len(STATES)),
        "names a target that its stream has not": (rows["target"] < 0) | (rows["target"] >= targets),
        "was never sent": rows["sent_ns"] <= 0,
        "ended before it was sent": (state > BEGUN) & (rows["done_ns"] < rows["sent_ns"]),
    }
    for what, where in wrong.items():
        if where.any():
            raise BadDataError(f"{file}: message {first + int(np.argmax(where))} {what}.")


def sends_table(rows: npt.NDArray[np.void], seqs: npt.NDArray[np.int64], header: StreamHeader) -> pa.Table:
    """Some rows of a stream's journal (`ROW`), with their numbers, as rows of `sends`."""
    topics = pa.array([topic for topic, _ in header.targets])
    partitions = np.array([partition for _, partition in header.targets], np.int32)
    begun = rows["state"] == BEGUN

    def optional(name: str) -> pa.Array:
        return pa.array(rows[name], mask=begun | (rows[name] < 0))

    columns = {
        "topic": topics.take(pa.array(rows["target"])),
        "partition": pa.array(partitions[rows["target"]]),
        "writer": pa.array(np.full(len(rows), header.writer, np.int32)),
        "seq": pa.array(seqs),
        "sent_ns": pa.array(rows["sent_ns"]),
        "done_ns": pa.array(rows["done_ns"], mask=begun),
        "outcome": _WORDS.take(pa.array(rows["state"], mask=begun)),
        "error": pa.array(rows["error"], mask=begun),
        "offset": optional("offset"),
        "attempts": optional("attempts").cast(pa.int32()),
        "broker": optional("broker"),
    }
    if header.transaction:
        columns["txn"] = pa.array(seqs // header.transaction)
    absent = {field.name: pa.nulls(len(rows), field.type) for field in _SCHEMA if field.name not in columns}
    return pa.table({**columns, **absent}).select(_SCHEMA.names).cast(_SCHEMA)


def _joined(sent: pa.Table, done: pa.Table) -> pa.Table:
    """The lines of messages as rows of `sends`, in the order of `writer` and `seq`."""
    _refuse_duplicates(sent, "sent")
    _refuse_duplicates(done, "done")
    joined = sent.join(done, keys=["writer", "seq"], join_type="left outer", use_threads=False)
    matched = joined.num_rows - joined["done_ns"].null_count
    if matched < done.num_rows - done["done_ns"].null_count:
        raise BadDataError(
            "The journals hold the outcome of a message that was never recorded as sent; was one removed?"
        )
    joined = joined.select(_SCHEMA.names).cast(_SCHEMA)
    order = np.lexsort([joined["seq"].to_numpy(), joined["writer"].to_numpy()])
    return joined.take(pa.array(order))


def _refuse_duplicates(table: pa.Table, name: str) -> None:
    if table.num_rows == 0:
        return
    counts = table.group_by(["writer", "seq"], use_threads=False).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        writer, seq = twice["writer"][0], twice["seq"][0]
        raise BadDataError(
            f"The journals hold two rows {name!r} of message {seq} of writer {writer}; give every producer a "
            f"number of its own."
        )
