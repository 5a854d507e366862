"""Decoding record batches into columns, in a Java process from a size on that repays its start.

`harness.kafka.batches` decides what a batch means. The Java process decodes what is entirely well-formed, and
refuses the rest, batch by batch; what it refuses is read here.
"""

from __future__ import annotations

import fcntl
import importlib.util
import struct
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.artifacts.cache import cache_dir
from harness.artifacts.java import find_java
from harness.artifacts.java_program import JavaProgram
from harness.errors import AckedError
from harness.history.identity import decode
from harness.history.schema import TABLES
from harness.kafka.batches import Record, read_batch
from harness.kafka.headers import Headers, headers, headers_at
from harness.lab.embedded.namespaces import with_parent

DECODED = pa.schema(
    [field for field in TABLES["copies"].arrow() if field.name not in ("topic", "partition", "broker")]
)
"""What is decoded of a record: the columns of `copies` that do not name the replica."""

WORTH_A_PROCESS = 2 << 20
"""Bytes of batches from which on a Java process decodes: until then the reader here is done earlier."""

WORTH_ASKING = 1 << 16
"""Bytes from which on the process finds batches sooner than the reader here."""

_SOURCE = Path(__file__).with_name("BatchDecoder.java")
_CODECS = ("lz4-java", "snappy-java", "zstd-jni")
_HEAP_MIB = (64, 512)
_PIPE_BYTES = 1 << 20
"""In pipes of the usual 64 KiB, 8 MiB of batches take 128 turns of two processes: long on a busy machine."""
_ANSWER = struct.Struct("<4i")
_ANY_OFFSET = -(1 << 63)
_MAKING = Lock()
_T = TypeVar("_T")


@dataclass(frozen=True)
class Decoded:
    """``rows`` of `DECODED`, and of each batch the number of its rows and its first offset."""

    rows: pa.Table
    counts: npt.NDArray[np.int64]
    first_offsets: npt.NDArray[np.int64]
    problems: Mapping[int, str]
    """What is wrong with a batch, by its place among those that were decoded."""


class Decoder:
    """Decodes batches, for several threads. Close it at the end."""

    def __init__(self, worth_a_process: int = WORTH_A_PROCESS) -> None:
        """No process is started before ``worth_a_process`` bytes have been decoded."""
        self._left = worth_a_process
        self._lock = Lock()
        # The process dies with the thread that starts it, and those that decode may end before the decoder.
        self._starter = ThreadPoolExecutor(1, "decoder")
        self.process: subprocess.Popen[bytes] | None = None
        self._unfit = False

    def headers(self, raw: bytes) -> Headers:
        """The complete batches that ``raw`` begins with."""
        asked = self._asked(b"w", raw, _walk) if len(raw) >= WORTH_ASKING else None
        return headers(raw) if asked is None else headers_at(raw, *asked)

    def decode(self, log: Headers, which: npt.NDArray[np.int64]) -> Decoded:
        """The records of some of the batches, in the order of ``which``, which rises."""
        bounds = log.positions
        if len(which) == 0:
            return _read([])
        if len(which) == which[-1] - which[0] + 1:
            request: bytes | memoryview = memoryview(log.raw)[bounds[which[0]] : bounds[which[-1] + 1]]
        else:
            request = b"".join([log.raw[bounds[number] : bounds[number + 1]] for number in which])
        answer = self._asked(b"d", request, _answer)
        if answer is None:
            return _read(_raws(log, which))
        return _combined(answer, log, which)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()
            self._unfit = True
        self._starter.shutdown()

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()  # it has nothing to finish
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.wait()

    def _asked(
        self, what: bytes, request: bytes | memoryview, answer: Callable[[IO[bytes]], _T]
    ) -> _T | None:
        """What the process answers; None if it is not worth one, or there is none."""
        with self._lock:
            if what == b"d":
                self._left -= len(request)
            if self._left >= 0 or self._unfit:
                return None
            try:
                if self.process is None:
                    self.process = self._starter.submit(_started).result()
                assert self.process.stdin is not None and self.process.stdout is not None
                self.process.stdin.write(what + struct.pack(">i", len(request)))
                self.process.stdin.write(request)
                self.process.stdin.flush()
                return answer(self.process.stdout)
            except (AckedError, OSError, EOFError):
                # Without Java, or without it from now on: the reader here gives the same rows.
                self._unfit = True
                self._end()
                return None


