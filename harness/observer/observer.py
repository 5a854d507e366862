"""The observer: one thread per node, which polls it several times a second while the run lasts."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType

from harness.errors import LabError
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import MODERN, Dialect
from harness.observer.bodies import DecodedBodies
from harness.observer.decoder import Decoder, HeaderReader
from harness.observer.machine import MachinePoller
from harness.observer.pollers import (
    ANSWER_WITHIN_S,
    BrokerPoller,
    ControllerPoller,
    Poller,
    ZooKeeperPoller,
)
from harness.observer.producers import TransactionPoller
from harness.observer.share_groups import ShareGroupPoller
from harness.observer.tail import FileSource, LogSource, TailPoller, WatchedLogs, WireSource
from harness.observer.targets import Node, Targets
from harness.observer.views import SourceView, Views


class Observer:
    """Records `views` (what every node states), and `sightings` and `watermarks` of every replica.

    What of a log it sees late is in `unobserved`. It also records `machine` (the use of the processors) and,
    in runs with transactions, `producer_states` and `transaction_states` where the version has them, and
    `share_groups` in runs with share groups. Must run where no fault reaches it. Threads are started by
    `start` and ended by `stop`.
    """

    def __init__(
        self,
        targets: Targets,
        journal: Journal,
        topics: Iterable[str] | None = None,
        *,
        dialect: Dialect = MODERN,
        tail_logs: bool = True,
        transactions: bool = False,
        transactional_id: str = "",
        share_groups: bool = False,
        watched: WatchedLogs | None = None,
    ) -> None:
        """``topics`` to observe; None means all but internal ones, also those created later.

        ``watched``: the logs are of others (`WatchedLogs`). ``transactional_id`` is the only one of which
        coordinators are asked; empty: all. ``share_groups``: the version has them, and the run may, too.
        """
        self._share_groups: tuple[str, ...] | None = () if share_groups else None
        self._transactional_id = transactional_id
        self._watched = watched
        self._targets = targets
        self._journal = journal
        self._topics = None if topics is None else tuple(topics)
        self._dialect = dialect
        self._tail_logs = tail_logs
        self._transactions = transactions and dialect.describe_transactions is not None
        self._stopping = threading.Event()
        self._pool: ThreadPoolExecutor | None = None
        self._running: list[tuple[str, Future[None]]] = []
        self._tails: dict[int, TailPoller] = {}
        self.decoder = Decoder() if watched is None else HeaderReader()
        self._bodies = DecodedBodies(self.decoder)
        self.views = Views(journal)

    def start(self) -> None:
        """Start polling every node."""
        pollers = self._pollers()
        self._stopping.clear()
        self._pool = ThreadPoolExecutor(len(pollers), thread_name_prefix="observer")
        self._running = [(poller.name, self._pool.submit(self._run, poller)) for poller in pollers]

    def stop(self) -> None:
        """End all threads. Raises LabError if one of them has failed. Safe to call twice."""
        self._stopping.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        self.decoder.close()
        self.check()
        self._running = []

    def check(self) -> None:
        """Raise LabError if the thread of a node has failed: its views would be missing."""
        for name, future in self._running:
            error = future.exception() if future.done() else None
            if error is not None:
                raise LabError(f"The observer of {name} failed: {type(error).__name__}: {error}.") from error

    def view(self, source: str) -> SourceView:
        """The statements of one node (`broker1`) or a kind of node (`zookeeper`); see `SourceView`."""
        return self.views.of(source)

    def recorded_end(self, broker: int, key: TopicPartition) -> int | None:
        """Offset up to which a replica's records are in the history; None for one that is not followed."""
        tail = self._tails.get(broker)
        return None if tail is None or key not in self.views.replicas_of(broker) else tail.end(key)

    def reached_ns(self, broker: int, key: TopicPartition) -> int | None:
        """When the end of a replica's log was reached last; None for never, or one that is not followed."""
        tail = self._tails.get(broker)
        return None if tail is None else tail.reached_ns(key)

    def watermarks(self, broker: int, key: TopicPartition) -> tuple[int, int] | None:
        """High watermark and log end offset that a broker stated last of its replica; None: not known."""
        tail = self._tails.get(broker)
        return None if tail is None else tail.watermarks(key)

    def markers(self, keys: Iterable[TopicPartition]) -> int:
        """Transaction markers seen on all replicas of some partitions together, truncated ones too."""
        return sum(tail.markers(key) for key in keys for tail in self._tails.values())

    def watch(self, topics: Iterable[str]) -> None:
        """Observe these topics too."""
        if self._topics is not None:
            self._topics = tuple(dict.fromkeys((*self._topics, *topics)))

    def watch_share_group(self, group: str) -> None:
        """Ask coordinators about this share group, too, from now on."""
        if self._share_groups is not None:
            self._share_groups = tuple(dict.fromkeys((*self._share_groups, group)))

    def _pollers(self) -> list[Poller]:
        def topics() -> tuple[str, ...] | None:
            return self._topics

        kraft = bool(self._targets.controllers) or not self._targets.zookeepers
        pollers: list[Poller] = [MachinePoller(self._journal)]
        pollers += [
            BrokerPoller(node, self.views, topics, self._dialect, kraft) for node in self._targets.brokers
        ]
        pollers += [ZooKeeperPoller(node, self.views, topics) for node in self._targets.zookeepers]
        pollers += [ControllerPoller(node, self.views) for node in self._targets.controllers]
        if self._tail_logs:
            tails = {node.node_id: self._tail(node) for node in self._targets.brokers}
            self._tails = {broker: tail for broker, tail in tails.items() if tail is not None}
            pollers += self._tails.values()
        if self._transactions:
            pollers += [
                TransactionPoller(
                    node.node_id,
                    Connection(node.endpoint, ANSWER_WITHIN_S),
                    partial(self.views.replicas_of, node.node_id),
                    self._journal,
                    self._transactional_id,
                )
                for node in self._targets.brokers
            ]
        if self._share_groups is not None:
            pollers += [
                ShareGroupPoller(
                    node.node_id,
                    Connection(node.endpoint, ANSWER_WITHIN_S),
                    lambda: self._share_groups or (),
                    self._journal,
                )
                for node in self._targets.brokers
            ]
        return pollers

    def _tail(self, node: Node) -> TailPoller | None:
        source: LogSource
        if self._dialect.own_log_by_fetch:
            connection = Connection(node.endpoint, ANSWER_WITHIN_S)
            source = WireSource(connection, self._dialect, self._watched)
        elif node.data is not None:
            source = FileSource(node.data)
        else:
            return None

        replicas = partial(self.views.replicas_of, node.node_id)
        return TailPoller(
            node.name, node.node_id, source, replicas, self._journal, self._bodies, self._watched
        )

    def _run(self, poller: Poller) -> None:
        try:
            while not self._stopping.is_set():
                poller.poll()
                self._stopping.wait(poller.period_s)
        finally:
            poller.close()

    def __enter__(self) -> Observer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
