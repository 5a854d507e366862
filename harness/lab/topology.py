"""Which hosts a cluster needs, and at which addresses."""

from __future__ import annotations

from harness.lab.model import AZS, Host, Topology

_FIRST = {"zookeeper": 10, "broker": 20, "client": 30, "controller": 40}
_PORTS = {"zookeeper": (2181, 2888, 3888), "broker": (9092,), "client": (), "controller": (9093,)}
ROLES_BY_MODE = {
    "zookeeper": ("zookeeper", "broker", "client"),
    "kraft": ("controller", "broker", "client"),
    "kraft-combined": ("broker", "client"),
}
"""Which roles have a host of their own, by metadata mode."""


def three_azs(mode: str, subnet: str = "198.18.0") -> Topology:
    """One host of each role in each AZ; addresses are `<subnet>.<first of the role + AZ>`.

    A combined KRaft node is a broker host that listens on the controller's port as well.
    """
    hosts: list[Host] = []
    for role in ROLES_BY_MODE[mode]:
        ports = _PORTS[role]
        if mode == "kraft-combined" and role == "broker":
            ports = (9092, 9093)
        for number, az in enumerate(AZS, start=1):
            address = f"{subnet}.{_FIRST[role] + number}"
            # Dedicated controllers and brokers share one id space in KRaft, so brokers keep 1..3.
            node_id = number + (10 if role == "controller" else 0)
            hosts.append(Host(f"{role}{number}", role, az, address, node_id, ports))
    return Topology(tuple(hosts), f"{subnet}.99")
