"""How fast replica logs are read: headers, records, the tail with its table, and the whole final dump.

    .venv/bin/python -m benchmarks.logs
    .venv/bin/python -m benchmarks.logs --records 3000000 --in-batch 100 --spark

The segments are made here: messages of 100 bytes, in each format and codec. Seconds are processor time, of
this process and of the decoder, so that a busy machine changes little. The reader in Python reads a tenth.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from harness.history.assemble import GONE
from harness.history.identity import encode
from harness.history.sightings import SightingsJournal, write_sightings
from harness.history.tables import history_dir
from harness.host_files import Folder
from harness.kafka.batches import CODECS, positions
from harness.kafka.model import TopicPartition
from harness.kafka.segments import raw_log
from harness.kafka.wire.logs import FetchResult
from harness.observer.bodies import DecodedBodies
from harness.observer.copies import Copies
from harness.observer.decoder import Decoder
from harness.observer.replica_tail import ReplicaTail

_TICKS = os.sysconf("SC_CLK_TCK")
_KEY = TopicPartition("t", 0)
_SIZE = 100


def main() -> None:
    """Measure, and print a line for each kind of log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--in-batch", type=int, default=50)
    parser.add_argument("--log", default="*", help="which logs: a pattern, such as 'v2 none'")
    parser.add_argument("--spark", action="store_true", help="also hand the rows to Spark's mapInArrow")
    options = parser.parse_args()
    print(f"{options.records} records in batches of {options.in_batch}; million records per second and core")
    heads = ("Python", "decoder", "headers", "tail, 3 replicas", "dump, 3 replicas", "peak")
    widths = (8, 9, 9, 18, 18, 11)
    print(f"{'log':<14}" + "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
    with tempfile.TemporaryDirectory(prefix="acked-benchmark-") as scratch:
        for name, make in _kinds().items():
            if not fnmatch(name, options.log):
                continue
            folder = Path(scratch) / name.replace(" ", "-")
            _write(folder, make, options.records, options.in_batch)
            _measure(name, folder, options.records)
            if options.spark and name == "v2 none":
                _in_spark(folder.with_suffix(".run"))
            shutil.rmtree(folder)
            shutil.rmtree(folder.with_suffix(".run"))


def _kinds() -> dict[str, Callable[[int, list[bytes]], bytes]]:
    """How the batches of a log are made, by its name."""
    current = {f"v2 {name}": _current(number) for number, name in enumerate(CODECS)}
    return {**current, "v1 none": _legacy(1), "v0 none": _legacy(0), "v1 gzip": _zipped}


def _current(codec: int) -> Callable[[int, list[bytes]], bytes]:
    def made(offset: int, values: list[bytes]) -> bytes:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec,
            is_transactional=0,
            producer_id=1,
            producer_epoch=0,
            base_sequence=offset & 0x7FFFFFFF,
            batch_size=1 << 24,
        )
        for number, value in enumerate(values):
            builder.append(number, timestamp=number, key=None, value=value, headers=[])
        raw = bytearray(builder.build())
        struct.pack_into(">qii", raw, 0, offset, len(raw) - 12, 3)
        return bytes(raw)

    return made


def _legacy(magic: int) -> Callable[[int, list[bytes]], bytes]:
    def made(offset: int, values: list[bytes]) -> bytes:
        builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 24)
        for number, value in enumerate(values):
            builder.append(offset + number, timestamp=number, key=None, value=value)
        return bytes(builder.build())

    return made


def _zipped(offset: int, values: list[bytes]) -> bytes:
    content = gzip.compress(_legacy(1)(0, values), 1)
    body = struct.pack(">bbqii", 1, 1, offset, -1, len(content)) + content
    return struct.pack(">qiI", offset + len(values) - 1, len(body) + 4, zlib.crc32(body)) + body


def _write(folder: Path, make: Callable[[int, list[bytes]], bytes], records: int, in_batch: int) -> None:
    """One segment of a replica."""
    replica = folder / _KEY.folder
    replica.mkdir(parents=True)
    with (replica / f"{0:020}.log").open("wb") as file:
        for offset in range(0, records, in_batch):
            values = [
                encode(1, seq, *_KEY, size_bytes=_SIZE)
                for seq in range(offset, min(records, offset + in_batch))
            ]
            file.write(make(offset, values))


