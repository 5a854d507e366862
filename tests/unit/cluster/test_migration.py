"""What each node of a migrating cluster is configured as, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.cluster.migration import MigratingCluster
from harness.cluster.processes import Processes
from harness.cluster.setup import Setup
from harness.errors import UsageError
from harness.history.journal import Journal
from harness.kafka.model import Topic
from harness.kafka.versions import kafka_version
from harness.lab.embedded.lab import EmbeddedLab
from harness.lab.layout import three_azs

FLAG = "zookeeper.metadata.migration.enable"
VOTERS = "11@198.18.0.41:9093,12@198.18.0.42:9093,13@198.18.0.43:9093"


class NoJars:
    """A Kafka that is never started."""

    version, root, spec = "3.9.1", Path(), kafka_version("3.9.1")
    sums: Mapping[str, str] = {}

    def class_path(self) -> str:
        return ""

    def archive(self, main_class: str) -> None:
        return None


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MigratingCluster]:
    setup = Setup(topics=(Topic("t", (1, 2, 3)),), broker_config={"zookeeper.session.timeout.ms": "9000"})
    with Journal(tmp_path / "journal.jsonl") as journal:
        lab = EmbeddedLab(three_azs("migration"), tmp_path)
        for host in ("broker1", "controller2"):
            lab.data_dir(host).mkdir(parents=True)
        processes = Processes(lab=lab, distribution=NoJars(), journal=journal)
        yield MigratingCluster(processes, setup)


def _written(tmp_path: Path, host: str) -> dict[str, str]:
    lines = (tmp_path / "nodes" / host / "server.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_broker_goes_from_zookeeper_to_kraft(cluster: MigratingCluster, tmp_path: Path) -> None:
    """With migration enabled it keeps its id in ZooKeeper; in KRaft mode it knows nothing of ZooKeeper."""
    cluster.configure("broker1", "zookeeper")
    before = _written(tmp_path, "broker1")
    cluster.configure("broker1", "migrating")
    migrating = _written(tmp_path, "broker1")
    assert set(migrating) - set(before) == {
        *(FLAG, "controller.quorum.voters"),
        *("controller.listener.names", "listener.security.protocol.map"),
    }
    assert (migrating[FLAG], migrating["controller.quorum.voters"]) == ("true", VOTERS)
    cluster.configure("broker1", "kraft")
    kraft = _written(tmp_path, "broker1")
    assert (kraft["process.roles"], kraft["node.id"]) == ("broker", "1")
    assert {FLAG, "zookeeper.connect", "broker.id"}.isdisjoint(kraft)


def test_a_controller_writes_to_zookeeper_until_the_migration_is_final(
    cluster: MigratingCluster, tmp_path: Path
) -> None:
    """It has the brokers' session time-out."""
    cluster.configure("controller2", "migrating")
    migrating = _written(tmp_path, "controller2")
    assert (migrating[FLAG], migrating["process.roles"]) == ("true", "controller")
    assert migrating["zookeeper.connect"].count(":2181") == 3
    assert migrating["zookeeper.session.timeout.ms"] == "9000"
    assert migrating["inter.broker.listener.name"] == "PLAINTEXT", "brokers with another one cannot register"
    cluster.configure("controller2", "kraft")
    assert not [key for key in _written(tmp_path, "controller2") if key.startswith("zookeeper.")]


@pytest.mark.parametrize(("host", "phase"), [("controller1", "zookeeper"), ("zookeeper1", "kraft")])
def test_no_other_node_migrates(cluster: MigratingCluster, host: str, phase: str) -> None:
    with pytest.raises(UsageError, match=f"{host} has no configuration for the phase '{phase}'"):
        cluster.configure(host, phase)  # type: ignore[arg-type]
