"""Following a replica: records that appear on it or vanish again are reported exactly once."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.util import calc_crc32c

from harness.history.assemble import assemble
from harness.history.identity import encode
from harness.history.journal import Journal
from harness.history.sightings import SUFFIX
from harness.history.tables import read_table
from harness.host_files import Folder
from harness.kafka.batches import parse
from harness.kafka.headers import Headers
from harness.kafka.model import OFFSET_OUT_OF_RANGE, TopicPartition
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.logs import FetchResult
from harness.kafka.wire.offsets import EARLIEST, Offset
from harness.kafka.wire.produce import one_record_batch
from harness.observer.bodies import DecodedBodies
from harness.observer.decoder import Decoder, HeaderReader
from harness.observer.replica_tail import FETCH_BYTES, ReplicaTail
from harness.observer.tail import FileSource, TailPoller, WatchedLogs, WireSource

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


def answer(
    log: list[bytes],
    offset: int,
    limit: int = 1 << 20,
    *,
    rolled: Sequence[int] = (),
    log_start: int = 0,
    high_watermark: int = 0,
) -> FetchResult:
    """The answer to a FetchRequest on a log of one-message batches; segments begin at ``rolled``."""
    if not log_start <= offset <= len(log):
        return FetchResult(error=1, log_start=log_start)
    raw = b"".join(log[offset : min((roll for roll in rolled if roll > offset), default=len(log))])[:limit]
    return FetchResult(
        raw=raw,
        offset=offset,
        high_watermark=high_watermark,
        log_start=log_start,
        size_bytes=len(raw),
        limit_bytes=limit,
    )


def bodies() -> DecodedBodies:
    return DecodedBodies(Decoder(1 << 60))


class Follower:
    """Follows a log until nothing is pending, and keeps the events that it reported."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self.tail = ReplicaTail(topic_partition=KEY, bodies=bodies())
        self.limit = limit
        self.alive: dict[int, tuple[object, object]] = {}
        self.events: list[tuple[str, object]] = []

    def follow(
        self, log: list[bytes], ns: int = 0, *, rolled: Sequence[int] = (), log_start: int = 0
    ) -> None:
        self.tail.look()
        for _ in range(500):
            limit = self.limit * self.tail.max_bytes // FETCH_BYTES
            fetched = answer(log, self.tail.start, limit, rolled=rolled, log_start=log_start)
            fresh, gone = self.tail.update(fetched, ns)
            for one in gone:
                first = {int(row["offset"]): (int(row["epoch"]), int(row["seen_ns"])) for row in one.batches}
                offsets = range(one.from_offset, one.to_offset)
                there = [offset for offset in offsets if offset in self.alive]
                assert {offset: self.alive.pop(offset) for offset in there} == first
                self.events += [("gone", offset) for offset in there]
            for row in fresh:
                offset = int(row["offset"])
                assert offset not in self.alive
                self.alive[offset] = (int(row["epoch"]), int(row["seen_ns"]))
                self.events.append(("seen", offset))
            if not self.tail.looking:
                assert self.tail.leo == len(log)
                return
        raise AssertionError("the follower never came to an end")


def test_new_records_are_reported_once() -> None:
    follower, log = Follower(), [stored(0), stored(1)]
    follower.follow(log)
    follower.follow(log)
    log.append(stored(2))
    follower.follow(log)
    assert follower.events == [("seen", 0), ("seen", 1), ("seen", 2)]


