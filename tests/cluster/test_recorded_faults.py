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
"""Whose messages are lost for certain, by fault."""


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
