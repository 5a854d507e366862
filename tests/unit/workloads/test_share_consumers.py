"""What a share consumer in a client program reports, and what the history holds of it."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from harness.errors import InvalidRunError
from harness.history.journal import Journal
from harness.kafka.model import Endpoint, TopicPartition
from workloads.agent.programs.process import Handler, RunningProgram
from workloads.agent.programs.shares import ProgramShareConsumer
from workloads.protocol.commands import AnswerRecords
from workloads.protocol.java_names import share_consumer_properties
from workloads.protocol.lines import Event, Failure, parse_line
from workloads.protocol.spec import ConsumerSpec

SPEC = ConsumerSpec(
    reader=9,
    name="c",
    brokers=(Endpoint("b", 1),),
    partitions=(TopicPartition("t", 0),),
    via="java",
    group="g",
    answers=("accept", "release"),
)


class Told:
    """A running program that only tells what the test says."""

    handler: Handler

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.failure: Failure | None = None

    def require(self, feature: str, who: str) -> None:
        assert feature == "shares"

    def at_end(self, callback: object) -> None: ...

    def handle(self, kind: str, number: int, handler: Handler) -> None:
        self.handler = handler

    def submit(self, op: str, **fields: Any) -> Future[None]:
        self.asked.append((op, fields))
        return Future()

    def request(self, op: str, within_s: float, **fields: Any) -> Failure | None:
        self.asked.append((op, fields))
        return self.failure

    def tell(self, ns: int, **line: Any) -> None:
        self.handler(cast(Event, parse_line(json.dumps(line).encode())), ns)


def sharing(tmp_path: Path) -> tuple[ProgramShareConsumer, Told, Path]:
    told, journal = Told(), tmp_path / "journal.jsonl"
    return ProgramShareConsumer(Journal(journal), SPEC, cast(RunningProgram, told)), told, journal


def rows(journal: Path, *columns: str) -> list[tuple[Any, ...]]:
    found = map(json.loads, journal.read_text().splitlines())
    return [tuple(row.get(name) for name in ("event", *columns)) for row in found]


def test_a_delivery_and_its_acknowledgements(tmp_path: Path) -> None:
    consumer, told, journal = sharing(tmp_path)
    consumer.start()
    assert told.asked[0][0] == "create_share_consumer"
    assert told.asked[0][1]["answers"] == ["accept", "release"]
    told.tell(
        2, acquired={"consumer": 9, "lock_ms": 500, "records": [["t", 1, 7, 1, "x"], ["t", 1, 8, 2, "x"]]}
    )
    told.tell(3, acknowledged={"consumer": 9, "answer": "renew", "partitions": [["t", 1, [7]]]})
    told.tell(4, acknowledged={"consumer": 9, "answer": "accept", "partitions": [["t", 1, [7, 8]]]})
    told.tell(5, answered={"consumer": 9, "partitions": [["t", 1, [7]]]})
    error = {"exception": "InvalidRecordStateException", "code": 121}
    told.tell(6, answered={"consumer": 9, "partitions": [["t", 1, [8, 7]]], "error": error})
    assert rows(journal, "offset", "delivery_count", "lock_ms", "answer", "asked_ns", "error")[1:] == [
        ("acquired", 7, 1, 500, None, None, None),
        ("acquired", 8, 2, 500, None, None, None),
        ("acknowledged", 7, None, None, "renew", None, None),
        ("acknowledged", 7, None, None, "accept", None, None),
        ("acknowledged", 8, None, None, "accept", None, None),
        ("answered", 7, None, None, "renew", 3, 0),
        ("answered", 8, None, None, "accept", 4, 121),
        ("answered", 7, None, None, "accept", 4, 121),
    ]
    assert consumer.stop(1.0).count == 2
    assert [event for (event,) in rows(journal)][-1] == "stopped"


def test_an_answer_to_nothing(tmp_path: Path) -> None:
    _, told, journal = sharing(tmp_path)
    with pytest.raises(ValueError, match="no acknowledgement of offset 7 of t/1 that waits for an answer"):
        told.tell(5, answered={"consumer": 9, "partitions": [["t", 1, [7]]]})
    assert journal.read_bytes() == b""


def test_a_topic_that_it_was_not_asked_to_read(tmp_path: Path) -> None:
    _, told, journal = sharing(tmp_path)
    for line in (
        {"acquired": {"consumer": 9, "records": [["t", 0, 7, 1, "x"], ["../x", 0, 7, 1, "x"]]}},
        {"acknowledged": {"consumer": 9, "answer": "accept", "partitions": [["../x", 0, [7]]]}},
    ):
        with pytest.raises(ValueError, match="share consumer 9 was not asked to read '../x'"):
            told.tell(5, **line)
    assert journal.read_bytes() == b""


def test_what_it_is_told(tmp_path: Path) -> None:
    consumer, told, _ = sharing(tmp_path)
    consumer.hold()
    consumer.answer(AnswerRecords(reader=9, answer="reject", within_s=2.0))
    assert told.asked == [
        ("hold_records", {"consumer": 9}),
        ("answer_records", {"consumer": 9, "answer": "reject"}),
    ]
    told.failure = Failure(exception="IllegalStateException", text="it holds nothing")
    with pytest.raises(InvalidRunError, match="c does not carry out answer_records: .*it holds nothing"):
        consumer.answer(AnswerRecords(reader=9, answer="accept"))


def test_the_properties_that_share_consumers_have() -> None:
    """Kafka's share consumers refuse those of consumers that read alone."""
    properties = share_consumer_properties(SPEC)
    assert properties["share.acknowledgement.mode"] == "explicit"
    assert properties["group.id"] == "g"
    refused = {"auto.offset.reset", "enable.auto.commit", "group.instance.id", "isolation.level"}
    assert not {*refused, "partition.assignment.strategy", "session.timeout.ms"} & properties.keys()
