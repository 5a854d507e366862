"""Streams that the Java client runs itself, in a JVM, against a broker in the test's process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_broker import Act, FakeBroker

from harness.artifacts.java_client import java_client
from harness.errors import InvalidRunError
from harness.history.identity import decode
from harness.history.stream_journal import PAGE_BYTES, ROW_BYTES, ROWS_AT_ONCE, beside
from harness.kafka.model import Endpoint
from harness.kafka.versions import kafka_version
from harness.waiting import wait_until
from workloads.client.client import Client, Stream
from workloads.protocol.spec import ClientProgram, ProducerSpec, StreamLoad, Via

pytestmark = pytest.mark.usefixtures("no_process_left")
Sends = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def java(client: Client) -> Client:
    """A client with the Java client of the oldest version that the catalogue runs."""
    argv = java_client(kafka_version("2.7.1")).argv
    client.use(ClientProgram(via="java", argv=argv, name="java"))
    return client


def start(java: Client, broker: Endpoint, load: StreamLoad, **settings: Any) -> Stream:
    given = {"via": "java", "acks": 1, "request_timeout_s": 20.0, "delivery_timeout_s": 60.0, **settings}
    spec = ProducerSpec(writer=1, name="stream", brokers=(broker,), **given)
    return java.start_stream(spec, load)


def ended(stream: Stream) -> None:
    wait_until(stream.counts, within_s=60, awaiting="the stream's end", accept=lambda c: not c.running)


def test_a_stream_ends_at_its_count(
    java: Client, broker: FakeBroker, sends: Sends, journal_path: Path
) -> None:
    count = ROWS_AT_ONCE + 250  # more than the journal has room for at first
    load = StreamLoad(topic="t", rate=50_000, size_bytes=300, max_count=count)
    stream = start(java, broker.endpoint, load, config={"linger.ms": 50})
    ended(stream)
    counts = stream.counts()
    assert (counts.sent, counts.ok, counts.fail, counts.info) == (count, count, 0, 0)
    rows = sends()
    assert [(row["seq"], row["offset"], row["error"]) for row in rows] == [(n, n, 0) for n in range(count)]
    assert all(row["sent_ns"] <= row["done_ns"] for row in rows)
    identities = [decode(value) for value in broker.values]
    assert all(one is not None and one.intact and one.home == "t/0" for one in identities)
    assert [one.seq for one in identities if one is not None] == list(range(count))
    assert {len(value) for value in broker.values} == {300}
    assert beside(journal_path, 1).stat().st_size == PAGE_BYTES + count * ROW_BYTES
    assert stream.stop() == counts


def test_messages_go_to_their_partitions_in_turn(java: Client, broker: FakeBroker, sends: Sends) -> None:
    broker.partitions = 4
    load = StreamLoad(topic="t", partitions=(0, 3, 1), rate=2000, max_count=300)
    ended(start(java, broker.endpoint, load))
    homes = [identity.home for value in broker.values if (identity := decode(value))]
    assert homes == broker.homes and set(homes) == {"t/0", "t/1", "t/3"}
    stated = [(f"{row['topic']}/{row['partition']}", row["offset"]) for row in sends()]
    assert sorted(stated) == sorted((home, offset) for offset, home in enumerate(broker.homes))
    assert [home for home, _ in stated[:4]] == ["t/0", "t/3", "t/1", "t/0"]


def test_outcomes_follow_the_rules_of_the_harness(java: Client, broker: FakeBroker, sends: Sends) -> None:
    """Of a message that was alone in flight, the attempts are known, and so what a refusal proves."""
    broker.acts.extend([Act(), Act(error=19, append=False), Act(error=7), Act(error=10, append=False)])
    load = StreamLoad(topic="t", rate=50, max_count=5, max_in_flight=1)
    stream = start(java, broker.endpoint, load, acks=-1)
    ended(stream)
    stated = [(row["outcome"], row["error"], row["attempts"]) for row in sends()]
    assert stated == [("ok", 0, 1), ("fail", 19, 1), ("info", 7, 1), ("fail", 10, 1), ("ok", 0, 1)]
    assert len(broker.values) == 3


def test_messages_of_a_stopped_stream_without_an_answer_are_unknown(
    java: Client, broker: FakeBroker, sends: Sends
) -> None:
    broker.acts.extend([Act(reply=False)] * 1000)
    stream = start(java, broker.endpoint, StreamLoad(topic="t", rate=100))
    wait_until(lambda: len(broker.values) >= 1, within_s=60, awaiting="a message at the broker")
    counts = stream.stop(flush_s=0.2)
    assert not counts.running and counts.ok == 0
    assert counts.sent == counts.fail + counts.info == len(sends())
    arrived = {identity.seq for value in broker.values if (identity := decode(value))}
    assert arrived <= {row["seq"] for row in sends() if row["outcome"] == "info"}


def test_a_stream_that_cannot_connect_ends_when_it_is_stopped(java: Client, sends: Sends) -> None:
    """The producer waits for metadata in `send`; nothing has left the client."""
    stream = start(java, Endpoint("127.0.0.1", 1), StreamLoad(topic="t", rate=100))
    wait_until(lambda: stream.counts().sent, within_s=60, awaiting="a message")
    counts = stream.stop(flush_s=0.0)
    assert counts.sent == counts.fail == len(sends()) >= 1


@pytest.mark.parametrize("kill_after", [1, 777, 9000])
def test_a_killed_client_leaves_no_torn_row(
    java: Client, broker: FakeBroker, sends: Sends, kill_after: int
) -> None:
    start(java, broker.endpoint, StreamLoad(topic="t", rate=20_000), config={"linger.ms": 5})
    wait_until(lambda: len(broker.values) >= kill_after, within_s=60, awaiting="messages", poll_s=0.005)
    java.kill()
    rows = sends()
    assert [row["seq"] for row in rows] == list(range(len(rows)))
    arrived = {
        identity.seq: offset for offset, value in enumerate(broker.values) if (identity := decode(value))
    }
    assert set(arrived) <= {row["seq"] for row in rows}
    acknowledged = [row for row in rows if row["outcome"]]
    assert all((row["outcome"], row["offset"]) == ("ok", arrived[row["seq"]]) for row in acknowledged)


@pytest.mark.parametrize("via", ["java", "librdkafka"])
def test_a_journal_that_cannot_be_written_makes_the_run_invalid(
    java: Client, broker: FakeBroker, journal_path: Path, via: Via
) -> None:
    beside(journal_path, 1).mkdir()
    with pytest.raises(InvalidRunError, match="of the stream stream cannot be recorded: File exists"):
        ended(start(java, broker.endpoint, StreamLoad(topic="t", rate=100), via=via))


def test_a_full_disk_makes_the_run_invalid(client: Client, broker: FakeBroker, sends: Sends) -> None:
    """The JVM may write files of 8 KiB, so there is room for the header and for no row."""
    java = " ".join(java_client(kafka_version("2.7.1")).argv)
    argv = ("bash", "-c", f"ulimit -f 8 && exec {java}")
    client.use(ClientProgram(via="java", argv=argv, name="java"))
    stream = start(client, broker.endpoint, StreamLoad(topic="t", rate=100))
    with pytest.raises(InvalidRunError, match="`start_stream` of stream failed with .*File too large"):
        ended(stream)
    assert sends() == [] and broker.values == []
