"""Following a replica: records that appear on it or vanish again are reported exactly once."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c

from harness.history.identity import encode
from harness.history.journal import Journal
from harness.history.tables import read_table
from harness.kafka.batches import parse
from harness.kafka.model import OFFSET_OUT_OF_RANGE, TopicPartition
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.logs import Fetched
from harness.kafka.wire.offsets import EARLIEST, Offset
from harness.kafka.wire.produce import one_record_batch
from harness.observer.replica_tail import FETCH_BYTES, ReplicaTail
from harness.observer.tail import FileSource, TailPoller, WireSource

KEY = TopicPartition("t", 0)


def stored(offset: int, epoch: int = 0, seq: int | None = None) -> bytes:
    """A batch with one message, as a broker stores it."""
    value = encode(1, offset if seq is None else seq, "t", 0)
    raw = bytearray(one_record_batch(value, timestamp_ms=0))
    struct.pack_into(">q", raw, 0, offset)
    struct.pack_into(">i", raw, 12, epoch)
    return bytes(raw)


def marker(offset: int) -> bytes:
    """A transaction marker, as a broker stores it: a batch with the control bit."""
    raw = bytearray(stored(offset))
    struct.pack_into(">h", raw, 21, 0x30)
    struct.pack_into(">I", raw, 17, calc_crc32c(bytes(raw[21:])))
    return bytes(raw)


def answer(log: list[bytes], offset: int, limit: int = 1 << 20, log_start: int = 0) -> Fetched:
    """The answer to a FetchRequest on a log of one-message batches, without those before its start."""
    if not log_start <= offset <= len(log):
        return Fetched(error=OFFSET_OUT_OF_RANGE, log_start=log_start)
    raw = b"".join(log[offset:])[:limit]
    return Fetched(
        parsed=parse(raw, offset),
        high_watermark=0,
        log_start=log_start,
        size_bytes=len(raw),
        limit_bytes=limit,
    )


class Follower:
    """Follows a log until nothing is pending, and keeps the events that it reported."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self.tail = ReplicaTail(topic_partition=KEY, broker=1)
        self.limit = limit
        self.alive: dict[int, tuple[object, object]] = {}
        self.events: list[tuple[str, object]] = []

    def follow(self, log: list[bytes], ns: int = 0, log_start: int = 0) -> None:
        for _ in range(100):
            limit = self.limit * self.tail.max_bytes // FETCH_BYTES
            fetched = answer(log, self.tail.start, limit, log_start)
            fresh, gone = self.tail.update(fetched, ns)
            for row in gone:
                offset = int(str(row["offset"]))
                assert self.alive.pop(offset) == (row["epoch"], row["seen_ns"])
                self.events.append(("gone", offset))
            for row in fresh:
                offset = int(str(row["offset"]))
                assert offset not in self.alive
                self.alive[offset] = (row["epoch"], row["seen_ns"])
                self.events.append(("seen", offset))
            if self.tail.probe_back == 1 and not fetched.cut_short and not fetched.error:
                return
        raise AssertionError("the follower never came to an end")


def test_new_records_are_reported_once() -> None:
    follower, log = Follower(), [stored(0), stored(1)]
    follower.follow(log)
    follower.follow(log)
    log.append(stored(2))
    follower.follow(log)
    assert follower.events == [("seen", 0), ("seen", 1), ("seen", 2)]


def test_a_truncation_is_reported() -> None:
    follower, log = Follower(), [stored(n) for n in range(4)]
    follower.follow(log)
    follower.follow(log[:2])
    assert follower.events[4:] == [("gone", 2), ("gone", 3)]


def test_markers_are_counted_once() -> None:
    follower, log = Follower(), [stored(0), marker(1)]
    for _ in range(3):
        follower.follow(log)
    assert follower.tail.markers == 1
    follower.follow([*log, stored(2), marker(3)])
    assert follower.tail.markers == 2
    follower.follow(log)
    assert follower.tail.markers == 2, "a truncated marker was written once"


def test_records_replaced_between_two_looks_are_reported() -> None:
    follower, log = Follower(), [stored(n) for n in range(5)]
    follower.follow(log)
    follower.follow(log[:2] + [stored(2, epoch=1, seq=70), stored(3, epoch=1, seq=71)])
    assert follower.events[5:] == [("gone", 2), ("gone", 3), ("gone", 4), ("seen", 2), ("seen", 3)]


def test_the_same_message_in_another_epoch_is_another_record() -> None:
    follower = Follower()
    follower.follow([stored(0), stored(1)])
    follower.follow([stored(0), stored(1, epoch=2)])
    assert follower.events[2:] == [("gone", 1), ("seen", 1)]


def test_a_wiped_disk_is_reported() -> None:
    follower = Follower()
    follower.follow([stored(0), stored(1)])
    follower.follow([])
    assert follower.alive == {}


@pytest.mark.parametrize("log_start", [1, 2, 3])
def test_a_log_whose_beginning_was_removed_is_followed(log_start: int) -> None:
    """Retention or a DeleteRecords request may remove all that was seen; that is no truncation."""
    follower, log = Follower(), [stored(n) for n in range(3)]
    follower.follow(log)
    follower.follow(log, log_start=log_start)
    follower.follow([*log, stored(3)], log_start=log_start)
    assert follower.events[3:] == [("seen", 3)]
    assert follower.tail.end == 4


def test_a_log_that_did_not_begin_at_0_is_followed() -> None:
    follower = Follower()
    follower.follow([stored(n) for n in range(5)], log_start=3)
    assert follower.events == [("seen", 3), ("seen", 4)]


