"""Batches that real writers compressed: librdkafka, the Java client, and brokers that recompressed.

The files of `batches` were taken from the segments of a run of `tests/cluster/codecs.py` (Kafka 2.7.1). Those
of librdkafka and of brokers hold some 100 kB of values: several blocks of lz4 and snappy.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from aiokafka.record.util import calc_crc32c
from record_bytes import batch

from harness.history.identity import decode
from harness.host_files import Folder
from harness.kafka.batches import parse
from harness.kafka.model import Endpoint, TopicPartition
from harness.kafka.wire.dialect import MODERN
from harness.observer.copies import Copies
from harness.observer.replica_log import read_broker
from harness.observer.targets import Node

STORED = sorted((Path(__file__).parent / "batches").glob("*.bin"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def sealed(raw: bytes) -> bytes:
    """The batch with the size and the checksum that its bytes have: only its records are broken."""
    made = bytearray(raw)
    struct.pack_into(">i", made, 8, len(raw) - 12)
    struct.pack_into(">I", made, 17, calc_crc32c(bytes(made[21:])))
    return bytes(made)


def test_every_writer_with_every_codec_is_here() -> None:
    names = {file.stem for file in STORED}
    assert names == {f"{who}-{codec}" for who in ("broker", "java", "librdkafka") for codec in CODECS[1:]}


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_what_real_writers_compressed_is_read(file: Path) -> None:
    raw = file.read_bytes()
    base, last_delta = struct.unpack_from(">q", raw)[0], struct.unpack_from(">i", raw, 23)[0]
    assert CODECS[raw[22] & 7] == file.stem.partition("-")[2]
    parsed = parse(raw)
    assert (parsed.problems, parsed.consumed_bytes) == ([], len(raw))
    assert [record.offset for record in parsed.records] == list(range(base, base + last_delta + 1))
    identities = [decode(record.value) for record in parsed.records]
    assert all(identity is not None and identity.intact for identity in identities)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_frame_that_ends_early_is_named(codec: str) -> None:
    """The checksum is right: a writer stored half a frame."""
    raw = sealed(batch(5, b"a" * 90, b"b" * 90, sequence=3, compression=CODECS.index(codec))[:-7])
    parsed = parse(raw + batch(7, b"c"))
    assert [(r.offset, r.sequence, r.value, r.crc_ok) for r in parsed.records] == [
        (5, 3, None, False),
        (6, 4, None, False),
        (7, -1, b"c", True),
    ]
    (problem,) = parsed.problems
    assert problem.startswith(f"the batch at offset 5 ({codec}, {len(raw)} bytes) cannot be read: ")
    assert "\n" not in problem
    assert [record.offset for record in parse(raw, from_offset=6).records] == [6]


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_flipped_byte_is_found_by_the_checksum_alone(file: Path) -> None:
    """Nothing is decompressed: a damaged frame may claim any size."""
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 0xFF
    parsed = parse(bytes(raw))
    assert {(record.value, record.crc_ok) for record in parsed.records} == {(None, False)}
    assert len(parsed.records) == struct.unpack_from(">i", raw, 57)[0]
    assert parsed.problems[0].endswith("cannot be read: its checksum is wrong, so it is not decompressed")


def test_a_header_that_makes_no_sense_gives_one_record() -> None:
    raw = bytearray(batch(5, b"a" * 90, b"b" * 90, compression=4))
    struct.pack_into(">i", raw, 57, 2_000_000_000)
    assert [record.offset for record in parse(bytes(raw)).records] == [5]


def test_uncompressed_damage_is_named_too() -> None:
    raw = bytearray(batch(5, b"aaaa"))
    raw[-3] ^= 0xFF
    assert parse(bytes(raw)).problems == [
        f"the batch at offset 5 (not compressed, {len(raw)} bytes) has a wrong checksum"
    ]


def test_a_replicas_log_says_which_batches_are_damaged(tmp_path: Path) -> None:
    good, bad = batch(0, b"a"), bytearray(batch(1, b"b" * 90, compression=3))
    bad[-1] ^= 0xFF
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(good + bytes(bad))
    node = Node("broker1", 1, Endpoint("127.0.0.1", 1), data=Folder(tmp_path))
    (log,) = read_broker(node, [TopicPartition("t", 0)], MODERN, Copies(tmp_path), stopped=True)
    assert log.complete
    assert log.error is not None
    assert log.error.startswith(f"the batch at offset 1 (lz4, {len(bad)} bytes) cannot be read: ")
