"""Following one broker's replicas while the run lasts: what appeared on them, and what vanished again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.dialect import Dialect
from harness.kafka.wire.logs import Fetched, fetch_own_logs
from harness.observer.replica_tail import FETCH_BYTES, ReplicaTail

TopicPartition = tuple[str, int]
Replicas = Callable[[], tuple[TopicPartition, ...]]
"""The partitions of which this broker has a replica right now."""


class LogSource(Protocol):
    """Reads a broker's own logs from given offsets."""

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        """Up to ``max_bytes`` of each partition's log from an offset on. Raises OSError: not now."""

    def close(self) -> None:
        """Let go of it."""


class WireSource:
    """Reads by FETCH with replica id -3 (Kafka 1.1 and later)."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        """``connection`` is this source's own."""
        self._connection = connection
        self._dialect = dialect

    def read(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, Fetched]:
        """One request for all partitions."""
        return fetch_own_logs(self._connection, offsets, max_bytes, dialect=self._dialect)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class TailPoller:
    """Follows all replicas of one broker and writes `sightings` and `gone` rows."""

    def __init__(
        self, name: str, broker: int, source: LogSource, replicas: Replicas, journal: Journal
    ) -> None:
        """``replicas`` is asked at every look, so that new topics are followed too."""
        self.name = f"{name} (logs)"
        self.period_s = 0.22
        self._broker = broker
        self._source = source
        self._replicas = replicas
        self._journal = journal
        self._tails: dict[TopicPartition, ReplicaTail] = {}

    def look(self) -> None:
        """Read what is new on every replica; again at once where more is waiting."""
        pending = self._replicas()
        for _ in range(8):
            pending = self._step(pending)
            if not pending:
                return

    def _step(self, keys: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        tails = {key: self._tails.setdefault(key, ReplicaTail(*key, self._broker)) for key in keys}
        try:
            max_bytes = max((tail.max_bytes for tail in tails.values()), default=FETCH_BYTES)
            read = self._source.read({key: tail.start for key, tail in tails.items()}, max_bytes)
        except OSError:
            return ()  # the broker's own poller records that it does not answer
        ns = now_ns()
        unfinished = []
        for key, fetched in read.items():
            sightings, gone = tails[key].take(fetched, ns)
            if gone:
                self._journal.write_many("gone", gone)
            if sightings:
                self._journal.write_many("sightings", sightings)
            if tails[key].probe_back > 1 or fetched.cut_short:
                unfinished.append(key)
        return tuple(unfinished)

    def close(self) -> None:
        """Close the source."""
        self._source.close()
