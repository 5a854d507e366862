"""`hosts.toml`: hosts that exist already, and what acked may do to them. `docs/attach.md` is the reference.

::

    [ssh]
    user = "ops"                  # all else is that of your own ssh configuration
    become = "sudo -n"            # how the login becomes root; without it, it must be root's

    [kafka]
    bootstrap = "kafka1:9092,kafka2:9092"
    cluster-id = "4L6g3nShT-eMCtK--X86sw"
    client-config = "client.properties"

    [limits]
    allow = ["cut", "one-way", "pause", "throttle"]
    hosts-at-once = 1
    max-seconds = 120
    window = "22:00-05:00"        # no fault at other times of the day
    time-zone = "Europe/Berlin"

    [[host]]
    ssh = "kafka1.example.org"    # what you write after `ssh`
    address = "10.0.1.11"         # on the cluster's network
    az = "frankfurt"
    id = 1                        # node.id or broker.id; of a ZooKeeper node, its number
    ports = { kafka = [9092, 9093], controller = [9094] }
    start = "systemctl start kafka"   # as root; without it the node is never killed

In the place of hosts, a Compose project on this machine's Docker engine::

    [compose]
    project = "shop"              # or its Compose file
    azs = { kafka1 = "frankfurt" }  # by service, if broker.rack does not say it
"""

from __future__ import annotations

import ipaddress
import math
import re
import shlex
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta

from harness.cluster import explained
from harness.cluster.attached import READING, attach, bootstrap_endpoints, guarded
from harness.cluster.client_config import read_client_config
from harness.errors import UnfitError, UsageError, quoted
from harness.kafka.model import broker_name
from harness.kafka.security import PLAINTEXT
from harness.lab.hosts.ssh import SshTarget
from harness.lab.hosts.transport import Target
from harness.lab.model import SERVICES, Host, Topology
from harness.texts import parse_toml, text_file

ALLOWED = ("cut", "one-way", "pause", "throttle")
"""Faults that hosts of others have unless the file says otherwise."""
ENDING = ("kill", "restart")
"""Faults that end a node's process; its start command must be known, and must have been tried."""
ALLOWABLE = (*ALLOWED, *ENDING)
"""Faults that hosts of others can have. None of them destroys data, and each ends by itself."""
LONGEST_S = 3600
_ROLES = {"kafka": "broker", "controller": "controller", "zookeeper": "zookeeper"}
"""The role of a host, by the first of these services that it has."""
_AZ_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_WINDOW = re.compile(r"([012]\d:[0-5]\d)-([012]\d:[0-5]\d)")
_MOST_COMMAND = 500
_DESTINATION = re.compile(r"[A-Za-z0-9_.%:@\[\]-]{1,255}")
Port = Annotated[int, Meta(ge=1, le=65535)]


