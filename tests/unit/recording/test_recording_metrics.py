"""A recording as OpenMetrics."""

from __future__ import annotations

from pathlib import Path

from harness.cluster.attached import topology_of
from harness.history.journal import Journal
from harness.kafka.model import Endpoint, PartitionState, TopicPartition
from harness.kafka.wire.metadata import AdvertisedBroker, AdvertisedCluster
from harness.observer.views import View, Views
from run.metrics import openmetrics, standing
from workloads.protocol.results import StreamCounts

KEY = TopicPartition("acked-1", 0)


def test_what_producers_achieved_and_brokers_state(tmp_path: Path) -> None:
    brokers = tuple(
        AdvertisedBroker(node_id=number, host="h", port=1, rack=rack)
        for number, rack in ((0, "eu-a"), (7, 'eu"b'))
    )
    described = AdvertisedCluster(cluster_id="c", controller=0, brokers=brokers)
    views = Views(Journal(tmp_path / "harness.jsonl"))
    state = PartitionState(leader=7, leader_epoch=1, isr=(7,), replicas=(0, 7))
    views.record(
        [
            View(source="broker0", subject="reachable", error="timed out"),
            View(source="broker7", subject="reachable"),
            View(source="broker7", subject="partition", topic_partition=KEY, state=state),
        ]
    )
    counts = {"acked-acks=1": StreamCounts(sent=9, ok=5, fail=1, info=2, running=True, throttled_ms=70)}
    text = openmetrics({"": standing(counts, views, (KEY,), topology_of(described, Endpoint("h", 1)))})
    assert text == (
        "# TYPE acked_messages counter\n"
        "# HELP acked_messages Messages by producer and outcome.\n"
        'acked_messages_total{producer="acked-acks=1",outcome="ok"} 5\n'
        'acked_messages_total{producer="acked-acks=1",outcome="fail"} 1\n'
        'acked_messages_total{producer="acked-acks=1",outcome="info"} 2\n'
        "# TYPE acked_throttled_ms counter\n"
        "# HELP acked_throttled_ms By how much quotas delayed answers to a producer.\n"
        'acked_throttled_ms_total{producer="acked-acks=1"} 70\n'
        "# TYPE acked_broker_answers gauge\n"
        "# HELP acked_broker_answers Whether the broker answered when it was asked last.\n"
        'acked_broker_answers{broker="0",az="eu-a"} 0\n'
        'acked_broker_answers{broker="7",az="eu\\"b"} 1\n'
        "# TYPE acked_partition_leader gauge\n"
        "# HELP acked_partition_leader Id of the leader; -1: none.\n"
        'acked_partition_leader{topic="acked-1",partition="0"} 7\n'
        "# TYPE acked_partition_in_sync_replicas gauge\n"
        "# HELP acked_partition_in_sync_replicas Replicas in the ISR.\n"
        'acked_partition_in_sync_replicas{topic="acked-1",partition="0"} 1\n'
        "# TYPE acked_partition_replicas gauge\n"
        "# HELP acked_partition_replicas Assigned replicas.\n"
        'acked_partition_replicas{topic="acked-1",partition="0"} 2\n'
        "# EOF\n"
    )
