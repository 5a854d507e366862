"""Batches are decoded once for all replicas, and say what the reader in Python says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.history.identity import decode
from harness.kafka.batches import parse
from harness.kafka.headers import Headers, headers
from harness.kafka.model import TopicPartition
from harness.kafka.wire.logs import FetchResult
from harness.observer.bodies import Bodies, DecodedBodies
from tests.unit.observer.test_copies import Counting, damaged, log, stored

KEY, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = sorted((Path(__file__).parents[1] / "wire" / "batches").glob("*.bin"))


@pytest.fixture
def decoder() -> Iterator[Counting]:
    decoder = Counting()
    yield decoder
    decoder.close()


def expected(raw: bytes) -> list[tuple[int, int, int, int]]:
    """Offset, epoch, writer and seq of each record, by the reader in Python."""
    rows = []
    for record in parse(raw).records:
        named = decode(record.value)
        epoch = -1 if record.epoch is None else record.epoch
        rows.append((record.offset, epoch, named.writer if named else -1, named.seq if named else -1))
    return rows


def told(bodies: Bodies) -> list[tuple[int, int, int, int]]:
    return [tuple(int(row[name]) for name in ("offset", "epoch", "writer", "seq")) for row in bodies.rows]


def of(bodies: DecodedBodies, raw: bytes, key: TopicPartition = KEY) -> Bodies:
    return bodies.of({key: headers(raw)})[key]


@pytest.mark.parametrize("file", BATCHES, ids=lambda file: file.stem)
def test_every_format_and_codec(decoder: Counting, file: Path) -> None:
    raw, bodies = file.read_bytes(), DecodedBodies(decoder)
    for _ in range(2):
        found = of(bodies, raw)
        assert told(found) == expected(raw)
        batches = parse(raw).batches
        assert found.first_offsets.tolist() == [batch.offset for batch in batches]
        assert found.counts.sum() == len(found.rows)


def test_replicas_share_batches_wherever_a_fetch_begins_and_ends(decoder: Counting) -> None:
    bodies, rng = DecodedBodies(decoder), np.random.default_rng(1)
    whole = [stored(offset, epoch=offset // 20, seq=offset) for offset in range(60)]
    for _ in range(30):
        begin, end = sorted(rng.integers(0, 61, 2).tolist())
        raw = b"".join(whole[begin:end])
        assert told(of(bodies, raw)) == expected(raw)
    assert told(of(bodies, b"".join(whole))) == expected(b"".join(whole))
    assert decoder.batches <= 60


def test_what_differs_is_not_shared(decoder: Counting) -> None:
    """Another epoch, another partition, and a damaged batch, which is never shared."""
    bodies = DecodedBodies(decoder)
    for raw in (
        log(0, 1, 2),
        log(0) + stored(1, epoch=4, seq=9) + stored(2, epoch=4),
        log(0) + damaged(log(1)),
    ):
        for _ in range(2):
            assert told(of(bodies, raw)) == expected(raw)
    before = decoder.batches
    assert told(of(bodies, log(0, 1), OTHER)) == expected(log(0, 1))
    assert decoder.batches == before + 2


def test_partitions_are_decoded_in_one_go_and_as_by_themselves(decoder: Counting) -> None:
    """Answers about many partitions, empty, known in part, damaged and cut short."""
    bodies, rng = DecodedBodies(decoder), np.random.default_rng(2)
    keys = [TopicPartition("t", number) for number in range(40)]
    pieces = [*(path.read_bytes() for path in BATCHES), damaged(log(3)), log(1, 2)[:-5], b""]
    logs = {key: b"".join(stored(offset, seq=key.partition) for offset in range(12)) for key in keys}
    for key in keys[::3]:
        logs[key] = pieces[int(rng.integers(len(pieces)))]
    for _ in range(4):
        begins = {key: int(rng.integers(3)) * len(stored(0)) if key in keys[1::3] else 0 for key in keys}
        answers = {key: FetchResult(raw=logs[key][begin:]) for key, begin in begins.items()}
        calls = decoder.calls
        found = bodies.of(dict(zip(keys, bodies.headers(list(answers.values())), strict=True)))
        assert decoder.calls <= calls + 1
        for key, answer in answers.items():
            assert told(found[key]) == expected(answer.raw)
            assert found[key].first_offsets.tolist() == [one.offset for one in parse(answer.raw).batches]


def test_memory_does_not_grow_with_the_log(decoder: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.observer.bodies._KEPT_ROWS", 5)
    bodies = DecodedBodies(decoder)
    for offset in range(20):
        of(bodies, log(offset))
    of(bodies, log(15, 16, 17, 18, 19))
    assert decoder.batches == 20
    of(bodies, log(0))
    assert decoder.batches == 21


def test_what_follows_some_batches() -> None:
    whole: Headers = headers(log(0, 1, 2))
    assert whole.after(2).rows["offset"].tolist() == [2]
    assert whole.raw[whole.after(2).positions[0] :] == log(2)
