"""The offsets that a producer's open transaction is to commit, as rows of `groups`."""

from __future__ import annotations

from collections.abc import Sequence

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.protocol.results import TransactionEnd

Row = dict[str, object]


class SentOffsets:
    """Offsets that were added to the transactions of one producer, and their outcomes."""

    def __init__(self, journal: Journal, writer: int) -> None:
        self._journal = journal
        self._writer = writer
        self._rows: list[tuple[Row, int]] = []
        """Those of the open transaction, each with the error of its request."""

    def add(
        self,
        group: str,
        reader: int,
        offsets: Sequence[tuple[TopicPartition, int]],
        *,
        txn: int,
        asked_ns: int,
        error: int,
        broker: int | None = None,
    ) -> None:
        """Record offsets that were added to a transaction, and the answer ``error``, 0 for none.

        After an error they may still be part of the transaction. They are recorded when it ends.
        """
        added: list[Row] = [
            {
                "group": group,
                "reader": reader,
                "topic": place.topic,
                "partition": place.partition,
                "offset": offset,
                "txn_writer": self._writer,
                "txn": txn,
            }
            for place, offset in offsets
        ]
        self._rows += [(row, error) for row in added]
        if not error:
            more = {"ns": now_ns(), "event": "sent", "asked_ns": asked_ns, "error": 0, "broker": broker}
            self._journal.write_many("groups", [{**row, **more} for row in added])

    def ended(self, end: TransactionEnd, *, commit: bool, asked_ns: int) -> None:
        """Record the outcome of the commit that was requested at ``asked_ns``.

        An offset counts as committed if both the request for it and the commit were acknowledged. If only one
        was, it may have been committed.
        """
        if not commit or end.outcome == "aborted":
            return
        ns = now_ns()
        rows = []
        for row, refused in self._rows:
            error = refused or end.error
            event = "committed" if end.outcome == "committed" and not refused else "commit_failed"
            rows.append({**row, "ns": ns, "event": event, "asked_ns": asked_ns, "error": error})
        self._journal.write_many("groups", rows)

    def clear(self) -> None:
        """Forget them: the transaction is over."""
        self._rows.clear()
