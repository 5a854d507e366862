"""Records what replicas know of producers and coordinators of transactions, on changes and periodically."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition, broker_name
from harness.kafka.wire.connection import Connection
from harness.kafka.wire.transactions import (
    CoordinatedTransaction,
    Producers,
    coordinated_transactions,
    describe_producers,
)

Row = dict[str, object]
REPEATED_S = 1.5
"""Seconds after which an unchanged state is written again, to show that it still holds."""


class KnownStates:
    """The newest state of each producer and each transactional id at one broker. Pure bookkeeping, no I/O."""

    def __init__(self, broker: int) -> None:
        """``broker`` is a node id."""
        self._broker = broker
        self._known: dict[tuple[object, ...], tuple[Row, int]] = {}

    def producers(self, states: dict[TopicPartition, Producers], ns: int) -> list[Row]:
        """Rows of `producer_states` that are due. Followers answer as well as leaders."""
        rows = []
        for place, answer in states.items():
            for one in answer.producers if not answer.error else ():
                row: Row = {
                    **place._asdict(),
                    "broker": self._broker,
                    "producer_id": one.producer_id,
                    "producer_epoch": one.producer_epoch,
                    "last_sequence": one.last_sequence,
                    "coordinator_epoch": one.coordinator_epoch,
                }
                if one.transaction_start is not None:
                    row["transaction_start"] = one.transaction_start
                rows += self._changed((place, one.producer_id), row, ns)
        return rows

    def transactions(self, listed: Iterable[CoordinatedTransaction], ns: int) -> list[Row]:
        """Rows of `transaction_states` that are due."""
        rows = []
        for one in listed:
            row: Row = {
                "broker": self._broker,
                "transactional_id": one.transactional_id,
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "state": one.state,
                "timeout_ms": one.timeout_ms,
                "partitions": ",".join(map(str, one.partitions)),
            }
            rows += self._changed((one.transactional_id,), row, ns)
        return rows

    def _changed(self, key: tuple[object, ...], row: Row, ns: int) -> list[Row]:
        before, at_ns = self._known.get(key, ({}, 0))
        if before == row and ns - at_ns < REPEATED_S * 1e9:
            return []
        self._known[key] = row, ns
        return [{"ns": ns, **row}]


class TransactionPoller:
    """Asks one broker what it knows, and writes rows of `producer_states` and `transaction_states`."""

    def __init__(
        self,
        broker: int,
        connection: Connection,
        partitions: Callable[[], tuple[TopicPartition, ...]],
        journal: Journal,
        only: str = "",
    ) -> None:
        """``partitions`` returns the partitions of which the broker has a replica.

        ``only`` is the one transactional id that is recorded; empty: all.
        """
        self._only = only
        self.name = f"{broker_name(broker)}'s transactions"
        self.period_s = 0.5
        self._connection, self._partitions, self._journal = connection, partitions, journal
        self._known = KnownStates(broker)

    def poll(self) -> None:
        """Ask once. Nothing is written for a broker that does not answer; `views` show its silence."""
        try:
            ns = now_ns()
            for row in self._known.transactions(
                coordinated_transactions(self._connection, only=self._only), ns
            ):
                self._journal.write("transaction_states", **row)
            if places := self._partitions():
                ns = now_ns()
                states = describe_producers(self._connection, places)
                for row in self._known.producers(states, ns):
                    self._journal.write("producer_states", **row)
        except OSError:
            return

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
