"""The main scenario on the Compose lab: every claim ends as on the embedded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.lab.docker import engine as docker_engine
from harness.lab.docker import sweep as docker_sweep
from tests.cluster.conftest import acked, as_declared

pytestmark = pytest.mark.compose

REFUTED = {"zombie-serves-reads", "epoch-rises", "preferred-epoch", "epoch-without-message"}
"""Claims of the article that Kafka 2.7.1 contradicts on either lab."""


def test_the_zombie_writes_are_lost_in_containers_too(runs: Path) -> None:
    run = acked("run", "leader-az-isolated", "--lab", "compose", "--runs", runs, "--json")
    judgement = as_declared(run)
    assert {claim["name"] for claim in judgement["claims"] if claim["status"] == "refuted"} == REFUTED
    assert set(judgement["findings_by_class"]) == {"lost"}
    client = docker_engine.connect()
    left = [thing for thing in docker_sweep.leftovers(client) if not thing.alive]
    client.close()
    assert left == []
