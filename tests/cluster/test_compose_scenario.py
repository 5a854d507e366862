"""The main scenario on the Compose lab: every claim ends as on the embedded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.lab.docker import engine as docker_engine
from harness.lab.docker import sweep as docker_sweep
from tests.cluster.conftest import run_as_declared

pytestmark = pytest.mark.compose

REFUTED = {"zombie-serves-reads", "epoch-rises", "preferred-epoch", "epoch-without-message"}
"""Claims of the article that Kafka 2.7.1 contradicts on either lab."""


def test_the_zombie_writes_are_lost_in_containers_too(runs: Path) -> None:
    judgement = run_as_declared("leader-az-isolated", "--lab", "compose", "--runs", runs)
    assert {claim["name"] for claim in judgement["claims"] if claim["status"] == "refuted"} == REFUTED
    assert set(judgement["findings_by_class"]) == {"lost"}
    assert_nothing_is_left()


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "mechanism"),
    [("leader-az-isolated", "SCRAM-SHA-512"), ("kraft-leader-az-isolated", "OAUTHBEARER")],
)
def test_certificates_and_tokens_fit_the_addresses_of_containers(
    runs: Path, scenario: str, mechanism: str
) -> None:
    """They are those of a subnet of the run, and the token endpoint is at its gateway."""
    secure = ("--secure", "sasl_ssl", "--mechanism", mechanism)
    run_as_declared(scenario, "--lab", "compose", *secure, "--runs", runs)
    assert_nothing_is_left()


def assert_nothing_is_left() -> None:
    client = docker_engine.connect()
    left = [thing for thing in docker_sweep.leftovers(client) if not thing.alive]
    client.close()
    assert left == []
