"""A hosts file from what a cluster tells of itself and, where one may log in, from what runs there."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from harness.cluster.attached import AttachedCluster
from harness.cluster.hosts_file import ALLOWED
from harness.errors import AckedError, LabError
from harness.kafka.addresses import endpoint, for_brokers, members, own_listeners
from harness.lab.hosts.ssh import SshShell, SshTarget

_UNIT = re.compile(r"/([A-Za-z0-9@_.:\\-]+\.service)(?:/|$)")


@dataclass(frozen=True, kw_only=True)
class FoundHost:
    """A host of the proposed file."""

    destination: str
    """What follows `ssh`: the name that the cluster gives."""
    address: str
    """IPv4; empty if the name is not known here."""
    az: str = ""
    node_id: int = 0
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By service."""
    start: str = ""
    notes: tuple[str, ...] = ()
    """What a person must look at."""


def discover(cluster: AttachedCluster) -> tuple[FoundHost, ...]:
    """What the brokers tell: ids, racks and listeners, and by their configuration who else is there."""
    racks = {one.node_id: one.rack for one in cluster.listeners}
    hosts: list[FoundHost] = []
    others: dict[tuple[str, str, int], None] = {}
    numbers: dict[tuple[str, int], int] = {}
    for broker in cluster.brokers:
        config: Mapping[str, str] = {}
        with suppress(LookupError, OSError):
            config = cluster.broker_config(broker)
        voters = {
            int(member.partition("@")[0]): place
            for member in members(config.get("controller.quorum.voters", ""))
            if member.partition("@")[0].isdigit() and (place := endpoint(member)) is not None
        }
        own = voters.get(broker.node_id)
        listening = own_listeners(config)
        ports = tuple(dict.fromkeys((broker.ports[0], *listening.get("kafka", ()))))
        quorum = (own[1],) if own else tuple(listening.get("controller", ()))
        services = {"kafka": ports, **({"controller": quorum} if quorum else {})}
        peers, _ = for_brokers(config) or (broker.address, 0)
        notes = [] if config else ["its configuration is not told (DESCRIBE_CONFIGS): compare its ports"]
        if peers != broker.address:
            notes.append(f"address: that of {peers} for other brokers; clients use {broker.address}")
        hosts.append(
            FoundHost(
                destination=broker.address,
                address=_resolved(peers),
                az=racks.get(broker.node_id, ""),
                node_id=broker.node_id,
                ports=services,
                notes=tuple(notes),
            )
        )
        others |= {("controller", name, port): None for name, port in voters.values()}
        others |= {
            ("controller", *place): None
            for member in members(config.get("controller.quorum.bootstrap.servers", ""))
            if (place := endpoint(member)) is not None
        }
        others |= {
            ("zookeeper", *place): None
            for member in members(config.get("zookeeper.connect", ""))
            if (place := endpoint(member)) is not None
        }
        numbers |= {place: number for number, place in voters.items()}
    return tuple((*hosts, *_rest(hosts, others, numbers)))


def _rest(
    brokers: Iterable[FoundHost],
    others: Iterable[tuple[str, str, int]],
    numbers: Mapping[tuple[str, int], int],
) -> Iterator[FoundHost]:
    """Controllers and ZooKeeper nodes that are no brokers."""
    by_address = {one.address: one for one in brokers}
    for count, (service, name, port) in enumerate(others, start=1):
        address = _resolved(name)
        host = by_address.get(address)
        if service == "controller" and host is not None and port in host.ports.get("controller", ()):
            continue
        note = "its AZ is not told: write it"
        if service == "controller" and (name, port) not in numbers:
            note = "its AZ and its id are not told: write them"
        if host is not None:
            note = f"it shares its address with broker {host.node_id}: name its port there instead"
        yield FoundHost(
            destination=name,
            address=address,
            node_id=numbers.get((name, port), count),
            ports={service: (port,)},
            notes=(note,),
        )


def _resolved(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except (OSError, UnicodeError):
        return ""


def looked_at(hosts: Iterable[FoundHost], target: SshTarget) -> tuple[FoundHost, ...]:
    """The same hosts with what runs there, as far as one may log in: other ports, and the systemd unit."""
    every = tuple(hosts)
    with ThreadPoolExecutor(max(1, len(every))) as pool:
        return tuple(pool.map(lambda host: _looked_at(host, target), every))


def _looked_at(host: FoundHost, target: SshTarget) -> FoundHost:
    shell = SshShell(host.destination, replace(target, destination=host.destination))
    try:
        login = shell.connect()
        port = next(port for ports in host.ports.values() for port in ports)
        found = shell.listener(port)
        if found is None:
            why = "" if login.uid == 0 else ", as the login is not root's"
            raise LabError(f"nothing is known of who listens on {port}{why}")
        name, pid = found
        cgroup = shell.run(("cat", f"/proc/{pid}/cgroup")).stdout
    except AckedError as error:
        return replace(host, notes=(*host.notes, f"ssh: {error.message}"))
    finally:
        shell.close()
    unit = _UNIT.search(cgroup)
    own = unit is not None and not unit[1].startswith(("user@", "ssh"))
    notes = (f"{name} (pid {pid}) listens on {port}",)
    return replace(
        host,
        start=f"systemctl start {unit[1]}" if own and unit is not None else "",
        notes=(*host.notes, *notes),
    )


def hosts_file_text(
    cluster: AttachedCluster,
    hosts: Iterable[FoundHost],
    *,
    bootstrap: str,
    client_config: str = "",
    user: str = "",
    become: str = "",
    config: str = "",
) -> str:
    """A hosts file of them, with what a person must look at as comments."""

    def given(key: str, value: str) -> list[str]:
        return [f"{key} = {json.dumps(value, ensure_ascii=False)}"] if value else []

    ssh = [*given("user", user), *given("become", become), *given("config", config)]
    lines = [
        "# Proposed by `acked attach discover`: compare it, then `acked attach check` it.",
        *(["[ssh]", *ssh, ""] if ssh else []),
        "[kafka]",
        *given("bootstrap", bootstrap),
        *given("cluster-id", cluster.cluster_id),
        *given("client-config", client_config),
        "",
        "[limits]",
        f"allow = {json.dumps(ALLOWED)}",
    ]
    for host in hosts:
        ports = ", ".join(f"{service} = {list(ports)}" for service, ports in host.ports.items())
        lines += ["", *(f"# {note}" for note in host.notes), "[[host]]"]
        lines += [
            f"ssh = {json.dumps(host.destination)}",
            f"address = {json.dumps(host.address)}",
            f"az = {json.dumps(host.az, ensure_ascii=False)}",
            f"id = {host.node_id}",
            f"ports = {{ {ports} }}",
            *given("start", host.start),
        ]
    return "\n".join(lines) + "\n"
