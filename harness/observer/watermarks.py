"""High watermark and log end offset of a broker's replicas, as each FETCH of their logs states them.

Pure bookkeeping, no I/O: a row is made only where a replica's offsets have changed since its last row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.kafka.model import TopicPartition
from harness.kafka.wire.logs import FetchResult

_Offsets = tuple[int | None, int | None, int | None, int | None]


@dataclass
class Watermarks:
    """The newest offsets of each replica of one broker; ``broker`` is a node id."""

    broker: int
    known: dict[TopicPartition, _Offsets] = field(default_factory=dict)

    def update(self, key: TopicPartition, leo: int, fetched: FetchResult, ns: int) -> list[dict[str, object]]:
        """A row of `watermarks` if the offsets have changed; ``fetched`` reached the log's end at ``leo``.

        Logs that are read from files (Kafka before 1.1) have no high watermark.
        """
        offsets = (
            _offset(fetched.high_watermark),
            leo,
            _offset(fetched.log_start),
            fetched.last_stable_offset,
        )
        if self.known.get(key) == offsets:
            return []
        self.known[key] = offsets
        row: dict[str, object] = {"ns": ns, **key._asdict(), "broker": self.broker, "leo": leo}
        stated = zip(
            ("high_watermark", "log_start", "last_stable_offset"), (offsets[0], *offsets[2:]), strict=True
        )
        for name, value in stated:
            if value is not None:
                row[name] = value
        return [row]

    def of(self, key: TopicPartition) -> tuple[int, int] | None:
        """High watermark and log end offset when the log's end was reached last; None if they are unknown."""
        high_watermark, leo, *_ = self.known.get(key, (None, None, None, None))
        return None if high_watermark is None or leo is None else (high_watermark, leo)


def _offset(value: int) -> int | None:
    return None if value < 0 else value
