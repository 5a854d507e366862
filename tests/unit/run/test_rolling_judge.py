"""The rolling judge with real journals and real batches, and brokers that are lists in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.clock import now_ns
from harness.errors import BadDataError, WaitTimeoutError
from harness.history.identity import ValueTemplate
from harness.history.read_journal import ReadJournal, ReceivedRecord
from harness.history.stream_journal import StreamJournal
from harness.host_files import Folder
from harness.kafka.headers import headers
from harness.kafka.model import Endpoint, PartitionState, TopicPartition
from harness.kafka.wire.admin import RequestResult
from harness.kafka.wire.dialect import MODERN
from harness.observer.decoder import Decoder
from harness.waiting import wait_until
from run.soak import judge as judging
from run.soak.deliveries import Deliveries
from run.soak.judge import Live, RollingJudge
from run.soak.replicas import Batches, Replicas, copies_of
from run.soak.streams import Streams
from run.soak.transactions import Transactions
from tests.unit.wire.record_bytes import batch

KEY = TopicPartition("t", 0)
BROKERS = (1, 2, 3)


class Logs(Replicas):
    """Replicas in memory: batches by broker, each with its first offset and the one after it."""

    def __init__(self) -> None:
        super().__init__({}, Decoder())
        self.batches: dict[int, list[tuple[int, int, bytes]]] = {broker: [] for broker in BROKERS}
        self.silent: set[int] = set()
        self.log_start = 0

    def read(
        self, wanted: Mapping[int, Mapping[TopicPartition, int]], at_most: int
    ) -> dict[TopicPartition, dict[int, Batches]]:
        found: dict[int, Batches] = {}
        for broker, offsets in wanted.items():
            if broker not in self.silent and KEY in offsets:
                raw = b""
                for _, batch_end, one in list(self.batches[broker]):
                    if batch_end > offsets[KEY] and (not raw or len(raw) + len(one) <= at_most):
                        raw += one
                end = max((end for _, end, _ in self.batches[broker]), default=0)
                if inside := self.log_start <= offsets[KEY] <= end:
                    found[broker] = Batches.of(headers(raw))
                else:
                    found[broker] = Batches.of(headers(b""), beyond=not inside)
        return {KEY: found}

    def truncate(self, broker: int, offset: int) -> None:
        self.batches[broker] = [one for one in self.batches[broker] if one[1] <= offset]


class World:
    """A producer, three replicas of a partition, and the judge."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, readers: int = 0) -> None:
        self.readers = readers
        monkeypatch.setattr(judging, "_WINDOW_S", 0.0)
        monkeypatch.setattr(judging, "_EVERY_S", 0.01)
        monkeypatch.setattr(judging, "_LIVE_S", 0.0)
        self.deleted: list[int] = []
        monkeypatch.setattr(judging, "delete_records", self._delete)
        self.journal = StreamJournal(folder / "client.1.sends", 1, [KEY])
        self.journal_of_reader = ReadJournal(
            folder / "client.jsonl", 7, group="g", isolation="read_committed", topics=["t"]
        )
        self.values = ValueTemplate.of(1, "t", 0, 100)
        self.logs = Logs()
        self.state = PartitionState(leader=1, leader_epoch=0, isr=BROKERS, replicas=BROKERS)
        self.seq = self.end = 0
        self.folder = folder
        self.told: list[Live] = []
        self.judge = self.make_judge()

    def make_judge(self) -> RollingJudge:
        """A judge of its journals and logs."""
        streams = Streams([Folder(self.folder)])
        transactions = Transactions([Folder(self.folder)], streams)
        return RollingJudge(
            assignment={KEY: BROKERS},
            streams=streams,
            transactions=transactions,
            deliveries=Deliveries([Folder(self.folder)], streams, transactions),
            replicas=self.logs,
            state_of=lambda key: self.state,
            endpoints={broker: Endpoint("localhost", 9092) for broker in BROKERS},
            dialect=MODERN,
            folder=self.folder,
            readers=self.readers,
            seen=self.told.append,
        )

    def receive(self, offsets: range) -> None:
        """A reader receives the messages that were acknowledged at some offsets, and commits."""
        self.journal_of_reader.append(
            ReceivedRecord(topic="t", partition=0, ns=1000 + at, offset=at, epoch=0, writer=1, seq=at, poll=0)
            for at in offsets
        )
        row = {"table": "groups", "ns": 1, "group": "g", "reader": 7, "event": "committed"}
        line = json.dumps({**row, **KEY._asdict(), "offset": offsets.stop}, separators=(",", ":"))
        with (self.folder / "client.jsonl").open("a") as file:
            file.write(line + "\n")

    def _delete(self, _target: object, _key: TopicPartition, before: int, **_: object) -> RequestResult:
        self.deleted.append(before)
        self.logs.log_start = before
        return RequestResult(0)

    def send(self, messages: int, brokers: tuple[int, ...] = BROKERS, *, times: int = 1) -> None:
        """A batch, acknowledged; with ``times`` it is in the log so often, and the last one acknowledged."""
        seqs = range(self.seq, self.seq + messages)
        for seq in seqs:
            self.journal.begin(seq, 0, now_ns())
        for _ in range(times):
            epoch = self.state.leader_epoch or 0
            raw = batch(self.end, *map(self.values.value, seqs), epoch=epoch)
            for broker in brokers:
                self.logs.batches[broker].append((self.end, self.end + messages, raw))
            self.end += messages
        for seq in seqs:
            offset = self.end - messages + seq - self.seq
            self.journal.complete(seq, done_ns=now_ns(), outcome="ok", offset=offset)
        self.seq += messages

    def wait_judged(self, offset: int) -> None:
        wait_until(
            lambda: self.judge.parts[KEY].rolling.judged,
            accept=lambda judged: judged >= offset,
            within_s=20,
            awaiting=f"offset {offset} to be judged",
            poll_s=0.01,
        )

    def elect(self, leader: int, isr: tuple[int, ...], log_end: int) -> None:
        """A new leader, whose log becomes that of all."""
        epoch = (self.state.leader_epoch or 0) + 1
        self.state = PartitionState(leader=leader, leader_epoch=epoch, isr=isr, replicas=BROKERS)
        self.end = log_end

    def finish(self) -> dict[tuple[str, str], int]:
        self.journal.close()
        self.judge.finish()
        return {
            (str(row["outcome"]), str(row["fate"])): int(str(row["count"])) for row in self.judge.settled()
        }


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    made.judge.start()
    yield made
    made.judge.close()


