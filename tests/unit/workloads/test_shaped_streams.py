"""Streams whose messages differ in size and have keys: what is drawn, and what clients send."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from fake_broker import FakeBroker

from harness.artifacts.java_client import java_client
from harness.history.identity import decode
from harness.kafka.versions import kafka_version
from harness.waiting import wait_until
from workloads.agent.producers.cycle import cycle
from workloads.client.client import Client
from workloads.protocol.spec import ClientProgram, ProducerSpec, StreamLoad, Via

pytestmark = pytest.mark.usefixtures("no_process_left")
SIZES = (80, 200, 200, 1500)


def shaped(**settings: Any) -> StreamLoad:
    """A load of three partitions."""
    return StreamLoad(**{"topic": "t", "partitions": (0, 1, 2), "sizes": SIZES, "rate": 2000.0, **settings})


def test_sizes_are_as_frequent_as_they_are_given() -> None:
    counts = Counter(one.size_bytes for one in cycle(shaped(), writer=1))
    total = counts.total()
    assert counts[200] / total == pytest.approx(0.5, abs=0.02)
    assert counts[80] / total == pytest.approx(0.25, abs=0.02)


def test_without_keys_partitions_come_in_turn() -> None:
    planned = cycle(shaped(), writer=1)
    assert [one.target for one in planned] == [number % 3 for number in range(len(planned))]


@pytest.mark.parametrize(("skew", "first"), [(0.0, 1 / 100), (1.0, 1 / 5.187)])
def test_keys_follow_zipf_s_law(skew: float, first: float) -> None:
    planned = cycle(shaped(keys=100, skew=skew), writer=1)
    counts = Counter(one.key for one in planned)
    assert len(counts) == 100
    assert counts["key-0"] / len(planned) == pytest.approx(first, rel=0.3 if skew == 0 else 0.1)


def test_a_key_has_the_partition_that_java_s_partitioner_gives_it() -> None:
    """`Utils.murmur2` of "key-1" is 193331640."""
    places = {one.key: one.target for one in cycle(shaped(keys=50, partitions=tuple(range(7))), writer=1)}
    assert places["key-1"] == 193331640 % 7
    assert len(set(places.values())) == 7


@pytest.mark.parametrize("via", ["librdkafka", "java"])
def test_clients_send_the_cycle(client: Client, broker: FakeBroker, via: Via) -> None:
    broker.partitions = 3
    if via == "java":
        client.use(ClientProgram(via="java", argv=java_client(kafka_version("2.7.1")).argv, name="java"))
    load = shaped(keys=20, skew=1.0, max_count=300)
    spec = ProducerSpec(
        writer=1,
        name="s",
        brokers=(broker.endpoint,),
        via=via,
        request_timeout_s=60.0,
        delivery_timeout_s=90.0,
    )
    stream = client.start_stream(spec, load)
    wait_until(stream.counts, within_s=60, awaiting="the stream's end", accept=lambda c: not c.running)
    assert stream.counts().ok == 300
    sent = {}
    for value, key, home in zip(broker.values, broker.keys, broker.homes, strict=True):
        identity = decode(value)
        assert identity is not None and identity.intact and identity.home == home
        sent[identity.seq] = (int(home.removeprefix("t/")), len(value), (key or b"").decode())
    planned = cycle(load, writer=1)
    assert [sent[n] for n in range(300)] == [(p.target, p.size_bytes, p.key) for p in planned[:300]]
