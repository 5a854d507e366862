"""Rows of `copies`: the records of every replica, on disk as soon as they have been read.

While logs are read, each replica has a Parquet file of its own, so that memory holds the records of one FETCH
only, however long the log is. `finish` joins the files of a topic partition, one row group at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.identity import decode
from harness.history.schema import TABLES
from harness.history.tables import clear, history_dir, write_table
from harness.kafka.batches import Record
from harness.kafka.model import TopicPartition

_UNFINISHED = "copies.unfinished"
_ROW_GROUP = 200_000
"""Rows that memory holds at most while files are joined; one FETCH returns fewer."""


class Copies:
    """The table `copies` of one run, while it is written. Threads may write different replicas."""

    def __init__(self, run_dir: Path) -> None:
        """Nothing is written before the first replica begins."""
        self._run_dir = run_dir
        self._folder = history_dir(run_dir) / _UNFINISHED
        shutil.rmtree(self._folder, ignore_errors=True)
        self._writers: dict[tuple[TopicPartition, int], pq.ParquetWriter] = {}

    def begin(self, key: TopicPartition, broker: int) -> None:
        """Begin, or begin again, to write one replica's records."""
        self.end(key, broker)
        self._file(key, broker).unlink(missing_ok=True)

    def add(self, key: TopicPartition, broker: int, records: Sequence[Record]) -> None:
        """Write the next records of a replica, in order of offset."""
        if not records:
            return
        table = copies_of(key, broker, records)
        writer = self._writers.get((key, broker))
        if writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            writer = pq.ParquetWriter(self._file(key, broker), table.schema)
            self._writers[key, broker] = writer
        writer.write_table(table)

    def end(self, key: TopicPartition, broker: int) -> None:
        """Close the file of a replica that has been read."""
        if (writer := self._writers.pop((key, broker), None)) is not None:
            writer.close()

    def finish(self) -> None:
        """Write the table: a file for each topic partition, with its replicas one after the other."""
        target = history_dir(self._run_dir) / "copies.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        clear(target)
        files: dict[str, list[Path]] = {}
        for file in self._folder.glob("*.parquet") if self._folder.is_dir() else ():
            files.setdefault(file.name.rpartition(".b")[0], []).append(file)
        if not files:
            write_table(self._run_dir, "copies", TABLES["copies"].arrow().empty_table())
            return
        target.mkdir()
        for name, parts in sorted(files.items()):
            _join(sorted(parts, key=_broker_of), target / f"{name}.parquet")
        shutil.rmtree(self._folder)

    def _file(self, key: TopicPartition, broker: int) -> Path:
        return self._folder / f"{key.folder}.b{broker}.parquet"


def _broker_of(file: Path) -> int:
    return int(file.stem.rpartition(".b")[2])


def _join(parts: Sequence[Path], target: Path) -> None:
    with pq.ParquetWriter(target, TABLES["copies"].arrow()) as writer:
        for part in parts:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches(_ROW_GROUP):
                    writer.write_batch(batch)


def copies_of(key: TopicPartition, broker: int, records: Sequence[Record]) -> pa.Table:
    """Records of one replica as rows of `copies`."""
    schema = TABLES["copies"].arrow()
    count = len(records)
    identities = [decode(record.value) for record in records]
    markers = [record.marker for record in records]
    columns: dict[str, Any] = {
        "topic": pa.repeat(key.topic, count),
        "partition": pa.repeat(pa.scalar(key.partition, pa.int32()), count),
        "broker": pa.repeat(pa.scalar(broker, pa.int32()), count),
        "writer": [i.writer if i else None for i in identities],
        "seq": [i.seq if i else None for i in identities],
        "intact": [
            r.crc_ok and i.intact if i else (None if r.crc_ok else False)
            for r, i in zip(records, identities, strict=True)
        ],
        "home": [i.home if i else None for i in identities],
        "offset": [r.offset for r in records],
        "epoch": [r.epoch for r in records],
        "batch_offset": [r.batch_offset for r in records],
        "crc": [r.crc for r in records],
        "timestamp_ms": [r.timestamp_ms for r in records],
        "producer_id": [r.producer_id for r in records],
        "producer_epoch": [r.producer_epoch for r in records],
        "sequence": [r.sequence for r in records],
        "control": [r.control for r in records],
        "transactional": [r.transactional for r in records],
        "marker": [m.end if m else None for m in markers],
        "coordinator_epoch": [m.coordinator_epoch if m else None for m in markers],
    }
    return pa.table(
        [
            pa.array(columns[f.name], f.type) if isinstance(columns[f.name], list) else columns[f.name]
            for f in schema
        ],
        schema=schema,
    )
