"""The raw transactional producer: what it sends, what it repeats, what it holds back, and what it records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fake_broker import Act, FakeBroker
from handles import transactions
from kafka.record import MemoryRecords

from harness.errors import LabError
from workloads.client.client import Client
from workloads.protocol.commands import Deliver, HoldEnd, HoldSend, SendOffsets
from workloads.protocol.results import TransactionEnd
from workloads.protocol.spec import ProducerSpec, Route

Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def spec(broker: FakeBroker) -> ProducerSpec:
    return ProducerSpec(writer=1, name="orders", brokers=(broker.endpoint,), transactional_id="orders")


def batches(broker: FakeBroker) -> list[tuple[bool, int, int]]:
    """Of each batch written: whether it is transactional, its producer epoch and its sequence."""
    found = [batch for data in broker.batches for batch in MemoryRecords(data)]
    return [(batch.is_transactional, batch.producer_epoch, batch.base_sequence) for batch in found]


def send(client: Client, spec: ProducerSpec, broker: FakeBroker, label: str) -> Any:
    return transactions(client, spec, broker.address).send("t", label)


@pytest.mark.parametrize(
    ("protocol", "added", "epochs", "produced"), [("v1", 2, [0, 0, 0], 7), ("v2", 0, [0, 0, 1], 12)]
)
def test_each_generation_sends_its_requests(
    client: Client,
    broker: FakeBroker,
    spec: ProducerSpec,
    rows: Rows,
    protocol: Any,
    added: int,
    epochs: list[int],
    produced: int,
) -> None:
    spec = replace(spec, transaction_protocol=protocol)
    assert transactions(client, spec, broker.address).initialise(5) == 0
    assert transactions(client, spec).begin() == 0
    assert send(client, spec, broker, "a").ok and send(client, spec, broker, "b").ok
    end = transactions(client, spec, broker.address).commit()
    assert end == TransactionEnd("committed", 0)
    assert transactions(client, spec).begin() == 1
    assert send(client, spec, broker, "c").ok
    end = transactions(client, spec, broker.address).abort()
    assert end == TransactionEnd("aborted", 0)
    assert batches(broker) == [(True, epochs[n], s) for n, s in enumerate((0, 1, 2 if added else 0))]
    assert [what for what, _ in broker.asked].count("add") == added
    assert [request.committed for what, request in broker.asked if what == "end"] == [True, False]
    assert set(broker.produce_versions) == {produced}
    assert [(row["txn"], row["event"], row["error"]) for row in rows("transactions")] == [
        (0, "begin", 0),
        (0, "committing", 0),
        (0, "committed", 0),
        (1, "begin", 0),
        (1, "aborting", 0),
        (1, "aborted", 0),
    ]
    assert [(row["label"], row["txn"]) for row in rows("sent")] == [("a", 0), ("b", 0), ("c", 1)]
    assert rows("writers")[0]["transactional_id"] == "orders"
    (given,) = rows("producer_ids")
    assert (given["writer"], given["error"], given["producer_id"], given["producer_epoch"]) == (
        spec.writer, 0, 1, 0,
    )  # fmt: skip
    assert given["asked_ns"] < given["ns"] < rows("transactions")[0]["ns"]


def test_the_answer_to_init_producer_id_is_recorded_with_the_time_of_its_request(
    client: Client, broker: FakeBroker, spec: ProducerSpec, rows: Rows
) -> None:
    broker.coordinates.extend([51, 0, 51, 48])
    assert transactions(client, spec, broker.address).initialise(5) == 0
    assert transactions(client, spec, broker.address).initialise(5) == 48
    assert transactions(client, spec, "127.0.0.1:1").initialise(1) == -187
    first, refused, unanswered = rows("producer_ids")
    assert [row["error"] for row in (first, refused, unanswered)] == [0, 48, -187]
    assert first["ns"] - first["asked_ns"] < 100_000_000, "of the request that was answered, not of the first"
    assert refused["producer_id"] is unanswered["producer_id"] is None


def test_only_answers_that_say_later_are_repeated(
    client: Client, broker: FakeBroker, spec: ProducerSpec, rows: Rows
) -> None:
    broker.coordinates.extend([51, 16, 0])
    assert transactions(client, spec, broker.address).initialise(5) == 0
    assert len(broker.asked) == 3
    transactions(client, spec).begin()
    broker.coordinates.append(47)
    refused = send(client, spec, broker, "a")
    assert (refused.outcome, refused.error, refused.attempts) == ("fail", 47, 0)
    broker.acts.append(Act(error=48, append=False))
    assert send(client, spec, broker, "b").outcome == "fail"
    assert send(client, spec, broker, "c").ok
    assert batches(broker) == [(True, 0, 0)], "what was refused takes no sequence number"
    broker.coordinates.extend([51, 48])
    end = transactions(client, spec, broker.address).commit()
    assert end == TransactionEnd("unknown", 48)
    assert [what for what, _ in broker.asked] == ["init"] * 3 + ["add"] * 2 + ["end"] * 2
    assert rows("transactions")[-1]["event"] == "unknown"


def test_an_end_without_an_answer_is_unknown_and_may_be_asked_again(
    client: Client, broker: FakeBroker, spec: ProducerSpec
) -> None:
    transactions(client, spec, broker.address).initialise(5)
    transactions(client, spec).begin()
    nobody = "127.0.0.1:1"
    end = transactions(client, spec, nobody).commit(1)
    assert end == TransactionEnd("unknown", -187)
    again = transactions(client, spec, broker.address).commit()
    assert again == TransactionEnd("committed", 0)


def test_what_is_held_back_is_sent_when_it_is_delivered(
    client: Client, broker: FakeBroker, spec: ProducerSpec, rows: Rows
) -> None:
    transactions(client, spec, broker.address).initialise(5)
    transactions(client, spec).begin()
    route = Route(leader=broker.endpoint, coordinator=broker.endpoint)
    message = client.call(HoldSend(producer=spec, topic="t", label="late", route=route))
    end = client.call(HoldEnd(producer=spec, commit=False, coordinator=broker.endpoint))
    assert message.connection.endswith(f"-> {broker.address}")
    assert (broker.values, [what for what, _ in broker.asked]) == ([], ["init", "add"])
    assert rows("done") == []
    transactions(client, spec, broker.address).commit()
    transactions(client, spec).begin()
    assert send(client, spec, broker, "next").ok
    broker.coordinates.append(90)
    assert client.call(Deliver(producer=spec, number=end.number)).error == 90
    assert client.call(Deliver(producer=spec, number=message.number)).offset == 1
    assert [request.committed for what, request in broker.asked if what == "end"] == [True, False]
    assert batches(broker) == [(True, 0, 1), (True, 0, 0)]
    late = next(row for row in rows("done") if row["seq"] == 0)
    assert (late["outcome"], late["offset"]) == ("ok", 1)
    assert [row["event"] for row in rows("transactions")] == ["begin", "committing", "committed", "begin"]
    with pytest.raises(LabError, match="holds no request"):
        client.call(Deliver(producer=spec, number=end.number))


def test_a_message_that_waits_for_the_last_transaction_is_repeated(
    client: Client, broker: FakeBroker, spec: ProducerSpec
) -> None:
    spec = replace(spec, transaction_protocol="v2")
    transactions(client, spec, broker.address).initialise(5)
    transactions(client, spec).begin()
    broker.acts.extend([Act(error=51, append=False)] * 2)
    result = send(client, spec, broker, "a")
    assert (result.outcome, result.attempts, broker.values != []) == ("ok", 3, True)


def test_the_last_attempt_is_answered_too(client: Client, broker: FakeBroker, spec: ProducerSpec) -> None:
    """A message that is refused until the time is up is refused; its outcome is not unknown."""
    spec = replace(spec, transaction_protocol="v2", connect_timeout_s=0.1, request_timeout_s=0.1)
    transactions(client, spec, broker.address).initialise(5)
    transactions(client, spec).begin()
    broker.acts.extend([Act(error=51, append=False, after_s=0.7)] * 9)
    result = send(client, spec, broker, "a")
    assert (result.outcome, result.error, result.attempts) == ("fail", 51, 2)


def test_a_transactional_producer_sends_within_transactions(
    client: Client, broker: FakeBroker, spec: ProducerSpec
) -> None:
    with pytest.raises(LabError, match="initialise it before its transactions"):
        transactions(client, spec).begin()
    transactions(client, spec, broker.address).initialise(5)
    with pytest.raises(LabError, match="no open transaction"):
        send(client, spec, broker, "a")


def send_offset(client: Client, spec: ProducerSpec, broker: FakeBroker, offset: int) -> int:
    return client.call(
        SendOffsets(
            producer=spec,
            group="g",
            reader=3,
            topic="t",
            offset=offset,
            within_s=1,
            coordinator=broker.endpoint,
            group_coordinator=broker.endpoint,
        )
    )


def told(rows: Rows) -> list[tuple[Any, ...]]:
    return [
        (row["event"], row["offset"], row["txn"], row["error"], row["asked_ns"] < row["ns"])
        for row in rows("groups")
    ]


@pytest.mark.parametrize(("protocol", "added", "version"), [("v1", 2, 2), ("v2", 0, 5)])
def test_a_transaction_commits_offsets(
    client: Client,
    broker: FakeBroker,
    spec: ProducerSpec,
    rows: Rows,
    protocol: Any,
    added: int,
    version: int,
) -> None:
    spec = replace(spec, transaction_protocol=protocol)
    transactions(client, spec, broker.address).initialise(5)
    for commit in (True, False):
        transactions(client, spec).begin()
        assert [send_offset(client, spec, broker, offset) for offset in (10, 11)] == [0, 0]
        transactions(client, spec, broker.address).must_end(commit=commit)
    asked = [what for what, _ in broker.asked]
    assert asked.count("add offsets") == added, "once in each transaction"
    sent = [request for what, request in broker.asked if what == "commit offsets"]
    assert [request.API_VERSION for request in sent] == [version] * 4
    assert (sent[0].group_id, sent[0].transactional_id) == ("g", "orders")
    assert [request.producer_epoch for request in sent] == ([0] * 4 if added else [0, 0, 1, 1])
    assert told(rows) == [
        ("sent", 10, 0, 0, True),
        ("sent", 11, 0, 0, True),
        ("committed", 10, 0, 0, True),
        ("committed", 11, 0, 0, True),
        ("sent", 10, 1, 0, True),
        ("sent", 11, 1, 0, True),
    ]
    assert {(row["group"], row["reader"], row["txn_writer"]) for row in rows("groups")} == {("g", 3, 1)}


def test_offsets_that_were_refused_may_be_committed_all_the_same(
    client: Client, broker: FakeBroker, spec: ProducerSpec, rows: Rows
) -> None:
    transactions(client, spec, broker.address).initialise(5)
    transactions(client, spec).begin()
    broker.coordinates.append(47)
    assert send_offset(client, spec, broker, 9) == 47
    assert broker.asked[-1][0] == "add offsets", "what was not added is not committed"
    broker.coordinates.extend([51, 0, 16, 0])
    assert send_offset(client, spec, broker, 10) == 0
    broker.coordinates.append(22)
    assert send_offset(client, spec, broker, 11) == 22
    broker.coordinates.append(48)
    end = transactions(client, spec, broker.address).commit()
    assert end == TransactionEnd("unknown", 48)
    transactions(client, spec, broker.address).commit()
    assert told(rows) == [
        ("sent", 10, 0, 0, True),
        ("commit_failed", 10, 0, 48, True),
        ("commit_failed", 11, 0, 22, True),
        ("committed", 10, 0, 0, True),
        ("commit_failed", 11, 0, 22, True),
    ]


def test_offsets_need_an_open_transaction(client: Client, broker: FakeBroker, spec: ProducerSpec) -> None:
    transactions(client, spec, broker.address).initialise(5)
    with pytest.raises(LabError, match="no open transaction"):
        send_offset(client, spec, broker, 9)
