"""Kafka's znodes as one ZooKeeper node shows them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import WatchedEvent
from kazoo.retry import KazooRetry

logging.getLogger("kazoo").setLevel(logging.CRITICAL)

FAILURES = (KazooException, KazooTimeoutError)
"""What reading znodes may raise."""

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class PartitionState:
    """A partition's state znode; ``zxid`` is ZooKeeper's number of its last change."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    zxid: int


@dataclass(frozen=True)
class Znodes:
    """Kafka's znodes at one moment, read from one node."""

    controller: int
    controller_epoch: int
    controller_zxid: int
    brokers: tuple[int, ...]
    brokers_zxid: int
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    replicas: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)


class ZooKeeperNode:
    """A session with exactly one ZooKeeper node, so that an isolated node is a source that falls silent."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 1.0) -> None:
        """``timeout_s`` bounds each read."""
        self._timeout_s = timeout_s
        self._moved = threading.Event()
        self._moved.set()
        self._absent = False
        retry = KazooRetry(max_tries=-1, delay=0.1, backoff=1, max_delay=0.2, max_jitter=0.2)
        self.client = KazooClient(
            hosts=f"{address[0]}:{address[1]}", timeout=6.0, connection_retry=retry, read_only=False
        )
        self.client.start_async()

    @property
    def connected(self) -> bool:
        """There is a session with this node right now."""
        return bool(self.client.connected)

    @property
    def moved(self) -> bool:
        """Something that was read may have changed since, or has not been read yet in this session."""
        return self._moved.is_set()

    @property
    def watched(self) -> bool:
        """Whatever changes of what was read, `moved` will tell; ZooKeeper watches no znode that is absent."""
        return not self._absent

    def zxid(self) -> int:
        """The last transaction that this node has applied. One cheap request. Raises FAILURES."""
        self.client.exists_async("/controller").get(timeout=self._timeout_s)
        return int(self.client.last_zxid)

    def read(self, topics: Iterable[str] | None) -> Znodes:
        """Kafka's znodes with the partitions of ``topics`` (None: all but internal ones). Raises FAILURES.

        Leaves a watch on each of them; see `moved`.
        """
        self._moved.clear()
        self._absent = False
        try:
            return self._read(topics)
        except FAILURES:
            self._moved.set()
            raise

    def _read(self, topics: Iterable[str] | None) -> Znodes:
        asked = {"controller": self._get("/controller"), "epoch": self._get("/controller_epoch")}
        listing = self.client.get_children_async("/brokers/ids", watch=self._tell, include_data=True)
        names = self._topics() if topics is None else list(topics)
        topic_nodes = {name: self._get(f"/brokers/topics/{name}") for name in names}
        controller, controller_zxid = self._json(asked["controller"])
        epoch, epoch_zxid = self._json(asked["epoch"])
        brokers, brokers_zxid = self._children(listing)
        replicas: dict[TopicPartition, tuple[int, ...]] = {}
        for name, node in topic_nodes.items():
            value, _ = self._json(node)
            for number, members in (value or {}).get("partitions", {}).items():
                replicas[(name, int(number))] = tuple(members)
        states = {key: self._get(f"/brokers/topics/{key[0]}/partitions/{key[1]}/state") for key in replicas}
        partitions = {}
        for key, node in states.items():
            value, zxid = self._json(node)
            if value is not None:
                isr = tuple(value["isr"])
                partitions[key] = PartitionState(
                    value["leader"], value["leader_epoch"], isr, value["controller_epoch"], zxid
                )
        return Znodes(
            -1 if controller is None else int(controller["brokerid"]),
            -1 if epoch is None else int(epoch),
            max(controller_zxid, epoch_zxid),
            brokers,
            brokers_zxid,
            partitions,
            replicas,
        )

    def _tell(self, _: WatchedEvent) -> None:
        self._moved.set()

    def _get(self, path: str) -> IAsyncResult:
        return self.client.get_async(path, watch=self._tell)

    def _topics(self) -> list[str]:
        asked = self.client.get_children_async("/brokers/topics", watch=self._tell)
        try:
            found = asked.get(timeout=self._timeout_s)
        except NoNodeError:
            self._absent = True
            return []
        return [name for name in found if not name.startswith("__")]

    def _json(self, asked: IAsyncResult) -> tuple[Any, int]:
        try:
            value, stat = asked.get(timeout=self._timeout_s)
        except NoNodeError:
            self._absent = True
            return None, int(self.client.last_zxid)
        return json.loads(value), int(stat.mzxid)

    def _children(self, asked: IAsyncResult) -> tuple[tuple[int, ...], int]:
        try:
            names, stat = asked.get(timeout=self._timeout_s)
        except NoNodeError:
            self._absent = True
            return (), 0
        return tuple(sorted(int(name) for name in names)), int(stat.pzxid)

    def close(self) -> None:
        """End the session."""
        try:
            self.client.stop()
            self.client.close()
        except FAILURES:
            return
