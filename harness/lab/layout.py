"""Which hosts a cluster has in which AZ, and the topology that follows: names, node ids, addresses.

Hosts of a role are numbered across the AZs in turn: the first broker of the first AZ is `broker1`, the first
one of the second AZ `broker2`, and so on; then the second one of each AZ. With at least one broker in each of
three AZs, `broker1` to `broker3` are therefore in `az1` to `az3`, which is what scenarios name. AZs with a
host of every role come first in that order, and AZs without brokers (tie-breakers) last: a scenario that
needs three complete AZs finds them, wherever they are in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.errors import UsageError
from harness.kafka.model import controller_id
from harness.lab.model import SERVICES, Host, Topology

Role = Literal["zookeeper", "controller", "broker", "client"]

MAX_AZS = 5
ROLES_BY_MODE: dict[str, tuple[Role, ...]] = {
    "zookeeper": ("zookeeper", "broker", "client"),
    "kraft": ("controller", "broker", "client"),
    "kraft-combined": ("broker", "client"),
    "migration": ("zookeeper", "controller", "broker", "client"),
}
"""Which roles have a host of their own, by metadata mode."""

_SERVICES: dict[Role, tuple[str, ...]] = {
    "zookeeper": ("zookeeper", "zookeeper-peer"),
    "broker": ("kafka",),
    "client": (),
    "controller": ("controller",),
}
_FIRST_OCTET: dict[Role, int] = {"zookeeper": 10, "broker": 20, "client": 30, "controller": 40}
_FIRST_OCTET_OF_MANY: dict[Role, int] = {"zookeeper": 10, "broker": 100, "client": 150, "controller": 40}
"""Where the addresses of a role begin if it has more hosts than fit below the next role's."""
_OBSERVER_OCTET = 99
_FEW = 9
MOST: dict[Role, int] = {"zookeeper": _FEW, "controller": _FEW, "broker": 48, "client": 48}
"""The most hosts that a role can have, because each needs an address."""


@dataclass(frozen=True, kw_only=True)
class AvailabilityZone:
    """An AZ: its own name, and how many hosts of each role it has."""

    name: str
    brokers: int = 1
    zookeepers: int = 1
    """Used in ZooKeeper mode and in a migration."""
    controllers: int = 1
    """Used with dedicated KRaft controllers, and in a migration."""
    clients: int = 1

    def count(self, role: Role) -> int:
        """How many hosts of a role."""
        return {
            "broker": self.brokers,
            "zookeeper": self.zookeepers,
            "controller": self.controllers,
            "client": self.clients,
        }[role]


@dataclass(frozen=True)
class Layout:
    """The AZs of a cluster, in order."""

    azs: tuple[AvailabilityZone, ...]

    def topology(self, mode: str, subnet: str = "198.18.0") -> Topology:
        """The hosts in a metadata mode; ``subnet`` is the first three octets of their /24.

        A combined KRaft node is a broker host that listens on the controller's port as well. Raises
        UsageError for a layout that no cluster can have.
        """
        _require(self.azs, mode)
        azs = sorted(self.azs, key=lambda az: _lacking(az, mode))
        names = {f"az{number}": az.name for number, az in enumerate(azs, start=1)}
        hosts = [
            host for role in ROLES_BY_MODE[mode] for host in _hosts(role, azs, mode, subnet)
        ]  # fmt: skip
        return Topology(tuple(hosts), f"{subnet}.{_OBSERVER_OCTET}", names)


THREE_AZS = Layout(tuple(AvailabilityZone(name=f"az{number}") for number in (1, 2, 3)))
"""One host of each role in each of three AZs: the layout for which the catalogue is written."""


def three_azs(mode: str, subnet: str = "198.18.0") -> Topology:
    """The topology of `THREE_AZS`."""
    return THREE_AZS.topology(mode, subnet)


def _hosts(role: Role, azs: Sequence[AvailabilityZone], mode: str, subnet: str) -> Iterator[Host]:
    services = _SERVICES[role]
    if mode == "kraft-combined" and role == "broker":
        services = ("kafka", "controller")
    places = list(_places(role, azs))
    few = all(sum(az.count(one) for az in azs) <= _FEW for one in ROLES_BY_MODE[mode])
    first = (_FIRST_OCTET if few else _FIRST_OCTET_OF_MANY)[role]
    brokers = sum(az.brokers for az in azs)
    for number, place in enumerate(places, start=1):
        yield Host(
            name=f"{role}{number}",
            role=role,
            az=f"az{place}",
            address=f"{subnet}.{first + number}",
            node_id=controller_id(number, brokers) if role == "controller" else number,
            services={service: SERVICES[service] for service in services},
        )


def _places(role: Role, azs: Sequence[AvailabilityZone]) -> Iterator[int]:
    """For each host of a role, in order of number, the number of its AZ."""
    for turn in range(max(az.count(role) for az in azs)):
        for number, az in enumerate(azs, start=1):
            if az.count(role) > turn:
                yield number


def _lacking(az: AvailabilityZone, mode: str) -> tuple[bool, int]:
    """Whether an AZ lacks brokers, and how many roles it lacks."""
    return az.brokers == 0, sum(az.count(role) == 0 for role in ROLES_BY_MODE[mode])


def _require(azs: Sequence[AvailabilityZone], mode: str) -> None:
    if mode not in ROLES_BY_MODE:
        raise UsageError(f"There is no mode {mode!r}; use {', '.join(ROLES_BY_MODE)}.")
    if not 1 <= len(azs) <= MAX_AZS:
        raise UsageError(f"The cluster has {len(azs)} AZs; describe 1 to {MAX_AZS}.")
    for role in ROLES_BY_MODE[mode]:
        number = sum(az.count(role) for az in azs)
        if number == 0:
            raise UsageError(f"The cluster has no {role} in any AZ; mode {mode} needs at least one.")
        if number > MOST[role]:
            raise UsageError(f"The cluster has {number} {role}s; use at most {MOST[role]}.")