@pytest.fixture
def read_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch, readers=1)
    made.judge.start()
    yield made
    made.judge.close()


def test_what_stands_where_it_was_acknowledged_is_settled(world: World) -> None:
    for _ in range(20):
        world.send(50)
    world.wait_judged(500)
    world.send(50)
    settled = world.finish()
    assert settled[("ok", "kept")] + world.judge.sends().num_rows == 1050
    assert world.judge.sends()["seq"].to_pylist() == [0, 1049], "the ends of the log"
    assert not world.judge.live.lost and world.judge.live.ended == 1050
    assert [world.judge.end(KEY, broker) for broker in BROKERS] == [1050] * 3


def test_what_a_leader_acknowledged_alone_and_truncated_is_lost_to_the_message(world: World) -> None:
    """An acks=1 leader is cut off: its windows close without the followers, and are judged again."""
    world.send(100)
    world.wait_judged(100)
    world.state = PartitionState(leader=1, leader_epoch=0, isr=(1,), replicas=BROKERS)
    world.send(40, (1,))
    world.wait_judged(140)
    assert not world.judge.live.lost
    world.elect(2, (2, 3), 100)
    world.send(10, (2, 3))
    world.logs.truncate(1, 100)
    world.logs.batches[1] += world.logs.batches[2][-1:]
    world.elect(2, BROKERS, world.end)
    world.send(30)  # only then the log reaches the offsets of all that is gone
    wait_until(
        lambda: world.judge.live.lost,
        accept=lambda lost: lost == {1: 40},
        within_s=20,
        awaiting="the loss of 40 messages to be seen",
        poll_s=0.01,
    )
    world.send(30)
    world.finish()
    assert world.judge.live.lost == {1: 40} and world.judge.live.reopened
    rest = world.judge.sends()["seq"].to_pylist()
    assert set(range(100, 140)) <= set(rest)
    assert len(rest) == 82, "40 lost, 40 at their offsets, and both ends of the log"
    seen = world.judge.sightings().to_pylist()
    assert {(row["broker"], row["epoch"]) for row in seen if row["seq"] in range(100, 140)} == {(1, 0)}