def _started() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        with_parent((*command(), "BatchDecoder")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # the kernel may allow less
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process


class HeaderReader(Decoder):
    """Reads the headers of batches alone: one row stands for a batch."""

    def headers(self, raw: bytes) -> Headers:
        """The complete batches that ``raw`` begins with."""
        return headers(raw)

    def decode(self, log: Headers, which: npt.NDArray[np.int64]) -> Decoded:
        """A row for each of the batches, without what only its records say."""
        return _read(_raws(log, which), bodies=False)


def command() -> tuple[str, ...]:
    """The command line of the Java process up to its main class. Raises AckedError if it cannot be made."""
    place = importlib.util.find_spec("pyspark")
    folders = (
        [] if place is None else [Path(folder) / "jars" for folder in place.submodule_search_locations or ()]
    )
    jars = sorted(jar for folder in folders for name in _CODECS for jar in folder.glob(f"{name}-*.jar"))
    program = JavaProgram(
        sources=(_SOURCE,),
        about="the decoder of record batches",
        java=find_java(),
        jars=tuple(jars),
        main="BatchDecoder",
        heap_mib=_HEAP_MIB,
    )
    with _MAKING:
        return program.argv(cache_dir() / "batch-decoder", lambda text: None)


@dataclass(frozen=True)
class _Answer:
    """Columns as `BatchDecoder.java` describes them."""

    counts: npt.NDArray[np.int32]
    first_offsets: npt.NDArray[np.int64]
    columns: dict[str, npt.NDArray[Any]]
    homes: list[str]


_COLUMNS = (
    *(("offset", "<i8"), ("timestamp_ms", "<i8"), ("seq", "<i8")),
    *(("writer", "<i4"), ("home", "<i4"), ("coordinator_epoch", "<i4")),
    *(("intact", "i1"), ("marker", "i1")),
)
_NO_EPOCH = -(1 << 31)


def _walk(pipe: IO[bytes]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    (batches,) = struct.unpack("<i", _exactly(pipe, 4))
    content = _exactly(pipe, batches * 8 + 4)
    bounds = np.frombuffer(content, dtype="<i4", count=batches + 1).astype(np.int64)
    return bounds, np.frombuffer(content, dtype="<u4", offset=bounds.nbytes // 2)


def _answer(pipe: IO[bytes]) -> _Answer:
    batches, records, homes, home_bytes = _ANSWER.unpack(_exactly(pipe, _ANSWER.size))
    width = sum(np.dtype(kind).itemsize for _, kind in _COLUMNS)
    content = _exactly(pipe, batches * 12 + records * width + homes * 4 + home_bytes)
    position = 0

    def column(kind: str, count: int) -> npt.NDArray[Any]:
        nonlocal position
        values = np.frombuffer(content, dtype=kind, count=count, offset=position)
        position += values.nbytes
        return values

    counts, first_offsets = column("<i4", batches), column("<i8", batches)
    columns = {name: column(kind, records) for name, kind in _COLUMNS}
    ends = np.cumsum(column("<i4", homes))
    names = content[position:].decode("ascii")
    return _Answer(counts, first_offsets, columns, [names[a:b] for a, b in pairwise([0, *ends])])


def _exactly(pipe: IO[bytes], size: int) -> bytes:
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError("the decoder of record batches has ended")
    return content


def _raws(log: Headers, which: Iterable[int]) -> list[bytes]:
    bounds = log.positions
    return [log.raw[bounds[number] : bounds[number + 1]] for number in which]


def _combined(answer: _Answer, log: Headers, which: npt.NDArray[np.int64]) -> Decoded:
    """What the process decoded, with what it refused in its place."""
    decoded = _table(answer, log.rows[which])
    counts, first_offsets = answer.counts.astype(np.int64), answer.first_offsets.copy()
    refused = answer.counts < 0
    if not refused.any():
        return Decoded(decoded, counts, first_offsets, {})
    parts, problems, row = [], dict[int, str](), 0
    edges = [0, *(np.flatnonzero(np.diff(refused)) + 1), len(which)]
    for begin, end in pairwise(edges):
        if refused[begin]:
            read = _read(_raws(log, which[begin:end]))
            parts.append(read.rows)
            counts[begin:end], first_offsets[begin:end] = read.counts, read.first_offsets
            problems |= {int(begin + number): problem for number, problem in read.problems.items()}
        else:
            size = int(counts[begin:end].sum())
            parts.append(decoded.slice(row, size))
            row += size
    return Decoded(pa.concat_tables(parts), counts, first_offsets, problems)


def _table(answer: _Answer, rows: npt.NDArray[np.void]) -> pa.Table:
    columns, counts = answer.columns, np.maximum(answer.counts, 0)

    def of_batch(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.repeat(values, counts)

    def nullable(values: npt.NDArray[Any], absent: npt.NDArray[np.bool_]) -> pa.Array:
        return pa.array(values, mask=absent if absent.any() else None)

    def named(codes: npt.NDArray[Any], names: Sequence[str]) -> pa.Array:
        indices = nullable(codes.astype(np.int32), codes < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).cast(pa.string())

    foreign = columns["writer"] < 0
    offset, base, first = columns["offset"], of_batch(rows["offset"]), of_batch(rows["sequence"])
    legacy = of_batch(rows["magic"] < 2)
    attributes = of_batch(rows["attributes"])
    legacy_or = np.where(legacy, 0, attributes)
    intact, coordinator = columns["intact"], columns["coordinator_epoch"]
    number = np.where(first >= 0, (first + (offset - base)) & 0x7FFFFFFF, -1)
    arrays: dict[str, pa.Array] = {
        "offset": pa.array(offset),
        "epoch": nullable(of_batch(rows["epoch"]), legacy),
        "writer": nullable(columns["writer"], foreign),
        "seq": nullable(columns["seq"], foreign),
        "intact": nullable(intact == 1, intact == 2),
        "home": named(columns["home"], answer.homes),
        "batch_offset": pa.array(of_batch(np.where(rows["magic"] < 2, answer.first_offsets, rows["offset"]))),
        "crc": pa.array(of_batch(rows["crc"]).astype(np.int64)),
        "timestamp_ms": nullable(columns["timestamp_ms"], legacy & (columns["timestamp_ms"] == -1)),
        "producer_id": pa.array(of_batch(rows["producer_id"])),
        "producer_epoch": pa.array(of_batch(rows["producer_epoch"]).astype(np.int32)),
        "sequence": pa.array(number.astype(np.int32)),
        "control": pa.array((legacy_or & 0x20) != 0),
        "transactional": pa.array((legacy_or & 0x10) != 0),
        "marker": named(columns["marker"], ("abort", "commit")),
        "coordinator_epoch": nullable(coordinator, coordinator == _NO_EPOCH),
    }
    return pa.table([arrays[field.name] for field in DECODED], schema=DECODED)


def _read(raws: Sequence[bytes], *, bodies: bool = True) -> Decoded:
    """The same by the reader of `harness.kafka.batches`."""
    records, counts, first_offsets, problems = list[Record](), [], [], {}
    for number, raw in enumerate(raws):
        before = len(records)
        batch = read_batch(raw, _ANY_OFFSET, records, bodies=bodies)
        counts.append(len(records) - before)
        first_offsets.append(batch.offset)
        if batch.problem:
            problems[number] = batch.problem
    return Decoded(
        rows_of(records),
        np.array(counts, dtype=np.int64),
        np.array(first_offsets, dtype=np.int64),
        problems,
    )


def rows_of(records: Sequence[Record]) -> pa.Table:
    """Records as rows of `DECODED`."""
    identities = [decode(record.value) for record in records]
    markers = [record.marker for record in records]
    columns: dict[str, list[Any]] = {
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
    return pa.table([pa.array(columns[field.name], field.type) for field in DECODED], schema=DECODED)