class _Ssh(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    user: str = ""
    become: str = ""
    config: str = ""


class _Kafka(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    bootstrap: str = ""
    cluster_id: str = msgspec.field(default="", name="cluster-id")
    client_config: str = msgspec.field(default="", name="client-config")


class _Limits(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    allow: tuple[str, ...] = ALLOWED
    hosts_at_once: Annotated[int, Meta(ge=1, le=48)] = msgspec.field(default=1, name="hosts-at-once")
    max_seconds: Annotated[int, Meta(ge=5, le=LONGEST_S)] = msgspec.field(default=120, name="max-seconds")
    window: str = ""
    time_zone: str = msgspec.field(default="UTC", name="time-zone")


class _Host(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    ssh: str
    address: str
    az: str
    id: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    ports: dict[str, Annotated[list[Port], Meta(min_length=1, max_length=16)]]
    start: str = ""


class _Compose(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    project: Annotated[str, Meta(min_length=1)]
    azs: dict[str, str] = {}


class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    ssh: _Ssh = msgspec.field(default_factory=_Ssh)
    compose: _Compose | None = None
    kafka: _Kafka = msgspec.field(default_factory=_Kafka)
    limits: _Limits = msgspec.field(default_factory=_Limits)
    host: Annotated[list[_Host], Meta(max_length=100)] = []


@dataclass(frozen=True, kw_only=True)
class Window:
    """The time of the day at which something may be broken."""

    begin: time
    end: time
    """If it is not later than the beginning, it is that of the next day."""
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, zone: str) -> Window:
        """From `22:00-05:00` and the name of a time zone. Raises ValueError."""
        match = _WINDOW.fullmatch(text)
        if match is None:
            raise ValueError("write HH:MM-HH:MM, such as 22:00-05:00")
        begin, end = (time.fromisoformat(one) for one in match.groups())
        try:
            return cls(begin=begin, end=end, zone=ZoneInfo(zone))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"there is no time zone {quoted(zone, 40)}") from None

    def left_s(self, wall_ns: int) -> float:
        """Seconds from a time of the wall clock to the end of the window; 0 outside of it."""
        now = datetime.fromtimestamp(wall_ns / 1e9, self.zone)
        for day in (now.date() - timedelta(days=1), now.date()):
            begin = datetime.combine(day, self.begin, self.zone)
            last = day if self.end > self.begin else day + timedelta(days=1)
            end = datetime.combine(last, self.end, self.zone)
            if begin.timestamp() <= now.timestamp() < end.timestamp():
                return end.timestamp() - now.timestamp()
        return 0.0

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M} {self.zone.key}"


@dataclass(frozen=True, kw_only=True)
class HostsFile:
    """What a file says, or what is found of a Compose project."""

    path: Path
    """The file; without one, the name of the Compose project."""
    topology: Topology
    """Hosts are named as in all histories: `broker1` by the id of the broker."""
    targets: Mapping[str, Target]
    """How each host is reached, by its name."""
    bootstrap: str
    cluster_id: str = ""
    """Empty if the file does not say."""
    client_config: Path | None = None
    allow: tuple[str, ...] = ALLOWED
    hosts_at_once: int = 1
    max_s: int = 120
    window: Window | None = None
    """None: at any time."""
    starts: Mapping[str, str] = field(default_factory=dict)
    """By host, the command that starts its node again."""
    given_by: str = ""
    """The option that named a Compose project, if no file did."""

    @property
    def given(self) -> str:
        """How the user named the hosts, for messages and commands."""
        return f"{self.given_by} {self.path}" if self.given_by else str(self.path)

    def window_left_s(self, wall_ns: int) -> float:
        """Seconds until the window of the day ends. Raises UnfitError outside of it."""
        if self.window is None:
            return math.inf
        if not (left_s := self.window.left_s(wall_ns)):
            raise UnfitError(
                f"It is outside of limits.window of {self.given} ({self.window}); nothing was broken."
            )
        return left_s


def compose_project(name: str, *, roles: bool = True) -> HostsFile:
    """A Compose project with the limits of an empty file; ``roles`` as for `read_hosts_file`."""
    file = _File(compose=_Compose(project=name))
    return replace(_checked(Path(name), Path(), file, roles=roles), given_by="--compose-project")


def read_hosts_file(path: Path, *, roles: bool = True) -> HostsFile:
    """Read and check a file. Raises UsageError with the line, the key, the value and the remedy.

    Of a Compose project, the engine and Kafka tell what runs where; without ``roles``, only the engine is
    asked, and every running container is a host. Raises UnfitError if they do not.
    """
    text = text_file(path, path, "name a hosts file in TOML, as docs/attach.md describes it")
    try:
        data = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(explained.syntax(path, text, error)) from None
    try:
        file = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        where = place.strip("`").removeprefix("$.").removeprefix("$") or "the file"
        raise UsageError(f"{path}: {where}: {message}; see docs/attach.md for what it may hold.") from None
    return _checked(path, path.parent, file, roles=roles)


def _checked(path: Path, base: Path, file: _File, *, roles: bool) -> HostsFile:
    ssh, kafka = file.ssh, file.kafka
    allowable = ALLOWABLE if file.compose is None else ALLOWED  # an engine remembers who was stopped by hand
    unknown = [name for name in file.limits.allow if name not in allowable]
    if unknown:
        raise UsageError(
            f"{path}: limits.allow: {quoted(unknown[0])} is not possible on hosts that acked did not "
            f"set up; use {', '.join(allowable)}."
        )
    if bool(file.host) == (file.compose is not None):
        raise UsageError(f"{path}: name hosts, each as [[host]], or a Compose project as [compose].")
    if file.compose is None and not kafka.bootstrap.strip():
        raise UsageError(f'{path}: kafka.bootstrap is empty; give host:port, as in "kafka1:9092".')
    try:
        window = Window.parse(file.limits.window, file.limits.time_zone) if file.limits.window else None
    except ValueError as error:
        raise UsageError(f"{path}: limits.window = {quoted(file.limits.window, 40)}: {error}.") from None
    try:
        become = tuple(shlex.split(ssh.become))
    except ValueError as error:
        raise UsageError(f"{path}: ssh.become = {quoted(ssh.become)}: {error}; write `sudo -n`.") from None
    if ssh.user and not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.@\\-]*", ssh.user):
        raise UsageError(f"{path}: ssh.user = {quoted(ssh.user)} is no name of a user; correct it.")
    client_config = base / Path(kafka.client_config).expanduser() if kafka.client_config else None
    targets: Mapping[str, Target]
    if file.compose is None:
        bootstrap = kafka.bootstrap
        topology, destinations = _hosts(path, file)
        config = base / Path(ssh.config).expanduser() if ssh.config else None
        targets = {
            name: SshTarget(destination=destination, user=ssh.user, become=become, config=config)
            for name, destination in destinations.items()
        }
    else:
        found = _containers(base, file.compose, kafka.bootstrap, client_config, roles=roles)
        topology, targets, bootstrap = found
    return HostsFile(
        path=path,
        topology=topology,
        targets=targets,
        bootstrap=bootstrap,
        cluster_id=kafka.cluster_id,
        client_config=client_config,
        allow=file.limits.allow,
        hosts_at_once=file.limits.hosts_at_once,
        max_s=file.limits.max_seconds,
        window=window,
        starts={
            host.name: one.start for host, one in zip(topology.hosts, file.host, strict=False) if one.start
        },
    )


def _containers(
    base: Path, compose: _Compose, bootstrap: str, client_config: Path | None, *, roles: bool
) -> tuple[Topology, Mapping[str, Target], str]:
    """The containers of a project as hosts, how they are reached, and the listeners for clients."""
    from harness.cluster import compose_project as project  # nobody else needs the Docker SDK
    from harness.lab.hosts.containers import ContainerTarget

    file = base / compose.project
    there = project.find_project(str(file) if file.is_file() else compose.project)
    if roles:
        security = PLAINTEXT if client_config is None else read_client_config(client_config).security
        with guarded(READING):
            if bootstrap.strip():
                cluster = attach(bootstrap_endpoints(bootstrap, security))
            else:
                cluster, bootstrap = project.bootstrap_of(there, security)
            topology, which = project.roles_of(there, cluster, compose.azs)
    else:
        topology, which = there.by_service()
    targets: Mapping[str, Target] = {
        name: ContainerTarget(id=one.id, name=one.name) for name, one in which.items()
    }
    return topology, targets, bootstrap


def _hosts(path: Path, file: _File) -> tuple[Topology, dict[str, str]]:
    names = list(dict.fromkeys(one.az for one in file.host))
    azs = {name: f"az{number}" for number, name in enumerate(names, start=1)}
    hosts: list[Host] = []
    targets: dict[str, str] = {}
    for number, one in enumerate(file.host):
        place = f"{path}: host[{number}]"
        role = next((role for service, role in _ROLES.items() if service in one.ports), "")
        unknown = [service for service in one.ports if service not in SERVICES]
        if unknown or not role:
            raise UsageError(
                f"{place}.ports: {quoted(unknown[0]) if unknown else 'none'} is no service that runs "
                f"there; name {', '.join(SERVICES)}, such as {{ kafka = [9092] }}."
            )
        if not _AZ_NAME.fullmatch(one.az):
            raise UsageError(
                f"{place}.az = {quoted(one.az)}: use up to 40 letters, digits, '.', '_' and '-'."
            )
        if not _DESTINATION.fullmatch(one.ssh) or one.ssh.startswith("-"):
            raise UsageError(f"{place}.ssh = {quoted(one.ssh)}: write what follows `ssh`, such as kafka1.")
        if one.start and (not one.start.isprintable() or len(one.start) > _MOST_COMMAND):
            raise UsageError(f"{place}.start = {quoted(one.start, 60)}: write a command of one line.")
        name = broker_name(one.id) if role == "broker" else f"{role}{one.id}"
        for key, value, taken in (
            ("address", _address(place, one.address), [host.address for host in hosts]),
            ("id", name, [host.name for host in hosts]),
        ):
            if value in taken:
                raise UsageError(f"{place}.{key}: {value} is there twice; give each host its own {key}.")
        services = {service: tuple(ports) for service, ports in one.ports.items()}
        hosts.append(
            Host(
                name=name,
                role=role,
                az=azs[one.az],
                address=_address(place, one.address),
                node_id=one.id,
                services=services,
            )
        )
        targets[name] = one.ssh
    return Topology(tuple(hosts), "", {az: name for name, az in azs.items()}), targets


def _address(place: str, text: str) -> str:
    try:
        address: Any = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if address is None or address.version != 4 or address.is_loopback or address.is_unspecified:
        raise UsageError(
            f"{place}.address = {quoted(text)}: write the IPv4 address at which the other hosts of the "
            "cluster reach it, such as 10.0.1.11."
        )
    return str(address)


def _resolved(name: str) -> str:
    """The IPv4 address of a listener; empty if this machine does not know one."""
    try:
        return socket.gethostbyname(name)
    except (OSError, UnicodeError):
        return ""


def in_azs_of(file: HostsFile, topology: Topology) -> Topology:
    """A topology of the cluster as its brokers describe it, with the AZs of the file, and its other hosts.

    Raises UnfitError if the file does not name every broker, for a cut would leave links that it should take,
    or if a broker listens on the host of another one: safety is decided by ids, so the wrong node would be
    broken.
    """
    azs = {host.name: host.az for host in file.topology.hosts}
    lacking = [host.name for host in topology.role("broker") if host.name not in azs]
    if lacking:
        raise UnfitError(
            f"{file.given} names no host with kafka for {', '.join(lacking[:5])} of the cluster, so a "
            "cut would be incomplete; add them."
        )
    listening = {(host.address, port): host for host in file.topology.hosts for port in host.ports}
    for broker, port in ((one, port) for one in topology.role("broker") for port in one.ports):
        found = listening.get((_resolved(broker.address), port))
        if found is not None and found.name != broker.name:
            listener = f"{broker.address}:{port}"
            raise UnfitError(
                f"{file.given} gives {found.address} the id {found.node_id}, but in the cluster "
                f"{quoted(listener, 60)} has the id {broker.node_id}; correct the "
                "ids or the addresses."
            )
    hosts = tuple(replace(host, az=azs.get(host.name, host.az)) for host in topology.hosts)
    others = {
        az: name
        for az, name in topology.az_names.items()
        if az not in {one.az for one in topology.role("broker")}
    }
    return replace(topology, hosts=hosts, az_names={**file.topology.az_names, **others})
