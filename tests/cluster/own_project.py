"""Somebody's own Compose project: three KRaft nodes with ids 0, 1001 and 7, and another container."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import docker

from harness import artifacts
from harness.kafka.model import Endpoint, broker_name
from harness.kafka.wire.dialect import dialect
from harness.kafka.wire.metadata import metadata
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import image as docker_image
from harness.lab.hosts.containers import LABEL_ATTACHED
from harness.waiting import wait_until
from tests.cluster.foreign import IDS

SOURCES = Path(__file__).with_name("shop")
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
_IMAGE = "shop/kafka:test"


@dataclass(kw_only=True)
class OwnProject:
    """Brought up by Compose, as its owner does it."""

    folder: Path
    kafka: str = "3.9.1"
    name: str = field(default_factory=lambda: f"shop{secrets.token_hex(3)}")
    ca: None = None
    ports: tuple[int, ...] = ()
    """On which the brokers listen for clients, at 127.0.0.1."""

    def __enter__(self) -> Self:
        self._build()
        self.ports = _free_ports(len(IDS))
        self._data = Path(tempfile.mkdtemp(prefix="acked-shop-"))
        self._data.chmod(0o755)
        for number in range(1, len(IDS) + 1):
            home = self._data / f"kafka-{number}"
            home.mkdir()
            os.chown(home, 4900, 4900)
        try:
            self.compose("up", "-d")
            self.wait_registered()
        except BaseException:
            print(self.compose("logs", "--tail", "15"))
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.compose("down", "-v", "-t", "2")
        subprocess.run(["rm", "-rf", str(self._data)], check=True)
        self.client.close()

    @cached_property
    def client(self) -> docker.DockerClient:
        """Of the engine."""
        return docker_engine.connect()

    @property
    def cluster_id(self) -> str:
        """As its Compose file says."""
        return CLUSTER_ID

    @property
    def file(self) -> Path:
        """Its Compose file."""
        return SOURCES / "docker-compose.yml"

    @property
    def bootstrap(self) -> str:
        """host:port of every broker's listener for clients."""
        return ",".join(str(self.endpoint(number)) for number in IDS)

    def endpoint(self, broker: int) -> Endpoint:
        """Where clients reach a broker."""
        port = self.ports[IDS.index(broker)]
        return Endpoint("localhost", port, node_id=broker, node=broker_name(broker))

    def data(self, broker: int) -> Path:
        """Its log.dirs."""
        return self._data / f"kafka-{IDS.index(broker) + 1}" / "log"

    def compose(self, *words: str) -> str:
        """What Compose prints."""
        command = [*docker_engine.compose_command(), "-p", self.name, "-f", str(self.file), *words]
        distribution = artifacts.resolve(self.kafka)
        variables = {f"SHOP_PORT_{number}": str(port) for number, port in enumerate(self.ports, start=1)}
        variables |= {
            "SHOP_IMAGE": _IMAGE,
            "SHOP_DATA": str(self._data),
            "SHOP_LIB": str(distribution.jars[0].parent),
        }
        environment = {**docker_engine.environment(), **variables}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def container(self, broker: int) -> Any:
        """A broker's container."""
        service = f"kafka-{IDS.index(broker) + 1}"
        label = [f"com.docker.compose.project={self.name}", f"com.docker.compose.service={service}"]
        (found,) = self.client.containers.list(all=True, filters={"label": label})
        return found

    def inspected(self) -> Mapping[str, Any]:
        """All that the engine says about the project's containers; it lists mounts in any order."""
        label = f"com.docker.compose.project={self.name}"
        found = self.client.api.containers(all=True, filters={"label": label})
        inspected = {one["Names"][0]: self.client.api.inspect_container(one["Id"]) for one in found}
        for one in inspected.values():
            one["Mounts"].sort(key=lambda mount: mount["Destination"])
        return inspected

    def helpers(self, label: str = LABEL_ATTACHED) -> list[str]:
        """The helper containers of acked that are there; by another label, the guards."""
        found = self.client.api.containers(all=True, filters={"label": label})
        return [one["Names"][0].lstrip("/") for one in found]

    def inside(self, broker: int, *command: str, stdin: str = "") -> str:
        """Run a command of this machine in the network of a broker's container, as an administrator."""
        pid = self.container(broker).attrs["State"]["Pid"]
        return subprocess.run(
            ["nsenter", "-t", str(pid), "-n", *command],
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def discipline(self, broker: int) -> str:
        """The queueing discipline of a broker's interface."""
        return self.inside(broker, "tc", "qdisc", "show", "dev", "eth0").strip()

    def reaches(self, source: int, destination: int) -> bool:
        """Whether one broker's container can connect to another broker."""
        (network,) = self.container(destination).attrs["NetworkSettings"]["Networks"].values()
        connect = f"import socket; socket.create_connection(({network['IPAddress']!r}, 9092), 1.0)"
        try:
            self.inside(source, sys.executable, "-c", connect)
        except subprocess.CalledProcessError:
            return False
        return True

    def rules(self) -> dict[int, list[str]]:
        """All rules of each broker's network, without counters."""
        return {
            broker: [
                line for line in self.inside(broker, "iptables-save").splitlines() if line.startswith("-A")
            ]
            for broker in IDS
        }

    def state(self, broker: int) -> str:
        """The kernel's one-letter state of a broker's process."""
        pid = self.container(broker).attrs["State"]["Pid"]
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat[stat.rindex(")") + 2]

    def signal(self, broker: int, number: signal.Signals) -> None:
        """Signal a broker's process, without the engine."""
        os.kill(self.container(broker).attrs["State"]["Pid"], number)

    def wait_registered(self) -> None:
        """Wait until every broker knows all of them."""

        def all_know() -> bool:
            return all(
                metadata(self.endpoint(broker), (), dialect=dialect(self.kafka)).brokers == tuple(sorted(IDS))
                for broker in IDS
            )

        wait_until(
            all_know,
            within_s=180,
            awaiting="the brokers of the project to know each other",
            ignoring=(OSError,),
        )

    def _build(self) -> None:
        self.client.images.build(
            path=str(SOURCES), tag=_IMAGE, rm=True, buildargs={"BASE": docker_image.ensure(self.client)}
        )


def _free_ports(count: int) -> tuple[int, ...]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(one.getsockname()[1] for one in sockets)


def different(before: Mapping[str, Any], after: Mapping[str, Any], place: str = "") -> list[str]:
    """The places at which two documents of the engine differ."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = sorted({*before, *after})
        return [
            one
            for key in keys
            for one in different(before.get(key), after.get(key), f"{place}.{key}" if place else key)  # type: ignore[arg-type]
        ]
    return [] if before == after else [f"{place}: {json.dumps(before)} -> {json.dumps(after)}"]
