"""A real soak: what it calls lost is what was acknowledged and is in no log at the end, to the message."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.history.identity import decode
from harness.history.reads import ROW as RECEIVED
from harness.history.sends import ROW
from harness.history.stream_journal import ROW_BYTES, STATES, read_header
from harness.host_files import Folder
from harness.kafka.batches import Record, positions, read_batch
from harness.kafka.model import TopicPartition
from harness.kafka.segments import raw_log
from harness.lab.model import DATA
from harness.waiting import wait_until
from tests.cluster.conftest import acked, processes_of

pytestmark = [pytest.mark.cluster, pytest.mark.long]

CLUSTER = """
kafka = "3.9.1"
mode = "kraft"

[[az]]
name = "az1"

[[az]]
name = "az2"

[[az]]
name = "az3"

[topic.orders]
partitions = 3
replication-factor = 3
"min.insync.replicas" = 2
"""


def acknowledged(run: Path) -> Counter[tuple[int, int, TopicPartition]]:
    """Writer, number and partition of each message that a client was told is written, from the journals."""
    found = Counter[tuple[int, int, TopicPartition]]()
    for file in sorted((run / "streams").glob("*.sends")):
        header = read_header(file)
        rows = np.fromfile(file, dtype=ROW, offset=header.header_bytes)
        for seq in np.flatnonzero(rows["state"] == STATES.index("ok")).tolist():
            found[header.writer, seq, TopicPartition(*header.targets[rows["target"][seq]])] += 1
    return found


def received(run: Path) -> set[tuple[int, int]]:
    """Writer and number of each message that a reader has received."""
    found = set[tuple[int, int]]()
    for file in (run / "streams").glob("*.reads"):
        content = file.read_bytes()
        begin = content.index(b"\n") + 1
        size = (len(content) - begin) // RECEIVED.itemsize
        rows = np.frombuffer(content, dtype=RECEIVED, offset=begin, count=size)
        found.update(zip(rows["writer"].tolist(), rows["seq"].tolist(), strict=True))
    return found


def begun(run: Path) -> int:
    """How many messages were sent."""
    files = list((run / "streams").glob("*.sends"))
    return sum((file.stat().st_size - read_header(file).header_bytes) // ROW_BYTES for file in files)


def held(run: Path, broker: int, key: TopicPartition) -> Counter[tuple[int, int]]:
    """Writer and number of each record in the files of a replica."""
    found = Counter[tuple[int, int]]()
    replica = Folder(run / "nodes" / f"broker{broker}" / DATA).below(key.folder)
    for raw in raw_log(replica):
        bounds = positions(raw)
        for start, end in zip(bounds, bounds[1:], strict=False):
            records: list[Record] = []
            read_batch(raw[start:end], -(1 << 63), records)
            named = (decode(record.value) for record in records if not record.control)
            found.update((one.writer, one.seq) for one in named if one is not None)
    return found


def test_every_loss_is_found(tmp_path: Path) -> None:
    """az1 is cut off twice, and its leaders go on acknowledging with acks=1. A reader in each AZ reads.

    The other producers send transactions.
    """
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER)
    options = (
        "--rate",
        "900",
        "--for",
        "75s",
        "--every",
        "15s",
        "--faults",
        "isolate-az1*",
        "--keep-records",
        "--readers",
        "--transactions",
        "30",
    )
    done = acked("soak", file, *options, "--runs", tmp_path / "runs", "--json")
    run = tmp_path / "runs" / "soak" / "latest"
    judgement: dict[str, Any] = json.loads(done.stdout)
    told = acknowledged(run)
    partitions = sorted({key for _, _, key in told})
    logs = {key: [held(run, broker, key) for broker in (1, 2, 3)] for key in partitions}
    assert all(one == several[0] for several in logs.values() for one in several), "the replicas are equal"
    lost = [message for message in told if message[:2] not in logs[message[2]][0]]
    rows = judgement["fates_by_writer"]
    delivered = received(run)
    read = [message for message in lost if message[:2] in delivered]
    assert lost and judgement["fates"].get("lost", 0) == len(lost) - len(read)
    assert judgement["fates"].get("lost_after_read", 0) == len(read)
    twice = [message for message in told if logs[message[2]][0][message[:2]] > 1]
    assert judgement["fates"].get("duplicated", 0) >= len(twice)
    assert {row["acks"] for row in rows if row["fate"].startswith("lost")} == {1}
    assert judgement["messages"] == begun(run)
    # A starved judge may not see who acknowledged a message before it was truncated.
    doubts = {row["why"] for row in judgement["promises"] if row["promise"] != "not promised"}
    assert doubts <= {"which broker acknowledged it is not known"}
    assert done.status == (2 if doubts else 0), (judgement["reasons"], done.stderr)
    stood = [json.loads(line) for line in (run / "soak.jsonl").read_text().splitlines()]
    assert sum(stood[-1]["lost"].values()) == len(lost)
    assert stood[-1]["rest"] < judgement["messages"] / 2
    assert 0 < len(delivered) <= stood[-1]["received"]
    ends = stood[-1]["transactions"]
    assert ends["committed"] > ends["aborted"] > 0
    again = acked("check", run, "--json")
    assert again.status == done.status and json.loads(again.stdout)["fates"] == judgement["fates"]


def test_a_killed_soak_is_judged_from_its_files(tmp_path: Path) -> None:
    """Records that were deleted before the kill are counted as they were judged; the rest is read again."""
    file, runs = tmp_path / "cluster.toml", tmp_path / "runs"
    file.write_text(CLUSTER)
    load = ("--rate", "900", "--for", "10m", "--every", "10s", "--faults", "isolate-az1*")
    command = [sys.executable, "-m", "cli.main", "soak", str(file), *load, "--runs", str(runs)]
    soak = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = runs / "soak" / "latest"

    def deleted() -> int:
        lines = (run / "soak.jsonl").read_text().splitlines()
        return int(json.loads(lines[-1])["deleted"]) if lines else 0

    wait_until(deleted, within_s=180, awaiting="records to be judged and deleted", poll_s=0.5)
    soak.send_signal(signal.SIGKILL)
    soak.wait(10)
    wait_until(
        lambda: processes_of(runs),
        accept=lambda left: not left,
        within_s=10,
        awaiting="the processes of the soak to vanish",
    )
    done = acked("soak", "--resume", run, "--json")
    assert done.status in (0, 2), done.stderr
    judgement = json.loads(done.stdout)
    told = acknowledged(run)
    counted = sum(int((rows_of(one)["state"] > 0).sum()) for one in (run / "streams").glob("*.sends"))
    assert judgement["messages"] == counted >= len(told)
    assert {row["promise"] for row in judgement["promises"]} <= {"not promised", "unknown"}
    soaked = json.loads((run / "run.json").read_text())["soak"]
    assert soaked["killed"] and 0 < soaked["observed_s"] < 600
    again = acked("soak", "--resume", run)
    assert again.status == 254 and "has ended" in again.stderr


def rows_of(file: Path) -> Any:
    """The rows of a journal."""
    return np.fromfile(file, dtype=ROW, offset=read_header(file).header_bytes)
