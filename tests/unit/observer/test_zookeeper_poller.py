"""When a ZooKeeper node is polled: at once after a watch has fired, otherwise now and then."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.journal import Journal
from harness.kafka.model import Endpoint, PartitionState, TopicPartition
from harness.observer import pollers
from harness.observer.pollers import ZooKeeperPoller
from harness.observer.targets import Node
from harness.observer.views import Views
from harness.zookeeper.znodes import PartitionZnode, Znodes


class Ensemble:
    """A substitute for a node and its session, which counts the requests."""

    def __init__(self, _address: tuple[str, int]) -> None:
        self.connected = self.stale = self.watched = True
        self.last, self.leader = 1, 1
        self.asked = self.read_whole = 0

    def zxid(self) -> int:
        self.asked += 1
        return self.last

    def read(self, _topics: object) -> Znodes:
        self.read_whole += 1
        self.stale = False
        state = PartitionState(leader=self.leader, leader_epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3))
        return Znodes(
            controller=1,
            controller_epoch=1,
            controller_zxid=1,
            brokers=(1, 2, 3),
            brokers_zxid=1,
            partitions={TopicPartition("t", 0): PartitionZnode(state, self.last)},
        )

    def close(self) -> None:
        """There is nothing to close."""


class Clock:
    """A substitute for the monotonic clock, in seconds."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def views(tmp_path: Path) -> Views:
    return Views(Journal(tmp_path / "j.jsonl"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stand_in = Clock()
    monkeypatch.setattr(pollers, "ZooKeeperNode", Ensemble)
    monkeypatch.setattr(pollers, "time", stand_in)
    return stand_in


def test_a_quiet_node_is_polled_only_now_and_then(views: Views, clock: Clock) -> None:
    poller, node = _poller(views)
    for _ in range(10):
        poller.poll()
    assert (node.asked, node.read_whole) == (1, 1)
    clock.now += pollers.QUIET_S + 0.01
    for _ in range(10):
        poller.poll()
    assert (node.asked, node.read_whole) == (2, 1)


def test_a_change_is_read_when_a_watch_fires(views: Views, clock: Clock) -> None:
    poller, node = _poller(views)
    poller.poll()
    node.stale, node.last, node.leader = True, 2, 3
    poller.poll()
    assert views.of("zookeeper1").leader("t") == 3


def test_a_session_that_lost_its_watches_gets_new_ones(views: Views, clock: Clock) -> None:
    poller, node = _poller(views)
    poller.poll()
    node.stale = True  # the connection was lost, and nothing has changed since
    poller.poll()
    assert (node.read_whole, node.stale) == (2, False)


def test_an_absent_znode_is_polled_all_the_time(views: Views, clock: Clock) -> None:
    poller, node = _poller(views)
    node.watched = False
    poller.poll()
    node.last, node.leader = 2, 3
    poller.poll()
    assert views.of("zookeeper1").leader("t") == 3
    assert node.read_whole == 2


def test_a_change_without_a_watch_is_found_later(views: Views, clock: Clock) -> None:
    poller, node = _poller(views)
    poller.poll()
    node.last, node.leader = 2, 3
    poller.poll()
    assert views.of("zookeeper1").leader("t") == 1
    clock.now += pollers.QUIET_S + 0.01
    poller.poll()
    assert views.of("zookeeper1").leader("t") == 3


def test_other_topics_are_read_at_once(views: Views, clock: Clock) -> None:
    topics: list[tuple[str, ...]] = [("t",)]
    poller = ZooKeeperPoller(Node("zookeeper1", 1, Endpoint("127.0.0.1", 1)), views, lambda: topics[-1])
    node = poller._node
    poller.poll()
    topics.append(("t", "u"))
    poller.poll()
    assert isinstance(node, Ensemble)
    assert node.read_whole == 2


def _poller(views: Views) -> tuple[ZooKeeperPoller, Ensemble]:
    poller = ZooKeeperPoller(Node("zookeeper1", 1, Endpoint("127.0.0.1", 1)), views, lambda: ("t",))
    node = poller._node
    assert isinstance(node, Ensemble)
    return poller, node
