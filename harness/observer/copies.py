"""Rows of `copies` and `batches`: the logs of every replica, compared batch by batch.

A batch that several replicas hold is decoded once (`harness.observer.decoder`), and what was decoded is on
disk at once, in a store for each topic partition. Of a replica, memory holds which batches of the store it
has, as runs of numbers. `finish` writes the tables from the stores, a row group at a time.

Replicas share a batch whose header, which has its checksum, is the same and whose checksum is right in both.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.history.schema import TABLES
from harness.history.tables import clear, history_dir, table_writer, write_table
from harness.kafka.batches import CODECS
from harness.kafka.headers import HEADER, Headers
from harness.kafka.model import TopicPartition
from harness.observer.decoder import DECODED, Decoded, Decoder

_UNFINISHED = "copies.unfinished"
_ROW_GROUP = 200_000
"""Rows that memory holds at most while tables are written."""
_STORED = np.dtype([("header", HEADER), ("first", "i8"), ("row", "i8"), ("rows", "i8"), ("intact", "?")])
"""A batch in a store: the offset of its first record, and where its rows are."""


class Added(NamedTuple):
    """What was read of a replica: bytes of complete batches, and what is wrong with some of them."""

    size_bytes: int
    problems: list[str]
    transactional: bool


class _Run(NamedTuple):
    """Consecutive batches of a store; records before an offset are left out, where one is given."""

    first: int
    batches: int
    from_offset: int | None


class Copies:
    """The tables `copies` and `batches` of one run, while they are written, by several threads."""

    def __init__(self, run_dir: Path, decoder: Decoder | None = None) -> None:
        """Nothing is written before the first replica begins."""
        self._run_dir = run_dir
        self._folder = history_dir(run_dir) / _UNFINISHED
        shutil.rmtree(self._folder, ignore_errors=True)
        self._decoder = Decoder() if decoder is None else decoder
        self._lock = Lock()
        self._stores: dict[TopicPartition, _Store] = {}
        self._replicas: dict[TopicPartition, dict[int, list[_Run]]] = {}

    def begin(self, key: TopicPartition, broker: int) -> None:
        """Begin, or begin again, to read one replica."""
        with self._lock:
            self._replicas.setdefault(key, {})[broker] = []

    def add(self, key: TopicPartition, broker: int, raw: bytes, from_offset: int = 0) -> Added:
        """The next complete batches of a replica; what follows them in ``raw`` is left out.

        Records before ``from_offset`` are not among its rows.
        """
        log = self._decoder.headers(raw)
        with self._lock:
            if key not in self._stores:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._stores[key] = _Store(self._folder / str(len(self._stores)))
            store, runs = self._stores[key], self._replicas[key][broker]
        with store.lock:
            numbers, problems = store.add(log, self._decoder)
            earlier = store.first_offsets(numbers) < from_offset
        _extend(runs, numbers, earlier, from_offset)
        current = log.rows["magic"] == 2
        transactional = bool((current & (log.rows["attributes"] & 0x10 != 0)).any())
        return Added(int(log.positions[-1]), problems, transactional)

    def close(self) -> None:
        """End the decoder."""
        self._decoder.close()

    def finish(self) -> None:
        """Write the tables: a file for each topic partition, with its replicas one after the other.

        The files are numbered: a topic's name is a value, and never part of a path.
        """
        target = {name: history_dir(self._run_dir) / f"{name}.parquet" for name in ("copies", "batches")}
        for place in target.values():
            place.parent.mkdir(parents=True, exist_ok=True)
            clear(place)
        read = {key: runs for key, runs in sorted(self._replicas.items()) if any(runs.values())}
        for number, (key, replicas) in enumerate(read.items()):
            with self._stores[key].stored() as stored:
                for name, place in target.items():
                    place.mkdir(exist_ok=True)
                    tables = stored.copies if name == "copies" else stored.batches
                    with table_writer(place / f"{number:05}.parquet", name) as writer:
                        parts = (
                            _of_replica(name, key, broker, table)
                            for broker, runs in sorted(replicas.items())
                            for table in tables(runs)
                        )
                        for some in _in_groups(parts):
                            writer.write_table(some, _ROW_GROUP)
        for name in () if read else target:
            write_table(self._run_dir, name, TABLES[name].arrow().empty_table())
        shutil.rmtree(self._folder, ignore_errors=True)


def _in_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small tables together: a row group costs a millisecond, and there may be thousands."""
    held, rows = list[pa.Table](), 0
    for table in tables:
        if held and rows + table.num_rows > _ROW_GROUP:
            yield pa.concat_tables(held)
            held, rows = [], 0
        held.append(table)
        rows += table.num_rows
    if held:
        yield pa.concat_tables(held)


