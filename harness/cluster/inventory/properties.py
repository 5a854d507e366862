"""`server.properties` files and what else has broker properties: environment variables of containers.

Roles come from `process.roles` (KIP-500); a node without it is a broker. The quorum's other members come from
`controller.quorum.voters` (`id@host:port`, KIP-595) or `controller.quorum.bootstrap.servers` (KIP-853), and
the ensemble's from `zookeeper.connect` (`host:port,host:port/chroot`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.cluster.inventory.model import Inventory, Node, NodeRole
from harness.cluster.settings import Setting
from harness.errors import UsageError
from harness.kafka.addresses import members as listed
from harness.kafka.versions import INTER_BROKER_PROTOCOL

_ASSUMED_BROKERS = 3


@dataclass(frozen=True, kw_only=True)
class NodeProperties:
    """The properties of one node, and what its source calls it."""

    source: str
    settings: Mapping[str, Setting]
    copies: int = 1
    """How many nodes have these properties: the replicas of a service."""

    def value(self, key: str) -> str:
        """The value, without spaces around it; empty if it is not set."""
        return self.settings[key].value.strip() if key in self.settings else ""

    @property
    def roles(self) -> frozenset[NodeRole]:
        """Raises UsageError for roles that Kafka does not have."""
        names = self.value("process.roles").replace(" ", "")
        if not names:
            return frozenset({"broker"})
        roles: frozenset[NodeRole] = frozenset(
            role for role in ("broker", "controller") if role in names.split(",")
        )
        if not roles:
            raise UsageError(f"{self.settings['process.roles']}: a node is a broker, a controller or both.")
        return roles


def inventory(
    nodes: Sequence[NodeProperties],
    *,
    servers_known: bool = False,
    alone: str = "One file describes one broker",
) -> Inventory:
    """The cluster of these nodes. Raises UsageError.

    With ``servers_known`` another source names the ZooKeeper nodes, so `zookeeper.connect` is not counted.
    ``alone`` says in a note what a single broker comes from, for which several are assumed; it is empty if
    the nodes are all that there are.
    """
    members = [
        Node(
            name=node.source if node.copies == 1 else f"{node.source}-{number}",
            roles=node.roles,
            az=node.value("broker.rack"),
        )
        for node in nodes
        for number in range(1, node.copies + 1)
    ]
    notes = []
    with_kraft = [node for node in nodes if node.value("process.roles")]
    ensembles = {servers for node in nodes if (servers := listed(node.value("zookeeper.connect")))}
    single = bool(alone) and len(members) == 1 and "broker" in members[0].roles
    rack_of_one = ""
    if with_kraft:
        others = _controllers(with_kraft, members)
        if single and "controller" in members[0].roles:
            others = [replace(node, roles=members[0].roles) for node in others]
        elif others and any("controller" in node.roles for node in members):
            notes.append(_undescribed(others))
        members += others
    elif ensembles and not servers_known:
        largest = max(ensembles, key=len)
        members += [Node(name=host, roles=frozenset({"zookeeper"})) for host in largest]
    brokers = [node for node in members if "broker" in node.roles]
    if single:
        count = len(brokers) if len(brokers) > 1 else _ASSUMED_BROKERS
        members += [
            Node(name=f"{brokers[0].name}-{number}", roles=brokers[0].roles)
            for number in range(len(brokers) + 1, count + 1)
        ]
        rack_of_one = brokers[0].az
        members = [replace(node, az="") for node in members]
        notes.append(f"{alone}; {count} brokers like it are assumed.")
    return Inventory(
        nodes=tuple(members),
        settings=tuple(node.settings for node in nodes for _ in range(node.copies) if "broker" in node.roles),
        version=_version(nodes),
        notes=tuple(notes),
        rack_of_one=rack_of_one,
    )


def _undescribed(voters: Sequence[Node]) -> str:
    """What is assumed of voters, without whose files their other role is not known."""
    names = " and ".join(voter.name for voter in voters)
    if len(voters) == 1:
        return (
            f"The voter {names} of the quorum has no file here, and counts as a controller that is no "
            f"broker; if it is a broker, name its file, too."
        )
    return (
        f"The voters {names} of the quorum have no files here, and count as controllers that are no brokers; "
        f"if they are brokers, name their files, too."
    )


def _controllers(nodes: Sequence[NodeProperties], members: Sequence[Node]) -> list[Node]:
    """The controllers that no file of their own describes."""
    described = sum("controller" in node.roles for node in members)
    voters = max((listed(node.value("controller.quorum.voters")) for node in nodes), key=len, default=())
    servers = max(
        (listed(node.value("controller.quorum.bootstrap.servers")) for node in nodes),
        key=len,
        default=(),
    )
    names = voters or servers
    ids = {node.value("node.id") for node in nodes if "controller" in node.roles}
    if voters and "" not in ids:
        others = [name for name in names if name.partition("@")[0] not in ids]
    else:
        others = list(names[described:])
    return [Node(name=name, roles=frozenset({"controller"})) for name in others]


def _version(nodes: Sequence[NodeProperties]) -> str:
    """From the inter-broker protocol, `2.7-IV2` or `2.7`: the release, as `2.7`."""
    protocols = {
        protocol.partition("-")[0] for node in nodes if (protocol := node.value(INTER_BROKER_PROTOCOL))
    }
    return min(protocols) if len(protocols) == 1 else ""
