"""Brokers are moved to their ZooKeeper nodes. Hosts, answers and firewall are stand-ins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.errors import WaitTimeoutError
from harness.kafka.model import Endpoint
from harness.lab.layout import THREE_AZS
from harness.lab.model import Lab
from nemesis.network.rules import Ruleset
from run import sessions
from run.sessions import after_heartbeat, connected, place_sessions, steered

TOPOLOGY = THREE_AZS.topology("zookeeper")
LAB = cast(Lab, SimpleNamespace(topology=TOPOLOGY))
HOME = {"broker1": "zookeeper1", "broker2": "zookeeper2", "broker3": "zookeeper3"}


class World:
    """Brokers that go to the first node that does not refuse them, if ``obedient``."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places, self.obedient = dict(places), True
        self.loaded: list[Ruleset] = []
        self.in_force = 0

    def load(self, rules: Ruleset) -> None:
        self.loaded.append(rules)
        self.in_force += 1
        for broker in TOPOLOGY.role("broker"):
            nodes = TOPOLOGY.role("zookeeper")
            free = [node.name for node in nodes if not self.refused(broker.address, node)]
            if self.obedient and self.places.get(broker.name) not in free:
                self.places[broker.name] = free[0]

    def refused(self, broker: str, node: Any) -> bool:
        return any(
            f"-s {broker}/32 " in rule.text and "--dport 2181" in rule.text and "-j REJECT" in rule.text
            for rule in self.loaded[-1].rules.get(node.name, ())
        )

    def remove(self, rules: Ruleset) -> tuple[str, ...]:
        assert rules is self.loaded[-1]
        self.in_force -= 1
        return ()

    def clients(self, node: Endpoint) -> frozenset[str]:
        return frozenset(
            TOPOLOGY.host(broker).address
            for broker, place in self.places.items()
            if TOPOLOGY.host(place).zookeeper_endpoint == node
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World({"broker1": "zookeeper3", "broker2": "zookeeper2", "broker3": "zookeeper2"})
    monkeypatch.setattr(sessions, "clients", made.clients)
    monkeypatch.setattr(sessions, "Chains", lambda *_: made)
    yield made
    assert made.in_force == 0, "a rule was left behind"


def place(wanted: Mapping[str, str]) -> bool:
    return place_sessions(LAB, wanted, lambda: None)


def test_brokers_that_are_elsewhere_move(world: World) -> None:
    assert place(HOME)
    assert connected(TOPOLOGY) == {broker: (node,) for broker, node in HOME.items()}


def test_a_broker_at_its_place_keeps_its_connection(world: World) -> None:
    place(HOME)
    (rules,) = world.loaded
    address = TOPOLOGY.host("broker2").address
    assert not any(address in rule.text for host in rules.rules.values() for rule in host)


def test_nothing_is_refused_if_every_broker_is_at_its_place(world: World) -> None:
    assert not place({"broker2": "zookeeper2"})
    assert not place({}), "KRaft"
    with steered(LAB, {}):
        pass
    assert world.loaded == []


def test_a_broker_that_does_not_move_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_PLACED_WITHIN_S", 0.1)
    world.obedient = False
    with pytest.raises(WaitTimeoutError, match="broker1 to connect to zookeeper1, broker3 to connect to"):
        place(HOME)


def test_a_cluster_starts_with_one_choice_for_each_broker(world: World) -> None:
    with steered(LAB, HOME):
        assert world.in_force == 1
        assert world.places == HOME


def _hear(monkeypatch: pytest.MonkeyPatch, counts: list[int]) -> None:
    """zookeeper2 has received these numbers of packets from broker2, one after the other."""
    asked = (TOPOLOGY.host("zookeeper2").zookeeper_endpoint, TOPOLOGY.host("broker2").address)

    def received(node: Endpoint) -> Mapping[str, int]:
        assert node == asked[0]
        return {asked[1]: counts.pop(0) if len(counts) > 1 else counts[0], "198.18.0.99": len(counts)}

    monkeypatch.setattr(sessions, "received", received)


def test_a_heartbeat_is_a_packet_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that does not answer for a moment, at first or later, has not heard from the broker."""
    counts = [0, 7, 7, 0, 7, 8, 9]
    _hear(monkeypatch, counts)
    after_heartbeat(TOPOLOGY, "broker2", "zookeeper2", within_s=5.0, abort=lambda: None)
    assert counts == [9]


def test_a_broker_that_sends_no_heartbeat_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _hear(monkeypatch, [7])
    with pytest.raises(WaitTimeoutError, match="zookeeper2 to hear from broker2"):
        after_heartbeat(TOPOLOGY, "broker2", "zookeeper2", within_s=0.1, abort=lambda: None)