def test_what_an_isolated_leader_goes_on_to_hold_is_seen(world: World) -> None:
    world.send(20)
    world.wait_judged(20)
    world.send(15, (1,))  # nobody in the ISR has it
    world.elect(2, (2, 3), 20)
    world.send(30, (2, 3))
    world.wait_judged(50)
    world.logs.truncate(1, 20)
    world.logs.batches[1] += world.logs.batches[2][-1:]
    world.finish()
    assert world.judge.live.lost == {1: 15}
    seen = {
        (row["broker"], row["offset"], row["seq"], row["epoch"])
        for row in world.judge.sightings().to_pylist()
    }
    assert seen == {(1, offset, offset, 0) for offset in range(20, 35)}


def test_what_no_follower_fetches_is_seen_while_its_leader_leads(world: World) -> None:
    world.send(20)
    world.wait_judged(20)
    world.send(15, (1,))
    wait_until(
        lambda: world.judge.parts[KEY].sighted,
        accept=lambda sighted: sighted == {1: 35},
        within_s=20,
        awaiting="the leader's records to be seen",
        poll_s=0.01,
    )
    world.logs.truncate(1, 20)
    world.elect(2, (2, 3), 20)
    world.send(30, (1, 2, 3))
    world.finish()
    assert world.judge.live.lost == {1: 15}
    seen = {(row["broker"], row["seq"]) for row in world.judge.sightings().to_pylist()}
    assert seen == {(1, seq) for seq in range(20, 35)}


def test_a_judgement_that_is_far_behind_goes_on_until_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look closes a window, and there is time for two looks without one."""
    closed = 0

    def close_one(*_: object) -> bool:
        nonlocal closed
        closed += 1
        world.judge.parts[KEY].rolling.start = closed
        return closed == 6

    monkeypatch.setattr("run.soak.judge._FINISH_S", 0.1)
    monkeypatch.setattr(world.judge, "_closed_to_the_end", close_one)
    world.judge._close_to_the_end()
    assert closed == 6
    monkeypatch.setattr(world.judge, "_closed_to_the_end", lambda: False)
    with pytest.raises(WaitTimeoutError, match="show more of their logs"):
        world.judge._close_to_the_end()


def test_a_judge_that_is_behind_leaves_messages_in_the_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    monkeypatch.setattr(judging, "_READ_BYTES", 6000)
    monkeypatch.setattr(judging, "_MOST_WAITING", 60)
    monkeypatch.setattr("run.soak.streams.ROWS_AT_ONCE", 100)
    for _ in range(80):
        world.send(10)
    part = world.judge.parts[KEY].rolling
    waited = list[int]()
    close_windows = world.judge._close_windows

    def noting(*, final: bool) -> bool:
        waited.append(part.waiting)
        return close_windows(final=final)

    monkeypatch.setattr(world.judge, "_close_windows", noting)
    world.judge.start()
    world.wait_judged(800)
    assert len(part.windows) > 10 and max(waited) <= 160
    world.finish()
    world.judge.close()
    assert world.judge.live.ended == world.judge.live.judged == 800


def test_a_judge_that_is_behind_takes_the_message_for_which_a_window_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    monkeypatch.setattr(judging, "_MOST_WAITING", -1)
    for _ in range(5):
        world.send(10)
    world.judge.start()
    world.wait_judged(50)
    assert world.finish()[("ok", "kept")] == 48
    world.judge.close()


def test_a_judge_that_is_behind_reads_only_the_journals_for_which_windows_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages of the others would wait in memory for the same window."""
    world = World(tmp_path, monkeypatch)
    monkeypatch.setattr(judging, "_MOST_WAITING", -1)
    asked = list[Collection[int] | None]()

    def noting(
        *, only: Collection[int] | None = None, all_of_it: bool = False
    ) -> Mapping[TopicPartition, Any]:
        asked.append(only)
        return {}

    monkeypatch.setattr(world.judge._streams, "take", noting)
    part = world.judge.parts[KEY]
    assert world.judge._take_some(closing=True) and asked == []
    world.judge._take_some(closing=False)
    part.pending = judging.Pending(offset=7, writer=1, seq=5)
    world.judge._take_some(closing=True)
    assert asked == [None, {1}]
    world.judge.close()


