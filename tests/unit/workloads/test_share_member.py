"""What a share consumer of librdkafka is handed, how it acknowledges that, and what it cannot do."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.errors import InvalidRunError, UnfitError
from harness.history.journal import Journal
from harness.kafka.model import Endpoint, TopicPartition
from harness.waiting import wait_until
from workloads.agent.consumers import share_member
from workloads.agent.consumers.share_history import ShareHistory
from workloads.agent.consumers.share_member import LibrdkafkaShareConsumer
from workloads.protocol.commands import AnswerRecords
from workloads.protocol.spec import ConsumerSpec

SPEC = ConsumerSpec(
    reader=9,
    name="c",
    brokers=(Endpoint("b", 1),),
    partitions=(TopicPartition("t", 0),),
    group="g",
    answers=("accept", "release"),
)


class Record:
    """A record as confluent-kafka returns it."""

    def __init__(self, offset: int, count: int, error: KafkaError | None = None) -> None:
        self._offset, self._count, self._error = offset, count, error

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def delivery_count(self) -> int:
        return self._count

    def value(self) -> bytes:
        return b"x"


class Library:
    """In place of `confluent_kafka.ShareConsumer`: polls return what the test has put there."""

    newest: Library

    def __init__(self, config: dict[str, object]) -> None:
        self.config = config
        self.polls: deque[list[Record]] = deque()
        self.acknowledged: list[tuple[int, str]] = []
        self.refusal: KafkaException | None = None
        self.closed = threading.Event()
        Library.newest = self

    def set_acknowledgement_commit_callback(self, callback: Callable[..., None]) -> None:
        self.callback = callback

    def subscribe(self, topics: list[str]) -> None:
        assert topics == ["t"]

    def poll(self, timeout: float) -> list[Record]:
        return self.polls.popleft() if self.polls else []

    def acknowledge_offset(self, topic: str, partition: int, offset: int, kind: Any) -> None:
        self.acknowledged.append((offset, kind.name))

    def commit_async(self) -> None:
        part = confluent_kafka.TopicPartition("t", 0)
        offsets = {offset for offset, _ in self.acknowledged}
        self.acknowledged.clear()
        self.callback({part: offsets}, self.refusal)

    def commit_sync(self, timeout: float) -> None:
        self.commit_async()

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(confluent_kafka, "ShareConsumer", Library)
    return tmp_path / "journal.jsonl"


def rows(journal: Path, *columns: str) -> list[tuple[Any, ...]]:
    written = map(json.loads, journal.read_text().splitlines())
    return [tuple(row.get(name) for name in ("event", *columns)) for row in written]


def wait_for(journal: Path, event: str, count: int) -> None:
    wait_until(
        lambda: [row for row in rows(journal) if row == (event,)],
        accept=lambda seen: len(seen) >= count,
        within_s=10.0,
        awaiting=f"{count} rows {event}",
    )


def test_each_record_gets_its_answer(journal: Path) -> None:
    consumer = LibrdkafkaShareConsumer(Journal(journal), SPEC)
    library = Library.newest
    library.refusal = KafkaException(KafkaError(121))
    library.polls += [[Record(0, 1), Record(1, 1), Record(3, 2), Record(9, 1, KafkaError(3))]]
    consumer.start()
    wait_for(journal, "answered", 3)
    result = consumer.stop(10.0)
    assert library.closed.is_set() and not consumer._thread.is_alive()
    assert result.count == 3 and [code for code, _ in result.errors] == [3]
    assert rows(journal, "offset", "answer")[1:-1] == [
        *(("acquired", 0, None), ("acquired", 1, None), ("acquired", 3, None)),
        *(("acknowledged", 0, "accept"), ("acknowledged", 3, "accept"), ("acknowledged", 1, "release")),
        *(("answered", 0, "accept"), ("answered", 1, "release"), ("answered", 3, "accept")),
    ]
    assert {error for event, error in rows(journal, "error") if event == "answered"} == {121}
    assert rows(journal)[-1] == ("stopped",)
    assert library.config["share.acknowledgement.mode"] == "explicit"
    assert not {"auto.offset.reset", "session.timeout.ms", "isolation.level"} & library.config.keys()


def test_it_keeps_what_it_is_to_hold(journal: Path) -> None:
    consumer = LibrdkafkaShareConsumer(Journal(journal), SPEC)
    consumer.hold()
    Library.newest.polls += [[Record(1, 1)], [Record(2, 1)]]
    consumer.start()
    wait_for(journal, "acquired", 1)
    assert (consumer.progress().held, consumer.progress().unanswered) == (1, 0)
    consumer.answer(AnswerRecords(reader=9, answer="reject", within_s=5.0))
    wait_for(journal, "answered", 2)
    assert (consumer.progress().held, consumer.progress().unanswered) == (0, 0)
    consumer.stop(10.0)
    assert rows(journal, "offset", "answer")[1:4] == [
        ("acquired", 1, None),
        ("acknowledged", 1, "reject"),
        ("answered", 1, "reject"),
    ]
    assert rows(journal, "offset", "answer")[4:6] == [("acquired", 2, None), ("acknowledged", 2, "accept")]


def test_it_is_told_to_answer_what_it_does_not_hold(journal: Path) -> None:
    consumer = LibrdkafkaShareConsumer(Journal(journal), SPEC)
    with pytest.raises(InvalidRunError, match="c holds no records"):
        consumer.answer(AnswerRecords(reader=9, answer="accept", within_s=1.0))
    consumer.hold()
    consumer.start()
    with pytest.raises(InvalidRunError, match="it was handed no records"):
        consumer.answer(AnswerRecords(reader=9, answer="accept", within_s=0.1))
    consumer.stop(10.0)


def test_an_end_by_itself_is_told(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = LibrdkafkaShareConsumer(Journal(journal), SPEC)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    Library.newest.callback({confluent_kafka.TopicPartition("t", 0): set()}, None)
    Library.newest.commit_async = lambda: Library.newest.callback(  # type: ignore[method-assign]
        {confluent_kafka.TopicPartition("t", 0): {1, 77}}, None
    )
    Library.newest.callback({confluent_kafka.TopicPartition("t", 0): {77}}, None)
    Library.newest.polls += [[Record(1, 1)], [Record(2, 1)]]
    consumer.start()
    consumer._thread.join(10.0)
    with pytest.raises(InvalidRunError, match="c ended by itself: ValueError: .* offset 1 of t/0"):
        consumer.progress()
    assert Library.newest.closed.is_set()


def test_what_arrives_while_it_closes_is_checked_too(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = LibrdkafkaShareConsumer(Journal(journal), SPEC)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    Library.newest.polls += [[Record(1, 1)]]
    Library.newest.close = lambda: Library.newest.callback(  # type: ignore[method-assign]
        {confluent_kafka.TopicPartition("t", 0): {1}}, None
    )
    consumer.start()
    wait_for(journal, "answered", 1)
    with pytest.raises(InvalidRunError, match="c ended by itself: ValueError: .* offset 1 of t/0"):
        consumer.stop(10.0)
    assert rows(journal)[-1] != ("stopped",)


def test_what_the_library_cannot_do_is_unfit(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnfitError, match="librdkafka cannot renew .* as c is to do; let it use the Java"):
        LibrdkafkaShareConsumer(Journal(journal), replace(SPEC, answers=("renew",)))
    with pytest.raises(UnfitError, match="librdkafka cannot renew"):
        LibrdkafkaShareConsumer(Journal(journal), SPEC).answer(
            AnswerRecords(reader=9, answer="renew", within_s=1.0)
        )
    monkeypatch.delattr(share_member.confluent_kafka, "ShareConsumer")
    with pytest.raises(UnfitError, match="no share consumers like c; install 2.16 or later"):
        LibrdkafkaShareConsumer(Journal(journal), SPEC)


def test_what_a_member_holds_and_what_no_broker_has_answered(journal: Path) -> None:
    history = ShareHistory(Journal(journal), SPEC)
    part = TopicPartition("t", 0)
    history.acquired([(part, offset, 1, None) for offset in (1, 2, 3)], 1)
    history.acknowledged([(part, 1), (part, 2)], "accept", 2)
    history.answered([(part, 2)], 0, 3)
    assert (history.result().held, history.result().unanswered) == (1, 1)
    history.acquired([(part, 2, 2, None)], 4)
    assert (history.result().held, history.result().unanswered) == (2, 1)
