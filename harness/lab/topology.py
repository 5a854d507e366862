"""The hosts that a cluster needs, and their addresses."""

from __future__ import annotations

from harness.kafka.model import BROKER_PORT, CONTROLLER_PORT, controller_id
from harness.lab.model import AZS, SERVICES, Host, Topology

_FIRST = {"zookeeper": 10, "broker": 20, "client": 30, "controller": 40}
_PORTS = {
    "zookeeper": (*SERVICES["zookeeper"], *SERVICES["zookeeper-peer"]),
    "broker": SERVICES["kafka"],
    "client": (),
    "controller": SERVICES["controller"],
}
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
            ports = (BROKER_PORT, CONTROLLER_PORT)
        for number, az in enumerate(AZS, start=1):
            address = f"{subnet}.{_FIRST[role] + number}"
            node_id = controller_id(number) if role == "controller" else number
            host = Host(
                name=f"{role}{number}", role=role, az=az, address=address, node_id=node_id, ports=ports
            )
            hosts.append(host)
    return Topology(tuple(hosts), f"{subnet}.99")
