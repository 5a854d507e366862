"""Client programs: what they speak, what the agent records of it, and what happens to one that misbehaves."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from handles import transactions

from harness.cluster.client_settings import CONSUMER, PRODUCER
from harness.errors import InvalidRunError
from harness.kafka.model import Endpoint, TopicPartition
from harness.waiting import wait_until
from run.group_offsets import GroupOffsets
from run.producer import Producer
from workloads.agent.producers.outcomes import classify
from workloads.agent.programs.exceptions import RULES, error_code, java_outcome, stream_rules
from workloads.client.client import Client
from workloads.protocol.commands import DescribeProgram
from workloads.protocol.java_names import consumer_properties, producer_properties, renamed
from workloads.protocol.lines import Failure, parse_hello, parse_line, value_bytes, value_text
from workloads.protocol.spec import ClientProgram, ConsumerSpec, ProducerSpec, StreamLoad

pytestmark = pytest.mark.usefixtures("no_process_left")
Rows = Callable[[str], list[dict[str, Any]]]
PROGRAM = Path(__file__).with_name("program.py")
PROGRAMS_SOURCES = sorted((Path(__file__).parents[3] / "workloads" / "agent" / "programs").glob("*.py"))


def use(client: Client, mode: str) -> None:
    argv = (sys.executable, str(PROGRAM), mode)
    client.use(ClientProgram(via="program", argv=argv, name="./program.py"))


def producer(**settings: Any) -> ProducerSpec:
    spec = {
        "writer": 1,
        "name": "p",
        "brokers": (Endpoint("broker1", 9092),),
        "via": "program",
        "delivery_timeout_s": 3.0,
    }
    return ProducerSpec(**(spec | settings))


def test_messages_are_recorded_before_the_program_gets_them(client: Client, rows: Rows) -> None:
    use(client, "good")
    results = [Producer(client, producer()).send("t", label) for label in ["a", "b"]]
    assert [(one.seq, one.outcome, one.offset) for one in results] == [(0, "ok", 0), (1, "ok", 1)]
    (writer,) = rows("writers")
    assert (writer["client"], writer["retries"]) == ("program", 0)
    assert '"delivery.timeout.ms": "3000"' in writer["config"]
    assert [row["label"] for row in rows("sent")] == ["a", "b"]
    done = rows("done")
    assert all(row["done_ns"] >= sent["sent_ns"] for row, sent in zip(done, rows("sent"), strict=True))


def test_a_program_is_handed_the_messages_of_a_stream(
    client: Client, rows: Rows, sends: Callable[[], list[dict[str, Any]]]
) -> None:
    use(client, "good")
    load = StreamLoad(topic="t", partitions=(0, 1), rate=500, size_bytes=300, max_count=200)
    stream = client.start_stream(producer(), load)
    wait_until(stream.counts, within_s=60, awaiting="the stream's end", accept=lambda c: not c.running)
    counts = stream.stop()
    assert (counts.sent, counts.ok) == (200, 200)
    stated = [(row["seq"], row["partition"], row["outcome"], row["offset"]) for row in sends()]
    assert stated == [(seq, seq % 2, "ok", seq) for seq in range(200)]
    assert rows("sent") == rows("done") == []


def test_what_a_program_states_about_itself(client: Client) -> None:
    use(client, "good")
    found = client.call(DescribeProgram("program"))
    assert (found.client, found.version) == ("none", "1")
    assert found.ready_s > 0
    assert found.memory_mib > 1


def test_a_consumer_in_a_program(client: Client, rows: Rows) -> None:
    use(client, "good")
    partitions = (TopicPartition("t", 0),)
    consumer = client.start_consumer(
        ConsumerSpec(
            reader=9,
            name="c",
            brokers=(Endpoint("broker1", 9092),),
            partitions=partitions,
            group="g",
            via="program",
        )
    )
    wait_until(consumer.progress, within_s=10, awaiting="two records", accept=lambda read: read.count == 2)
    consumer.stop()
    assert [(row["offset"], row["epoch"], row["writer"]) for row in rows("reads")] == [
        (5, 1, None),
        (6, None, None),
    ]
    columns = ("event", "topic", "partition", "generation", "member_id")
    events = [tuple(row.get(column) for column in columns) for row in rows("groups")]
    assert events == [
        ("joined", None, None, 3, "m"),
        ("assigned", "t", 0, None, None),
        ("lost", "t", 0, None, None),
        ("assigned", "t", 0, None, None),
    ]
    assert {(row["group"], row["reader"], row["member"]) for row in rows("groups")} == {("g", 9, "c")}


@pytest.mark.parametrize("kind", ["records", "group"])
def test_a_program_that_returns_a_topic_that_it_was_not_asked_to_read(
    client: Client, rows: Rows, kind: str
) -> None:
    argv = (sys.executable, str(PROGRAM), "foreign", kind, "../x")
    client.use(ClientProgram(via="program", argv=argv, name="./program.py"))
    consumer = client.start_consumer(consumer_spec(reader=9, via="program"))
    with pytest.raises(InvalidRunError) as caught:
        wait_until(consumer.progress, within_s=10, awaiting="an error", accept=lambda read: False)
    assert "The client program ./program.py in client1 wrote a line" in caught.value.message
    assert "consumer 9 was not asked to read partition 0 of '../x'" in caught.value.message
    assert len(caught.value.message) <= 300
    assert rows("reads") == rows("groups") == []


def test_an_exception_of_the_java_client_is_judged_by_its_table(client: Client) -> None:
    use(client, "expired")
    result = Producer(client, producer()).send("t", "a")
    assert (result.outcome, result.error, result.attempts) == ("fail", -192, 0)


MISBEHAVIOUR = [
    ("dies", "ended by itself (exit status 7)"),
    ("dies-at-once", "ended by itself (exit status 1)"),
    ("garbage", "it is not JSON; the line is 'Exception in thread main'"),
    ("unknown-message", "message 1/1000 is not waiting for an outcome"),
    ("early", "it says that it happened at 1 ns"),
    ("undecided", "message 1/0 has neither an outcome nor an error"),
    ("version-2", "it speaks version 2 of the protocol, and this is version 1"),
    ("refuses", "refuses the producer p: ConfigException (acks is bad)"),
    ("deep", "it is JSON that is nested too deeply; the line is '[[[["),
    ("endless", "it is longer than 16 MiB; the line is 'xxxx"),
    ("huge-offset", '- at `$.offset`; the line is \'{"outcome": {'),
    ("cut-short", "ended by itself (exit status 9)"),
    ("unasked-answer", "no request with id 12345 waits for an answer"),
]


@pytest.mark.parametrize(("mode", "sentence"), MISBEHAVIOUR)
def test_a_program_that_misbehaves_makes_the_run_invalid(client: Client, mode: str, sentence: str) -> None:
    use(client, mode)
    with pytest.raises(InvalidRunError) as caught:
        Producer(client, producer()).send("t", "a")
    assert sentence in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) <= 300 or "see /" in caught.value.message
    with pytest.raises(InvalidRunError):  # and it stays so
        Producer(client, producer()).send("t", "b")


def test_an_outcome_that_comes_twice(client: Client) -> None:
    use(client, "twice")
    assert Producer(client, producer()).send("t", "a").ok
    with pytest.raises(InvalidRunError, match="message 1/0 is not waiting for an outcome"):
        wait_until(
            lambda: Producer(client, producer()).send("t", "b"),
            within_s=10,
            awaiting="the second line to be seen",
            accept=lambda result: False,
        )


@pytest.mark.parametrize("mode", ["silent", "deaf", "mute"])
def test_a_program_that_hangs_is_found_and_killed(
    client: Client, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(client, mode)
    Producer(client, producer()).send_later("t", "a")
    client.close(within_s=8.0)  # it is asked to end, and then killed
    assert not client.alive


@pytest.mark.parametrize(
    ("mode", "outcome", "error"),
    [("good", "committed", 0), ("fenced", "unknown", -144), ("aborts", "aborted", -192)],
)
def test_transactions_in_a_program(client: Client, rows: Rows, mode: str, outcome: str, error: int) -> None:
    use(client, mode)
    spec = producer(transactional_id="t", delivery_timeout_s=30.0)
    Producer(client, spec).prepare("t")
    number = transactions(client, spec).begin()
    Producer(client, spec).send("t", "a")
    end = transactions(client, spec).commit()
    assert (number, end.outcome, end.error) == (0, outcome, error)
    assert [row["event"] for row in rows("transactions")] == ["begin", "committing", outcome]
    assert rows("sent")[0]["txn"] == 0
    (given,) = rows("producer_ids")
    assert (given["writer"], given["error"], given["producer_id"]) == (spec.writer, 0, None)
    assert given["asked_ns"] < given["ns"] < rows("transactions")[0]["ns"]


@pytest.mark.parametrize(
    ("mode", "answers", "told"),
    [
        ("good", [0, 0], [("sent", 5), ("sent", 6), ("committed", 5), ("committed", 6)]),
        ("fenced", [0, 25], [("sent", 5), ("commit_failed", 5), ("commit_failed", 6)]),
        ("aborts", [0, 0], [("sent", 5), ("sent", 6)]),
    ],
)
def test_offsets_of_a_transaction_in_a_program(
    client: Client, rows: Rows, mode: str, answers: list[int], told: list[tuple[str, int]]
) -> None:
    use(client, mode)
    spec = producer(transactional_id="t", delivery_timeout_s=30.0)
    Producer(client, spec).prepare("t")
    transactions(client, spec).begin()
    group = GroupOffsets(client=client, group="g", reader=4, check_alive=lambda: None)
    handle = transactions(client, spec)
    assert [handle.send_offsets(group, "t", offset) for offset in (5, 6)] == answers
    transactions(client, spec).commit()
    assert [(row["event"], row["offset"]) for row in rows("groups")] == told
    assert all(row["asked_ns"] < row["ns"] and row["txn"] == 0 for row in rows("groups"))


def test_a_program_dies_with_its_agent(client: Client, tmp_path: Path) -> None:
    argv = (sys.executable, str(PROGRAM), "good", str(tmp_path))
    client.use(ClientProgram(via="program", argv=argv, name="./program.py"))
    client.call(DescribeProgram("program"))
    assert started_with(str(tmp_path / "journal")) == started_with("no such argument") == 0
    assert started_with(str(tmp_path)) == 1
    client.kill()
    wait_until(
        lambda: started_with(str(tmp_path)),
        within_s=10,
        awaiting="the program to end",
        accept=lambda count: count == 0,
    )


def started_with(argument: str) -> int:
    """How many processes have this argument, as a whole."""
    count = 0
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            count += argument.encode() in file.read_bytes().split(b"\0")
    return count


# Lines


def test_values_are_carried_byte_by_byte() -> None:
    every = bytes(range(256))
    assert value_bytes(value_text(every)) == every
    assert value_bytes(None) is None
    assert value_bytes("\u20ac") is None


def test_the_lines_that_the_document_shows_can_be_read() -> None:
    text = (Path(__file__).parents[3] / "docs" / "client-protocol.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("{")]
    ours = [line for line in lines if '"op"' in line]
    theirs = [line for line in lines if '"op"' not in line]
    kinds = {next(iter(json.loads(line))) for line in theirs}
    of_shares = {"acquired", "acknowledged", "answered"}
    of_applications = {"state", "stored"}
    assert kinds == {"hello", "outcome", "records", "group", "problem", "id"} | of_shares | of_applications
    for line in theirs:
        (parse_hello if line.startswith('{"hello"') else parse_line)(line.encode())
    source = "".join(file.read_text() for file in PROGRAMS_SOURCES)
    shown = {json.loads(line)["op"] for line in ours}
    assert {op for op in shown if f'"{op}"' not in source} <= {"flush"}
    assert len(shown) == 20


# Properties


@pytest.mark.parametrize(("kind", "table"), [("producer", PRODUCER), ("consumer", CONSUMER)])
def test_properties_of_the_user_keep_their_names(kind: str, table: dict[str, Any]) -> None:
    for java, equivalent in table.items():
        if not equivalent.librdkafka:
            continue
        if (kind, java) == ("consumer", "request.timeout.ms"):
            spec = consumer_spec(config={equivalent.librdkafka: 4000})
            assert consumer_properties(spec)[java] == "4000"
        else:
            assert list(renamed({equivalent.librdkafka: 4})) == [java]


def consumer_spec(**settings: Any) -> ConsumerSpec:
    partitions = (TopicPartition("t", 0),)
    given = {"reader": 1, "name": "c", "brokers": (Endpoint("b", 1),), "partitions": partitions, "group": "g"}
    return ConsumerSpec(**(given | settings))


def test_properties_of_a_producer() -> None:
    config = {"batch.num.messages": 4, "topic.metadata.refresh.interval.ms": 500}
    found = producer_properties(producer(via="java", idempotent=True, retries=3, config=config))
    assert found["enable.idempotence"] == "true"
    assert found["acks"] == "-1"
    assert found["metadata.max.age.ms"] == "500"
    assert found["batch.size"] == "0"
    assert "batch.num.messages" not in found
    assert "log_level" not in found


def test_the_request_timeout_leaves_room_for_the_delivery_timeout() -> None:
    found = producer_properties(producer(via="java", delivery_timeout_s=1.5, request_timeout_s=2.0))
    assert (found["request.timeout.ms"], found["delivery.timeout.ms"]) == ("1500", "1500")


def test_a_consumer_that_assigns_its_partitions_has_no_group() -> None:
    assert "group.id" not in consumer_properties(consumer_spec(group=""))
    assert consumer_properties(consumer_spec())["group.id"] == "g"


def test_a_member_names_its_assignors_by_their_classes() -> None:
    """The Java client refuses librdkafka's names; a class of one's own stays."""
    found = consumer_properties(
        consumer_spec(config={"partition.assignment.strategy": "cooperative-sticky,range,my.Assignor"})
    )
    package = "org.apache.kafka.clients.consumer"
    assert found["partition.assignment.strategy"] == (
        f"{package}.CooperativeStickyAssignor,{package}.RangeAssignor,my.Assignor"
    )
    assert found["heartbeat.interval.ms"] == "2000"


def test_the_brokers_set_the_times_of_a_kip_848_group() -> None:
    """The Java client refuses to start with a session of its own."""
    found = consumer_properties(consumer_spec(config={"group.protocol": "consumer"}))
    assert found["group.protocol"] == "consumer"
    assert not found.keys() & {"session.timeout.ms", "heartbeat.interval.ms"}


# Exceptions of the Java client: (class, message, acks, retries, attempts) -> outcome.

ONE = [
    ("CorruptRecordException", "", -1, 0, 1, "fail", "checked before the append"),
    ("UnknownTopicOrPartitionException", "", -1, 0, 1, "fail", "no such log"),
    ("LeaderNotAvailableException", "", -1, 0, 1, "fail", "nobody appended"),
    ("NotLeaderOrFollowerException", "", 1, 0, 1, "fail", "with acks=1 checked before the append alone"),
    ("NotLeaderOrFollowerException", "", -1, 0, 1, "info", "with acks=all leadership may be lost after it"),
    ("NotLeaderForPartitionException", "", 1, 0, 1, "fail", "the older name"),
    ("InvalidTopicException", "", -1, 0, 1, "fail", "no topic of that name"),
    ("RecordBatchTooLargeException", "", -1, 0, 1, "fail", "before the append"),
    ("RecordTooLargeException", "", -1, 0, 1, "fail", "before the append"),
    ("RecordTooLargeException", "", -1, 5, 0, "fail", "rejected by the client itself"),
    ("NotEnoughReplicasException", "", -1, 0, 1, "fail", "before the append"),
    ("NotEnoughReplicasException", "", -1, 3, None, "info", "an earlier attempt may have been appended"),
    ("NotEnoughReplicasException", "", -1, 3, 4, "info", "three earlier answers are not known"),
    ("NotEnoughReplicasAfterAppendException", "", -1, 0, 1, "info", "appended"),
    ("InvalidRequiredAcksException", "", -1, 0, 1, "fail", "before the append"),
    ("TopicAuthorizationException", "", -1, 0, 1, "fail", "before the append"),
    ("InvalidTimestampException", "", -1, 0, 1, "fail", "checked before the append"),
    ("UnsupportedVersionException", "", -1, 0, 1, "fail", "not read"),
    ("KafkaStorageException", "", -1, 0, 1, "info", "the disk may have failed after the append"),
    ("InvalidRecordException", "", -1, 0, 1, "fail", "before the append"),
    ("UnknownServerException", "", -1, 0, 1, "info", "the broker does not say how far it got"),
    ("OutOfOrderSequenceException", "", -1, 3, 1, "info", "proves nothing about earlier attempts"),
    ("InvalidProducerEpochException", "", -1, 3, 1, "info", "proves nothing about earlier attempts"),
    ("UnknownProducerIdException", "", -1, 3, 1, "info", "proves nothing about earlier attempts"),
    ("ProducerFencedException", "", -1, 3, 1, "info", "proves nothing about earlier attempts"),
    ("TimeoutException", "The request timed out.", -1, 0, 1, "info", "the leader appended it"),
    ("TimeoutException", "Expiring 1 record(s)", -1, 3, 1, "info", "it was sent"),
    ("TimeoutException", "Expiring 1 record(s)", -1, 3, None, "info", "it may have been sent"),
    ("TimeoutException", "Expiring 1 record(s)", -1, 3, 0, "fail", "it never was"),
    ("TimeoutException", "Topic t not present in metadata after 60 ms.", -1, 3, 0, "fail", "never queued"),
    ("NetworkException", "", 1, 0, 1, "info", "the request may have arrived"),
    ("NetworkException", "", 1, 0, None, "info", "the request may have arrived"),
    ("DisconnectException", "", -1, 0, 1, "info", "the request may have arrived"),
    ("BufferExhaustedException", "", -1, 0, 0, "fail", "never queued"),
    ("TransactionAbortedException", "", -1, 3, None, "info", "perhaps sent before"),
    ("KafkaException", "Producer is closed forcefully.", 1, 0, None, "info", "perhaps in flight"),
    ("KafkaException", "Producer is closed forcefully.", 1, 0, 0, "fail", "never sent"),
    ("IllegalStateException", "Cannot perform operation after producer has been closed", 1, 0, 0, "fail", ""),
    ("SomeNewException", "", 1, 0, 1, "info", "an unknown exception proves nothing"),
]


@pytest.mark.parametrize(("name", "text", "acks", "retries", "attempts", "outcome", "why"), ONE)
def test_what_an_exception_proves(
    name: str, text: str, acks: int, retries: int, attempts: int | None, outcome: str, why: str
) -> None:
    failure = Failure(exception=name, text=text)
    assert java_outcome(failure, acks=acks, attempts=attempts, retries=retries) == outcome, why


def test_every_class_has_a_line_a_reason_and_a_source() -> None:
    assert {line[0] for line in ONE} >= set(RULES)
    assert all(rule.reason.endswith(".") and rule.source for rule in RULES.values())


def test_no_exception_counts_as_written() -> None:
    assert all(classify(rule.code, acks=-1, attempts=1) != "ok" for rule in RULES.values())


def test_the_brokers_time_out_is_told_from_the_clients_own() -> None:
    assert error_code(Failure(exception="TimeoutException", code=7, text="The request timed out.")) == 7
    assert error_code(Failure(exception="TimeoutException", code=7, text="Expiring 1 record(s)")) == -192
    assert error_code(Failure(exception="Unheard", code=42)) == 42
    assert error_code(Failure(text="?")) == -1


def test_a_program_that_runs_streams_gets_the_same_rules_as_data() -> None:
    """What the table says of an exception and a number of attempts is what the harness itself decides."""
    for acks, retries in ((-1, 0), (1, 0), (0, 3), (-1, 1000)):
        rules = cast(dict[str, Any], stream_rules(acks=acks, retries=retries))
        failures = [Failure(exception=name) for name in RULES] + [
            Failure(code=code) for code in (7, 51, 99, -1)
        ]
        for failure in failures:
            code = rules["exceptions"].get(failure.exception, failure.code)
            proven = rules["outcomes"].get(str(code), rules["others"])
            for column, attempts in enumerate((0, 1, 2, None)):
                given: Any = {"acks": acks, "attempts": attempts, "retries": retries}
                assert proven[column] == java_outcome(failure, **given), (failure, given)
                assert code == error_code(failure)