def test_a_quiet_log_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hundreds of partitions most logs are quiet at most looks."""
    follower, log = Follower(), [stored(0), stored(1)]
    read = follower.tail.bodies.headers
    asked: list[bytes] = []

    def headers(answers: Sequence[FetchResult]) -> list[Headers]:
        asked.extend(fetched.raw for fetched in answers)
        return read(answers)

    monkeypatch.setattr(follower.tail.bodies, "headers", headers)
    follower.follow(log)
    for _ in range(5):
        follower.tail.look()
        follower.tail.update(replace(answer(log, follower.tail.start), limit_bytes=1 << 30), 1)
    assert asked.count(log[-1]) == 1
    log[-1] = stored(1, epoch=1)
    follower.follow(log)
    assert follower.events == [("seen", 0), ("seen", 1), ("gone", 1), ("seen", 1)]


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


def test_an_error_tells_nothing() -> None:
    follower = Follower()
    follower.follow([stored(0)])
    seen, gone = follower.tail.update(FetchResult(error=6), 0)
    assert (len(seen), gone) == (0, ())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=8),
    st.integers(150, 4000),
    st.lists(st.integers(1, 40), max_size=6),
    st.lists(st.integers(0, 40), max_size=8),
)
def test_after_any_history_the_follower_knows_the_log(
    steps: list[tuple[int, int]], limit: int, rolled: list[int], removed: list[int]
) -> None:
    follower, log, log_start = Follower(limit), list[bytes](), 0
    for epoch, (keep, add) in enumerate(steps):
        log = log[: max(keep, log_start)]
        log += [stored(len(log) + n, epoch=epoch, seq=1000 * epoch + n) for n in range(add)]
        log_start = max(log_start, min(removed[epoch] if epoch < len(removed) else 0, len(log)))
        follower.follow(log, ns=epoch, rolled=rolled, log_start=log_start)
        epoch_by_offset = {offset: epoch for offset, (epoch, _) in follower.alive.items()}
        assert epoch_by_offset == {
            r.offset: r.epoch for r in parse(b"".join(log)).records if r.offset >= log_start
        }


def test_the_beginning_of_a_long_log_is_forgotten() -> None:
    """Memory does not grow with the log, and what is remembered is still compared."""
    follower, log = Follower(), [stored(offset) for offset in range(8)]
    for end in range(1, 9):
        follower.follow(log[:end])
        follower.tail.forget(2)
    assert follower.tail.batches["offset"].tolist() == [6, 7] or len(follower.tail.batches) < 4
    assert [name for name, _ in follower.events] == ["seen"] * 8
    follower.events.clear()
    follower.follow(log[:7])
    assert follower.events == [("gone", 7)]


def test_a_truncation_into_the_forgotten_beginning_starts_anew() -> None:
    follower, log = Follower(), [stored(offset) for offset in range(8)]
    follower.follow(log)
    follower.tail.forget(2)
    follower.events.clear()
    follower.follow(log[:3])
    assert [event for event in follower.events if event[0] == "gone"] == [("gone", 6), ("gone", 7)]
    assert follower.tail.end == 3


def test_records_of_the_next_segment_are_reported() -> None:
    follower, log = Follower(), [stored(0), stored(1)]
    follower.follow(log, rolled=[2, 3])
    log += [stored(2), stored(3)]
    follower.follow(log, rolled=[2, 3])
    assert follower.events == [("seen", offset) for offset in range(4)]


def test_truncation_to_an_earlier_segment_is_reported() -> None:
    follower, log = Follower(), [stored(n) for n in range(9)]
    follower.follow(log, rolled=[2, 4, 6])
    follower.follow([*log[:5], stored(5, epoch=1), stored(6, epoch=1)], rolled=[2, 4, 6])
    assert follower.events[9:] == [
        *(("gone", offset) for offset in range(5, 9)),
        *(("seen", offset) for offset in (5, 6)),
    ]


def test_a_segment_written_between_two_fetches_is_compared_with_the_one_before() -> None:
    """The end of a segment is rewritten, and the next one is begun, between the fetches of one look."""
    follower = Follower()
    before = [stored(0), stored(1)]
    follower.follow(before)
    follower.tail.look()
    follower.tail.update(answer(before, follower.tail.start), 0)
    after = [stored(0), stored(1, epoch=1, seq=9), stored(2, epoch=1)]
    fresh, _ = follower.tail.update(answer(after, follower.tail.start, rolled=[2]), 0)
    follower.alive[2] = (1, 0)
    assert [row["offset"] for row in fresh] == [2]
    follower.follow(after, rolled=[2])
    assert {offset: epoch for offset, (epoch, _) in follower.alive.items()} == {0: 0, 1: 1, 2: 1}


@pytest.mark.parametrize("rolled", [[], [2, 3]], ids=["on request", "by retention"])
def test_records_before_the_log_start_are_gone(rolled: list[int]) -> None:
    follower, log = Follower(), [stored(n) for n in range(4)]
    follower.follow(log, rolled=rolled)
    follower.follow(log, rolled=rolled, log_start=3)
    assert follower.events[4:] == [("gone", 0), ("gone", 1), ("gone", 2)]
    log += [stored(n) for n in range(4, 7)]
    follower.follow(log, rolled=rolled, log_start=5)
    assert sorted(follower.alive) == [5, 6]
    follower.follow(log, rolled=rolled, log_start=7)
    assert (follower.alive, follower.tail.end) == ({}, 7)


def test_a_log_that_began_before_the_first_look_is_read_from_its_start() -> None:
    follower, log = Follower(), [stored(n) for n in range(4)]
    follower.follow(log, log_start=2)
    assert follower.events == [("seen", 2), ("seen", 3)]


def test_a_replica_that_starts_again_before_its_log_start() -> None:
    """A wiped follower is empty at offset 0 until it copies the leader's log from its start."""
    follower, log = Follower(), [stored(n) for n in range(4)]
    follower.follow(log, log_start=2)
    follower.follow([])
    assert follower.alive == {}
    follower.follow(log, log_start=2)
    assert sorted(follower.alive) == [2, 3]


