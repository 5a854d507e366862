"""The journal of one consumer: a row of fixed width for each record that it received, appended poll by poll.

A file begins with a line of JSON, padded to a multiple of `ROW_BYTES`:
``{"magic": "ackedrd1", "reader": 4, "group": null, "isolation": "read_committed", "topics": ["orders"]}``.
Its rows follow, in the order of delivery. A kill leaves at most part of one append, of which the complete
rows count. All numbers are little-endian.

| bytes | content |
|---|---|
| 0–7 | when the consumer received it, in ns |
| 8–15 | offset of the record |
| 16–23 | sequence named in the message; -1: none |
| 24–31 | number of the transaction in which the application polled; -1: in none |
| 32–35 | its topic: an index into `topics` |
| 36–39 | its partition |
| 40–43 | leader epoch of its batch; -1: not known |
| 44–47 | writer named in the message; -1: none |
| 48–51 | number of the poll that returned it |
| 52–55 | producer of that transaction; -1: in none |

Runs in agents. `harness.history.reads` makes the table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.history.row_journal import create

SUFFIX = ".reads"
"""The end of the names of these files."""
MAGIC = "ackedrd1"
_ROW = struct.Struct("<qqqqiiiiii")
ROW_BYTES = _ROW.size
_ABSENT = -1


@dataclass(kw_only=True, slots=True)
class ReceivedRecord:
    """One row: a record, the poll that returned it, and the transaction in which the application polled."""

    topic: str
    partition: int
    ns: int
    offset: int
    epoch: int | None
    writer: int | None
    seq: int | None
    poll: int
    txn_writer: int | None = None
    txn: int | None = None


class ReadJournal:
    """The journal of one consumer, open for appending. Used by one thread."""

    def __init__(
        self, journal: Path, reader: int, *, group: str | None, isolation: str, topics: Iterable[str]
    ) -> None:
        """The first row makes the file, beside the ``journal`` of lines and under a name that is free."""
        self._journal, self._reader = journal, reader
        self._topics = {topic: number for number, topic in enumerate(sorted(set(topics)))}
        self._stated = {
            "magic": MAGIC,
            "reader": reader,
            "group": group,
            "isolation": isolation,
            "topics": [*self._topics],
        }
        self._path: Path | None = None

    def append(self, records: Iterable[ReceivedRecord]) -> None:
        """Append the records of a poll with one write. Raises OSError."""
        self.write(
            self.row(
                *(one.ns, one.offset, one.seq, one.txn, one.topic, one.partition),
                *(one.epoch, one.writer, one.poll, one.txn_writer),
            )
            for one in records
        )

    def row(
        self,
        ns: int,
        offset: int,
        seq: int | None,
        txn: int | None,
        topic: str,
        partition: int,
        epoch: int | None,
        writer: int | None,
        poll: int,
        txn_writer: int | None,
    ) -> bytes:
        """A row; its fields are those of `ReceivedRecord`, in the order of the row, which saves an object."""
        return _ROW.pack(
            ns,
            offset,
            _ABSENT if seq is None else seq,
            _ABSENT if txn is None else txn,
            self._topics[topic],
            partition,
            _ABSENT if epoch is None else epoch,
            _ABSENT if writer is None else writer,
            poll,
            _ABSENT if txn_writer is None else txn_writer,
        )

    def write(self, rows: Iterable[bytes]) -> None:
        """Append rows with one write. Raises OSError."""
        content = b"".join(rows)
        if content:
            self._path = self._path or create(
                self._journal, str(self._reader), SUFFIX, self._stated, ROW_BYTES
            )
            with self._path.open("ab") as file:
                file.write(content)
