"""Faults on somebody else's cluster: what `acked record` calls lost is what the brokers' files lack."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import left_on_machine, processes_of

pytestmark = pytest.mark.cluster

ALL_WRITER, ONE_WRITER = "1", "2"
"""Producers with acks=all and acks=1."""
LOSES: Mapping[str, frozenset[str]] = {
    "leader-cut": frozenset({ONE_WRITER}),
    "followers-frozen": frozenset({ONE_WRITER}),
    "unclean-election": frozenset({ALL_WRITER, ONE_WRITER}),
}
"""Whose messages are lost for certain, by fault. With acks=1, any election may lose some."""
VERDICTS: Mapping[str, str] = {"unclean-election": "unknown"}
"""By fault, where it is not `as declared`: whether an operator elected the leader is not known."""
SEEN: Mapping[str, str] = {
    "leader-killed": "broker-silent",
    "followers-frozen": "broker-silent",
    "follower-frozen": "broker-silent",
    "leader-cut": "leader-changed",
    "unclean-election": "isr-shrunk",
    "broker-wiped": "broker-silent",
    "topic-recreated": "topic-deleted",
    "rolling-restart": "leader-changed",
    "controller-failover": "broker-silent",
}
"""What the observer sees for certain, by fault."""


def carried_out(module: str, folder: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    """What a program that has a cluster of its own prints, a line of JSON each; it leaves no process."""
    command = [sys.executable, "-m", f"tests.cluster.{module}", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert processes_of(folder) == [] and left_on_machine(folder) == []
    yield from map(json.loads, done.stdout.splitlines())


@pytest.mark.parametrize(
    ("kafka", "seeds"),
    [
        ("3.9.1", "1 2"),
        pytest.param("2.7.1", "11 12 13 14 15 16", marks=pytest.mark.long),
        pytest.param("4.4.0", "21 22 23 24 25 26", marks=pytest.mark.long),
    ],
)
def test_replicas_read_over_the_wire_are_those_on_disk(tmp_path: Path, kafka: str, seeds: str) -> None:
    """Identity, epoch, CRC and all other columns, of replicas that lag, have diverged or are damaged."""
    outcomes = list(carried_out("wire_and_disk", tmp_path, kafka, *seeds.split()))
    assert [one["seed"] for one in outcomes] == [int(seed) for seed in seeds.split()]
    for one in outcomes:
        assert one["equal"] and one["wire"] == one["disk"], one
        assert one["records"] > 0
    assert any(one["damaged"] for one in outcomes) and any(one["distinct_ends"] > 1 for one in outcomes)


@pytest.mark.parametrize(
    ("kafka", "faults"),
    [
        pytest.param("4.4.0", "leader-cut", marks=pytest.mark.long),
        pytest.param("2.7.1", "no-fault leader-cut followers-frozen topic-recreated", marks=pytest.mark.long),
        pytest.param("3.9.1", "all", marks=pytest.mark.long),
        pytest.param("4.3.1", "all --secure", marks=pytest.mark.long),
        pytest.param(
            "4.4.0",
            "no-fault leader-killed followers-frozen follower-frozen unclean-election topic-recreated",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_is_called_lost_is_what_the_files_lack(tmp_path: Path, kafka: str, faults: str) -> None:
    outcomes = list(carried_out("recorded_faults", tmp_path, kafka, *faults.split()))
    assert outcomes
    for one in outcomes:
        check(one)


def check(one: Mapping[str, Any]) -> None:
    """What holds of every recording, and of one with this fault."""
    judgement, fault = one["judgement"], one["fault"]
    assert one["only_by_findings"] == one["only_on_disk"] == [], one
    assert one["different"] == one["dumped_different"] == 0, one
    assert one["records"] == one["dumped"] > 0, one
    losers, certain = set(one["lost_by_writer"]), LOSES.get(fault, frozenset())
    assert losers >= certain and (ALL_WRITER in certain or ALL_WRITER not in losers), one
    assert judgement["verdict"] == VERDICTS.get(fault, "as declared"), (fault, judgement["reasons"])
    causes = {found["cause"] for found in judgement["findings"]}
    assert "unexplained_loss" not in causes, (fault, causes)
    assert all(found["offset"] is not None for found in judgement["findings"])
    seen = judgement["seen"]
    assert seen[SEEN[fault]] if fault in SEEN else set(seen.values()) == {0}, (fault, seen)
    before, after = one["before"], one["after"]
    if fault == "topic-recreated":  # the second topic is not acked's
        assert one["former"] > 0 and after["topics"].pop() not in before["topics"]
    assert before == after, fault
