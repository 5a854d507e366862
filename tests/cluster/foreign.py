"""Somebody else's cluster: real brokers that no lab of acked started, on loopback addresses of this machine.

Ids 0, 1001 and 7, racks of their own names, two listeners, no port 9092. `python -m tests.cluster.foreign
FOLDER VERSION` starts one, prints its bootstrap servers, and ends it when its standard input ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from harness import artifacts
from harness.cluster.certificates import CertificateAuthority
from harness.cluster.kraft_storage import clone, formatted
from harness.kafka.java import BROKER, ZOOKEEPER, JavaProcess, log_config_text, properties_text
from harness.kafka.model import Endpoint, broker_name
from harness.kafka.security import PLAIN_MODULE, jaas_line
from harness.kafka.versions import KafkaVersion, kafka_version
from harness.kafka.wire.dialect import dialect
from harness.kafka.wire.metadata import metadata
from harness.waiting import wait_until

IDS = (0, 1001, 7)
RACKS = ("eu-a", "eu-b", "eu-c")
CLIENTS_PORT, PEERS_PORT, QUORUM_PORT, ZOOKEEPER_PORT, USERS_PORT = 19092, 19093, 19094, 19095, 19096
USER, PASSWORD = "ordinary", "correct-horse-battery"
"""Who has no right on a cluster with ACLs but those that a test grants."""
_AUTHORIZERS = {
    "kraft": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "zookeeper": "kafka.security.authorizer.AclAuthorizer",
}
ZOOKEEPER_NODE = "zookeeper1"
_END_S = 60.0
"""How long a broker may take to end."""
_NETWORK = 2
"""The addresses are 127.0.<_NETWORK>.1 and so on, moved on by ``network``."""
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    "controlled.shutdown.enable": "false",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "min.insync.replicas": "2",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "10000",
    "zookeeper.session.timeout.ms": "4000",
}


@dataclass(kw_only=True)
class ForeignCluster:
    """Three brokers (combined KRaft nodes, or with a ZooKeeper node) as plain processes."""

    folder: Path
    kafka: str = "3.9.1"
    mode: str = ""
    """`zookeeper`; empty: KRaft, if the version has it."""
    network: int = _NETWORK
    """The third number of its addresses, so that clusters of several tests do not meet."""
    settings: Mapping[str, str] = field(default_factory=dict)
    ca: CertificateAuthority | None = None
    """With it, the standard authorizer, and a listener with SASL_SSL for `passwords`. Whoever comes by the
    others may do everything."""
    passwords: Mapping[str, str] = field(default_factory=lambda: {USER: PASSWORD})
    """By user."""
    advertised_port: int = CLIENTS_PORT
    """Where clients are told to come, if a proxy stands before their listeners."""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """host:port of every broker's listener for clients."""
        return ",".join(str(self.endpoint(number)) for number in IDS)

    def endpoint(self, broker: int) -> Endpoint:
        """Where clients reach a broker."""
        return Endpoint(self._address(broker), CLIENTS_PORT, node_id=broker, node=broker_name(broker))

    @property
    def users(self) -> str:
        """host:port of every broker's listener for `USER`."""
        return ",".join(f"{self._address(number)}:{USERS_PORT}" for number in IDS)

    def data(self, broker: int) -> Path:
        """Its log.dirs."""
        return self.home(broker_name(broker)) / "data"

    def home(self, name: str) -> Path:
        """The folder of one process: its configuration, its logs, its data."""
        return self.folder / name

    def __enter__(self) -> Self:
        try:
            self._up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._down()

    def start(self, broker: int) -> None:
        """Start a broker's process (again)."""
        self._start(broker_name(broker), BROKER, self._properties(broker))

    def signal(self, broker: int, number: int) -> None:
        """Send a signal to a broker's process; after SIGKILL and SIGTERM, wait until it has ended."""
        process = self.processes[broker_name(broker)]
        os.killpg(process.pid, number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            process.wait(_END_S)

    def wait_registered(self, brokers: Sequence[int] = IDS) -> None:
        """Wait until every one of these brokers knows all of them."""
        expected = tuple(sorted(brokers))

        def all_know() -> bool:
            return all(
                metadata(self.endpoint(broker), (), dialect=dialect(self.kafka)).brokers == expected
                for broker in brokers
            )

        wait_until(all_know, within_s=90, awaiting=f"brokers {expected} to know each other")

    def _up(self) -> None:
        if self._zookeeper:
            properties = {
                "dataDir": self.home(ZOOKEEPER_NODE) / "data",
                "clientPort": ZOOKEEPER_PORT,
                "clientPortAddress": self._address_of_zookeeper(),
                "tickTime": 500,
                "maxSessionTimeout": 60000,
            }
            self._start(ZOOKEEPER_NODE, ZOOKEEPER, properties)
        for broker in IDS:
            self.format(broker)
            self.start(broker)
        self.wait_registered()

    def format(self, broker: int) -> None:
        """Prepare an empty data folder, which a broker in ZooKeeper mode does by itself."""
        if not self._zookeeper:
            clone(formatted(self._distribution, {}), self.data(broker), broker)

    def _down(self) -> None:
        """End every process."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.processes.values():
            process.wait()

    @property
    def _version(self) -> KafkaVersion:
        return kafka_version(self.kafka)

    @property
    def _distribution(self) -> artifacts.KafkaDistribution:
        return artifacts.resolve(self.kafka)

    @property
    def _zookeeper(self) -> bool:
        return self.mode == "zookeeper" or "kraft" not in self._version.modes

    def _address(self, broker: int) -> str:
        return f"127.0.{self.network}.{IDS.index(broker) + 1}"

    def _address_of_zookeeper(self) -> str:
        return f"127.0.{self.network}.10"

    def _properties(self, broker: int) -> dict[str, object]:
        address = self._address(broker)
        listeners = {"CLIENTS": CLIENTS_PORT, "PEERS": PEERS_PORT}
        protocols = dict.fromkeys((*listeners, "QUORUM"), "PLAINTEXT")
        if self.ca is not None:
            listeners["USERS"], protocols["USERS"] = USERS_PORT, "SASL_SSL"
        advertised = ",".join(f"{name}://{address}:{port}" for name, port in listeners.items())
        told = advertised.replace(f":{CLIENTS_PORT}", f":{self.advertised_port}")
        properties: dict[str, object] = {
            "broker.rack": RACKS[IDS.index(broker)],
            "listeners": advertised,
            "advertised.listeners": told,
            "inter.broker.listener.name": "PEERS",
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "log.dirs": self.data(broker),
            **_SETTINGS,
            **self._secured(address),
            **self.settings,
        }
        if self._zookeeper:
            properties |= {
                "broker.id": broker,
                "zookeeper.connect": f"{self._address_of_zookeeper()}:{ZOOKEEPER_PORT}",
                "reserved.broker.max.id": 2000,
                # ZooKeeper can lose a connection that it accepts before it serves; the client tries again.
                "zookeeper.connection.timeout.ms": 30_000,
            }
            return properties
        voters = ",".join(f"{number}@{self._address(number)}:{QUORUM_PORT}" for number in IDS)
        return properties | {
            "process.roles": "broker,controller",
            "node.id": broker,
            "listeners": f"{advertised},QUORUM://{address}:{QUORUM_PORT}",
            "controller.listener.names": "QUORUM",
            "controller.quorum.voters": voters,
        }

    def _secured(self, address: str) -> dict[str, object]:
        if self.ca is None:
            return {}
        own = self.ca.issue("broker", [address])
        users = {f"user_{name}": password for name, password in self.passwords.items()}
        return {
            "authorizer.class.name": _AUTHORIZERS["zookeeper" if self._zookeeper else "kraft"],
            "super.users": "User:ANONYMOUS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": own.chain,
            "ssl.keystore.key": own.key.reveal(),
            "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": jaas_line(PLAIN_MODULE, users),
        }

    def _start(self, name: str, main_class: str, properties: Mapping[str, object]) -> None:
        folder = self.home(name)
        folder.mkdir(parents=True, exist_ok=True)
        distribution, syntax = self._distribution, self._version.log_syntax
        (folder / "server.properties").write_text(properties_text(properties))
        (folder / "log.properties").write_text(log_config_text(str(folder / "server.log"), syntax))
        archive = distribution.archive(main_class)
        command = JavaProcess(
            main_class=main_class,
            class_path=distribution.class_path(),
            arguments=(str(folder / "server.properties"),),
            log_config=str(folder / "log.properties"),
            log_syntax=syntax,
            archive=None if archive is None else str(archive),
            java=str(artifacts.find_java().path),
        ).argv()
        self._launch(name, command)

    def _launch(self, name: str, command: Sequence[str]) -> None:
        with (self.home(name) / "out.log").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def main() -> None:
    """Keep a cluster up until the standard input ends."""
    with ForeignCluster(folder=Path(sys.argv[1]), kafka=sys.argv[2]) as cluster:
        print(cluster.bootstrap, {name: one.pid for name, one in cluster.processes.items()}, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