def _measure(name: str, folder: Path, records: int) -> None:
    chunks = list(raw_log(Folder(folder / _KEY.folder)))
    python, java = Decoder(1 << 60), Decoder(-1)
    logs = [java.headers(chunk) for chunk in chunks]
    for log in logs[:3]:
        java.decode(log, np.arange(len(log.rows)))  # until it is compiled
    few = python.headers(chunks[0][: len(chunks[0]) // 10])
    rows = 0

    def read() -> None:
        nonlocal rows
        rows = python.decode(few, np.arange(len(few.rows))).rows.num_rows

    seconds = {
        "python": _seconds(read, None),
        "decoder": _seconds(lambda: [java.decode(log, np.arange(len(log.rows))) for log in logs], java),
        "headers": _seconds(lambda: [java.headers(chunk) for chunk in chunks], java),
    }
    java.close()
    seconds["tail"] = _tail_seconds(folder.with_suffix(".run"), chunks)
    copies_decoder = Decoder()
    copies = Copies(folder.with_suffix(".run"), copies_decoder)

    def dump() -> None:
        for broker in (1, 2, 3):
            copies.begin(_KEY, broker)
            for chunk in raw_log(Folder(folder / _KEY.folder)):
                copies.add(_KEY, broker, chunk)

    seconds["dump"] = _seconds(dump, copies_decoder) + _seconds(copies.finish, None)
    copies.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = {what: records / taken / 1e6 for what, taken in seconds.items()}
    rate["python"] = rows / seconds["python"] / 1e6
    print(
        f"{name:<14} {rate['python']:>7.3f} {rate['decoder']:>8.2f} {rate['headers']:>8.1f} "
        f"{rate['tail']:>17.2f} {rate['dump']:>17.2f}  {peak:>5.0f} MiB",
        flush=True,
    )


def _tail_seconds(run_dir: Path, chunks: list[bytes]) -> float:
    """Processor seconds to follow three replicas, to journal what is seen, and to write `sightings`."""
    decoder = Decoder()
    bodies = DecodedBodies(decoder)
    tails = [ReplicaTail(topic_partition=_KEY, bodies=bodies) for _ in range(3)]
    journals = [
        SightingsJournal(run_dir / "journal" / "observer.jsonl", *_KEY, broker) for broker in (1, 2, 3)
    ]

    def follow() -> None:
        last = b""
        for number, chunk in enumerate(chunks):
            raw = last + chunk  # a look begins with the last batch that was seen
            last = chunk[positions(chunk)[-2] :]
            for tail, journal in zip(tails, journals, strict=True):
                tail.look()
                fetched = FetchResult(raw=raw, offset=tail.start, size_bytes=len(raw))
                journal.append(tail.update(fetched, number + 1).seen)
                tail.forget()
        write_sightings(run_dir, GONE.empty_table())

    taken = _seconds(follow, decoder)
    decoder.close()
    return taken


def _seconds(work: Callable[[], object], decoder: Decoder | None) -> float:
    """Processor seconds of some work, in this process and in that of a decoder."""
    begin, there = time.process_time(), _there(decoder)
    work()
    return max(time.process_time() - begin + _there(decoder) - there, 1e-6)


def _there(decoder: Decoder | None) -> float:
    if decoder is None or decoder.process is None:
        return 0.0
    fields = Path(f"/proc/{decoder.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _in_spark(run_dir: Path) -> None:
    """The rows of the dump through mapInArrow, which counts those that are intact."""
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from checkers.spark.session import start_session

    files = [str(file) for file in (history_dir(run_dir) / "copies.parquet").glob("*.parquet")]
    spark = start_session()

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"intact": [pc.sum(batch["intact"]).as_py()]})

    def opened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name in batch["file"].to_pylist():
                yield pa.record_batch({"intact": [pc.sum(pq.read_table(name)["intact"]).as_py()]})

    handed = spark.read.parquet(*files).coalesce(1)
    names = spark.createDataFrame([(name,) for name in files], "file string")
    for how, frame, function in (("Spark's rows", handed, count), ("the file's name", names, opened)):
        frame.mapInArrow(function, "intact long").collect()
        begin = time.monotonic()
        total = sum(row["intact"] for row in frame.mapInArrow(function, "intact long").collect())
        took = time.monotonic() - begin
        print(f"  mapInArrow gets {how}: {total / took / 1e6:.2f} M records/s wall", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
