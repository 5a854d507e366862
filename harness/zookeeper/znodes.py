"""Kafka's znodes as one ZooKeeper node serves them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import WatchedEvent
from kazoo.retry import KazooRetry

from harness.kafka.config import connect_string
from harness.kafka.model import Endpoint, PartitionState, TopicPartition

logging.getLogger("kazoo").setLevel(logging.CRITICAL)

FAILURES = (KazooException, KazooTimeoutError)
"""What reading znodes may raise."""


def topic_path(topic: str) -> str:
    """The znode that holds the assignment of a topic's partitions."""
    return f"/brokers/topics/{topic}"


def state_path(key: TopicPartition) -> str:
    """The znode that holds a partition's leader, leader epoch and ISR."""
    return f"{topic_path(key.topic)}/partitions/{key.partition}/state"


def assigned_state(value: Mapping[str, Any], topic: Mapping[str, Any], partition: int) -> PartitionState:
    """A partition's state znode with its assignment in the topic's znode, both decoded from JSON."""
    name = str(partition)
    moving = (topic.get(key, {}).get(name, ()) for key in ("adding_replicas", "removing_replicas"))
    state = partition_state(value, tuple(topic["partitions"].get(name, ())))
    return replace(state, moving=tuple(chain.from_iterable(moving)))


def partition_state(value: Mapping[str, Any], replicas: tuple[int, ...] | None = None) -> PartitionState:
    """The content of a partition's state znode, decoded from JSON."""
    return PartitionState(
        leader=int(value["leader"]),
        leader_epoch=int(value["leader_epoch"]),
        isr=tuple(value["isr"]),
        replicas=replicas,
    )


@dataclass(frozen=True)
class PartitionZnode:
    """A partition's state znode; ``zxid`` is the transaction of its last change."""

    state: PartitionState
    zxid: int


@dataclass(frozen=True, kw_only=True)
class Znodes:
    """Kafka's znodes at one moment, from one node; ``..._zxid`` is the transaction of the last change."""

    controller: int
    controller_epoch: int
    controller_zxid: int
    brokers: tuple[int, ...]
    brokers_zxid: int
    partitions: dict[TopicPartition, PartitionZnode] = field(default_factory=dict)


class ZooKeeperNode:
    """A session with exactly one ZooKeeper node, so that an isolated node is a source that falls silent."""

    def __init__(self, endpoint: Endpoint, timeout_s: float = 1.0) -> None:
        """``timeout_s`` bounds each read."""
        self._timeout_s = timeout_s
        self._stale = threading.Event()
        self._stale.set()
        self._absent = False
        retry = KazooRetry(max_tries=-1, delay=0.1, backoff=1, max_delay=0.2, max_jitter=0.2)
        self.client = KazooClient(
            hosts=connect_string([endpoint]), timeout=6.0, connection_retry=retry, read_only=False
        )
        self.client.start_async()

    @property
    def connected(self) -> bool:
        """Whether there is a session with this node right now."""
        return bool(self.client.connected)

    @property
    def stale(self) -> bool:
        """Whether the znodes may have changed since the last read, or none was read in this session."""
        return self._stale.is_set()

    @property
    def watched(self) -> bool:
        """Whether `stale` shows every change; not so if a znode was absent, because it has no watch."""
        return not self._absent

    def zxid(self) -> int:
        """The last transaction that this node has applied; one cheap request. Raises FAILURES."""
        self.client.exists_async("/controller").get(timeout=self._timeout_s)
        return int(self.client.last_zxid)

    def read(self, topics: Iterable[str] | None) -> Znodes:
        """Kafka's znodes with the partitions of ``topics`` (None: all but internal ones). Raises FAILURES.

        Sets a watch on each of them; see `stale`.
        """
        self._stale.clear()
        self._absent = False
        try:
            return self._read(topics)
        except FAILURES:
            self._stale.set()
            raise

    def _read(self, topics: Iterable[str] | None) -> Znodes:
        asked = {"controller": self._get("/controller"), "epoch": self._get("/controller_epoch")}
        listing = self.client.get_children_async("/brokers/ids", watch=self._fired, include_data=True)
        names = self._topics() if topics is None else list(topics)
        topic_nodes = {name: self._get(topic_path(name)) for name in names}
        controller, controller_zxid = self._json(asked["controller"])
        epoch, epoch_zxid = self._json(asked["epoch"])
        brokers, brokers_zxid = self._children(listing)
        replicas: dict[TopicPartition, tuple[int, ...]] = {}
        for name, node in topic_nodes.items():
            value, _ = self._json(node)
            for number, members in (value or {}).get("partitions", {}).items():
                replicas[TopicPartition(name, int(number))] = tuple(members)
        states = {key: self._get(state_path(key)) for key in replicas}
        partitions = {}
        for key, node in states.items():
            value, zxid = self._json(node)
            if value is not None:
                partitions[key] = PartitionZnode(partition_state(value, replicas[key]), zxid)
        return Znodes(
            controller=-1 if controller is None else int(controller["brokerid"]),
            controller_epoch=-1 if epoch is None else int(epoch),
            controller_zxid=max(controller_zxid, epoch_zxid),
            brokers=brokers,
            brokers_zxid=brokers_zxid,
            partitions=partitions,
        )

    def _fired(self, _: WatchedEvent) -> None:
        self._stale.set()

    def _get(self, path: str) -> IAsyncResult:
        return self.client.get_async(path, watch=self._fired)

    def _topics(self) -> list[str]:
        asked = self.client.get_children_async("/brokers/topics", watch=self._fired)
        try:
            names = asked.get(timeout=self._timeout_s)
        except NoNodeError:
            self._absent = True
            return []
        return [name for name in names if not name.startswith("__")]

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
