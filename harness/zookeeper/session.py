"""The harness's own session with a ZooKeeper ensemble: reads Kafka's znodes, acts on them, survives faults.

No ephemeral znode belongs to this session, so losing it costs nothing. If the node that it is connected to
stops answering, is cut off from the quorum, or expires the session, the next request goes to another node.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import ZnodeStat
from kazoo.retry import KazooRetry

from harness.kafka.config import connect_string
from harness.kafka.model import Endpoint, Topic
from harness.waiting import wait_until
from harness.zookeeper.znodes import FAILURES

logging.getLogger("kazoo").setLevel(logging.CRITICAL)

ANSWER_WITHIN_S = 1.0
"""How long a connected node may take for one request before the session moves to another node."""
_SESSION_S = 4.0
_ACT_WITHIN_S = 20.0
_64_BITS = (1 << 64) - 1


class NoZooKeeperAnswerError(ConnectionError):
    """No ZooKeeper node answered a request in time; the next request tries another node."""


class ZooKeeperSession:
    """A session with any node of an ensemble. Thread-safe.

    Requests raise NoZooKeeperAnswerError, which `wait_until` takes for "not yet"; actions repeat their
    request until it is answered, and raise WaitTimeoutError.
    """

    def __init__(self, nodes: Sequence[Endpoint]) -> None:
        """``nodes`` are tried in this order, the preferred one first. Connects with `start`."""
        self._nodes = list(nodes)
        self._lock = threading.Lock()
        self._client = self._new_client(last_zxid=0)

    def start(self, within_s: float) -> None:
        """Connect. Raises WaitTimeoutError if no node accepts a session in time."""
        self._client.start_async()
        wait_until(
            lambda: self._client.connected, within_s=within_s, awaiting="a session with a ZooKeeper node"
        )

    def close(self) -> None:
        """End the session; failures are ignored."""
        _close(self._client)

    def read_json(self, path: str) -> Any | None:
        """The content of a znode, decoded from JSON; None if there is no such znode."""
        try:
            return json.loads(self._request(lambda client: client.get_async(path))[0])
        except NoNodeError:
            return None

    def children(self, path: str) -> tuple[str, ...]:
        """Names of a znode's children; none if there is no such znode."""
        try:
            return tuple(self._request(lambda client: client.get_children_async(path)))
        except NoNodeError:
            return ()

    def controller_epoch(self) -> int:
        """Kafka's controller epoch; 0 before the first controller was elected."""
        return int(self.read_json("/controller_epoch") or 0)

    def broker_sessions(self) -> frozenset[str]:
        """Sessions (hexadecimal) of the registered brokers: each owns its registration."""
        stats = [self._stat(f"/brokers/ids/{name}") for name in self.children("/brokers/ids")]
        return frozenset(f"0x{stat.ephemeralOwner & _64_BITS:x}" for stat in stats if stat is not None)

    def delete_controller(self) -> None:
        """Delete `/controller`, if it exists, so that the brokers race for it."""
        self._delete("/controller")

    def elect_preferred(self, topic: str, partition: int = 0) -> None:
        """Ask the controller for a preferred leader election as Kafka's tools did before 2.2."""
        election = {"version": 1, "partitions": [{"topic": topic, "partition": partition}]}
        self._create("/admin/preferred_replica_election", election)

    def create_topic(self, topic: Topic) -> None:
        """Create a topic with its assignment (Kafka 0.10.2 to 3.x); the controller does the rest."""
        assignment = {str(number): list(replicas) for number, replicas in enumerate(topic.assignment)}
        self._create(f"/config/topics/{topic.name}", {"version": 1, "config": dict(topic.config)})
        self._create(f"/brokers/topics/{topic.name}", {"version": 1, "partitions": assignment})

    def _create(self, path: str, value: object) -> None:
        data = json.dumps(value).encode()
        # A repeated request may find what the first one created.
        with contextlib.suppress(NodeExistsError):
            self._act(f"create {path}", lambda client: client.create_async(path, data, makepath=True))

    def _delete(self, path: str) -> None:
        with contextlib.suppress(NoNodeError):
            self._act(f"delete {path}", lambda client: client.delete_async(path))

    def _stat(self, path: str) -> ZnodeStat | None:
        stat: ZnodeStat | None = self._request(lambda client: client.exists_async(path))
        return stat

    def _act(self, what: str, send: Callable[[KazooClient], IAsyncResult]) -> None:
        wait_until(
            lambda: (self._request(send),),
            within_s=_ACT_WITHIN_S,
            awaiting=f"ZooKeeper to {what}",
        )

    def _request(self, send: Callable[[KazooClient], IAsyncResult]) -> Any:
        """Send one request. Raises NoZooKeeperAnswerError; NoNodeError and NodeExistsError are answers."""
        with self._lock:
            client = self._client
        try:
            return send(client).get(timeout=ANSWER_WITHIN_S)
        except (NoNodeError, NodeExistsError):
            raise
        except FAILURES as error:
            if client.connected:
                self._move_on(client)
            raise NoZooKeeperAnswerError(f"ZooKeeper did not answer ({type(error).__name__})") from error

    def _move_on(self, silent: KazooClient) -> None:
        """Open a session with the next node; while requests come, kazoo stays with a hanging node."""
        with self._lock:
            if self._client is not silent:
                return  # another thread has moved on already
            self._nodes.append(self._nodes.pop(0))
            # A node that lags behind what was read before refuses the session.
            self._client = self._new_client(last_zxid=silent.last_zxid)
            self._client.start_async()
        threading.Thread(target=_close, args=(silent,), name="close-zookeeper", daemon=True).start()

    def _new_client(self, last_zxid: int) -> KazooClient:
        retry = KazooRetry(max_tries=-1, delay=0.1, backoff=1, max_delay=0.2, max_jitter=0.2)
        client = KazooClient(
            hosts=connect_string(self._nodes),
            timeout=_SESSION_S,
            connection_retry=retry,
            randomize_hosts=False,
        )
        client.last_zxid = last_zxid
        return client


def _close(client: KazooClient) -> None:
    with contextlib.suppress(*FAILURES):
        client.stop()
        client.close()
