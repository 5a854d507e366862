"""Streams, pinned writes and consumers in a real agent, and what a killed client leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_broker import Act, FakeBroker

from harness.errors import ProcessDiedError
from harness.history.identity import decode
from harness.history.stream_journal import PAGE_BYTES, ROW_BYTES, beside
from harness.kafka.model import Endpoint, TopicPartition
from harness.waiting import wait_until
from run.producer import Producer
from workloads.agent.producers.stream import Pacer
from workloads.client.client import Client
from workloads.protocol.spec import ConsumerSpec, ProducerSpec, StreamLoad

pytestmark = pytest.mark.usefixtures("no_process_left")

CLUSTER_AUTHORIZATION_FAILED = 31

Rows = Callable[[str], list[dict[str, Any]]]
Sends = Callable[[], list[dict[str, Any]]]


def producer(broker: FakeBroker, **settings: Any) -> ProducerSpec:
    patient = {"request_timeout_s": 60.0, "connect_timeout_s": 60.0, **settings}
    return ProducerSpec(writer=1, name="producer1", brokers=(broker.endpoint,), **patient)


def consumer(broker: Endpoint, **settings: Any) -> ConsumerSpec:
    partitions = (TopicPartition("t", 0),)
    return ConsumerSpec(reader=9, name="consumer9", brokers=(broker,), partitions=partitions, **settings)


def test_a_stream_ends_at_its_count(
    client: Client, broker: FakeBroker, rows: Rows, sends: Sends, journal_path: Path
) -> None:
    load = StreamLoad(topic="t", rate=500, size_bytes=300, max_count=250)
    stream = client.start_stream(producer(broker), load)
    wait_until(stream.counts, within_s=60, awaiting="the stream's end", accept=lambda c: not c.running)
    counts = stream.stop()
    assert (counts.sent, counts.ok, counts.fail, counts.info) == (250, 250, 0, 0)
    assert [(row["seq"], row["offset"], row["outcome"]) for row in sends()] == [
        (seq, seq, "ok") for seq in range(250)
    ]
    assert {identity.intact for value in broker.values if (identity := decode(value))} == {True}
    assert beside(journal_path, 1).stat().st_size == PAGE_BYTES + 250 * ROW_BYTES
    assert rows("sent") == rows("done") == []
    assert {len(value) for value in broker.values} == {300}
    (written,) = rows("writers")
    assert (written["role"], written["interval_ns"]) == ("stream", 2_000_000)


def test_messages_go_to_their_partitions_in_turn(client: Client, broker: FakeBroker, sends: Sends) -> None:
    broker.partitions = 4
    load = StreamLoad(topic="t", partitions=(0, 3, 1), rate=2000, max_count=300)
    stream = client.start_stream(producer(broker), load)
    wait_until(stream.counts, within_s=60, awaiting="the stream's end", accept=lambda c: not c.running)
    homes = [identity.home for value in broker.values if (identity := decode(value))]
    assert homes == broker.homes and set(homes) == {"t/0", "t/1", "t/3"}
    stated = [(f"{row['topic']}/{row['partition']}", row["offset"]) for row in sends()]
    assert sorted(stated) == sorted((home, offset) for offset, home in enumerate(broker.homes))
    assert [home for home, _ in stated[:4]] == ["t/0", "t/3", "t/1", "t/0"]


def test_a_stream_sends_at_its_rate() -> None:
    pacer = Pacer(rate=50)
    counts = [pacer.take(step / 100, at_most=1000) for step in range(201)]
    assert sum(counts) == 100
    assert max(counts) == 1
    assert pacer.next_s(2.0) == pytest.approx(0.02)


def test_a_stream_catches_up_on_one_second_at_most() -> None:
    pacer = Pacer(rate=50)
    assert pacer.take(1.0, at_most=1000) == 50
    assert pacer.take(11.0, at_most=1000) == 50
    assert pacer.take(11.02, at_most=1000) == 1


def test_a_stream_sends_later_what_there_was_no_room_for() -> None:
    pacer = Pacer(rate=50)
    assert [pacer.take(1.0, at_most=most) for most in (-5, 0, 10, 1000)] == [0, 0, 10, 40]


def test_a_slow_stream_catches_up_on_one_message() -> None:
    pacer = Pacer(rate=0.5)
    assert [pacer.take(elapsed_s, at_most=1000) for elapsed_s in (1.9, 2.0, 60.0)] == [0, 1, 1]


def test_every_message_is_recorded_before_it_reaches_the_broker(
    client: Client, broker: FakeBroker, sends: Sends
) -> None:
    stream = client.start_stream(producer(broker), StreamLoad(topic="t", rate=2000))
    wait_until(lambda: len(broker.values) > 300, within_s=60, awaiting="300 messages")
    arrived = {identity.seq for value in list(broker.values) if (identity := decode(value))}
    recorded = {row["seq"] for row in sends()}
    assert arrived <= recorded
    stream.stop()


def test_messages_of_a_stopped_stream_without_an_answer_are_unknown(
    client: Client, broker: FakeBroker, sends: Sends
) -> None:
    broker.acts.extend([Act(reply=False)] * 1000)
    stream = client.start_stream(producer(broker), StreamLoad(topic="t", rate=100))
    wait_until(lambda: len(broker.values) >= 1, within_s=60, awaiting="a message at the broker")
    counts = stream.stop(flush_s=0.2)
    assert counts.ok == 0 and counts.info == counts.sent > 0
    assert {row["outcome"] for row in sends()} == {"info"}


def test_every_message_has_an_outcome_after_a_fatal_error(
    client: Client, broker: FakeBroker, sends: Sends
) -> None:
    """An idempotent producer that may not have an id gives up for good."""
    broker.identifies.extend([CLUSTER_AUTHORIZATION_FAILED] * 100)
    load = StreamLoad(topic="t", rate=50, max_count=60)
    stream = client.start_stream(producer(broker, idempotent=True, acks=-1), load)
    wait_until(stream.counts, within_s=60, awaiting="the stream's end", accept=lambda c: not c.running)
    assert stream.stop().sent == 60
    outcomes = [row["outcome"] for row in sends()]
    assert len(outcomes) == 60
    assert set(outcomes) <= {"fail", "info"}


def test_another_producer_goes_on_after_a_fatal_error(
    client: Client, broker: FakeBroker, rows: Rows, sends: Sends
) -> None:
    broker.identifies.append(CLUSTER_AUTHORIZATION_FAILED)
    load = StreamLoad(topic="t", rate=50, renewed=True)
    stream = client.start_stream(producer(broker, idempotent=True, acks=-1), load)
    wait_until(lambda: stream.counts().ok > 20, within_s=60, awaiting="messages of the second producer")
    stream.stop()
    outcomes = [row["outcome"] for row in sends()]
    assert None not in outcomes
    assert outcomes[0] in ("fail", "info") and len(rows("writers")) == 1


@pytest.mark.parametrize("kill_after", [1, 100, 777, 2000])
def test_a_killed_client_leaves_a_readable_journal_and_unknown_outcomes(
    client: Client, broker: FakeBroker, sends: Sends, kill_after: int
) -> None:
    stream = client.start_stream(producer(broker), StreamLoad(topic="t", rate=3000))
    wait_until(lambda: len(broker.values) >= kill_after, within_s=60, awaiting="messages", poll_s=0.005)
    client.kill()
    with pytest.raises(ProcessDiedError, match="client1 has ended"):
        stream.counts()
    sent = [row["seq"] for row in sends()]
    assert sent == list(range(len(sent)))
    arrived = {identity.seq for value in broker.values if (identity := decode(value))}
    assert arrived <= set(sent)
    assert {row["seq"] for row in sends() if row["outcome"]} <= arrived


def test_a_command_in_progress_fails_when_the_client_dies(client: Client, broker: FakeBroker) -> None:
    broker.acts.append(Act(reply=False))
    future = Producer(client, producer(broker)).send_later("t", "c")
    wait_until(lambda: len(broker.values) == 1, within_s=60, awaiting="the message at the broker")
    client.kill()
    with pytest.raises(ProcessDiedError):
        future.result(60)
    assert not client.alive


def test_pinned_writes_end_with_the_first_refusal(client: Client, broker: FakeBroker) -> None:
    broker.acts.extend([Act()] * 5 + [Act(error=6, append=False)])
    writes = Producer(client, producer(broker, acks=1)).keep_writing("t", every_s=0.01).writes
    result = writes.wait_end(within_s=60)
    assert (result.sent, result.ok, result.last_error, result.running) == (6, 5, 6, False)
    assert result.offsets == (0, 1, 2, 3, 4)


def test_pinned_writes_can_go_on_after_errors_until_stopped(client: Client, broker: FakeBroker) -> None:
    broker.acts.extend([Act(error=6, append=False)] * 3)
    writes = Producer(client, producer(broker, acks=1)).keep_writing("t", every_s=0.01, stop_on=()).writes
    wait_until(lambda: writes.progress().ok >= 3, within_s=60, awaiting="three accepted writes")
    stopped = writes.stop()
    assert stopped.sent >= 6
    assert not stopped.running


def test_a_consumer_reads_all_up_to_the_end(client: Client, broker: FakeBroker, rows: Rows) -> None:
    [Producer(client, producer(broker)).send("t", label) for label in ["c", "d", "e"]]
    result = client.read(consumer(broker.endpoint), within_s=60)
    assert result.complete and result.count == 3 and result.errors == ()
    assert (result.partitions[0].start, result.partitions[0].end) == (0, 3)
    assert [(r["reader"], r["offset"], r["writer"], r["seq"]) for r in rows("reads")] == [
        (9, 0, 1, 0),
        (9, 1, 1, 1),
        (9, 2, 1, 2),
    ]
    assert all(r["poll"] >= 1 and r["group"] is None for r in rows("reads"))


def test_a_pinned_consumer_fetches_from_its_one_broker(
    client: Client, broker: FakeBroker, rows: Rows
) -> None:
    [Producer(client, producer(broker)).send("t", label) for label in ["c", "d"]]
    result = client.read(consumer(broker.endpoint, pinned=True), within_s=60)
    assert result.complete and [row["seq"] for row in rows("reads")] == [0, 1]


def test_a_consumer_without_a_broker_is_incomplete_and_reports_why(client: Client) -> None:
    result = client.read(consumer(Endpoint("127.0.0.1", 1)), within_s=1.0)
    assert not result.complete and result.count == 0
    assert result.errors


def test_a_started_consumer_reads_on(client: Client, broker: FakeBroker) -> None:
    started = client.start_consumer(consumer(broker.endpoint))
    [Producer(client, producer(broker)).send("t", label) for label in ["c", "d"]]
    wait_until(lambda: started.progress().count == 2, within_s=60, awaiting="two records")
    Producer(client, producer(broker)).send("t", "e")
    wait_until(lambda: started.progress().count == 3, within_s=60, awaiting="the third record")
    assert started.stop(within_s=60).count == 3
