"""The Java decoder gives the rows of the reader of batches, whatever happened to the bytes."""

from __future__ import annotations

import gzip
import random
import signal
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cramjam
import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from harness.history.identity import encode
from harness.kafka.headers import headers
from harness.observer.decoder import Decoded, Decoder

AT_ONCE = -1
NEVER = 1 << 60
STORED = [
    file.read_bytes() for file in sorted((Path(__file__).parents[1] / "wire" / "batches").glob("*.bin"))
]


@pytest.fixture(scope="module")
def java() -> Iterator[Decoder]:
    decoder = Decoder(AT_ONCE)
    yield decoder
    process = decoder.process
    decoder.close()
    assert process is not None and process.returncode == -signal.SIGKILL


def read(decoder: Decoder, raw: bytes) -> Decoded:
    log = decoder.headers(raw)
    return decoder.decode(log, np.arange(len(log.rows)))


def assert_same(java: Decoder, raw: bytes) -> Decoded:
    """Headers and rows are those of the reader in Python. Gives these."""
    log, expected_log = java.headers(raw), headers(raw)
    assert (log.positions == expected_log.positions).all()
    assert (log.rows == expected_log.rows).all()
    decoded, expected = read(java, raw), read(Decoder(NEVER), raw)
    assert java.process is not None
    assert decoded.rows.equals(expected.rows)
    assert decoded.counts.tolist() == expected.counts.tolist()
    assert decoded.first_offsets.tolist() == expected.first_offsets.tolist()
    assert decoded.problems == expected.problems
    return expected


def current(values: list[bytes | None], codec: int, **fields: int) -> bytes:
    """A batch of format 2, also with keys, headers and empty values."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=fields.get("transactional", 0),
        producer_id=fields.get("producer_id", -1),
        producer_epoch=fields.get("producer_epoch", -1),
        base_sequence=fields.get("sequence", -1),
        batch_size=1 << 24,
    )
    for number, value in enumerate(values):
        key = None if number % 3 else b"key %d" % number
        notes = [("name", b"value"), ("none", None)] if number % 4 == 1 else []
        builder.append(number, timestamp=1000 + number * 7, key=key, value=value, headers=notes)
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, fields.get("offset", 0))
    struct.pack_into(">i", raw, 12, fields.get("epoch", 0))
    return bytes(raw)


def legacy(values: list[bytes | None], codec: int, magic: int, offset: int = 0) -> bytes:
    """Messages of format 0 or 1, in one that holds them compressed if there is a codec."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 24)
    for number, value in enumerate(values):
        builder.append(
            number + (0 if codec and magic else offset), timestamp=1000 + number, key=None, value=value
        )
    inside = bytes(builder.build())
    if not codec:
        return inside
    content = {
        1: gzip.compress,
        2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
        3: lambda data: old_frame(data) if magic == 0 else frame(data),
    }[codec](inside)
    return sealed(
        struct.pack(">qiIbb", offset + len(values) - 1, 0, 0, magic, codec)
        + (struct.pack(">q", 5000) if magic else b"")
        + struct.pack(">ii", -1, len(content))
        + content
    )


