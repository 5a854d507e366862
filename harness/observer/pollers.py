"""One look at one node: what it says, as views. A node that does not answer is a view too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.metadata import metadata
from harness.kafka.wire.quorum import controller_fetch_probe, describe_quorum
from harness.observer.targets import Node
from harness.observer.views import View, Views
from harness.zookeeper.znodes import FAILURES, Znodes, ZooKeeperNode

ANSWER_WITHIN_S = 1.0
QUIET_S = 0.3
"""A ZooKeeper node is asked so often at least, though none of its watches tells of anything."""

Topics = Callable[[], tuple[str, ...] | None]
"""The topics to watch right now; None: all but internal ones."""


class Poller(Protocol):
    """Looks at one node again and again."""

    name: str
    period_s: float

    def look(self) -> None:
        """Ask once and pass on what was said."""

    def close(self) -> None:
        """Close the connection."""


class BrokerPoller:
    """What a broker's Metadata says."""

    def __init__(self, node: Node, views: Views, topics: Topics, dialect: Dialect, kraft: bool) -> None:
        """With ``kraft`` the controller is left out: brokers then name a random one."""
        self.name = node.name
        self.period_s = 0.12
        self._views = views
        self._topics = topics
        self._dialect = dialect
        self._kraft = kraft
        self._connection = Connection(node.address, ANSWER_WITHIN_S)

    def look(self) -> None:
        """Ask for Metadata once."""
        try:
            seen = metadata(self._connection, self._topics(), dialect=self._dialect)
        except OSError as error:
            self._views.say([View(self.name, "reachable", error=_why(error))])
            return
        said = [View(self.name, "reachable"), View(self.name, "brokers", brokers=seen.brokers)]
        if not self._kraft:
            said.append(View(self.name, "controller", controller=seen.controller))
        said += [
            View(
                self.name,
                "partition",
                p.topic,
                p.partition,
                leader=p.leader,
                epoch=p.epoch,
                isr=tuple(sorted(p.isr)),
                replicas=p.replicas,
            )
            for p in seen.partitions.values()
            if not p.topic.startswith("__")
        ]
        self._views.say(said)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class ZooKeeperPoller:
    """What one ZooKeeper node shows; all is read again when a watch tells of a change.

    Where a znode is absent, which cannot be watched, a new transaction number tells.
    """

    def __init__(self, node: Node, views: Views, topics: Topics) -> None:
        """Opens a session with this node alone."""
        self.name = node.name
        self.period_s = 0.06
        self._views = views
        self._topics = topics
        self._node = ZooKeeperNode(node.address)
        self._seen: tuple[int, tuple[str, ...] | None] = (-1, None)
        self._due = 0.0

    def look(self) -> None:
        """Read the znodes if something has changed; else ask now and then whether the node is still there."""
        if not self._node.connected:
            self._views.say([View(self.name, "reachable", error="no session: down, or outside of a quorum")])
            return
        moved, topics, now = self._node.moved, self._topics(), time.monotonic()
        if not moved and topics == self._seen[1] and self._node.watched and now < self._due:
            return
        self._due = now + QUIET_S
        try:
            at = (self._node.zxid(), topics)
            if at == self._seen and not moved:
                self._views.say([View(self.name, "reachable")])
                return
            znodes = self._node.read(topics)
        except FAILURES as error:
            self._views.say([View(self.name, "reachable", error=_why(error))])
            return
        self._seen = at
        self._views.say([View(self.name, "reachable"), *znode_views(self.name, znodes)])

    def close(self) -> None:
        """End the session."""
        self._node.close()


def znode_views(name: str, znodes: Znodes) -> Iterable[View]:
    """What one ZooKeeper node shows, as views."""
    yield View(
        name,
        "controller",
        controller=znodes.controller,
        epoch=znodes.controller_epoch,
        order=znodes.controller_zxid,
    )
    yield View(name, "brokers", brokers=znodes.brokers, order=znodes.brokers_zxid)
    for (topic, partition), state in znodes.partitions.items():
        yield View(
            name,
            "partition",
            topic,
            partition,
            leader=state.leader,
            epoch=state.epoch,
            isr=tuple(sorted(state.isr)),
            replicas=znodes.replicas.get((topic, partition)),
            order=state.zxid,
        )


class ControllerPoller:
    """Whom a KRaft controller follows; itself only if it proves that it leads, -1 while it knows nobody."""

    def __init__(self, node: Node, views: Views) -> None:
        """Asks at the controller's own listener."""
        self.name = node.name
        self.period_s = 0.1
        self._node_id = node.node_id
        self._views = views
        self._connection = Connection(node.address, ANSWER_WITHIN_S)

    def look(self) -> None:
        """Probe once; disturbs no quorum timer."""
        try:
            seen = controller_fetch_probe(self._connection)
            leader, epoch = seen.leader, seen.epoch
            if leader == self._node_id and describe_quorum(self._connection).error:
                leader = -1  # it has resigned, and names itself for some 0.8 s more
        except OSError as error:
            self._views.say([View(self.name, "reachable", error=_why(error))])
            return
        said = [View(self.name, "reachable")]
        if epoch >= 0:
            said.append(View(self.name, "controller", controller=leader, epoch=epoch))
        self._views.say(said)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__
