"""How far a reader came, and the history rows of what it was handed."""

from __future__ import annotations

from dataclasses import dataclass

from harness.clock import now_ns
from harness.history.identity import decode
from workloads.protocol.results import PartitionRead, ReadResult
from workloads.protocol.spec import Reader

Place = tuple[str, int]


@dataclass
class PlaceProgress:
    """One partition; ``end`` is the offset to reach, None where a reader follows for ever."""

    start: int | None = None
    end: int | None = None
    position: int | None = None
    count: int = 0

    @property
    def complete(self) -> bool:
        """The end was reached. Transaction markers are never handed over, but they move the position."""
        return self.end is not None and self.position is not None and self.position >= self.end


class Progress:
    """All partitions of one reader, its errors, and the number of its polls."""

    def __init__(self, reader: Reader) -> None:
        """Hand-assigned partitions are listed from the start; a group's appear as they are assigned."""
        self.reader = reader
        self.places: dict[Place, PlaceProgress] = {}
        if not reader.group:
            self.places = {place: PlaceProgress() for place in reader.partitions}
        self.poll = 0
        self._errors: dict[tuple[int, str], None] = {}

    def row(
        self, place: Place, offset: int, epoch: int | None, value: bytes | None, at_ns: int | None = None
    ) -> dict[str, object]:
        """Count one record, and return its row of `reads`."""
        progress = self.places.setdefault(place, PlaceProgress())
        if progress.start is None:
            progress.start = offset
        progress.count += 1
        progress.position = offset + 1
        identity = decode(value)
        return {
            "topic": place[0],
            "partition": place[1],
            "reader": self.reader.number,
            "ns": now_ns() if at_ns is None else at_ns,
            "offset": offset,
            "epoch": epoch if epoch is not None and epoch >= 0 else None,
            "writer": identity.writer if identity else None,
            "seq": identity.seq if identity else None,
            "poll": self.poll,
            "group": self.reader.group or None,
            "isolation": self.reader.isolation,
        }

    def note(self, code: int, text: str) -> None:
        """Remember an error event; repeats are kept once."""
        self._errors[(code, text)] = None

    def result(self) -> ReadResult:
        """How far it came, up to now."""
        parts = tuple(
            PartitionRead(topic, number, p.start, p.end, p.position, p.count, p.complete)
            for (topic, number), p in sorted(dict(self.places).items())
        )
        return ReadResult(parts, sum(part.count for part in parts), tuple(self._errors))