def test_a_stream_that_began_since_the_pass_did_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records would be judged as nobody's: the judge has not looked at its journal yet."""
    world = World(tmp_path, monkeypatch)
    world.send(10)
    log = world.logs.read({1: {KEY: 0}}, 1 << 20)[KEY][1]
    copies = copies_of(log.decoded(world.logs.decoder), KEY)
    assert not world.judge._streams.taken
    assert world.judge._first_pending(copies) == judging.Pending(offset=0, writer=1, seq=0)
    world.judge.close()


def test_a_window_that_waited_is_closed_soon_if_the_journals_hold_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, monkeypatch)
    part, streams = world.judge.parts[KEY], world.judge._streams
    world.send(10)
    streams.look()
    part.due_s, part.pending = time.monotonic() + 600, judging.Pending(offset=7, writer=1, seq=9)
    streams.more = True
    assert not world.judge._due(part)
    world.judge._take()
    streams.more = True
    assert world.judge._due(part)
    streams.more = False
    assert not world.judge._due(part)
    world.judge.close()


def test_the_replicas_of_few_partitions_are_in_memory_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_HELD_BYTES", 7 * judging._READ_BYTES)
    asked: list[set[int]] = []

    class Many(Replicas):
        def read(
            self, wanted: Mapping[int, Mapping[TopicPartition, int]], at_most: int
        ) -> dict[TopicPartition, dict[int, Batches]]:
            asked.append({key.partition for offsets in wanted.values() for key in offsets})
            return {}

    streams = Streams([Folder(tmp_path)])
    transactions = Transactions([Folder(tmp_path)], streams)
    judge = RollingJudge(
        assignment={TopicPartition("t", number): BROKERS for number in range(5)},
        streams=streams,
        transactions=transactions,
        deliveries=Deliveries([Folder(tmp_path)], streams, transactions),
        replicas=Many({}, Decoder()),
        state_of=lambda key: None,
        endpoints={},
        dialect=MODERN,
        folder=tmp_path,
    )
    assert not judge._close_windows(final=True)
    assert asked == [{0, 1}, {2, 3}, {4}]
    judge.close()


def test_what_is_in_the_log_twice_is_found_long_after_it_was_settled(world: World) -> None:
    world.send(20)
    world.wait_judged(20)
    world.send(30, times=2)
    copy = world.logs.batches[1][0]
    raw = batch(world.end, *map(world.values.value, range(20)))
    for broker in BROKERS:
        world.logs.batches[broker].append((world.end, world.end + 20, raw))
    world.end += 20
    assert copy[1] == 20
    world.finish()
    assert world.judge.live.duplicated == {1: 50}


def test_only_what_all_replicas_were_found_to_hold_is_deleted(world: World) -> None:
    world.logs.silent = {3}
    world.state = PartitionState(leader=1, leader_epoch=0, isr=(1, 2), replicas=BROKERS)
    for _ in range(5):
        world.send(20)
    world.wait_judged(100)
    world.judge.compare_again()
    before = world.judge.live.compared
    wait_until(
        lambda: world.judge.live.compared,
        accept=lambda compared: compared > before,
        within_s=20,
        awaiting="windows to be compared",
        poll_s=0.01,
    )
    assert world.deleted == []
    world.logs.silent = set()
    wait_until(
        lambda: world.judge.live.deleted,
        within_s=20,
        awaiting="records to be deleted, and counted",
        poll_s=0.01,
    )
    assert world.deleted == [100] and world.judge.live.deleted == 100
    assert all(one[1] <= 100 for one in world.logs.batches[1])
    world.send(10)
    assert world.finish()[("ok", "kept")] + world.judge.sends().num_rows == 110


def test_nothing_is_deleted_that_a_reader_has_not_committed(read_world: World) -> None:
    world = read_world
    world.send(20)
    world.wait_judged(20)
    world.receive(range(35))
    for offset in (40, 60):
        world.send(20)
        world.wait_judged(offset)
    world.judge.compare_again()
    wait_until(lambda: world.deleted, within_s=20, awaiting="records to be deleted", poll_s=0.01)
    settled = world.finish()
    assert world.deleted == [20], "a window is deleted as a whole, or its rest could not be compared"
    assert not world.judge.live.lost
    assert settled[("ok", "kept")] + world.judge.sends().num_rows == 60