class Memory:
    """A log source in memory that can be unreachable."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.rolled: Sequence[int] = ()
        self.log_start = self.high_watermark = 0
        self.reachable = True

    def read(
        self, offsets: Mapping[TopicPartition, int], max_bytes: int
    ) -> dict[TopicPartition, FetchResult]:
        if not self.reachable:
            raise ConnectionRefusedError("down")
        state = {"log_start": self.log_start, "high_watermark": self.high_watermark}
        return {key: answer(self.log, offset, rolled=self.rolled, **state) for key, offset in offsets.items()}

    def close(self) -> None:
        pass


def test_a_broker_that_restarts_loses_nothing_by_being_away(tmp_path: Path) -> None:
    source = Memory()
    with Journal(tmp_path / "journal" / "observer.jsonl") as journal:
        poller = TailPoller("broker1", 1, source, lambda: (KEY,), journal, bodies())
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


class Clock:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ns = 10**9
        monkeypatch.setattr("harness.observer.tail.now_ns", lambda: self.ns)

    def pass_s(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)


def late(run: Path) -> list[tuple[int, ...]]:
    assemble(run)
    names = ("since_ns", "ns", "from_offset", "to_offset", "broker")
    rows = read_table(run, "unobserved").to_pylist()
    assert all((row["source"], row["late"], row["topic"]) == ("tail", True, "t") for row in rows)
    return [tuple(row[name] for name in names) for row in rows]


def test_what_a_slow_tail_sees_late_is_a_fact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, source = Clock(monkeypatch), Memory()
    with Journal(tmp_path / "journal" / "observer.jsonl") as journal:
        poller = TailPoller("broker1", 1, source, lambda: (KEY,), journal, bodies())
        for length in (1, 2, 2, 5, 6):
            source.log = [stored(number) for number in range(length)]
            poller.poll()
            clock.pass_s(0.9 if length < 5 else 1.1)
        clock.pass_s(5)
        poller.poll()
    assert late(tmp_path) == [(int(3.7e9), int(4.8e9), 5, 6, 1)]


def test_a_backlog_that_takes_several_fetches_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, source = Clock(monkeypatch), Memory()
    read = source.read

    def slowly(offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, FetchResult]:
        clock.pass_s(0.6)
        return read(offsets, max_bytes)

    with Journal(tmp_path / "journal" / "observer.jsonl") as journal:
        poller = TailPoller("broker1", 1, source, lambda: (KEY,), journal, bodies())
        source.log = [stored(number) for number in range(2)]
        poller.poll()
        monkeypatch.setattr(source, "read", slowly)
        source.log, source.rolled = [stored(number) for number in range(9)], (2, 4, 6, 8)
        poller.poll()
    ((since, ns, *rest),) = late(tmp_path)
    assert (since, rest) == (10**9, [2, 9, 1]) and ns > since + int(2e9)


def test_a_broker_that_does_not_answer_makes_nothing_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that is paused and answers later: what it has then, it has just got."""
    clock, source = Clock(monkeypatch), Memory()
    with Journal(tmp_path / "journal" / "observer.jsonl") as journal:
        poller = TailPoller("broker1", 1, source, lambda: (KEY,), journal, bodies())
        source.log = [stored(0)]
        poller.poll()
        for reachable in (False, False, True):
            clock.pass_s(0.9)
            source.reachable = reachable
            source.log.append(stored(len(source.log)))
            poller.poll()
        read = source.read

        def paused(
            offsets: Mapping[TopicPartition, int], max_bytes: int
        ) -> dict[TopicPartition, FetchResult]:
            clock.pass_s(4)
            monkeypatch.setattr(source, "read", read)
            return read(offsets, max_bytes)

        monkeypatch.setattr(source, "read", paused)
        source.log.append(stored(len(source.log)))
        poller.poll()
    assert late(tmp_path) == []


