"""Asks a running cluster for its inventory: `inventory_worker RUNS CLUSTER_FILE OUT ALIKE`.

ALIKE topics of one shape are created first. OUT is the cluster file that results, with a comment on how long
the answer took. Prints the run folder.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from harness import artifacts
from harness.cluster.cluster_file import read_cluster_file
from harness.cluster.inventory import live
from harness.cluster.inventory.model import cluster_file
from harness.cluster.setup import Setup
from harness.console import Progress
from harness.kafka.model import Topic
from harness.kafka.versions import kafka_version
from harness.lab.embedded.namespaces import run_inside
from harness.waiting import wait_until
from run.folder import RunFolder
from run.runner import RunOptions, run_scenario
from run.scenario import Scenario
from run.stage import Stage


def body(out: Path, alike: int, stage: Stage) -> None:
    """Create topics, and ask for the inventory."""
    brokers = [str(host.broker_endpoint) for host in stage.lab.topology.role("broker")]
    admins = [AdminClient({"bootstrap.servers": broker}) for broker in brokers]
    shape = {"num_partitions": 2, "replication_factor": 1, "config": {"retention.ms": "7200000"}}
    topics = [NewTopic(f"alike-{number:03}", **shape) for number in range(alike)]
    for created in admins[0].create_topics(topics).values():
        created.result(60)
    wait_until(
        lambda: all(_known(admin) == alike for admin in admins),
        within_s=60,
        awaiting="every broker to know the topics",
    )
    bootstrap = ",".join(brokers)
    began_s = time.monotonic()
    inventory = live.read(bootstrap)
    took_s = time.monotonic() - began_s
    text = cluster_file(inventory, [f"--bootstrap {bootstrap}"])
    out.write_text(f"{text}# took {took_s:.2f} s\n")


def _known(admin: AdminClient) -> int:
    """How many of the topics a broker knows, with their partitions."""
    topics = admin.list_topics(timeout=10).topics.values()
    return sum(topic.topic.startswith("alike") and len(topic.partitions) == 2 for topic in topics)


def main(runs: str, file: str, out: str, alike: str) -> int:
    described = read_cluster_file(Path(file))
    version = kafka_version(described.kafka)
    artifacts.resolve(version.version)
    brokers = tuple(host.node_id for host in described.layout.topology(described.mode).role("broker"))
    scenario = Scenario(
        name="inventory",
        title="Somebody asks a running cluster what it is",
        article="-",
        section="",
        body=partial(body, Path(out), int(alike)),
        setup=Setup(
            topics=(Topic("orders", brokers[:3], config={"retention.ms": "60000", "segment.ms": "30000"}),),
            brokers=brokers,
            controller="broker1",
            zookeeper_leader="zookeeper1" if described.mode == "zookeeper" else "zookeeper2",
            stream_rate=0.0,
            for_layout=True,
        ),
        claims=(),
        faults=(),
        outcome="",
        kafka=described.kafka,
        mode=described.mode,
    )
    options = RunOptions(
        version=version,
        mode=described.mode,
        layout=described.layout,
        described=True,
        settings=described.settings,
    )
    folder = RunFolder.create(Path(runs), scenario.name)
    status = run_inside(
        lambda: 0 if run_scenario(scenario, options, folder, Progress()).status == "complete" else 1
    )
    sys.stdout.write(f"{folder.path}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
