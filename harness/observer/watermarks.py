"""High watermark and log end offset of a broker's replicas, as each FETCH of their logs states them.

Pure bookkeeping, no I/O: a row is made only where a replica's offsets have changed since its last row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.kafka.model import TopicPartition
from harness.kafka.wire.logs import Fetched

_Offsets = tuple[int | None, int | None, int | None, int | None]


@dataclass
class Watermarks:
    """The newest offsets of each replica of one broker; ``broker`` is a node id."""

    broker: int
    known: dict[TopicPartition, _Offsets] = field(default_factory=dict)

    def update(self, key: TopicPartition, start: int, fetched: Fetched, ns: int) -> dict[str, object] | None:
        """A row of `watermarks` if the offsets have changed. ``start`` is the offset of the FETCH.

        A FETCH that ends in an error, or does not reach the log's end, tells nothing about the LEO. Logs
        that are read from files (Kafka before 1.1) have no high watermark.
        """
        if fetched.error or fetched.cut_short:
            return None
        following = fetched.parsed.next_offset
        leo = start if following is None else following
        offsets = (
            _offset(fetched.high_watermark),
            leo,
            _offset(fetched.log_start),
            fetched.last_stable_offset,
        )
        if self.known.get(key) == offsets:
            return None
        self.known[key] = offsets
        row = {"ns": ns, **key._asdict(), "broker": self.broker, "leo": leo}
        stated = zip(
            ("high_watermark", "log_start", "last_stable_offset"), (offsets[0], *offsets[2:]), strict=True
        )
        for name, value in stated:
            if value is not None:
                row[name] = value
        return row


def _offset(value: int) -> int | None:
    return None if value < 0 else value