def test_a_watched_log_is_followed_from_an_offset_and_written_when_it_is_gone_or_at_the_end(
    tmp_path: Path,
) -> None:
    source = Memory()
    watched = WatchedLogs(first={KEY: 2}, last=2, remembered=100)
    path = tmp_path / "journal" / "observer.jsonl"
    with Journal(path) as journal:
        poller = TailPoller(
            "broker1", 1, source, lambda: (KEY,), journal, DecodedBodies(HeaderReader()), watched
        )
        source.log = [stored(number) for number in range(5)]
        poller.poll()
        assert not list(path.parent.glob(f"*{SUFFIX}")), "its size does not grow with the log's"
        source.log = [*source.log[:4], stored(4, epoch=1)]
        poller.poll()
        poller.close()
    assemble(tmp_path)
    rows = read_table(tmp_path, "sightings").to_pylist()
    assert [(row["offset"], row["epoch"], row["gone_ns"] is None) for row in rows] == [
        (2, 0, True),
        (3, 0, True),
        (4, 0, False),
        (4, 1, True),
    ]


def test_files_are_followed_like_the_wire(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    source, tail = FileSource(Folder(tmp_path)), ReplicaTail(topic_partition=KEY, bodies=bodies())

    def look(*log: bytes) -> tuple[list[object], list[object]]:
        (folder / "00000000000000000000.log").write_bytes(b"".join(log))
        offsets: tuple[list[object], list[object]] = ([], [])
        tail.look()
        for _ in range(5):
            fresh, gone = tail.update(source.read({KEY: tail.start}, 1)[KEY], 0)
            offsets[0].extend(fresh["offset"].tolist())
            offsets[1].extend(offset for one in gone for offset in one.batches["offset"].tolist())
            if not tail.looking:
                break
        return offsets

    assert look(stored(0), stored(1)) == ([0, 1], [])
    assert look(stored(0), stored(1), stored(2)) == ([2], [])
    assert look(stored(0)) == ([], [1, 2])
    assert look(stored(0), stored(1, epoch=1)) == ([1], [])
    assert look(bytes(100)) == ([], [0, 1])


def test_files_after_retention_name_the_log_start(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000002.log").write_bytes(stored(2) + stored(3))
    for offset in (1, 5):
        contents = FileSource(Folder(tmp_path)).read({KEY: offset}, 1)[KEY]
        assert (contents.error, contents.log_start) == (1, 2)


def test_a_broker_is_asked_where_a_log_begins_whose_beginning_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "harness.observer.tail.fetch_own_logs",
        lambda _to, offsets, _max, *, dialect, bodies: {
            key: FetchResult(error=OFFSET_OUT_OF_RANGE) for key in offsets
        },
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
    assert read == {KEY: FetchResult(error=OFFSET_OUT_OF_RANGE, log_start=7)}
    assert asked == [(KEY, EARLIEST)]


def test_files_of_a_replica_that_is_not_there(tmp_path: Path) -> None:
    assert FileSource(Folder(tmp_path)).read({KEY: 0}, 1)[KEY].error == 3


@pytest.mark.parametrize("start", [1, 2, 3])
def test_files_in_several_segments(tmp_path: Path, start: int) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(stored(0) + stored(1))
    (folder / "00000000000000000002.log").write_bytes(stored(2) + stored(3))
    source = FileSource(Folder(tmp_path))
    for _ in range(2):
        contents = source.read({KEY: start}, 1)[KEY]
        assert [r.offset for r in contents.records] == list(range(start, 4))