def test_the_log_of_a_topic_that_was_created_again_is_followed() -> None:
    follower, log = Follower(), [stored(n) for n in range(5)]
    follower.follow(log)
    follower.follow(log, log_start=5)
    follower.alive.clear()  # removed, not truncated
    follower.follow([stored(0, seq=70), stored(1, seq=71)])
    assert follower.events[5:] == [("seen", 0), ("seen", 1)]


def test_an_error_tells_nothing() -> None:
    follower = Follower()
    follower.follow([stored(0)])
    assert follower.tail.update(Fetched(error=6), 0) == ([], [])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=8),
    st.integers(150, 4000),
)
def test_after_any_history_the_follower_knows_the_log(steps: list[tuple[int, int]], limit: int) -> None:
    follower, log = Follower(limit), list[bytes]()
    for epoch, (keep, add) in enumerate(steps):
        log = log[:keep]
        log += [stored(len(log) + n, epoch=epoch, seq=1000 * epoch + n) for n in range(add)]
        follower.follow(log, ns=epoch)
        known = {offset: epoch for offset, (epoch, _) in follower.alive.items()}
        assert known == {r.offset: r.epoch for r in parse(b"".join(log)).records}


class Memory:
    """A log source in memory that can be unreachable."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.reachable = True

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        if not self.reachable:
            raise ConnectionRefusedError("down")
        return {key: answer(self.log, offset) for key, offset in offsets.items()}

    def close(self) -> None:
        pass


def test_a_broker_that_restarts_loses_nothing_by_being_away(tmp_path: Path) -> None:
    from harness.history.assemble import assemble

    source = Memory()
    with Journal(tmp_path / "journal" / "observer.jsonl") as journal:
        poller = TailPoller("broker1", 1, source, lambda: (KEY,), journal)
        source.log = [stored(0), stored(1)]
        assert poller.end(KEY) == 0
        poller.poll()
        assert poller.end(KEY) == 2
        source.reachable = False
        poller.poll()
        source.reachable = True
        source.log = [stored(0), stored(1, epoch=1, seq=9)]
        poller.poll()
    assemble(tmp_path)
    rows = read_table(tmp_path, "sightings").to_pylist()
    assert [(row["offset"], row["seq"], row["gone_ns"] is None) for row in rows] == [
        (0, 0, True),
        (1, 1, False),
        (1, 9, True),
    ]


def test_files_are_followed_like_the_wire(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    source, tail = FileSource(tmp_path), ReplicaTail(topic_partition=KEY, broker=1)

    def look(*log: bytes) -> tuple[list[object], list[object]]:
        (folder / "00000000000000000000.log").write_bytes(b"".join(log))
        offsets: tuple[list[object], list[object]] = ([], [])
        for _ in range(5):
            fresh, gone = tail.update(source.read({KEY: tail.start}, 1)[KEY], 0)
            offsets[0].extend(row["offset"] for row in fresh)
            offsets[1].extend(row["offset"] for row in gone)
            if tail.probe_back == 1:
                break
        return offsets

    assert look(stored(0), stored(1)) == ([0, 1], [])
    assert look(stored(0), stored(1), stored(2)) == ([2], [])
    assert look(stored(0)) == ([], [1, 2])
    assert look(stored(0), stored(1, epoch=1)) == ([1], [])
    assert look(bytes(100)) == ([], [0, 1])


def test_files_whose_first_segments_were_removed(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    segment = folder / "00000000000000000000.log"
    segment.write_bytes(stored(0) + stored(1))
    source, tail = FileSource(tmp_path), ReplicaTail(topic_partition=KEY, broker=1)
    tail.update(source.read({KEY: tail.start}, 1)[KEY], 0)
    segment.unlink()
    (folder / "00000000000000000002.log").write_bytes(stored(2))
    fresh, gone = tail.update(source.read({KEY: tail.start}, 1)[KEY], 0)
    assert ([row["offset"] for row in fresh], gone) == ([2], [])


def test_a_broker_is_asked_where_a_log_begins_whose_beginning_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "harness.observer.tail.fetch_own_logs",
        lambda _to, offsets, _max, *, dialect: {key: Fetched(error=OFFSET_OUT_OF_RANGE) for key in offsets},
    )
    asked: list[tuple[TopicPartition, int]] = []

    def starts(
        _to: object, keys: list[TopicPartition], *, at: int, dialect: object
    ) -> dict[TopicPartition, Offset]:
        asked.extend((key, at) for key in keys)
        return {key: Offset(7, 0) for key in keys}

    monkeypatch.setattr("harness.observer.tail.end_offsets", starts)
    connection: Any = None
    read = WireSource(connection, MODERN).read({KEY: 0}, 1)
    assert read == {KEY: Fetched(error=OFFSET_OUT_OF_RANGE, log_start=7)}
    assert asked == [(KEY, EARLIEST)]


def test_files_of_a_replica_that_is_not_there(tmp_path: Path) -> None:
    assert FileSource(tmp_path).read({KEY: 0}, 1)[KEY].error == 3


@pytest.mark.parametrize("start", [1, 2, 3])
def test_files_in_several_segments(tmp_path: Path, start: int) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(stored(0) + stored(1))
    (folder / "00000000000000000002.log").write_bytes(stored(2) + stored(3))
    source = FileSource(tmp_path)
    for _ in range(2):
        found = source.read({KEY: start}, 1)[KEY]
        assert [r.offset for r in found.records] == list(range(start, 4))
