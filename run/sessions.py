"""Which ZooKeeper node each broker is connected to.

A broker tries the nodes of `zookeeper.connect` in a random order and stays with the first that accepts it. To
place it at one node, all others refuse its connections for a moment. The broker keeps its whole list: if a
fault takes its node away, it looks for another one, as in production.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from harness.kafka.model import ZOOKEEPER_PORT
from harness.lab.model import Lab, Topology
from harness.waiting import wait_until
from harness.zookeeper.four_letter import clients, received
from nemesis.network.chains import Chains
from nemesis.network.links import Link
from nemesis.network.rules import chain_name, cut_rules

_TTL_S = 300.0
"""The rules end by then, even if the harness is killed."""
_PLACED_WITHIN_S = 20.0


@contextmanager
def steered(lab: Lab, sessions: Mapping[str, str]) -> Iterator[None]:
    """Meanwhile, these brokers can connect to one ZooKeeper node each, given by broker; none is allowed.

    A connection to another node is reset at its next packet.
    """
    links = [
        Link(broker, node.name, ZOOKEEPER_PORT)
        for broker, own in sessions.items()
        for node in lab.topology.role("zookeeper")
        if node.name != own
    ]
    if not links:
        yield
        return
    rules = cut_rules(lab.topology, chain_name("sessions", 0), links, "reject")
    chains = Chains(lab, _TTL_S)
    try:
        chains.load(rules)
        yield
    finally:
        chains.remove(rules)


def place_sessions(lab: Lab, sessions: Mapping[str, str], abort: Callable[[], None]) -> bool:
    """Move each broker that is connected elsewhere to its node. Returns whether there was one.

    Its session lasts, unless it finds the node too late. Raises WaitTimeoutError.
    """

    def strays(brokers: Iterable[str]) -> list[str]:
        nodes = connected(lab.topology)
        return [broker for broker in brokers if nodes[broker] != (sessions[broker],)]

    moving = strays(sessions) if sessions else []
    if not moving:
        return False
    with steered(lab, {broker: sessions[broker] for broker in moving}):
        wait_until(
            lambda: strays(moving),
            accept=lambda found: not found,
            within_s=_PLACED_WITHIN_S,
            awaiting=", ".join(f"{broker} to connect to {sessions[broker]}" for broker in moving),
            abort=abort,
        )
    return True


def connected(topology: Topology) -> dict[str, tuple[str, ...]]:
    """The ZooKeeper nodes to which each broker is connected: one, unless it is on its way."""
    addresses_by_node = {node.name: clients(node.zookeeper_endpoint) for node in topology.role("zookeeper")}
    return {
        broker.name: tuple(
            node for node, addresses in addresses_by_node.items() if broker.address in addresses
        )
        for broker in topology.role("broker")
    }


def after_heartbeat(
    topology: Topology, broker: str, node: str, *, within_s: float, abort: Callable[[], None]
) -> None:
    """Return just after a ZooKeeper node has heard from a broker that is connected to it.

    An idle client sends a ping after a third of the session time-out, and the session is prolonged whenever
    the node hears from it: if the broker falls silent now, its session lasts as long as it can. Raises
    WaitTimeoutError.
    """
    client, endpoint = topology.host(broker).address, topology.host(node).zookeeper_endpoint

    def heard() -> int:
        return received(endpoint).get(client, 0)

    before = wait_until(heard, within_s=within_s, awaiting=f"{broker} to be connected to {node}", abort=abort)
    wait_until(
        heard,
        accept=lambda packets: packets not in (0, before),
        within_s=within_s,
        poll_s=0.02,
        awaiting=f"{node} to hear from {broker}",
        abort=abort,
    )
