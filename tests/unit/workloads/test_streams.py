"""Background streams, pinned writes and readers, and what a killed client leaves behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_broker import Act, FakeBroker

from harness.errors import ProcessDiedError
from harness.history.identity import decode
from harness.waiting import wait_until
from workloads.client.client import Client
from workloads.protocol.spec import Load, Reader, Writer

Rows = Callable[[str], list[dict[str, Any]]]


def streamer(broker: FakeBroker, number: int = 1, **settings: Any) -> Writer:
    return Writer(number, f"stream{number}", (broker.address,), **settings)


def test_a_stream_sends_at_its_rate_and_ends_at_its_count(
    client: Client, broker: FakeBroker, rows: Rows
) -> None:
    stream = client.start_stream(streamer(broker), Load("t", rate=500, size_bytes=300, max_count=250))
    wait_until(stream.counts, within_s=10, awaiting="the stream's end", accept=lambda c: not c.running)
    counts = stream.stop()
    assert (counts.sent, counts.ok, counts.fail, counts.info) == (250, 250, 0, 0)
    assert [row["seq"] for row in rows("sent")] == list(range(250))
    assert {row["outcome"] for row in rows("done")} == {"ok"}
    first, last = rows("sent")[0]["sent_ns"], rows("sent")[-1]["sent_ns"]
    assert 0.4 < (last - first) / 1e9 < 2.0
    assert {len(value) for value in broker.values} == {300}
    assert rows("writers")[0]["role"] == "stream"


def test_every_message_is_recorded_before_it_reaches_the_broker(
    client: Client, broker: FakeBroker, rows: Rows
) -> None:
    stream = client.start_stream(streamer(broker), Load("t", rate=2000))
    wait_until(lambda: len(broker.values) > 300, within_s=10, awaiting="300 messages")
    arrived = {identity.seq for value in list(broker.values) if (identity := decode(value))}
    recorded = {row["seq"] for row in rows("sent")}
    assert arrived <= recorded
    stream.stop()


def test_unanswered_messages_of_a_stopped_stream_are_unknown(
    client: Client, broker: FakeBroker, rows: Rows
) -> None:
    broker.acts.extend([Act(reply=False)] * 1000)
    stream = client.start_stream(streamer(broker), Load("t", rate=100))
    wait_until(lambda: len(broker.values) >= 1, within_s=10, awaiting="a message at the broker")
    counts = stream.stop(flush_s=0.2)
    assert counts.ok == 0 and counts.info == counts.sent > 0
    assert {row["outcome"] for row in rows("done")} == {"info"}


@pytest.mark.parametrize("kill_after", [1, 100, 777, 2000])
def test_a_killed_client_leaves_a_readable_journal_and_unknown_outcomes(
    client: Client, broker: FakeBroker, rows: Rows, kill_after: int
) -> None:
    stream = client.start_stream(streamer(broker), Load("t", rate=3000))
    wait_until(lambda: len(broker.values) >= kill_after, within_s=10, awaiting="messages", poll_s=0.005)
    client.kill()
    with pytest.raises(ProcessDiedError, match="client1 has ended"):
        stream.counts()
    sent = {row["seq"] for row in rows("sent")}
    done = {row["seq"] for row in rows("done")}
    arrived = {identity.seq for value in broker.values if (identity := decode(value))}
    assert arrived <= sent and done <= sent


def test_a_call_under_way_fails_when_the_client_dies(client: Client, broker: FakeBroker) -> None:
    broker.acts.append(Act(reply=False))
    future = client.send_later("t", "c", streamer(broker, request_timeout_s=30.0))
    wait_until(lambda: len(broker.values) == 1, within_s=10, awaiting="the message at the broker")
    client.kill()
    with pytest.raises(ProcessDiedError):
        future.result(5)
    assert not client.alive


def test_pinned_writes_end_with_the_first_refusal(client: Client, broker: FakeBroker) -> None:
    broker.acts.extend([Act()] * 5 + [Act(error=6, append=False)])
    writes = client.zombie_writes("t", streamer(broker, acks=1), every_s=0.01)
    result = writes.wait_end(within_s=5)
    assert (result.sent, result.ok, result.last_error, result.running) == (6, 5, 6, False)
    assert result.offsets == (0, 1, 2, 3, 4)


def test_pinned_writes_can_pass_over_errors_until_stopped(client: Client, broker: FakeBroker) -> None:
    broker.acts.extend([Act(error=6, append=False)] * 3)
    writes = client.zombie_writes("t", streamer(broker, acks=1), every_s=0.01, stop_on=())
    wait_until(lambda: writes.progress().ok >= 3, within_s=5, awaiting="three accepted writes")
    assert writes.stop().sent >= 6


def test_the_final_reader_reads_all_up_to_the_end(client: Client, broker: FakeBroker, rows: Rows) -> None:
    client.send_all("t", ["c", "d", "e"], streamer(broker))
    result = client.read(Reader(9, "final", (broker.address,), (("t", 0),)))
    assert result.complete and result.count == 3 and result.errors == ()
    assert (result.partitions[0].start, result.partitions[0].end) == (0, 3)
    assert [(r["reader"], r["offset"], r["writer"], r["seq"]) for r in rows("reads")] == [
        (9, 0, 1, 0),
        (9, 1, 1, 1),
        (9, 2, 1, 2),
    ]
    assert all(r["poll"] >= 1 and r["group"] is None for r in rows("reads"))


def test_a_pinned_reader_asks_its_one_broker(client: Client, broker: FakeBroker, rows: Rows) -> None:
    client.send_all("t", ["c", "d"], streamer(broker))
    result = client.read(Reader(9, "pinned", (broker.address,), (("t", 0),), pinned=True))
    assert result.complete and [row["seq"] for row in rows("reads")] == [0, 1]


def test_a_paused_client_makes_up_for_one_second_only(client: Client, broker: FakeBroker) -> None:
    stream = client.start_stream(streamer(broker), Load("t", rate=100))
    wait_until(lambda: len(broker.values) > 10, within_s=10, awaiting="ten messages")
    process = client._link._pipe.process  # type: ignore[attr-defined]
    process.send_signal(signal.SIGSTOP)
    paused_at = time.monotonic()
    wait_until(lambda: time.monotonic() - paused_at > 2.5, within_s=5, awaiting="2.5 s to pass")
    before = len(broker.values)
    process.send_signal(signal.SIGCONT)
    resumed_at = time.monotonic()
    wait_until(lambda: len(broker.values) >= before + 80, within_s=10, awaiting="the debt to be paid")
    assert stream.counts().sent - before < 100 * (1.5 + time.monotonic() - resumed_at)
    stream.stop()


def test_a_reader_without_a_broker_is_incomplete_and_says_why(client: Client) -> None:
    result = client.read(Reader(9, "final", ("127.0.0.1:1",), (("t", 0),)), within_s=1.0)
    assert not result.complete and result.count == 0
    assert result.errors


def test_a_follower_reads_on(client: Client, broker: FakeBroker) -> None:
    follower = client.follow(Reader(9, "follower", (broker.address,), (("t", 0),)))
    client.send_all("t", ["c", "d"], streamer(broker))
    wait_until(lambda: follower.result().count == 2, within_s=10, awaiting="two records")
    client.send("t", "e", streamer(broker))
    wait_until(lambda: follower.result().count == 3, within_s=10, awaiting="the third record")
    assert follower.stop().count == 3
