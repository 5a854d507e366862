"""Write the files with which `docker compose up` starts a cluster by hand, configured as the harness does it.

    python -m harness.cluster.by_hand runs/by-hand

See `docs/compose.md`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness import artifacts
from harness.cluster.cluster_file import read_cluster_file
from harness.cluster.kraft_storage import clone, formatted
from harness.cluster.owned import split_owned
from harness.cluster.processes import Processes
from harness.cluster.settings import NO_SETTINGS, Settings, values
from harness.cluster.setup import Setup
from harness.errors import AckedError, UsageError, as_printed
from harness.history.journal import Journal
from harness.kafka.config import (
    CALM_OBSERVER,
    KRaftNode,
    ZooKeeperModeBroker,
    broker_properties,
    kraft_properties,
    zookeeper_properties,
)
from harness.kafka.java import BROKER, ZOOKEEPER
from harness.kafka.versions import KafkaVersion, kafka_version
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import image as docker_image
from harness.lab.docker import sweep as docker_sweep
from harness.lab.docker.lab import ComposeLab
from harness.lab.docker.project import compose_file, variables, write_command
from harness.lab.layout import ROLES_BY_MODE, THREE_AZS, Layout
from harness.lab.model import Host, MainProcess

_SUBNET = "198.18.129"


def write_nodes(
    folder: Path,
    mode: str,
    version: KafkaVersion,
    subnet: str = _SUBNET,
    layout: Layout = THREE_AZS,
    settings: Settings = NO_SETTINGS,
) -> ComposeLab:
    """Write `nodes/<host>` of every host: configuration, data folder, and the command it runs.

    Only broker properties of ``settings`` apply, without those that the harness owns.
    """
    if mode not in ROLES_BY_MODE:
        raise UsageError(f"There is no mode {mode!r}; use {', '.join(ROLES_BY_MODE)}.")
    lab = ComposeLab(layout.topology(mode, subnet), folder)
    brokers = tuple(host.node_id for host in lab.topology.role("broker"))
    users, _ = split_owned(settings.broker, lab.topology, mode, Setup(topics=(), brokers=brokers), version)
    given = values(users)
    for host in lab.topology.hosts:
        lab.data_dir(host.name).mkdir(parents=True, exist_ok=True)
    with Journal(Path(os.devnull)) as journal:
        processes = Processes(
            lab=lab,
            distribution=artifacts.resolve(version.version),
            journal=journal,
        )
        if mode == "zookeeper":
            _write_zookeeper_mode(processes, version, given)
        else:
            _write_kraft_mode(processes, version, given)
    return lab


def environment(lab: ComposeLab, image: str) -> dict[str, str]:
    """Values of the Compose file's variables."""
    label = docker_sweep.BY_HAND
    return {
        **variables(lab.topology, lab.run_dir, image, run=label, owner=label, entry="run", health_s=2),
        "COMPOSE_PROJECT_NAME": "acked-by-hand",
    }


def _write_zookeeper_mode(processes: Processes, version: KafkaVersion, given: dict[str, str]) -> None:
    lab = processes.lab
    nodes = lab.topology.role("zookeeper")
    servers = {node.node_id: node.address for node in nodes}
    for node in nodes:
        data = lab.data_dir(node.name) / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(str(node.node_id))
        properties = zookeeper_properties(lab.inside(node.name, data), servers)
        _write(processes, node, ZOOKEEPER, properties, version.zookeeper_heap_mb)
    for broker in lab.topology.role("broker"):
        config = ZooKeeperModeBroker(
            node_id=broker.node_id,
            az=lab.topology.az_name(broker.az),
            address=broker.address,
            data_dir=lab.inside(broker.name, lab.data_dir(broker.name) / "data"),
            zookeepers=tuple(node.zookeeper_endpoint for node in nodes),
        )
        properties = broker_properties(config, given, version.unsupported_keys)
        _write(processes, broker, BROKER, properties, version.broker_heap_mb)


def _write_kraft_mode(processes: Processes, version: KafkaVersion, given: dict[str, str]) -> None:
    lab = processes.lab
    brokers, controllers = lab.topology.role("broker"), lab.topology.role("controller")
    voters = {node.node_id: node.address for node in controllers or brokers}
    template = formatted(processes.distribution, {}, processes.java)
    for host in (*controllers, *brokers):
        data = lab.data_dir(host.name) / "data"
        if not (data / "meta.properties").exists():
            clone(template, data, host.node_id)
        roles = ("broker",) if host.role == "broker" else ()
        roles = (*roles, "controller") if host.node_id in voters else roles
        node = KRaftNode(
            node_id=host.node_id,
            roles=roles,
            az=lab.topology.az_name(host.az),
            address=host.address,
            data_dir=lab.inside(host.name, data),
            voters=voters,
        )
        observer = CALM_OBSERVER if version.spins_without_controller else {}
        properties = kraft_properties(node, given, version.unsupported_keys, given, observer)
        heap_mb = version.broker_heap_mb if "broker" in roles else version.controller_heap_mb
        _write(processes, host, BROKER, properties, heap_mb)


def _write(
    processes: Processes, host: Host, main_class: str, properties: dict[str, str], heap_mb: int
) -> None:
    java = processes.prepare(host.name, main_class, properties, heap_mb=heap_mb)
    write_command(processes.lab.data_dir(host.name), MainProcess(java.argv()))


def _main(
    folder: Annotated[Path, typer.Argument(help="Where the hosts' folders and lab.env are written.")],
    mode: Annotated[str, typer.Option(help="zookeeper, kraft or kraft-combined.")] = "zookeeper",
    kafka: Annotated[str, typer.Option(help="Kafka version.")] = "2.7.1",
    cluster: Annotated[Path | None, typer.Option(help="Cluster file (TOML). Default: three AZs.")] = None,
) -> None:
    """Write the configuration of every host, and the variables of the Compose file."""
    file = read_cluster_file(cluster) if cluster else None
    layout, settings = (file.layout, file.settings) if file else (THREE_AZS, NO_SETTINGS)
    if not settings.security.plaintext:
        raise UsageError(
            f"{settings.security.place}: listeners of a cluster by hand have no security; remove the table."
        )
    lab = write_nodes(folder.absolute(), mode, kafka_version(kafka), layout=layout, settings=settings)
    client = docker_engine.connect()
    image = docker_image.ensure(client, lambda text: typer.echo(text, err=True))
    client.close()
    env_file = lab.run_dir / "lab.env"
    env_file.write_text("".join(f"{key}={value}\n" for key, value in environment(lab, image).items()))
    command = [*docker_engine.compose_command(), "--env-file", str(env_file), "-f"]
    command.append(str(compose_file(lab.topology, lab.run_dir)))
    hosts = " ".join(host.name for host in lab.topology.hosts) if mode == "kraft-combined" else ""
    typer.echo(f"{' '.join(command)} up -d {hosts}".rstrip())


def main() -> int:
    """Entry point that shows an error as one sentence."""
    try:
        typer.run(_main)
    except AckedError as error:
        sys.stderr.write(as_printed(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
