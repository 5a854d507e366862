"""`acked record` as a process of its own, and the truth about what it recorded, from the brokers' files.

A deleted topic's folders stay on disk for `log.segment.delete.delay.ms`, so the files can be read when the
recording has ended and removed its topic.
"""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from harness.artifacts import find_java, resolve
from harness.history.identity import decode
from harness.history.stream_journal import read_counters
from harness.history.tables import read_table
from harness.host_files import Folder
from harness.kafka.batches import Record, parse
from harness.kafka.segments import raw_log
from harness.waiting import wait_until
from tests.cluster.conftest import Finished
from tests.cluster.foreign import IDS, ForeignCluster

NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class Recorder:
    """A recording that is under way."""

    def __init__(self, runs: Path, *arguments: str, environment: Mapping[str, str] = NO_ENVIRONMENT) -> None:
        """Start it; ``arguments`` are those of the command, ``environment`` is added to its variables."""
        self.runs = runs
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", "record", "--runs", str(runs), "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    @property
    def folder(self) -> Path:
        """Its run folder."""
        return (self.runs / "record" / "latest").resolve()

    @property
    def topic(self) -> str:
        """Its topic."""
        name: str = self.manifest()["recording"]["plan"]["topic"]
        return name

    def manifest(self) -> dict[str, Any]:
        """Its manifest."""
        stated: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return stated

    def status(self) -> str:
        """Of its manifest, such as `running` and `complete`."""
        stated: str = self.manifest()["status"]
        return stated

    def acknowledged(self) -> int:
        """How many messages were acknowledged so far."""
        return sum(read_counters(journal).ok for journal in self._streams())

    def acknowledged_in(self, partition: int) -> int:
        """How many of them in a partition."""
        told = (one for journal in self._streams() for one in acknowledged_by(journal))
        return sum(one.partition == partition for one in told)

    def _streams(self) -> list[Path]:
        return sorted((self.folder / "nodes" / "here").glob("client.*.sends"))

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
            lambda: self.status() != "running" or self.process.poll() is not None,
            within_s=within_s,
            awaiting="the recording to be complete",
            ignoring=(ValueError,),
        )

    def end(self, within_s: float = 600) -> Finished:
        """Wait until it ends."""
        stdout, stderr = self.process.communicate(timeout=within_s)
        assert "Traceback" not in stderr, stderr
        return Finished(self.process.returncode, stdout, stderr)

    def killed(self) -> None:
        """Kill it now, whatever it does."""
        self.process.kill()
        self.process.communicate()

    def marks(self, event: str) -> list[dict[str, Any]]:
        """The marks of one kind that it has written so far."""
        rows = []
        for journal in sorted((self.folder / "journal").glob("harness*.jsonl")):
            whole = [line for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
            rows += [json.loads(line) for line in whole]
        return [row for row in rows if row["table"] == "marks" and row["name"] == event]

    def close(self) -> None:
        """Kill it, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            stdout, stderr = self.process.communicate()
            print(stdout, stderr, file=sys.stderr)

    def _check(self) -> None:
        assert self.process.poll() is None, self.process.communicate()


def held_alone(
    cluster: ForeignCluster, recorders: Sequence[Recorder], leader: int, others: Sequence[int]
) -> None:
    """Let the leader of the first partitions acknowledge messages while its followers hang, then kill it."""
    for broker in others:
        cluster.signal(broker, signal.SIGSTOP)
    before = [one.acknowledged_in(0) for one in recorders]
    try:
        wait_until(
            lambda: all(
                one.acknowledged_in(0) >= count + _ALONE for one, count in zip(recorders, before, strict=True)
            ),
            within_s=30,
            awaiting="the leader to acknowledge messages alone",
        )
    finally:
        cluster.signal(leader, signal.SIGKILL)
        for broker in others:
            cluster.signal(broker, signal.SIGCONT)


_ALONE = 15
"""How many messages a leader acknowledges alone, at least; the first few may reach its followers."""
_REMOVED = r"\.[0-9a-f]+-(?:delete|stray)"
"""What brokers append to the folder of a replica that is to be removed."""


_TOOL_OF = "3.9.1"
"""The version whose tool reads segments."""
_BATCH = re.compile(r"baseOffset: \d+ .*partitionLeaderEpoch: (\d+) .*crc: (\d+)")
_RECORD = re.compile(r"\| offset: (\d+) .*payload: acked1 (\d+) (\d+) ")

ROW = struct.Struct("<qqqiiihh")
"""A row of a stream's journal; its last column is the state."""
_OK = 2


class Message(NamedTuple):
    """A message, and where it was acknowledged."""

    writer: int
    seq: int
    partition: int
    offset: int | None


def acknowledged(run: Path) -> Iterator[Message]:
    """What the producers of a recording were told, from the journals of their streams."""
    for journal in sorted((run / "journal").glob("here*.sends")):
        yield from acknowledged_by(journal)


def acknowledged_by(journal: Path) -> Iterator[Message]:
    """What a producer was told, from the journal of its stream."""
    content = journal.read_bytes()
    header_bytes, json_bytes = struct.unpack_from("<II", content, 8)
    header = json.loads(content[48 : 48 + json_bytes])
    rows = content[header_bytes : len(content) - (len(content) - header_bytes) % ROW.size]
    for seq, (_, _, offset, target, _, _, _, state) in enumerate(ROW.iter_unpack(rows)):
        if state == _OK:
            partition = header["targets"][target][1]
            yield Message(header["writer"], seq, partition, offset if offset >= 0 else None)


Replica = tuple[int, int]
"""Partition and broker."""


@dataclass(kw_only=True)
class Files:
    """The records of a topic in the segment files of all brokers, after the recording."""

    final: dict[Replica, list[Record]] = field(default_factory=dict)
    """Of the topic as it was at the end, deleted since or not."""
    printed: Counter[tuple[int, ...]] = field(default_factory=Counter)
    """The same as Kafka's own tool reads it: `printed` by partition and broker."""
    former: list[Record] = field(default_factory=list)
    """Of topics of the same name that were deleted before."""

    @classmethod
    def of(cls, cluster: ForeignCluster, topics: Sequence[str]) -> list[Files]:
        """Read those of some topics, in their order."""
        each, folders = [cls() for _ in topics], dict[tuple[int, ...], Path]()
        for number, (files, topic) in enumerate(zip(each, topics, strict=True)):
            for replica, folder in files._read(cluster, topic).items():
                folders[number, *replica] = folder
        # All at once, because each start of the tool takes seconds.
        for (number, *record), count in printed(folders).items():
            each[number].printed[tuple(record)] = count
        return each

    def _read(self, cluster: ForeignCluster, topic: str) -> dict[Replica, Path]:
        """Read the segments of a topic; returns its folders. Those of a deleted one have another name."""
        folders = dict[Replica, Path]()
        for broker in IDS:
            names = sorted(cluster.data(broker).iterdir())
            live = {partition: folder for folder, partition in _matching(topic, "", names)}
            for folder, partition in _matching(topic, _REMOVED, names):
                records = records_in(folder)
                if partition in live:
                    self.former += records
                else:
                    assert (partition, broker) not in self.final, f"{folder} is the second of its name"
                    self.final[partition, broker] = records
                    folders[partition, broker] = folder
            for partition, folder in live.items():
                self.final[partition, broker] = records_in(folder)
                folders[partition, broker] = folder
        return folders

    def lost(self, run: Path) -> set[Message]:
        """Acknowledged messages that are in no file."""
        held = {
            (identity.writer, identity.seq)
            for records in (*self.final.values(), self.former)
            for record in records
            if (identity := decode(record.value)) is not None
        }
        return {one for one in acknowledged(run) if (one.writer, one.seq) not in held}


def _matching(topic: str, suffix: str, folders: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """The folders of a topic whose names end so, each with its partition."""
    for folder in folders:
        place = re.fullmatch(rf"{re.escape(topic)}-(\d+){suffix}", folder.name)
        if place is not None:
            yield folder, int(place[1])


def lost_by_findings(run: Path) -> set[Message]:
    """The messages that `acked record` calls lost, read or not."""
    findings = pq.read_table(run / "findings.parquet").to_pylist()
    return {
        Message(one["writer"], one["seq"], one["partition"], one["offset"])
        for one in findings
        if one["class"] in ("lost", "lost_after_read")
    }


def records_in(folder: Path) -> list[Record]:
    """The records in the segment files of one replica, by the decoder that is written in Python."""
    return parse(b"".join(raw_log(Folder(folder)))).records


def wire_against_disk(run: Path, logs: Mapping[Replica, Sequence[Record]]) -> tuple[int, int]:
    """How many records were compared, and how many differ between FETCH and files.

    Compared are offset, epoch, CRC of the batch, time, producer, sequence number and identity.
    """
    columns = (
        *("partition", "broker", "offset", "epoch", "batch_offset", "crc", "timestamp_ms", "producer_id"),
        *("producer_epoch", "sequence", "control", "transactional", "writer", "seq", "home", "intact"),
    )
    copies = read_table(run, "copies")
    wire = Counter(zip(*(copies[name].to_pylist() for name in columns), strict=True))
    disk = Counter((*replica, *_row(record)) for replica, records in logs.items() for record in records)
    return max(wire.total(), disk.total()), max((wire - disk).total(), (disk - wire).total())


def _row(record: Record) -> tuple[object, ...]:
    """What `copies` has of a record, from its offset on."""
    identity = decode(record.value)
    named = (None, None, None) if identity is None else (identity.writer, identity.seq, identity.home)
    unnamed = None if record.crc_ok else False
    intact = unnamed if identity is None else identity.intact and record.crc_ok
    # The first ten fields of a record but whether its CRC is right, in their order.
    return (*record[:4], *record[5:11], *named, intact)


def printed(folders: Mapping[tuple[int, ...], Path]) -> Counter[tuple[int, ...]]:
    """What Kafka's own `DumpLogSegments` prints of these folders.

    Of each record: the key of its folder, offset, epoch, CRC of the batch, writer and seq.
    """
    segments = [file for folder in folders.values() for file in sorted(folder.glob("*.log"))]
    tool = ("kafka.tools.DumpLogSegments", "--print-data-log", "--files", ",".join(map(str, segments)))
    command = [str(find_java().path), "-cp", resolve(_TOOL_OF).class_path(), *tool]
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    replicas = {folder: replica for replica, folder in folders.items()}
    records, replica, batch = Counter[tuple[int, ...]](), tuple[int, ...](), (-1, -1)
    for line in text.splitlines():
        if line.startswith("Dumping "):
            replica = replicas[Path(line.removeprefix("Dumping ")).parent]
        elif header := _BATCH.match(line):
            batch = (int(header[1]), int(header[2]))
        elif record := _RECORD.match(line):
            records[(*replica, int(record[1]), *batch, int(record[2]), int(record[3]))] += 1
    return records


def wire_against_tool(run: Path, dumped: Counter[tuple[int, ...]]) -> int:
    """How many records that were read over the wire differ from those that the tool has printed."""
    columns = ("partition", "broker", "offset", "epoch", "crc", "writer", "seq")
    copies = read_table(run, "copies")
    read = Counter(zip(*(copies[name].to_pylist() for name in columns), strict=True))
    return max((dumped - read).total(), (read - dumped).total())


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