def _extend(
    runs: list[_Run], numbers: npt.NDArray[np.int64], earlier: npt.NDArray[np.bool_], from_offset: int
) -> None:
    """Add batches of the store to a replica, as few runs as possible."""
    if len(numbers) == 0:
        return
    breaks = (np.diff(numbers) != 1) | np.diff(earlier)
    edges = [0, *(np.flatnonzero(breaks) + 1), len(numbers)]
    for begin, end in zip(edges, edges[1:], strict=False):
        run = _Run(int(numbers[begin]), int(end - begin), from_offset if earlier[begin] else None)
        last = runs[-1] if runs else None
        if (
            last is not None
            and last.from_offset == run.from_offset
            and last.first + last.batches == run.first
        ):
            runs[-1] = last._replace(batches=last.batches + run.batches)
        else:
            runs.append(run)


def _of_replica(name: str, key: TopicPartition, broker: int, table: pa.Table) -> pa.Table:
    count = table.num_rows
    arrays = {
        "topic": pa.repeat(key.topic, count),
        "partition": pa.repeat(pa.scalar(key.partition, pa.int32()), count),
        "broker": pa.repeat(pa.scalar(broker, pa.int32()), count),
    }
    schema = TABLES[name].arrow()
    return pa.table([arrays[f.name] if f.name in arrays else table[f.name] for f in schema], schema=schema)


