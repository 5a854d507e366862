"""`acked record` as a process of its own, and the truth about what it recorded, from the brokers' files.

A deleted topic's folders stay on disk for `log.segment.delete.delay.ms`, so the files can be read when the
recording has ended and removed its topic.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness.history.identity import decode
from harness.history.tables import read_table
from harness.host_files import Folder
from harness.kafka.batches import Record
from harness.kafka.model import TopicPartition
from harness.kafka.segments import read_folder
from harness.observer.copies import copies_of
from harness.waiting import wait_until
from tests.cluster.conftest import Finished
from tests.cluster.foreign import IDS, ForeignCluster


class Recorder:
    """A recording that is under way."""

    def __init__(self, runs: Path, *arguments: str) -> None:
        """Start it; ``arguments`` are those of the command."""
        self.runs = runs
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", "record", "--runs", str(runs), "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def folder(self) -> Path:
        """Its run folder."""
        return (self.runs / "record" / "latest").resolve()

    @property
    def topic(self) -> str:
        """Its topic."""
        name: str = json.loads((self.folder / "run.json").read_text())["recording"]["plan"]["topic"]
        return name

    def acknowledged(self) -> int:
        """How many messages were acknowledged so far."""
        journal = self.folder / "nodes" / "here" / "client.jsonl"
        return journal.read_bytes().count(b'"outcome":"ok"') if journal.exists() else 0

    def wait_recording(self) -> str:
        """Wait until messages are acknowledged; returns the topic."""
        self.wait_acknowledged(20)
        return self.topic

    def wait_acknowledged(self, more: int, within_s: float = 120) -> None:
        """Wait until more messages have been acknowledged."""
        before = self.acknowledged()
        wait_until(
            lambda: self.acknowledged() > before + more,
            within_s=within_s,
            awaiting=f"{more} messages to be acknowledged",
            abort=self._check,
        )

    def wait_final_logs(self, within_s: float = 180) -> None:
        """Wait until it has read the final logs and removed its topic; it goes on with the judgement."""
        wait_until(
            lambda: json.loads((self.folder / "run.json").read_text())["status"] != "running",
            within_s=within_s,
            awaiting="the recording to be complete",
            abort=self._check,
            ignoring=(ValueError,),
        )

    def end(self, within_s: float = 300) -> Finished:
        """Wait until it ends."""
        stdout, stderr = self.process.communicate(timeout=within_s)
        return Finished(self.process.returncode, stdout, stderr)

    def close(self) -> None:
        """Kill it, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            stdout, stderr = self.process.communicate()
            print(stdout, stderr, file=sys.stderr)

    def _check(self) -> None:
        assert self.process.poll() is None, self.process.communicate()


class Message(NamedTuple):
    """A message, and where it was acknowledged."""

    writer: int
    seq: int
    partition: int
    offset: int | None


def acknowledged(run: Path) -> Iterator[Message]:
    """What the producers of a recording were told, from their journals."""
    partitions: dict[tuple[int, int], int] = {}
    for journal in sorted((run / "journal").glob("here*.jsonl")):
        for line in journal.read_text().splitlines():
            row = json.loads(line)
            message = (row.get("writer"), row.get("seq"))
            if row["table"] == "sent":
                partitions[message] = row["partition"]
            elif row["table"] == "done" and row["outcome"] == "ok":
                yield Message(*message, partitions[message], row.get("offset"))


def logs_on_disk(cluster: ForeignCluster, topic: str) -> dict[tuple[int, int], list[Record]]:
    """The records of each replica of a deleted topic, by partition and broker, read from segment files."""
    logs = {}
    for broker in IDS:
        for folder in sorted(cluster.data(broker).iterdir()):
            place = re.fullmatch(rf"{re.escape(topic)}-(\d+)\.[0-9a-f]+-(?:delete|stray)", folder.name)
            if place is not None:
                assert (int(place[1]), broker) not in logs, f"{folder} is the second of its name"
                logs[int(place[1]), broker] = read_folder(Folder(folder)).records
    return logs


def lost_on_disk(run: Path, logs: Mapping[tuple[int, int], Sequence[Record]]) -> set[Message]:
    """Acknowledged messages that are in no replica's files."""
    identities = {
        (partition, identity.writer, identity.seq)
        for (partition, _), records in logs.items()
        for record in records
        if (identity := decode(record.value)) is not None
    }
    return {one for one in acknowledged(run) if (one.partition, one.writer, one.seq) not in identities}


def lost_by_findings(run: Path) -> set[Message]:
    """The messages that `acked record` calls lost, read or not."""
    findings = pq.read_table(run / "findings.parquet").to_pylist()
    return {
        Message(one["writer"], one["seq"], one["partition"], one["offset"])
        for one in findings
        if one["class"] in ("lost", "lost_after_read")
    }


def wire_against_disk(
    run: Path, topic: str, logs: Mapping[tuple[int, int], Sequence[Record]]
) -> tuple[int, int]:
    """How many records were compared, and how many differ between FETCH and files in any column of `copies`:
    identity, offset, epoch, CRC of the batch, producer, sequence and so on.
    """
    copies = read_table(run, "copies")
    replicas = set(zip(copies["partition"].to_pylist(), copies["broker"].to_pylist(), strict=True))
    compared = different = 0
    for partition, broker in replicas | set(logs):
        mask = pc.and_(pc.equal(copies["partition"], partition), pc.equal(copies["broker"], broker))
        wire = copies.filter(mask)
        disk = copies_of(TopicPartition(topic, partition), broker, logs.get((partition, broker), []))
        compared += max(wire.num_rows, disk.num_rows)
        if not wire.equals(disk):
            pairs = zip_longest(wire.to_pylist(), disk.to_pylist())
            different += sum(one != other for one, other in pairs)
    return compared, different


def inventory(cluster: ForeignCluster) -> dict[str, list[str]]:
    """Topics with their partitions, groups, and ACLs of a cluster, as an administrator sees them.

    Internal topics are left out: brokers make `__consumer_offsets` when the first consumer comes.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    known = admin.list_topics(timeout=30).topics.values()
    groups = admin.list_consumer_groups(request_timeout=30).result()
    assert not groups.errors, groups.errors
    acls: list[str] = []
    if cluster.ca is not None:
        anything = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        acls = sorted(map(str, admin.describe_acls(anything, request_timeout=30).result()))
    return {
        "topics": sorted(
            f"{one.topic}: {len(one.partitions)}" for one in known if not one.topic.startswith("__")
        ),
        "groups": sorted(one.group_id for one in groups.valid),
        "acls": acls,
    }
