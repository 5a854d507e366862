"""Hosts files that are proposed: from what brokers tell, as a file that the reader takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.attached import AttachedCluster, topology_of
from harness.cluster.hosts_file import read_hosts_file
from harness.kafka.model import Endpoint
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.metadata import AdvertisedBroker, AdvertisedCluster
from harness.lab.hosts.ssh import SshShell, SshTarget
from harness.lab.model import Result
from run.attached.asking import fit
from run.attached.discovering import discover, hosts_file_text, looked_at
from tests.unit.recording.test_breaking_of_others import _BOTH, cluster_of, hosts_file

KRAFT = {
    "listeners": "CLIENTS://:9092,PEERS://10.0.0.1:9095,QUORUM://10.0.0.1:9093",
    "controller.listener.names": "QUORUM",
    "controller.quorum.voters": "1@10.0.0.1:9093,2@10.0.0.2:9093,11@10.0.0.9:9097",
}
ZOOKEEPER = {"listeners": "PLAINTEXT://:9092", "zookeeper.connect": "10.0.0.8:2181,10.0.0.1:2182/kafka"}


def cluster(mode: str, racks: tuple[str, ...] = ("a", "b")) -> AttachedCluster:
    """Two brokers."""
    brokers = tuple(
        AdvertisedBroker(node_id=number, host=f"10.0.0.{number}", port=9092, rack=rack)
        for number, rack in enumerate(racks, start=1)
    )
    described = AdvertisedCluster(cluster_id="4L6g3nShT-eMCtK--X86sw", controller=1, brokers=brokers)
    topology = topology_of(described, Endpoint("10.0.0.1", 9092))
    return AttachedCluster(topology=topology, dialect=MODERN, mode=mode, cluster_id=described.cluster_id)


def proposed(folder: Path, monkeypatch: pytest.MonkeyPatch, config: Mapping[str, str], mode: str) -> str:
    """The text for a cluster whose brokers tell this configuration."""
    monkeypatch.setattr(AttachedCluster, "broker_config", lambda *_: config)
    found = discover(cluster(mode))
    text = hosts_file_text(cluster(mode), found, bootstrap="10.0.0.1:9092", user="ops", become="sudo -n")
    (folder / "hosts.toml").write_text(text)
    return text


def test_controllers_and_listeners_come_from_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A combined node is one host; a controller of its own lacks its AZ, which the reader asks for."""
    text = proposed(tmp_path, monkeypatch, KRAFT, "kraft")
    with pytest.raises(Exception, match=r"host\[2\].az"):
        read_hosts_file(tmp_path / "hosts.toml")
    assert "# its AZ is not told: write it" in text
    (tmp_path / "hosts.toml").write_text(text.replace('az = ""', 'az = "c"'))
    hosts = read_hosts_file(tmp_path / "hosts.toml").topology.hosts
    assert [(one.name, one.address, dict(one.services)) for one in hosts] == [
        ("broker1", "10.0.0.1", {"kafka": (9092, 9095), "controller": (9093,)}),
        ("broker2", "10.0.0.2", {"kafka": (9092, 9095), "controller": (9093,)}),
        ("controller11", "10.0.0.9", {"controller": (9097,)}),
    ]


DYNAMIC = {
    "listeners": "CLIENTS://:9092,QUORUM://:9093",
    "advertised.listeners": "CLIENTS://10.9.0.1:9092,PEERS://10.0.0.77:9095",
    "inter.broker.listener.name": "PEERS",
    "controller.listener.names": "QUORUM",
    "controller.quorum.bootstrap.servers": "10.0.0.9:9097",
}


def test_a_dynamic_quorum_and_a_network_for_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-853: no property tells the ids of voters. A cut is between the addresses that brokers use."""
    text = proposed(tmp_path, monkeypatch, DYNAMIC, "kraft")
    assert text.count("# address: that of 10.0.0.77 for other brokers; clients use 10.0.0.") == 2
    assert text.count('address = "10.0.0.77"') == 2 and 'ssh = "10.0.0.1"' in text
    assert "controller = [9093]" in text and "# its AZ and its id are not told: write them" in text
    assert "ports = { controller = [9097] }" in text


def test_an_address_that_other_brokers_do_not_use_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut of it would be proven, while replication goes on."""
    monkeypatch.setattr(AttachedCluster, "broker_config", lambda *_: DYNAMIC)
    notes = fit(hosts_file(tmp_path, (1, "a", _BOTH)), cluster("zookeeper")).notes
    assert "broker1 advertises 10.0.0.77 (10.0.0.77) to other brokers, and the file has 10.0.0.1" in notes[0]


def test_zookeeper_nodes_come_from_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that shares its address with a broker is named, for a host may be there only once."""
    text = proposed(tmp_path, monkeypatch, ZOOKEEPER, "zookeeper")
    assert 'address = "10.0.0.8"' in text and "ports = { zookeeper = [2181] }" in text
    assert "# it shares its address with broker 1: name its port there instead" in text


def test_a_configuration_that_is_not_told_is_a_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESCRIBE_CONFIGS may be lacking."""
    text = proposed(tmp_path, monkeypatch, {}, "kraft")
    assert text.count("# its configuration is not told (DESCRIBE_CONFIGS): compare its ports") == 2
    assert len(read_hosts_file(tmp_path / "hosts.toml").topology.hosts) == 2


@pytest.mark.parametrize(
    ("cgroup", "start"),
    [
        ("0::/system.slice/kafka.service", "systemctl start kafka.service"),
        ("0::/system.slice/system-kafka.slice/kafka@1.service/payload", "systemctl start kafka@1.service"),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice", ""),
        ("0::/system.slice/ssh.service", ""),
        ("0::/init.scope", ""),
    ],
)
def test_the_unit_of_a_node_is_that_of_who_listens(
    monkeypatch: pytest.MonkeyPatch, cgroup: str, start: str
) -> None:
    """A login's own service is none of Kafka's."""
    table = 'LISTEN 0 50 *:9092 *:* users:(("java",pid=812,fd=1))\n'

    def run(_self: object, argv: tuple[str, ...], **_: Any) -> Result:
        return Result(0, table if argv[0] == "ss" else cgroup, "")

    monkeypatch.setattr(SshShell, "connect", lambda self: self.login)
    monkeypatch.setattr(SshShell, "run", run)
    monkeypatch.setattr(AttachedCluster, "broker_config", lambda *_: ZOOKEEPER)
    first = looked_at(discover(cluster("zookeeper"))[:1], SshTarget(destination=""))[0]
    assert first.start == start and first.notes == ("java (pid 812) listens on 9092",)


def test_a_check_says_where_a_file_and_the_cluster_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other racks are a note; a broker that is not there, and another cluster, are problems."""
    monkeypatch.setattr(AttachedCluster, "broker_config", lambda *_: {})
    file = hosts_file(tmp_path, (1, "a", _BOTH), (2, "b", _BOTH))
    there = cluster("zookeeper", racks=("a", "x"))
    assert fit(file, there).notes == (
        "broker.rack names other AZs than the file: broker2 is in b here and in x there",
    )
    assert fit(file, there).problem == ""
    three = hosts_file(tmp_path, (1, "a", _BOTH), (2, "b", _BOTH), (3, "c", _BOTH))
    assert "no live broker broker3" in fit(three, there).problem
    assert "names no host with kafka for broker3" in fit(file, cluster_of(three, "zookeeper")).problem
