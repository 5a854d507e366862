"""Somebody else's cluster in a network of its own, in which its AZs can be cut off.

Only inside `harness.lab.embedded.namespaces.run_inside`; `acked record` is started there too.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from harness.history.journal import Journal
from harness.kafka.model import broker_name
from harness.lab.embedded.lab import EmbeddedLab
from harness.lab.model import Host, MainProcess, Topology
from nemesis.nemesis import Nemesis
from nemesis.storage.disks import Disks
from tests.cluster.foreign import (
    CLIENTS_PORT,
    IDS,
    PEERS_PORT,
    QUORUM_PORT,
    RACKS,
    USERS_PORT,
    ZOOKEEPER_NODE,
    ZOOKEEPER_PORT,
    ForeignCluster,
)

_SUBNET = "198.18.0"
KEPT = {"controlled.shutdown.enable": "true", "log.segment.delete.delay.ms": "3600000"}
"""A rolling restart moves leaders away first; the files of a deleted topic are kept, so that tests can read
them."""
_QUORUM_AZ = "eu-q"
"""Where the ZooKeeper node is: in no broker's AZ."""


@dataclass(kw_only=True)
class ForeignLab(ForeignCluster):
    """The same brokers, each in a host of an embedded lab. acked's own address is that of the observer."""

    settings: Mapping[str, str] = field(default_factory=lambda: KEPT)
    own_disks: Sequence[int] = ()
    """Brokers that have a disk of their own, which `Nemesis.storage` can fill."""
    lab: EmbeddedLab = field(init=False)
    disks: Disks = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is started."""
        self.lab = EmbeddedLab(self._topology(), self.folder)
        self.disks = Disks(self.lab)

    @cached_property
    def nemesis(self) -> Nemesis:
        """What cuts its links and fills its disks, and proves it."""
        return Nemesis(self.lab, Journal(self.folder / "nemesis.jsonl"), disks=self.disks)

    def home(self, name: str) -> Path:
        """The folder of the host."""
        return self.lab.data_dir(name)

    def signal(self, broker: int, number: int) -> None:
        """Send a signal to a broker's process; after SIGKILL and SIGTERM, wait until it has ended."""
        self.lab.signal(broker_name(broker), number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self.lab.wait_exit(broker_name(broker), 60)

    def _topology(self) -> Topology:
        azs = {f"az{number}": rack for number, rack in enumerate((*RACKS, _QUORUM_AZ), start=1)}
        services = {"kafka": (CLIENTS_PORT, PEERS_PORT, *([] if self.ca is None else [USERS_PORT]))}
        if not self._zookeeper:
            services["controller"] = (QUORUM_PORT,)
        hosts = [
            Host(
                name=broker_name(broker),
                role="broker",
                az=az,
                address=self._address(broker),
                node_id=broker,
                services=services,
            )
            for broker, az in zip(IDS, azs, strict=False)
        ]
        if self._zookeeper:
            address, service = self._address_of_zookeeper(), {"zookeeper": (ZOOKEEPER_PORT,)}
            hosts.append(
                Host(
                    name=ZOOKEEPER_NODE,
                    role="zookeeper",
                    az=list(azs)[-1],
                    address=address,
                    node_id=1,
                    services=service,
                )
            )
        return Topology(tuple(hosts), f"{_SUBNET}.99", azs)

    def _up(self) -> None:
        self.lab.up()
        for broker in self.own_disks:
            self.disks.make(broker_name(broker))
        super()._up()

    def _down(self) -> None:
        if "nemesis" in self.__dict__:
            self.nemesis.close()
        self.lab.down()
        self.disks.close()

    def _address(self, broker: int) -> str:
        return f"{_SUBNET}.{IDS.index(broker) + 11}"

    def _address_of_zookeeper(self) -> str:
        return f"{_SUBNET}.10"

    def start_command(self, name: str) -> str:
        """A command that starts the host's process again, as an operator would have one."""
        return f"sh {self.home(name) / 'start.sh'}"

    def _launch(self, name: str, command: Sequence[str]) -> None:
        script = self.home(name) / "start.sh"
        output = shlex.quote(str(self.home(name) / "out.log"))
        script.write_text(f"setsid nohup {shlex.join(command)} >>{output} 2>&1 </dev/null &\n")
        self.lab.start(name, MainProcess(tuple(command)))
