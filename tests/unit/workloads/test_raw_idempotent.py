"""The raw idempotent producer: a scenario names the sequence number of each message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_broker import Act, FakeBroker
from kafka.record import MemoryRecords

from harness.errors import LabError, UsageError
from run.producer import Producer
from workloads.client.client import Client
from workloads.protocol.spec import ProducerSpec

Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def spec(broker: FakeBroker) -> ProducerSpec:
    return ProducerSpec(writer=1, name="numbered", brokers=(broker.endpoint,), idempotent=True)


def test_messages_carry_the_producer_id_and_the_sequence_number_that_is_named(
    client: Client, broker: FakeBroker, spec: ProducerSpec, rows: Rows
) -> None:
    broker.identifies.extend([15, 0])
    Producer(client, spec).prepare("t")
    assert not broker.identifies, "what may succeed later is asked again"
    broker.acts.extend([Act(), Act(error=45, append=False)])
    assert Producer(client, spec).send("t", "second", sequence=1).ok
    refused = Producer(client, spec).send("t", "first", sequence=0)
    assert (refused.ok, refused.error, refused.attempts) == (False, 45, 1)
    (batch,) = (batch for data in broker.batches for batch in MemoryRecords(data))
    assert (batch.is_transactional, batch.base_sequence, batch.producer_epoch) == (False, 1, 0)
    assert batch.producer_id >= 0
    writer = rows("writers")[0]
    assert (writer["client"], writer["idempotent"], writer["transactional_id"]) == ("raw", True, None)


def test_a_broker_that_gives_no_producer_id_is_named(
    client: Client, broker: FakeBroker, spec: ProducerSpec
) -> None:
    broker.identifies.append(31)
    with pytest.raises(LabError, match="gave numbered no producer id: error 31"):
        Producer(client, spec).prepare("t")


def test_a_sequence_number_is_for_raw_idempotent_producers_alone(
    client: Client, broker: FakeBroker, spec: ProducerSpec
) -> None:
    with pytest.raises(LabError, match="has no producer id; prepare it before its first message"):
        Producer(client, spec).send("t", "early", sequence=0)
    Producer(client, spec).prepare("t")
    with pytest.raises(UsageError, match="with the sequence number None; give one with each message"):
        Producer(client, spec).send("t", "which")
    plain = ProducerSpec(writer=2, name="plain", brokers=(broker.endpoint,))
    with pytest.raises(UsageError, match="plain sends a message with the sequence number 3"):
        Producer(client, plain).send("t", "numbered", sequence=3)
    assert broker.values == []