def test_what_was_judged_anew_is_not_deleted_before_it_was_compared_again(read_world: World) -> None:
    """A comparison had reached farther before records were lost, and a reader lets them be deleted now."""
    world = read_world
    for offset in (20, 40, 60):
        world.send(20)
        world.wait_judged(offset)
    world.receive(range(20))
    world.judge.compare_again()
    wait_until(lambda: world.deleted, within_s=20, awaiting="records to be deleted", poll_s=0.01)
    assert world.judge.parts[KEY].proved == 60
    world.logs.silent = {1}
    world.logs.truncate(2, 40)
    world.logs.truncate(3, 40)
    world.elect(2, (2, 3), 40)
    world.judge.compare_again()
    world.send(20, (2, 3))
    wait_until(
        lambda: world.judge.live.reopened,
        within_s=20,
        awaiting="the windows that are gone to be opened",
        poll_s=0.01,
    )
    world.wait_judged(60)
    world.receive(range(20, 60))
    wait_until(
        lambda: world.judge.live.received,
        accept=lambda received: received == 60,
        within_s=20,
        awaiting="what was read to be looked at",
        poll_s=0.01,
    )
    passes = len(world.told)
    wait_until(lambda: len(world.told) > passes + 20, within_s=20, awaiting="20 more passes", poll_s=0.01)
    assert max(world.deleted) <= 40


def test_a_message_that_was_lost_after_it_was_read_is_among_the_reads(read_world: World) -> None:
    world = read_world
    world.send(100)
    world.wait_judged(100)
    world.state = PartitionState(leader=1, leader_epoch=0, isr=(1,), replicas=BROKERS)
    world.send(40, (1,))
    world.wait_judged(140)
    world.receive(range(120))
    wait_until(
        lambda: world.judge.live.received,
        accept=lambda received: received == 120,
        within_s=20,
        awaiting="120 deliveries to be looked at",
        poll_s=0.01,
    )
    world.elect(2, (2, 3), 100)
    world.send(60, (2, 3))
    world.logs.truncate(1, 100)
    world.logs.batches[1] += world.logs.batches[2][-1:]
    world.elect(2, BROKERS, world.end)
    world.finish()
    assert world.judge.live.lost == {1: 40}
    reads = world.judge.reads()["seq"].to_pylist()
    assert set(range(100, 120)) <= set(reads), "20 of them were read"
    assert len(reads) < 80, "those of settled messages are forgotten"


def test_a_follower_that_differs_at_the_end_is_part_of_the_rest(world: World) -> None:
    for _ in range(4):
        world.send(25)
    world.wait_judged(100)
    other = batch(50, *map(world.values.value, range(25)))
    world.logs.batches[3][2] = (50, 75, other)
    world.finish()
    copies = world.judge.copies().to_pylist()
    named = {(row["broker"], row["offset"]): row["seq"] for row in copies}
    assert [named[3, offset] for offset in range(50, 75)] == list(range(25))
    assert [named[1, offset] for offset in range(50, 75)] == list(range(50, 75))
    offsets = sorted({row["offset"] for row in copies if row["broker"] == 1})
    assert all(one < other for one, other in pairwise(offsets))


def test_a_killed_judge_goes_on_from_what_it_stored_before_it_deleted(world: World) -> None:
    world.send(20, times=2)
    for _ in range(5):
        world.send(20)
    world.wait_judged(140)
    world.judge.compare_again()
    wait_until(lambda: world.deleted, within_s=20, awaiting="records to be deleted", poll_s=0.01)
    world.judge.close()  # without a judgement
    for broker in BROKERS:
        world.logs.batches[broker] = [one for one in world.logs.batches[broker] if one[0] >= 140]
    world.send(10)
    world.judge = world.make_judge()
    world.judge.restore()
    settled = world.finish()
    assert world.judge.live.duplicated == {1: 20}
    assert settled[("ok", "kept")] + world.judge.sends().num_rows == 130
    assert len(world.judge.parts[KEY].rolling.windows) == 2


def test_a_damaged_store_is_refused(world: World) -> None:
    world.judge.close()
    world.judge = world.make_judge()  # one that is restored does not run
    (world.folder / "soak.npz").write_bytes(b"PK, but no archive")
    with pytest.raises(BadDataError, match="soak.npz is damaged"):
        world.judge.restore()