def frame(data: bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=True, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def old_frame(data: bytes) -> bytes:
    """As Kafka writes it in format 0, with a wrong checksum of the header."""
    made = struct.pack("<IBBB", 0x184D2204, 0x60, 0x40, 0xA5)
    for start in range(0, len(data), 1 << 16):
        block = bytes(cramjam.lz4.compress_block(data[start : start + (1 << 16)], store_size=False))
        made += struct.pack("<I", len(block)) + block
    return made + bytes(4)


def sealed(raw: bytes | bytearray) -> bytes:
    """The batch with the checksum that its bytes have: what is wrong inside was written so."""
    made = bytearray(raw)
    struct.pack_into(">i", made, 8, len(made) - 12)
    if made[16] == 2 and len(made) >= 61:
        struct.pack_into(">I", made, 17, calc_crc32c(bytes(made[21:])))
    else:
        struct.pack_into(">I", made, 12, zlib.crc32(made[16:]))
    return bytes(made)


def identities(count: int, chance: random.Random) -> list[bytes | None]:
    """Values of this project's clients, and others."""
    strange = [
        *(None, b"", b"foreign", b"acked1", b"acked1 1 2 t/0 - - 00000000", b"acked1 x 2 t/0 - - 00000000"),
        *(b"acked1 -1 2 t/0 - - 00000000", b"acked1 1 2 t/0 - - 0", b"acked1 +1 2 t/0 - - 0000000_0"),
        *(b"acked1 99999999999 2 t/0 - - 00000000", b"acked1 1 99999999999999999999 t/0 - - 00000000"),
        *(b"acked1 1 2 t/\xff - - 00000000", b"acked1 1 2  - - 00000000", b"acked1 1 2 t/0 - - a b"),
        *(b"acked1 1 2 t/0 - - 0000000A", b"acked1 1\t 2 t/0 - - 00000000", b"acked1 1 2 t/0 - - -0000001"),
    ]
    values: list[bytes | None] = []
    for number in range(count):
        value = encode(
            chance.randrange(1 << 31), chance.randrange(1 << 59), "tøpic", number % 3, "l", number % 150
        )
        ascii_value = encode(number, number * 3, "orders", number % 2, size_bytes=chance.randrange(200))
        wrong = ascii_value[:-1] + (b"0" if ascii_value[-1:] != b"0" else b"1")
        kinds = (ascii_value, value, wrong, chance.choice(strange))
        values.append(chance.choices(kinds, weights=(8, 0.05, 0.5, 0.2))[0])
    return values


def whole_logs(chance: random.Random) -> list[bytes]:
    """Batches of all formats and codecs."""
    logs = [*STORED]
    for codec in range(5):
        fields = {"offset": 7, "epoch": 3, "producer_id": 9, "producer_epoch": 1, "sequence": (1 << 31) - 3}
        logs.append(current(identities(chance.choice([1, 4, 60]), chance), codec, **fields))
        logs.append(current(identities(9, chance), codec, transactional=1))
    for magic in (0, 1):
        for codec in range(4):
            logs.append(legacy(identities(chance.choice([1, 4, 60]), chance), codec, magic, offset=40))
    return logs


@pytest.mark.parametrize("seed", range(20))
def test_what_is_whole_is_read_alike(java: Decoder, seed: int) -> None:
    chance = random.Random(seed)
    logs = whole_logs(chance)
    assert not assert_same(java, b"".join(logs)).problems
    for raw in logs:
        assert_same(java, raw)


def test_what_clients_write_is_decoded_in_java(java: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader in Python is asked for nothing."""
    values: list[bytes | None] = [encode(1, number, "orders", 0, size_bytes=100) for number in range(50)]
    logs = [*STORED, *(current(values, codec) for codec in range(5))]
    logs += [legacy(values, codec, magic) for codec in range(4) for magic in (0, 1)]
    log = java.headers(b"".join(logs))

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("harness.observer.decoder.read_batch", refuse)
    rows = java.decode(log, np.arange(len(log.rows))).rows
    assert rows.num_rows == rows["intact"].to_pylist().count(True)


@pytest.mark.parametrize("marker", [(0, 7), (1, -1), (2, 5), None])
@pytest.mark.parametrize("value", [b"", b"\0\0\0\0\0\7", b"\0\0\xff\xff\xff\xff", b"\0\0\x80\0\0\0", None])
def test_transaction_markers_are_read_alike(
    java: Decoder, marker: tuple[int, int] | None, value: bytes | None
) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=5,
        producer_epoch=0,
        base_sequence=-1,
        batch_size=1 << 12,
    )
    key = None if marker is None else struct.pack(">hh", 0, marker[0])
    builder.append(0, timestamp=-1, key=key, value=value, headers=[])
    raw = bytearray(builder.build())
    raw[22] |= 0x20
    assert_same(java, sealed(raw))


def spoilt(raw: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, overwritten with zeros, cut off or repeated; with a right checksum, or without."""
    made = bytearray(raw)
    for _ in range(chance.choice([1, 1, 1, 3])):
        near = min(len(made), 130) if chance.random() < 0.6 else len(made)
        place = chance.randrange(near)
        kind = chance.random()
        if kind < 0.5:
            made[place] ^= 1 << chance.randrange(8)
        elif kind < 0.7:
            made[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind < 0.8:
            made[place : place + chance.randrange(60)] = bytes(chance.randrange(60))
        elif kind < 0.9:
            del made[max(20, place) :]
        else:
            made[place:place] = made[: chance.randrange(1, 80)]
    return sealed(made) if chance.random() < 0.6 and len(made) > 30 else bytes(made)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.long if seed else ()) for seed in range(10)]
)
def test_what_is_damaged_is_read_alike(java: Decoder, seed: int) -> None:
    """Ten thousand logs with a damaged batch between whole ones, a thousand for each seed."""
    chance = random.Random(seed)
    differing = 0
    logs: list[bytes] = []
    for number in range(1000):
        if number % 40 == 0:
            logs = whole_logs(chance)
        bad = spoilt(chance.choice(logs), chance)
        differing += bool(assert_same(java, STORED[0] + bad + chance.choice(logs)).problems)
    assert differing > 300, "most damage is seen"


def test_a_process_that_dies_costs_time_and_no_rows(tmp_path: Path) -> None:
    decoder = Decoder(AT_ONCE)
    raw = b"".join(STORED)
    first = read(decoder, raw)
    process = decoder.process
    assert process is not None
    process.kill()
    process.wait()
    assert read(decoder, raw).rows.equals(first.rows)
    assert decoder.process is None
    decoder.close()


def test_the_process_outlives_the_thread_that_needed_it_first() -> None:
    """It dies with the thread that starts it, and a soak's judge ends before the last logs are read."""
    decoder = Decoder(AT_ONCE)
    raw = b"".join(STORED)
    with ThreadPoolExecutor(1) as judge:
        judge.submit(read, decoder, raw).result()
    process = decoder.process
    assert process is not None
    read(decoder, raw)
    assert decoder.process is process and process.poll() is None
    decoder.close()


def test_small_logs_need_no_process() -> None:
    decoder = Decoder(worth_a_process=2 * len(STORED[0]))
    for _ in range(2):
        read(decoder, STORED[0])
        assert decoder.process is None
    read(decoder, STORED[0])
    assert decoder.process is not None
    decoder.close()


def test_without_java_the_rows_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    decoder = Decoder(AT_ONCE)
    raw = b"".join(STORED)
    assert read(decoder, raw).rows.equals(read(Decoder(NEVER), raw).rows)
    assert decoder.process is None
