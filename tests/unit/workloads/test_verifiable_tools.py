"""Kafka's verifiable tools as a client program: how their lines are translated, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.errors import InvalidRunError, LabError, UnfitError
from harness.kafka.model import TopicPartition
from harness.waiting import wait_until
from workloads.client.client import Client
from workloads.protocol.spec import ClientProgram, ConsumerSpec, ProducerSpec

pytestmark = pytest.mark.usefixtures("no_process_left")
Rows = Callable[[str], list[dict[str, Any]]]
ADAPTOR = Path(__file__).parents[3] / "workloads" / "java" / "verifiable.py"
ARGV = (sys.executable, str(ADAPTOR), "3.9.1", sys.executable)
STAND_IN = Path(__file__).with_name("verifiable_stand_in.py")


@pytest.fixture
def tools(client: Client) -> Client:
    client.use(ClientProgram(via="program", argv=(*ARGV, str(STAND_IN)), name="verifiable"))
    return client


def producer(**settings: Any) -> ProducerSpec:
    spec = {"writer": 1, "name": "p", "brokers": ("broker1",), "via": "program", "delivery_timeout_s": 3.0}
    return ProducerSpec(**(spec | settings))


def consumer(**settings: Any) -> ConsumerSpec:
    partitions = (TopicPartition("t", 0),)
    spec = {"reader": 9, "name": "c", "brokers": ("broker1",), "partitions": partitions, "via": "program"}
    return ConsumerSpec(**(spec | {"group": "g"} | settings))


OUTCOMES = [
    # label, acks, retries: outcome, error, offset
    ("a", 1, 0, "ok", 0, 42),
    ("refused", 1, 0, "fail", 19, None),
    ("refused", 1, 5, "info", 19, None),  # the tool does not say what became of the earlier attempts
    ("refused", -1, 0, "info", 19, None),  # nor how many there were
    ("expired", 1, 0, "info", -192, None),
]


def test_what_becomes_of_a_message(tools: Client) -> None:
    """Lines 0 and 1 of each tool are looks for the leaders: the second one finds them."""
    found = []
    for writer, (label, acks, retries, *_) in enumerate(OUTCOMES, start=1):
        spec = producer(writer=writer, name=f"p{writer}", acks=acks, retries=retries)
        tools.prepare(spec, "t")
        result = tools.send("t", label, spec)
        found.append((label, acks, retries, result.outcome, result.error, result.offset))
        assert (result.attempts, result.broker) == (None, None)
    assert found == OUTCOMES


def test_a_message_without_a_report_is_unknown_when_the_producer_closes(tools: Client, rows: Rows) -> None:
    owed = tools.send_later("t", "owed", producer())
    assert tools.send("t", "a", producer()).ok
    tools.close(within_s=10.0)
    assert owed.exception(timeout=0) or owed.result().outcome == "info"
    assert {row["seq"]: row["outcome"] for row in rows("done")} == {0: "info", 1: "ok"}


def test_a_topic_without_leaders(tools: Client) -> None:
    with pytest.raises(LabError, match=r"TimeoutException \(leaderless has no leaders\)"):
        tools.prepare(producer(), "leaderless", within_s=0.5)


def test_a_tool_that_dies_makes_the_run_invalid(tools: Client) -> None:
    with pytest.raises(InvalidRunError, match=r"verifiable in client1 ended by itself \(exit status 1\)"):
        tools.send("t", "dies", producer())


def test_a_tool_that_does_not_start(tools: Client) -> None:
    with pytest.raises(InvalidRunError, match=r"exit status 1: Exception in thread .* Invalid value 2"):
        tools.send("t", "a", producer(config={"acks": 2}))


def test_a_consumer(tools: Client, rows: Rows) -> None:
    running = tools.start_consumer(consumer())
    wait_until(
        running.progress, within_s=10, awaiting="the failed commit", accept=lambda read: bool(read.errors)
    )
    running.stop()
    assert [(row["offset"], row["epoch"]) for row in rows("reads")] == [(5, None), (6, None)]
    events = [(row["event"], row["partition"], row["offset"]) for row in rows("groups")]
    assert events == [("assigned", 0, None), ("committed", 0, 7), ("revoked", 0, None)]


@pytest.mark.parametrize(
    ("use", "feature"),
    [
        (lambda client: client.prepare(producer(transactional_id="x"), "t"), "transactions"),
        (lambda client: client.start_consumer(consumer(self_assigned=True)), "assign"),
    ],
)
def test_what_the_tools_lack_makes_the_run_unfit(
    tools: Client, use: Callable[[Client], object], feature: str
) -> None:
    with pytest.raises(UnfitError, match=f"verifiable in client1 lacks '{feature}'"):
        use(tools)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"subscribe": ["t"], "commit": False}, "VerifiableConsumer commits after each poll"),
        ({"subscribe": ["t", "u"], "commit": True}, "VerifiableConsumer reads one topic"),
        ({"assign": [["t", 0]], "commit": False}, "never assigned partitions"),
    ],
)
def test_consumers_that_are_refused(request_: dict[str, Any], sentence: str) -> None:
    lines = [
        {"id": 1, "op": "create_consumer", "consumer": 1, "properties": {"group.id": "g"}, **request_},
        {"id": 2, "op": "quit", "within_ms": 1000},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([*ARGV, str(STAND_IN)], input=text, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()[1:]]
    assert sentence in answers[0]["error"]["text"]
    assert answers[1] == {"id": 2, "result": {}}


def test_a_value_that_is_no_text_is_never_sent() -> None:
    create = {"bootstrap.servers": "broker1:9092"}
    message = {"seq": 3, "topic": "t", "partition": 0, "value": "\xff"}
    lines = [
        {"id": 1, "op": "create_producer", "producer": 1, "properties": create},
        {"op": "send", "producer": 1, "messages": [message]},
        {"id": 2, "op": "quit", "within_ms": 5000},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([*ARGV, str(STAND_IN)], input=text, capture_output=True, text=True, timeout=30)
    (outcome,) = [
        found["outcome"] for found in map(json.loads, done.stdout.splitlines()) if "outcome" in found
    ]
    assert (outcome["seq"], outcome["outcome"]) == (3, "fail")


def adaptor() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verifiable", ADAPTOR)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["verifiable"] = module
    spec.loader.exec_module(module)
    return module


def test_names_of_exceptions() -> None:
    simple_name = adaptor().simple_name
    assert simple_name("class org.apache.kafka.common.errors.TimeoutException") == "TimeoutException"
    assert simple_name("class Feeder$NotLed") == "NotLed"


def test_a_file_of_properties() -> None:
    text = adaptor().properties_file({"a": "C:\\x\ny", "b": "é"})
    assert text == "a=C:\\\\x\\ny\nb=\\u00e9\n"
