"""A cluster that a user brings up with Compose alone, as `docs/compose.md` says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.lab.docker import engine as docker_engine
from harness.lab.docker import sweep as docker_sweep
from harness.waiting import wait_until

pytestmark = [pytest.mark.compose, pytest.mark.long]

_PRODUCE = """
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "broker1:9092,broker2:9092", "acks": "all"})
producer.produce("t", b"x", on_delivery=lambda error, message: print("delivered", error, message.offset()))
producer.flush(30)
"""
_CREATE = """
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient({"bootstrap.servers": "broker1:9092"})
while len(admin.list_topics(timeout=30).brokers) < 3:
    pass
admin.create_topics([NewTopic("t", num_partitions=1, replica_assignment=[[1, 2, 3]])])["t"].result(30)
"""


@pytest.mark.parametrize(
    ("mode", "kafka"), [("zookeeper", "2.7.1"), ("kraft", "3.9.1"), ("kraft-combined", "3.9.1")]
)
def test_a_cluster_by_hand_takes_a_message(mode: str, kafka: str, tmp_path: Path) -> None:
    written = subprocess.run(
        [sys.executable, "-m", "harness.cluster.by_hand", str(tmp_path), "--mode", mode, "--kafka", kafka],
        capture_output=True,
        text=True,
    )
    assert written.returncode == 0, written.stderr
    up = written.stdout.split()
    compose = up[: up.index("up")]
    client = docker_engine.connect()
    assert docker_sweep.leftovers(client, docker_sweep.BY_HAND) == [], "another cluster by hand is up"
    try:
        subprocess.run(up, check=True, capture_output=True)
        label = {"label": f"{docker_engine.LABEL_RUN}={docker_sweep.BY_HAND}"}

        def statuses() -> list[str]:
            return [entry["Status"] for entry in client.api.containers(filters=label)]

        unwell = wait_until(
            lambda: [text for text in statuses() if "starting" in text or "unhealthy" in text],
            within_s=90,
            awaiting="every container to be healthy",
            accept=lambda found: not found,
            poll_s=0.5,
        )
        assert unwell == []
        execute = [*compose, "exec", "-T", "client1", "python3", "-c"]
        subprocess.run([*execute, _CREATE], check=True)
        done = subprocess.run([*execute, _PRODUCE], check=True, capture_output=True, text=True)
        assert done.stdout == "delivered None 0\n"
    finally:
        subprocess.run([*compose, "down", "-v", "-t", "2"], capture_output=True)
        left = docker_sweep.leftovers(client, docker_sweep.BY_HAND)
        client.close()
    assert left == []
