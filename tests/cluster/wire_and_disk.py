"""Replicas that random faults let fall behind, diverge or rot, read over the wire and from their files.

`python -m tests.cluster.wire_and_disk FOLDER VERSION SEED...` prints a JSON line for each seed. While the
logs are read, nobody writes, and links between brokers stay cut: no replica changes.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from harness.cluster.attached import attach
from harness.history.identity import encode
from harness.history.tables import read_table
from harness.host_files import Folder
from harness.kafka.model import Topic, broker_name
from harness.kafka.segments import segments
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.offsets import DEBUGGER, LATEST, end_offsets
from harness.lab.embedded.namespaces import run_inside
from harness.observer.copies import Copies
from harness.observer.replica_log import ReplicaLog, read_broker
from harness.observer.targets import Node
from harness.waiting import wait_until
from tests.cluster.foreign import IDS, PEERS_PORT
from tests.cluster.foreign_lab import ForeignLab

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_BATCH_HEADER = 61


class _Schedule:
    """One topic with one partition, and what a seed does to it."""

    def __init__(self, cluster: ForeignLab, seed: int) -> None:
        self.cluster, self.random = cluster, random.Random(seed)
        self.attached = attach([cluster.endpoint(broker) for broker in IDS])
        order = list(IDS)
        self.random.shuffle(order)
        self.topic = Topic(f"acked-seed-{seed}", tuple(order))
        self.sent = 0
        self.did: list[str] = []

    def leader(self) -> int:
        state = self.attached.partition(self.topic.name)
        return -1 if state is None else state.leader

    def write(self, *, acks: str) -> None:
        """Write some messages, compressed or not, in batches of random size."""
        config = {
            "bootstrap.servers": self.cluster.bootstrap,
            "acks": acks,
            "compression.type": self.random.choice(_CODECS),
            "batch.num.messages": self.random.choice((1, 7, 100)),
            "linger.ms": 5,
            "message.timeout.ms": 20_000,
        }
        producer, count = Producer(config), self.random.randint(20, 200)
        for _ in range(count):
            producer.produce(self.topic.name, encode(1, self.sent, self.topic.name, 0), partition=0)
            self.sent += 1
        assert producer.flush(30) == 0
        self.did.append(f"{count} with acks={acks}, {config['compression.type']}")

    def go(self, stack: ExitStack) -> None:
        """Let followers fall behind; maybe let the old leader diverge; maybe damage a replica."""
        self.write(acks="all")
        leader = self.leader()
        behind = self.random.sample([one for one in IDS if one != leader], self.random.randint(0, 2))
        diverges = len(behind) == 2 and self.random.random() < 0.7
        with ExitStack() as cuts:
            if behind:
                links = [f"{broker_name(one)} -> {broker_name(leader)}:{PEERS_PORT}" for one in behind]
                self.did.append(f"cut {links}")
                (cuts if diverges else stack).enter_context(self.cluster.nemesis.cut(*links))
                self.write(acks="1")
            if diverges:
                self.cluster.signal(leader, signal.SIGKILL)
                wait_until(
                    lambda: self.leader() not in (leader, -1),
                    within_s=60,
                    awaiting="another leader",
                    ignoring=(OSError,),
                )
        if diverges:
            self._return(stack, leader)
        else:
            self._wait_copied([leader, *(one for one in IDS if one not in (leader, *behind))])
        if self.random.random() < 0.6:
            self.damage(self.random.choice(IDS))

    def _return(self, stack: ExitStack, old: int) -> None:
        """The old leader comes back, and cannot fetch from the new one: it keeps what it alone had."""
        others = [one for one in IDS if one != old]
        links = [f"{broker_name(old)} -> {broker_name(one)}:{PEERS_PORT}" for one in others]
        cut = self.cluster.nemesis.cut(*links)
        self.write(acks="1")
        stack.enter_context(cut)
        self.cluster.start(old)
        self.cluster.wait_registered()
        self._wait_copied(others)
        self.did.append(f"{broker_name(old)} diverged from {broker_name(self.leader())}")

    def _wait_copied(self, brokers: Sequence[int]) -> None:
        """Wait until the logs of these brokers end at the same offset: nobody writes."""

        def end(broker: int) -> int:
            (key,) = self.topic.topic_partitions
            with Connection(self.cluster.endpoint(broker), timeout_s=5.0) as connection:
                ends = end_offsets(
                    connection, [key], at=LATEST, replica_id=DEBUGGER, dialect=self.attached.dialect
                )
            return ends[key].offset

        wait_until(
            lambda: len({end(broker) for broker in brokers}) == 1,
            within_s=60,
            awaiting=f"the logs of brokers {list(brokers)} to end at the same offset",
            ignoring=(OSError,),
        )

    def damage(self, broker: int) -> None:
        """Change bytes behind the header of a random batch of a segment."""
        folder = Folder(self.cluster.data(broker)).below(f"{self.topic.name}-0")
        name = segments(folder)[0]
        content = bytearray(folder.read(name))
        starts, position = [], 0
        while position + _BATCH_HEADER < len(content):
            starts.append(position)
            position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        for start in self.random.sample(starts, min(len(starts), self.random.randint(1, 3))):
            end = start + 12 + int.from_bytes(content[start + 8 : start + 12], "big")
            place = self.random.randrange(start + _BATCH_HEADER, end)
            content[place] ^= self.random.randint(1, 255)
        with (folder.path / name).open("r+b") as file:  # in place: the broker has it open
            file.write(content)
        self.did.append(f"damaged {broker_name(broker)}")

    def read(self, folder: Path, *, from_files: bool) -> tuple[list[ReplicaLog], Any]:
        """The logs of all replicas, and the table of their records."""
        copies, logs = Copies(folder), []
        for broker in IDS:
            data = Folder(self.cluster.data(broker)) if from_files else None
            node = Node(broker_name(broker), broker, self.cluster.endpoint(broker), data)
            partitions = self.topic.topic_partitions
            logs += read_broker(node, partitions, self.attached.dialect, copies, stopped=from_files)
        copies.finish()
        return logs, read_table(folder, "copies")


def compared(cluster: ForeignLab, folder: Path, seed: int) -> dict[str, Any]:
    """Carry out a seed; the records that differ between wire and files."""
    schedule = _Schedule(cluster, seed)
    schedule.attached.create_topics((schedule.topic,))
    with ExitStack() as stack:
        schedule.go(stack)
        wire, over_wire = schedule.read(folder / "wire", from_files=False)
        disk, on_disk = schedule.read(folder / "disk", from_files=True)
    outcome = {
        "seed": seed,
        "did": schedule.did,
        "records": on_disk.num_rows,
        "equal": over_wire.equals(on_disk),
        "wire": [(one.broker, one.leo, one.complete, one.error) for one in wire],
        "disk": [(one.broker, one.leo, one.complete, one.error) for one in disk],
        "distinct_ends": len({one.leo for one in disk}),
        "damaged": sum(intact is False for intact in on_disk["intact"].to_pylist()),
    }
    cluster.wait_registered()
    topic = schedule.topic.name
    schedule.attached.delete(topic, schedule.attached.topic_ids([topic])[topic])
    return outcome


def main() -> int:
    """Carry out seeds one after the other on one cluster."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kafka")
    parser.add_argument("seeds", type=int, nargs="+")
    options = parser.parse_args()

    def inside() -> int:
        with ForeignLab(folder=options.folder / "cluster", kafka=options.kafka) as cluster:
            for seed in options.seeds:
                outcome = compared(cluster, options.folder / str(seed), seed)
                print(json.dumps(outcome), flush=True)
        return 0

    return run_inside(inside)


if __name__ == "__main__":
    sys.exit(main())
