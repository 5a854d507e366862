"""A replica's own log is read to its end, although a broker answers from one segment at a time."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest

from harness.history.identity import encode
from harness.kafka.model import OFFSET_OUT_OF_RANGE, TopicPartition
from harness.kafka.wire.connection import NoAnswerError
from harness.kafka.wire.logs import FetchResult, fetch_more_of_own_logs, fetch_own_log
from harness.kafka.wire.produce import one_record_batch

CONNECTION: Any = None


def stored(offset: int) -> bytes:
    raw = bytearray(one_record_batch(encode(1, offset, "t", 0), timestamp_ms=0))
    struct.pack_into(">q", raw, 0, offset)
    return bytes(raw)


class Broker:
    """Answers FETCH from the segment that has the offset, as Kafka does."""

    def __init__(self, *segments: range) -> None:
        self.segments = segments
        self.requests: list[int] = []
        self.end = segments[-1].stop

    def fetch(
        self,
        _target: object,
        _replica: int,
        offsets: Mapping[TopicPartition, int],
        max_bytes: int,
        *_: object,
        **__: object,
    ) -> dict[TopicPartition, FetchResult]:
        ((key, offset),) = offsets.items()
        self.requests.append(offset)
        if offset > self.end:
            return {key: FetchResult(error=OFFSET_OUT_OF_RANGE)}
        segment = next((part for part in self.segments if offset in part), range(0))
        raw = b"".join(map(stored, range(offset, segment.stop)))[:max_bytes]
        return {
            key: FetchResult(
                raw=raw,
                offset=offset,
                high_watermark=self.end,
                log_start=self.segments[0].start,
                size_bytes=len(raw),
                limit_bytes=max_bytes,
            )
        }


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker(range(16, 23), range(23, 28), range(28, 29))
    monkeypatch.setattr("harness.kafka.wire.logs._fetch", broker.fetch)
    return broker


@pytest.mark.parametrize("offset", [16, 22, 23, 28])
def test_a_log_of_several_segments_is_read_to_its_end(broker: Broker, offset: int) -> None:
    fetched = fetch_own_log(CONNECTION, "t", 0, offset)
    assert [record.offset for record in fetched.records] == list(range(offset, 29))
    assert (fetched.log_end_offset, fetched.high_watermark, fetched.log_start) == (29, 29, 16)
    assert (fetched.error, fetched.cut_short, broker.requests[-1]) == (0, False, 29)
    assert fetched.to_end, "the observer need not ask once more"


def test_the_limit_of_bytes_ends_the_reading(broker: Broker) -> None:
    size = len(stored(16))
    fetched = fetch_own_log(CONNECTION, "t", 0, 16, 9 * size)
    assert fetched.cut_short
    assert not fetched.to_end
    assert fetched.records[-1].offset < 29


def test_a_log_that_was_truncated_meanwhile_is_what_was_read_before(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*arguments: Any, **_: object) -> dict[TopicPartition, FetchResult]:
        answer = broker.fetch(*arguments)
        broker.end = 20
        return answer

    monkeypatch.setattr("harness.kafka.wire.logs._fetch", fetch)
    fetched = fetch_own_log(CONNECTION, "t", 0, 16)
    assert (fetched.error, [record.offset for record in fetched.records]) == (0, list(range(16, 23)))
    assert not fetched.to_end


def test_an_empty_log_is_asked_for_once(broker: Broker) -> None:
    assert fetch_own_log(CONNECTION, "t", 0, 29).records == []
    assert broker.requests == [29]


def test_who_reads_on_is_not_led_after_the_end_of_a_log_that_grows(broker: Broker) -> None:
    key = TopicPartition("t", 0)
    fetched = fetch_more_of_own_logs(CONNECTION, {key: 18})[key]
    assert [record.offset for record in fetched.records] == list(range(18, 23))
    assert broker.requests == [18] and not fetched.to_end


def test_a_batch_that_did_not_fit_beside_others_is_requested_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of one partition, a broker sends the first batch whole (KIP-74)."""
    asked: list[list[int]] = []

    def fetch(
        _target: object, _replica: int, offsets: Mapping[TopicPartition, int], *_: object, **__: object
    ) -> dict[TopicPartition, FetchResult]:
        asked.append([key.partition for key in offsets])
        size = None if len(offsets) == 1 else -1
        whole, cut, empty = stored(5), stored(7)[:size], b""
        answers = {TopicPartition("t", n): raw for n, raw in enumerate((whole, cut, empty))}
        return {key: FetchResult(raw=answers[key], size_bytes=len(answers[key])) for key in offsets}

    monkeypatch.setattr("harness.kafka.wire.logs._fetch", fetch)
    keys = [TopicPartition("t", number) for number in range(3)]
    fetched = fetch_more_of_own_logs(CONNECTION, dict.fromkeys(keys, 0))
    assert [[record.offset for record in fetched[key].records] for key in keys] == [[5], [7], []]
    assert asked == [[0, 1, 2], [1]]


class Throttled:
    """A connection on which a quota keeps partitions back for some answers."""

    endpoint = "broker1:9092"

    def __init__(self, *answers: bool) -> None:
        self._answers = iter(answers)
        self.topic_ids = {"t": UUID(int=1)}
        self.muted = True

    def ask(self, _question: object, _timeout_s: float | None) -> dict[TopicPartition, FetchResult]:
        return {TopicPartition("t", 0): FetchResult(high_watermark=5)} if next(self._answers) else {}


def test_a_partition_that_a_quota_keeps_back_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    connection: Any = Throttled(False, False, True)
    monkeypatch.setattr("harness.kafka.wire.logs.connected", nullcontext)
    assert fetch_own_log(connection, "t", 0).high_watermark == 5


def test_a_partition_that_no_quota_keeps_back_must_come(monkeypatch: pytest.MonkeyPatch) -> None:
    connection: Any = Throttled(False, False)
    connection.muted = False
    monkeypatch.setattr("harness.kafka.wire.logs.connected", nullcontext)
    with pytest.raises(NoAnswerError, match="without a partition"):
        fetch_own_log(connection, "t", 0)