class _Store:
    """The distinct batches of one topic partition, numbered as they came, with their rows on disk.

    Those with a right checksum and a larger offset than all before them are found again by their offset.
    """

    def __init__(self, place: Path) -> None:
        self.lock = Lock()
        self._rows_file = place.with_name(f"{place.name}.rows")
        self._batches_file = place.with_name(f"{place.name}.batches")
        self._rows = pa.OSFile(str(self._rows_file), "wb")
        self._writer = pa.ipc.new_file(self._rows, DECODED)
        self._batches: BinaryIO = self._batches_file.open("wb")
        self._row_count = 0
        self._firsts = _Longs()
        self._offsets, self._digests, self._numbers = _Longs(), _Longs(), _Longs()

    def add(self, log: Headers, decoder: Decoder) -> tuple[npt.NDArray[np.int64], list[str]]:
        """The number of each batch of a log, those that are new included, and what is wrong with new ones."""
        numbers = self._search(log.rows)
        new = np.flatnonzero(numbers < 0)
        if len(new) == 0:
            return numbers, []
        decoded = decoder.decode(log, new)
        numbers[new] = len(self._firsts) + np.arange(len(new))
        self._write(log.rows[new], numbers[new], decoded)
        return numbers, [decoded.problems[place] for place in sorted(decoded.problems)]

    def first_offsets(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The offset of the first record of each batch."""
        return self._firsts.values[numbers]

    def _search(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
        """The number of each batch; -1 for one that is not in the store."""
        if len(self._offsets) == 0:
            return np.full(len(rows), -1, dtype=np.int64)
        places = np.minimum(np.searchsorted(self._offsets.values, rows["offset"]), len(self._offsets) - 1)
        same = (self._offsets.values[places] == rows["offset"]) & rows["crc_ok"]
        same &= self._digests.values[places] == rows["digest"].view(np.int64)
        return np.where(same, self._numbers.values[places], -1)

    def _write(self, rows: npt.NDArray[np.void], numbers: npt.NDArray[np.int64], decoded: Decoded) -> None:
        sound = np.ones(len(rows), dtype=np.bool_)
        sound[list(decoded.problems)] = False
        stored = np.zeros(len(rows), dtype=_STORED)
        stored["header"], stored["first"], stored["rows"] = rows, decoded.first_offsets, decoded.counts
        stored["row"] = self._row_count + np.cumsum(decoded.counts) - decoded.counts
        stored["intact"] = sound
        stored.tofile(self._batches)
        self._writer.write_table(decoded.rows)
        self._row_count += decoded.rows.num_rows
        self._firsts.extend(decoded.first_offsets)
        last = self._offsets.values[-1] if len(self._offsets) else -1
        highest = np.maximum.accumulate(np.concatenate([[last], rows["offset"]]))[:-1]
        kept = sound & rows["crc_ok"] & (rows["offset"] > highest)
        self._offsets.extend(rows["offset"][kept])
        self._digests.extend(rows["digest"][kept].view(np.int64))
        self._numbers.extend(numbers[kept])

    def stored(self) -> _Stored:
        """What was stored; nothing can be added any more."""
        self._writer.close()
        self._rows.close()
        self._batches.close()
        return _Stored(self._rows_file, self._batches_file)


class _Longs:
    """A growing array of integers."""

    def __init__(self) -> None:
        self._space = np.empty(64, dtype=np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> npt.NDArray[np.int64]:
        """Its integers."""
        return self._space[: self._count]

    def extend(self, more: npt.NDArray[np.int64]) -> None:
        """Add integers at the end."""
        needed = self._count + len(more)
        if needed > len(self._space):
            larger = np.empty(max(needed, 2 * len(self._space)), dtype=np.int64)
            larger[: self._count] = self.values
            self._space = larger
        self._space[self._count : needed] = more
        self._count = needed


class _Stored:
    """A store that is complete, mapped into memory."""

    def __init__(self, rows_file: Path, batches_file: Path) -> None:
        self._mapped = pa.memory_map(str(rows_file))
        self._reader = pa.ipc.open_file(self._mapped)
        parts = self._reader.num_record_batches
        self._parts = [self._reader.get_batch(number) for number in range(parts)]
        self._starts = np.cumsum([0, *(part.num_rows for part in self._parts)])
        self._batches = np.memmap(batches_file, dtype=_STORED, mode="r")

    def __enter__(self) -> _Stored:
        return self

    def __exit__(self, *exception: object) -> None:
        self._parts = []
        self._mapped.close()

    def copies(self, runs: Sequence[_Run]) -> Iterator[pa.Table]:
        """Rows of `DECODED` of a replica, in the order of its log."""
        for run in runs:
            last = self._batches[run.first + run.batches - 1]
            row, end = int(self._batches[run.first]["row"]), int(last["row"] + last["rows"])
            while row < end:
                number = int(np.searchsorted(self._starts, row, side="right")) - 1
                start = int(self._starts[number])
                until = min(end, start + self._parts[number].num_rows, row + _ROW_GROUP)
                table = pa.Table.from_batches([self._parts[number].slice(row - start, until - row)])
                if run.from_offset is not None:
                    table = table.filter(pa.array(table["offset"].to_numpy() >= run.from_offset))
                yield table
                row = until

    def batches(self, runs: Sequence[_Run]) -> Iterator[pa.Table]:
        """Rows of `batches` of a replica, without its name."""
        for run in runs:
            for begin in range(run.first, run.first + run.batches, _ROW_GROUP):
                end = min(run.first + run.batches, begin + _ROW_GROUP)
                yield _batches_of(np.array(self._batches[begin:end]))


def _batches_of(stored: npt.NDArray[np.void]) -> pa.Table:
    header = stored["header"]
    legacy = header["magic"] < 2
    attributes = header["attributes"].astype(np.int32)
    flags = np.where(legacy, 0, attributes)
    codec = attributes & 0x07
    arrays = {
        "offset": pa.array(np.where(legacy, stored["first"], header["offset"])),
        "last_offset": pa.array(header["next_offset"] - 1),
        "epoch": pa.array(header["epoch"], mask=legacy),
        "format": pa.array(header["magic"].astype(np.int32)),
        "crc": pa.array(header["crc"].astype(np.int64)),
        "intact": pa.array(stored["intact"]),
        "codec": pa.DictionaryArray.from_arrays(
            pa.array(codec, mask=codec >= len(CODECS)), pa.array(CODECS)
        ).cast(pa.string()),
        "producer_id": pa.array(header["producer_id"]),
        "producer_epoch": pa.array(header["producer_epoch"].astype(np.int32)),
        "sequence": pa.array(header["sequence"]),
        "control": pa.array(flags & 0x20 != 0),
        "transactional": pa.array(flags & 0x10 != 0),
        "records": pa.array(stored["rows"].astype(np.int32)),
        "size_bytes": pa.array(header["size"]),
    }
    return pa.table(arrays)
