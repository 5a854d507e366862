"""The committed offsets of a consumer group as scenarios use them: commits and fetches at a named broker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from harness.errors import InvalidRunError
from harness.waiting import wait_until
from workloads.client.client import Client
from workloads.protocol.commands import CommitOffset, FetchOffset
from workloads.protocol.results import OffsetAnswer


@dataclass(frozen=True, kw_only=True)
class GroupOffsets:
    """Committed offsets of one group, as one client host commits and fetches them.

    It is no member of the group. Each request goes to exactly one broker, once, whether that broker
    coordinates the group or not; the history records every answer as a row of `groups`.
    """

    client: Client
    """The client in which it runs."""
    group: str
    """The consumer group."""
    reader: int
    """Its number in the history."""
    check_alive: Callable[[], None]
    """Ends a wait if a process of the cluster has died."""

    def commit(
        self, topic: str, offset: int, *, at: str, partition: int = 0, within_s: float = 10.0
    ) -> OffsetAnswer:
        """Commit an offset at the broker ``at`` and wait for its answer.

        An offset that was not acknowledged may still have been written.
        """
        return self.client.call(self._commit(topic, offset, at, partition, within_s))

    def commit_later(
        self, topic: str, offset: int, *, at: str, partition: int = 0, within_s: float = 10.0
    ) -> Future[OffsetAnswer]:
        """Commit an offset without waiting for the answer."""
        return self.client.submit(self._commit(topic, offset, at, partition, within_s))

    def _commit(self, topic: str, offset: int, at: str, partition: int, within_s: float) -> CommitOffset:
        return CommitOffset(
            reader=self.reader,
            group=self.group,
            topic=topic,
            partition=partition,
            offset=offset,
            coordinator=self.client.broker(at),
            within_s=within_s,
        )

    def must_commit(
        self, topic: str, offset: int, *, at: str, partition: int = 0, within_s: float = 10.0
    ) -> None:
        """Commit an offset that the scenario needs to be acknowledged. Raises InvalidRunError if not."""
        answer = self.commit(topic, offset, at=at, partition=partition, within_s=within_s)
        if not answer.ok:
            raise InvalidRunError(
                f"The scenario needs {at} to acknowledge offset {offset} of group {self.group}, but the "
                f"commit ended with error {answer.error}."
            )

    def fetch(
        self, topic: str, *, at: str, partition: int = 0, within_s: float = 2.0, stable: bool = False
    ) -> OffsetAnswer:
        """Ask the broker ``at`` for the committed offset.

        With ``stable`` the answer is error 88 while a transaction that commits offsets of the partition has
        no marker (KIP-447).
        """
        return self.client.call(
            FetchOffset(
                reader=self.reader,
                group=self.group,
                topic=topic,
                partition=partition,
                coordinator=self.client.broker(at),
                within_s=within_s,
                stable=stable,
            )
        )

    def wait_answered(
        self, topic: str, *, at: str, partition: int = 0, within_s: float = 20.0, stable: bool = False
    ) -> OffsetAnswer:
        """Ask the broker ``at`` until it answers without an error: it has loaded the group's offsets.

        With ``stable`` also until every transaction that commits offsets of the partition has its marker.
        Raises WaitTimeoutError.
        """
        return wait_until(
            lambda: self.fetch(topic, at=at, partition=partition, stable=stable),
            accept=lambda answer: answer.ok,
            within_s=within_s,
            awaiting=f"{at} to answer for the offsets of group {self.group}",
            abort=self.check_alive,
        )
