"""A rolling upgrade, on a cluster that only notes what it is asked."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster.upgrading import upgrade
from harness.host_files import Folder
from harness.kafka.versions import kafka_version
from harness.lab.model import SERVER_LOG


class Noting:
    """Cluster, processes and lab at once."""

    def __init__(self, mode: str, version: str, logs: Path) -> None:
        self.mode, self.logs, self.asked = mode, logs, list[tuple[Any, ...]]()
        self.lab = self
        self.distribution = SimpleNamespace(spec=kafka_version(version))

    def files(self, host: str) -> Folder:
        return Folder(self.logs / host)

    def check_alive(self) -> None: ...

    def expect_end(self, host: str) -> None:
        self.asked.append(("expect", host))

    def signal(self, host: str, number: int) -> None:
        self.asked.append(("signal", host, number))

    def wait_exit(self, host: str, within_s: float) -> None:
        self.asked.append(("wait", host))

    def upgrade(self, host: str, version: str, properties: dict[str, str]) -> None:
        self.asked.append(("upgrade", host, version, properties))

    def start(self, host: str) -> None:
        self.asked.append(("start", host))

    def place_roles(self) -> None:
        self.asked.append(("place roles",))


@pytest.mark.parametrize(
    ("mode", "version", "properties"),
    [
        ("zookeeper", "2.7.1", {"inter.broker.protocol.version": "2.7"}),
        ("zookeeper", "0.10.2.2", {"inter.broker.protocol.version": "0.10.2"}),
        ("kraft", "3.9.1", {}),
    ],
)
def test_nodes_are_upgraded_one_after_the_other(
    tmp_path: Path, mode: str, version: str, properties: dict[str, str]
) -> None:
    """Each in order, with the older protocol where brokers have one; the roles go back at the end."""
    for host, line in (
        ("broker2", "INFO [KafkaServer id=2] started (KafkaServer)"),
        ("broker1", "INFO [KafkaRaftServer nodeId=1] Kafka Server started (KafkaRaftServer)"),
    ):
        (tmp_path / host).mkdir()
        (tmp_path / host / SERVER_LOG).write_text(f"{line}\n")
    noting: Any = Noting(mode, version, tmp_path)
    said: list[str] = []
    upgrade(noting, noting, ["broker2", "broker1"], "4.4.0", say=said.append)
    assert noting.asked == [
        *(
            step
            for host in ("broker2", "broker1")
            for step in (
                ("expect", host),
                ("signal", host, signal.SIGTERM),
                ("wait", host),
                ("upgrade", host, "4.4.0", properties),
                ("start", host),
            )
        ),
        ("place roles",),
    ]
    assert said[-1] == "broker1 runs Kafka 4.4.0 (2 of 2 nodes)"
