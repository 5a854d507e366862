"""One poll of one node: what it states, as views. A node's silence is a view too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from harness.clock import now_ns
from harness.kafka.model import NO_LEADER, PartitionState, TopicPartition
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.metadata import BrokerMetadata, metadata
from harness.kafka.wire.quorum import controller_fetch_probe, describe_quorum
from harness.observer.targets import Node
from harness.observer.views import View, Views
from harness.zookeeper.znodes import FAILURES, Znodes, ZooKeeperNode

ANSWER_WITHIN_S = 1.0
QUIET_S = 0.3
"""A ZooKeeper node is polled at least this often while none of its watches fires."""

Topics = Callable[[], tuple[str, ...] | None]
"""The topics to observe right now; None: all but internal ones."""


class Poller(Protocol):
    """Polls one node again and again."""

    name: str
    period_s: float

    def poll(self) -> None:
        """Query the node once and record what it states."""

    def close(self) -> None:
        """Close the connection."""


class BrokerPoller:
    """Records what a broker's Metadata states."""

    def __init__(self, node: Node, views: Views, topics: Topics, dialect: Dialect, kraft: bool) -> None:
        """With ``kraft`` the controller is left out, because brokers then name a random live broker."""
        self.name = node.name
        self.period_s = 0.12
        self._views = views
        self._topics = topics
        self._dialect = dialect
        self._kraft = kraft
        self._connection = Connection(node.endpoint, ANSWER_WITHIN_S)
        self._seen: BrokerMetadata | None = None

    def poll(self) -> None:
        """Request Metadata once."""
        topics, asked_ns = self._topics(), now_ns()
        try:
            seen = metadata(self._connection, topics, dialect=self._dialect)
        except OSError as error:
            self._views.record([_unreachable(self.name, error)], asked_ns)
            return
        if seen is self._seen:  # the same response once more
            self._views.record([_reachable(self.name)], asked_ns)
            return
        self._seen = seen
        views = [_reachable(self.name), View(source=self.name, subject="brokers", brokers=seen.brokers)]
        if not self._kraft:
            views.append(View(source=self.name, subject="controller", controller=seen.controller))
        views += [
            _partition(self.name, key, state)
            for key, state in seen.partitions.items()
            if topics is not None or not key.topic.startswith("__")
        ]
        self._views.record(views, asked_ns)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class ZooKeeperPoller:
    """Records the znodes of one ZooKeeper node; they are read again after a watch has fired.

    An absent znode cannot be watched; a change of the node's last transaction id shows that it may exist now.
    """

    def __init__(self, node: Node, views: Views, topics: Topics) -> None:
        """Open a session with this node alone."""
        self.name = node.name
        self.period_s = 0.06
        self._views = views
        self._topics = topics
        self._node = ZooKeeperNode(node.endpoint)
        self._seen: tuple[int, tuple[str, ...] | None] = (-1, None)
        self._due = 0.0

    def poll(self) -> None:
        """Read the znodes if something may have changed; otherwise check that the node still answers."""
        asked_ns = now_ns()
        if not self._node.connected:
            problem = "no session: down, or outside of a quorum"
            self._views.record([View(source=self.name, subject="reachable", error=problem)], asked_ns)
            return
        stale, topics, now = self._node.stale, self._topics(), time.monotonic()
        quiet = topics == self._seen[1] and self._node.watched and now < self._due
        if quiet and not stale and not self._views.look_is_due(self.name):
            return
        self._due = now + QUIET_S
        try:
            at = (self._node.zxid(), topics)
            if at == self._seen and not stale:
                self._views.record([_reachable(self.name)], asked_ns)
                return
            znodes = self._node.read(topics)
        except FAILURES as error:
            self._views.record([_unreachable(self.name, error)], asked_ns)
            return
        self._seen = at
        self._views.record([_reachable(self.name), *znode_views(self.name, znodes)], asked_ns)

    def close(self) -> None:
        """End the session."""
        self._node.close()


def znode_views(name: str, znodes: Znodes) -> Iterable[View]:
    """The znodes of one ZooKeeper node as views."""
    yield View(
        source=name,
        subject="controller",
        controller=znodes.controller,
        controller_epoch=znodes.controller_epoch,
        order=znodes.controller_zxid,
    )
    yield View(source=name, subject="brokers", brokers=znodes.brokers, order=znodes.brokers_zxid)
    for key, znode in znodes.partitions.items():
        yield _partition(name, key, znode.state, znode.zxid)


class ControllerPoller:
    """Records whom a KRaft controller follows: itself only if it claims to lead, -1 if it knows no leader."""

    def __init__(self, node: Node, views: Views) -> None:
        """``node`` has the address of the controller's own listener."""
        self.name = node.name
        self.period_s = 0.1
        self._node_id = node.node_id
        self._views = views
        self._connection = Connection(node.endpoint, ANSWER_WITHIN_S)

    def poll(self) -> None:
        """Query once; resets no timer of the quorum."""
        asked_ns = now_ns()
        try:
            seen = controller_fetch_probe(self._connection)
            leader, epoch = seen.leader, seen.epoch
            if leader == self._node_id and describe_quorum(self._connection).error:
                leader = NO_LEADER  # it has resigned, and names itself for up to 0.8 s more
        except OSError as error:
            self._views.record([_unreachable(self.name, error)], asked_ns)
            return
        views = [_reachable(self.name)]
        if epoch >= 0:
            views.append(
                View(source=self.name, subject="controller", controller=leader, controller_epoch=epoch)
            )
        self._views.record(views, asked_ns)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _reachable(source: str) -> View:
    return View(source=source, subject="reachable")


def _unreachable(source: str, error: BaseException) -> View:
    return View(source=source, subject="reachable", error=str(error) or type(error).__name__)


def _partition(source: str, key: TopicPartition, state: PartitionState, order: int = 0) -> View:
    in_order = replace(state, isr=tuple(sorted(state.isr)))
    return View(source=source, subject="partition", topic_partition=key, state=in_order, order=order)
