"""What an instance of an application in a client program reports, and what the history holds of it."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.errors import InvalidRunError, UsageError
from harness.history.journal import Journal
from harness.kafka.model import Endpoint
from workloads.agent.programs.applications import ApplicationInstance
from workloads.agent.programs.process import Handler, RunningProgram
from workloads.protocol.java_names import application_properties
from workloads.protocol.lines import Event, Failure, parse_line
from workloads.protocol.spec import ApplicationSpec

SPEC = ApplicationSpec(
    reader=9,
    name="i",
    brokers=(Endpoint("b", 1),),
    application="app",
    source="in",
    output="out",
    state_dir="/state",
    words=3,
)


class Told:
    """A running program that only tells what the test says."""

    handler: Handler

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.created: Future[Failure | None] = Future()
        self.failure: Failure | None = None

    def require(self, feature: str, who: str) -> None:
        assert feature == "applications"

    def at_end(self, callback: object) -> None: ...

    def handle(self, kind: str, number: int, handler: Handler) -> None:
        self.handler = handler

    def submit(self, op: str, **fields: Any) -> Future[Failure | None]:
        self.asked.append((op, fields))
        return self.created

    def request(self, op: str, within_s: float, **fields: Any) -> Failure | None:
        self.asked.append((op, fields))
        return self.failure

    def tell(self, ns: int, **line: Any) -> None:
        self.handler(cast(Event, parse_line(json.dumps(line).encode())), ns)


def running(tmp_path: Path) -> tuple[ApplicationInstance, Told, Path]:
    told, journal = Told(), tmp_path / "journal.jsonl"
    instance = ApplicationInstance(Journal(journal), SPEC, cast(RunningProgram, told))
    instance.start()
    return instance, told, journal


def test_states_and_what_the_store_holds(tmp_path: Path) -> None:
    instance, told, journal = running(tmp_path)
    assert told.asked[0][0] == "create_application"
    assert instance.progress().state == ""
    told.tell(2, state={"consumer": 9, "state": "RUNNING", "partitions": [0, 2]})
    told.tell(3, stored={"consumer": 9, "partition": 2, "entries": [["1/0", 4], ["1/2", 5]]})
    told.tell(4, problem={"consumer": 9, "error": {"exception": "StreamsException", "text": "why"}})
    said = instance.progress()
    assert (said.state, said.partitions) == ("RUNNING", (0, 2))
    assert "why" in said.errors[0][1]
    instance.stop(1.0)
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [row["event"] for row in rows] == ["started", "state", "stored", "stored", "stored", "stopped"]
    assert (rows[0]["changelog"], rows[0]["guarantee"]) == ("app-counts-changelog", "exactly_once_v2")
    assert [(row.get("word"), row.get("count")) for row in rows[2:5]] == [
        (None, None),
        ("1/0", 4),
        ("1/2", 5),
    ]


def test_a_store_that_cannot_be_asked(tmp_path: Path) -> None:
    instance, told, _ = running(tmp_path)
    told.failure = Failure(exception="InvalidStateStoreException", text="it is rebalancing")
    with pytest.raises(InvalidRunError, match="i does not carry out dump_store: .*it is rebalancing"):
        instance.dump(1.0)


def test_an_instance_that_does_not_end_is_no_stopped_one(tmp_path: Path) -> None:
    instance, told, journal = running(tmp_path)
    told.failure = Failure(exception="IllegalStateException", text="it still runs after 1000 ms")
    with pytest.raises(InvalidRunError, match="i does not carry out close_consumer: .*still runs"):
        instance.stop(1.0)
    assert "stopped" not in journal.read_text()


def test_an_application_reads_its_source_from_the_start() -> None:
    """What it leaves out would be taken for a broken promise."""
    with pytest.raises(UsageError, match="i of the application app has auto.offset.reset=latest"):
        replace(SPEC, config={"auto.offset.reset": "latest"})
    assert replace(SPEC, config={"auto.offset.reset": "earliest"})


def test_an_application_that_is_refused(tmp_path: Path) -> None:
    instance, told, _ = running(tmp_path)
    told.created.set_result(Failure(exception="ConfigException", text="no such guarantee"))
    with pytest.raises(InvalidRunError, match="refuses the application app: .*no such guarantee"):
        instance.progress()


def test_a_state_that_does_not_exist(tmp_path: Path) -> None:
    _, told, _ = running(tmp_path)
    with pytest.raises(ValueError, match="SLEEPING"):
        told.tell(2, state={"consumer": 9, "state": "SLEEPING"})


def test_the_times_of_a_session_are_the_brokers_with_the_protocol_of_streams() -> None:
    """KIP-1071: the client refuses them."""
    assert application_properties(SPEC)["session.timeout.ms"] == "6000"
    served = application_properties(replace(SPEC, config={"group.protocol": "streams"}))
    assert "session.timeout.ms" not in served
    assert served["processing.guarantee"] == "exactly_once_v2"
