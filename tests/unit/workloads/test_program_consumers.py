"""What a consumer in a client program may report: topics are values, and only those it was asked to read."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from harness.history.journal import Journal
from harness.history.reads import read_blocks
from harness.kafka.model import Endpoint, TopicPartition
from workloads.agent.consumers.progress import MOST_ERRORS
from workloads.agent.programs.consumers import ProgramConsumer
from workloads.agent.programs.process import Handler, RunningProgram
from workloads.protocol.lines import Event, parse_line
from workloads.protocol.spec import ConsumerSpec


class Told:
    """A running program that only tells what the test says."""

    handler: Handler

    def require(self, feature: str, who: str) -> None: ...

    def at_end(self, callback: object) -> None: ...

    def handle(self, kind: str, number: int, handler: Handler) -> None:
        self.handler = handler

    def submit(self, op: str, **fields: object) -> Future[None]:
        return Future()

    def tell(self, **line: Any) -> None:
        event = parse_line(json.dumps(line).encode())
        self.handler(cast(Event, event), 1)

    def records(self, *partitions: tuple[str, int]) -> None:
        rows = [[topic, partition, 5, 1, "other"] for topic, partition in partitions]
        self.tell(records={"consumer": 9, "records": rows})

    def group(self, *partitions: tuple[str, int]) -> None:
        rows = [[topic, partition, None] for topic, partition in partitions]
        self.tell(group={"consumer": 9, "event": "assigned", "partitions": rows})


def reading(tmp_path: Path, asked: TopicPartition, **settings: Any) -> tuple[ProgramConsumer, Told, Path]:
    told, journal = Told(), tmp_path / "journal.jsonl"
    given = {"brokers": (Endpoint("b", 1),), "group": "g", **settings}
    spec = ConsumerSpec(reader=9, name="c", partitions=(asked,), via="program", **given)
    consumer = ProgramConsumer(Journal(journal), spec, cast(RunningProgram, told))
    return consumer, told, journal


FOREIGN = ["u", "../x", "a/b", 300 * "x", "\0", "", "\u00fc", "\x1b[2J", "t/0", "T", "t ", "\u202et"]


@pytest.mark.parametrize("topic", FOREIGN, ids=range(len(FOREIGN)))
def test_a_topic_that_it_was_not_asked_to_read(tmp_path: Path, topic: str) -> None:
    _, told, journal = reading(tmp_path, TopicPartition("t", 0))
    for tell in (told.records, told.group):
        with pytest.raises(ValueError, match="consumer 9 was not asked to read partition 0 of '") as caught:
            tell(("t", 0), (topic, 0))
        assert len(str(caught.value)) <= 120
        assert str(caught.value).isprintable()
    assert journal.read_bytes() == b""
    assert not [*read_blocks(tmp_path)]  # nor are the lines' other records taken


@pytest.mark.parametrize(
    ("assigned", "partition", "taken"), [(True, 0, True), (True, 1, False), (False, 1, True)]
)
def test_partitions_of_its_topic(tmp_path: Path, assigned: bool, partition: int, taken: bool) -> None:
    consumer, told, journal = reading(tmp_path, TopicPartition("t", 0), group="" if assigned else "g")
    if taken:
        told.records(("t", partition))
        assert consumer.progress().count == 1
    else:
        with pytest.raises(ValueError, match="was not asked to read partition 1 of 't'"):
            told.records(("t", partition))
        assert journal.read_bytes() == b"" and not [*read_blocks(tmp_path)]


@pytest.mark.parametrize("topic", ["a.b_c-d", 249 * "t", "1", "...", "-"])
def test_legal_but_odd_names(tmp_path: Path, topic: str) -> None:
    consumer, told, journal = reading(tmp_path, TopicPartition(topic, 0))
    told.group((topic, 3))
    told.records((topic, 3))
    assert consumer.progress().count == 1
    assert [json.loads(line)["topic"] for line in journal.read_text().splitlines()] == [topic]
    assert [block["topic"].to_pylist() for block in read_blocks(tmp_path)] == [[topic]]


def test_a_flood_of_different_errors(tmp_path: Path) -> None:
    consumer, told, _ = reading(tmp_path, TopicPartition("t", 0))
    for number in range(3 * MOST_ERRORS):
        told.tell(problem={"consumer": 9, "error": {"text": f"{number} {10_000 * 'x'}"}})
    errors = consumer.progress().errors
    assert len(errors) == MOST_ERRORS
    assert max(len(text) for _, text in errors) <= 300
