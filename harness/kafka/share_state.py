"""Records of `__share_group_state`: what share coordinators store about each group and partition (KIP-932).

A snapshot (record type 0) holds the whole state of a share-partition, and an update (type 1) what has changed
since. A record without a value removes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from harness.kafka.batches import Record

STATES = {0: "available", 2: "acknowledged", 4: "archived"}
"""Delivery states by their numbers. 1, acquired, is never stored."""
_SNAPSHOT, _UPDATE = 0, 1


@dataclass(frozen=True)
class StateBatch:
    """Offsets with the same delivery state."""

    first: int
    last: int
    state: str
    """One of `STATES`, or the number of another state."""
    delivery_count: int


@dataclass(frozen=True, kw_only=True)
class StoredState:
    """One record."""

    group: str
    topic_id: UUID
    partition: int
    log_offset: int
    timestamp_ms: int | None
    snapshot: bool
    snapshot_epoch: int
    state_epoch: int | None
    """None in an update."""
    leader_epoch: int
    start_offset: int
    """-1: unchanged, or not known yet."""
    batches: tuple[StateBatch, ...]


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, layout: str) -> int:
        (number,) = struct.unpack_from(f">{layout}", self._data, self._at)
        self._at += struct.calcsize(f">{layout}")
        return int(number)

    def text(self, length: int) -> str:
        return self.raw(length).decode()

    def raw(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if len(found) < length:
            raise ValueError("the record is cut short")
        self._at += length
        return found

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.take("B")
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return number

    def tags(self) -> None:
        """Tagged fields, which are left out."""
        for _ in range(self.varint()):
            self.varint()
            self.raw(self.varint())


def stored_states(records: Iterable[Record]) -> Iterator[StoredState]:
    """What the records of the log say, in its order; records of other types are left out.

    Raises ValueError for a record that cannot be read.
    """
    for record in records:
        if record.key is None or record.value is None:
            continue
        key = _Bytes(record.key)
        kind = key.take("h")
        if kind not in (_SNAPSHOT, _UPDATE):
            continue
        try:
            yield _stored(kind, key, _Bytes(record.value), record)
        except (struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"offset {record.offset}: {error}") from error


def _stored(kind: int, key: _Bytes, value: _Bytes, record: Record) -> StoredState:
    group = key.text(key.take("h"))
    topic_id = UUID(bytes=key.raw(16))
    partition = key.take("i")
    value.take("h")  # the version, 0
    snapshot_epoch = value.take("i")
    state_epoch = value.take("i") if kind == _SNAPSHOT else None
    leader_epoch, start_offset = value.take("i"), value.take("q")
    if kind == _SNAPSHOT:
        value.raw(2 * 8)  # when it was created, and written
    return StoredState(
        group=group,
        topic_id=topic_id,
        partition=partition,
        log_offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        snapshot=kind == _SNAPSHOT,
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        batches=tuple(_batches(value)),
    )


def _batches(value: _Bytes) -> Iterator[StateBatch]:
    for _ in range(value.varint() - 1):  # a compact array
        first, last, state, count = (value.take(field) for field in "qqbh")
        value.tags()
        yield StateBatch(first, last, STATES.get(state, str(state)), count)


DONE = ("acknowledged", "archived")
"""States of a record that is delivered no more."""


@dataclass
class ShareState:
    """What is stored about one group and partition: its records, one after the other.

    A leader moves the start offset when a state has been stored, and stores the new start offset with the
    next change. So the last records that are done are above it.
    """

    start: int = -1
    """Share-partition start offset: all before it is done; -1: not known yet."""
    states: dict[int, str] = field(default_factory=dict)
    """The state of offsets from there on; all others are available."""

    def store(self, *, snapshot: bool, start_offset: int, batches: Iterable[tuple[int, int, str]]) -> None:
        """Take in a record; ``batches`` are first offset, last offset, and state."""
        if snapshot:
            self.start, self.states = -1, {}
        if start_offset >= 0:
            self.start = start_offset
        for first, last, state in batches:
            self.states.update(dict.fromkeys(range(first, last + 1), state))

    def state(self, offset: int) -> str:
        """`available`, or one of `DONE`."""
        return DONE[0] if offset < self.start else self.states.get(offset, "available")

    @property
    def done_until(self) -> int:
        """The first offset that is not done; -1: not known yet."""
        offset = self.start
        while offset >= 0 and self.state(offset) in DONE:
            offset += 1
        return offset


def folded(states: Iterable[StoredState]) -> dict[tuple[str, UUID, int], ShareState]:
    """The newest state by group, topic id and partition."""
    found: dict[tuple[str, UUID, int], ShareState] = {}
    for one in states:
        found.setdefault((one.group, one.topic_id, one.partition), ShareState()).store(
            snapshot=one.snapshot,
            start_offset=one.start_offset,
            batches=((batch.first, batch.last, batch.state) for batch in one.batches),
        )
    return found
