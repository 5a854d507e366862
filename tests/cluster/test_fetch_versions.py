"""FETCH in every version that a real broker offers: the same records of a replica, and those of its files."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from harness.cluster.attached import AttachedCluster, attach
from harness.errors import UsageError
from harness.history.identity import encode
from harness.host_files import Folder
from harness.kafka.model import Topic, TopicPartition
from harness.kafka.segments import read_own_log
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.logs import FetchResult, fetch_as_consumer, fetch_own_log
from harness.waiting import wait_until
from tests.cluster.foreign import IDS, ForeignCluster

pytestmark = pytest.mark.cluster

TOPIC = Topic("acked-versions", IDS)
KEY = TopicPartition("acked-versions", 0)
LEADER, FOLLOWER, FROZEN = IDS
OFFERED = {"2.7.1": range(4, 13), "3.9.1": range(4, 18), "4.3.1": range(4, 19), "4.4.0": range(4, 19)}
FETCH = 1


@pytest.fixture(
    scope="module",
    params=[
        "2.7.1",
        "4.4.0",
        *(pytest.param(version, marks=pytest.mark.long) for version in ("3.9.1", "4.3.1")),
    ],
)
def foreign(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ForeignCluster]:
    folder = tmp_path_factory.mktemp(f"fetch-{request.param}")
    with ForeignCluster(folder=folder, kafka=request.param, network=11) as cluster:
        yield cluster


def test_every_version_reads_the_same_log_to_its_end(foreign: ForeignCluster) -> None:
    """One follower is frozen, so that the log ends behind the high watermark."""
    cluster = attach([foreign.endpoint(LEADER)])
    least, most = cluster.api_versions()[f"broker{LEADER}"][FETCH]
    offered = [version for version in range(4, most + 1) if version >= least]
    assert offered == list(OFFERED[foreign.kafka])
    assert cluster.dialect.fetch == most
    cluster.create_topics((TOPIC,))
    produce(foreign, range(40))
    ahead = ends_at(foreign, cluster, 40)
    assert {one.high_watermark for one in ahead.values()} == {40}
    foreign.signal(FROZEN, signal.SIGSTOP)
    try:
        produce(foreign, range(40, 70))
        ends_at(foreign, cluster, 70)
        disk = {broker: read_own_log(Folder(foreign.data(broker)), KEY) for broker in (LEADER, FOLLOWER)}
        for broker in (LEADER, FOLLOWER):
            with Connection(foreign.endpoint(broker), 5.0) as connection:
                for version in offered:
                    spoken = replace(cluster.dialect, fetch=version)
                    own = fetch_own_log(connection, *KEY, dialect=spoken)
                    assert (own.error, own.log_end_offset, own.high_watermark) == (0, 70, 40), version
                    assert own.parsed.records == disk[broker].parsed.records
                    assert own.parsed.batches == disk[broker].parsed.batches
                    shown = fetch_as_consumer(connection, *KEY, dialect=spoken)
                    if broker == LEADER:
                        assert shown.parsed.records == disk[LEADER].parsed.records[:40], version
                    else:
                        assert shown.error == 6 or len(shown.records) <= 40, version
    finally:
        foreign.signal(FROZEN, signal.SIGCONT)
        cluster.delete(TOPIC.name, cluster.topic_ids([TOPIC.name])[TOPIC.name])


def test_a_topic_that_was_made_anew_is_read_under_its_new_id(foreign: ForeignCluster) -> None:
    cluster = attach([foreign.endpoint(LEADER)])
    topic = replace(TOPIC, name="acked-anew")
    cluster.create_topics((topic,))
    with Connection(foreign.endpoint(LEADER), 5.0) as connection:
        produce(foreign, range(3), topic.name)
        first = fetch_own_log(connection, topic.name, 0, dialect=cluster.dialect)
        cluster.delete(topic.name, cluster.topic_ids([topic.name])[topic.name])
        gone = fetch_own_log(connection, topic.name, 0, dialect=cluster.dialect)
        wait_until(  # with ZooKeeper, brokers forget a topic before the controller does
            lambda: cluster.create_topics((topic,)) or True,
            within_s=20,
            awaiting="the topic to be made anew",
            ignoring=(UsageError,),
        )
        produce(foreign, range(5), topic.name)
        second = fetch_own_log(connection, topic.name, 0, dialect=cluster.dialect)
    cluster.delete(topic.name, cluster.topic_ids([topic.name])[topic.name])
    assert (first.log_end_offset, gone.error, second.log_end_offset) == (3, 3, 5)


def produce(foreign: ForeignCluster, numbers: range, topic: str = TOPIC.name) -> None:
    """With acks=1, so that a frozen follower does not hold it up; each in a batch of its own."""
    producer = Producer({"bootstrap.servers": foreign.bootstrap, "acks": 1, "batch.num.messages": 1})
    for seq in numbers:
        producer.produce(topic, encode(1, seq, topic, 0), partition=0)
    assert producer.flush(30) == 0


def ends_at(foreign: ForeignCluster, cluster: AttachedCluster, end: int) -> dict[int, FetchResult]:
    """Wait until the leader and the live follower have the records."""
    return wait_until(
        lambda: {
            broker: fetch_own_log(foreign.endpoint(broker), *KEY, dialect=cluster.dialect)
            for broker in (LEADER, FOLLOWER)
        },
        accept=lambda logs: all(
            (one.log_end_offset, one.high_watermark) == (end, min(end, 40)) for one in logs.values()
        ),
        within_s=20,
        awaiting=f"the follower's log to end at {end}",
    )
