"""What a member of a share group was handed and how it acknowledged that, as rows of `shares` (KIP-932)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from harness.clock import now_ns
from harness.history.identity import decode
from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from workloads.agent.consumers.progress import MOST_ERRORS
from workloads.protocol.results import PartitionRead, ReadResult
from workloads.protocol.spec import ConsumerSpec

SharedOffset = tuple[TopicPartition, int]
"""A record of a partition, by its offset."""


class ShareHistory:
    """The rows of one member, and its counts; times are `now_ns`."""

    def __init__(self, journal: Journal, spec: ConsumerSpec) -> None:
        self._journal = journal
        self._spec = spec
        self._counts: dict[TopicPartition, int] = {}
        self._errors: dict[tuple[int, str], None] = {}
        self._pending: defaultdict[SharedOffset, deque[tuple[str, int]]] = defaultdict(deque)
        """Acknowledgements without an answer, each with its time; a renewed record may have several."""
        self._held: set[SharedOffset] = set()
        self._unanswered = 0
        self._poll = 0

    def started(self) -> None:
        """It has begun to join its group."""
        self._journal.write("shares", **self._columns(now_ns(), "started"))

    def stopped(self) -> None:
        """It has left its group."""
        self._journal.write("shares", **self._columns(now_ns(), "stopped"))

    def acquired(
        self,
        records: Iterable[tuple[TopicPartition, int, int | None, bytes | None]],
        ns: int,
        lock_ms: int | None = None,
    ) -> None:
        """A poll returned records: partition, offset, delivery count, value."""
        self._poll += 1
        rows = []
        for part, offset, count, value in records:
            self._counts[part] = self._counts.get(part, 0) + 1
            self._held.add((part, offset))
            identity = decode(value)
            rows.append(
                {
                    **self._columns(ns, "acquired"),
                    **part._asdict(),
                    "offset": offset,
                    "delivery_count": count,
                    "lock_ms": lock_ms,
                    "poll": self._poll,
                    "writer": identity.writer if identity else None,
                    "seq": identity.seq if identity else None,
                }
            )
        self._journal.write_many("shares", rows)

    def acknowledged(self, offsets: Iterable[SharedOffset], answer: str, ns: int) -> None:
        """It is about to acknowledge records."""
        rows = []
        for part, offset in offsets:
            self._pending[part, offset].append((answer, ns))
            self._held.discard((part, offset))
            self._unanswered += 1
            row = {**part._asdict(), "offset": offset, "answer": answer}
            rows.append({**self._columns(ns, "acknowledged"), **row})
        self._journal.write_many("shares", rows)

    def answered(self, offsets: Iterable[SharedOffset], error: int, ns: int) -> None:
        """Acknowledgements were answered. Raises ValueError for one that was not made."""
        rows = []
        for part, offset in offsets:
            if not self._pending[part, offset]:
                raise ValueError(
                    f"share consumer {self._spec.reader} has no acknowledgement of offset {offset} of {part} "
                    "that waits for an answer"
                )
            answer, asked_ns = self._pending[part, offset].popleft()
            self._unanswered -= 1
            row = {"offset": offset, "answer": answer, "asked_ns": asked_ns, "error": error}
            rows.append({**self._columns(ns, "answered"), **part._asdict(), **row})
        self._journal.write_many("shares", rows)

    def note(self, code: int, text: str) -> None:
        """Remember an error; equal ones count once, and those after the first `MOST_ERRORS` not at all."""
        if len(self._errors) < MOST_ERRORS:
            self._errors[code, text] = None

    def result(self) -> ReadResult:
        """The records that it was handed so far, repeated ones included."""
        parts = tuple(
            PartitionRead(partition=part, start=None, end=None, position=None, count=count, complete=False)
            for part, count in sorted(self._counts.copy().items())
        )
        return ReadResult(
            partitions=parts,
            count=sum(part.count for part in parts),
            errors=tuple(self._errors),
            held=len(self._held),
            unanswered=self._unanswered,
        )

    def _columns(self, ns: int, event: str) -> dict[str, object]:
        spec = self._spec
        return {"ns": ns, "group": spec.group, "reader": spec.reader, "member": spec.name, "event": event}
