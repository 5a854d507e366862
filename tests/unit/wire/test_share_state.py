"""Records of `__share_group_state`, as Kafka 4.4.0 wrote them, and what they come to."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from harness.kafka.batches import Record
from harness.kafka.share_state import ShareState, StateBatch, folded, stored_states

TOPIC = UUID(int=7)
KEY = struct.pack(">h", 1) + b"g" + TOPIC.bytes + struct.pack(">i", 2)
NO_TAGS = b"\0"


def record(offset: int, kind: int, value: bytes | None, key: bytes = KEY) -> Record:
    blank = dict.fromkeys(Record._fields)
    return Record(**{**blank, "offset": offset, "key": struct.pack(">h", kind) + key, "value": value})  # type: ignore[arg-type]


def batches(*given: tuple[int, int, int, int]) -> bytes:
    rows = b"".join(struct.pack(">qqbh", *one) + NO_TAGS for one in given)
    return bytes([len(given) + 1]) + rows


def snapshot(epoch: int, start: int, *given: tuple[int, int, int, int]) -> bytes:
    return struct.pack(">hiiiqqq", 0, epoch, 3, 4, start, 10, 11) + batches(*given) + NO_TAGS


def update(start: int, *given: tuple[int, int, int, int], tags: bytes = NO_TAGS) -> bytes:
    return struct.pack(">hiiq", 0, 0, 5, start) + batches(*given) + tags


COUNTED = b"\x01\x00\x04\x00\x00\x00\x02"
"""A tagged field: DeliveryCompleteCount (KIP-1226)."""


def test_snapshots_and_updates() -> None:
    first, second = stored_states(
        [
            record(0, 0, snapshot(1, -1)),
            record(1, 1, update(0, (0, 9, 2, 1), (10, 10, 4, 5), tags=COUNTED)),
            record(2, 9, b"another type"),
            record(3, 0, None),
        ]
    )
    assert (first.group, first.topic_id, first.partition) == ("g", TOPIC, 2)
    assert (first.snapshot, first.snapshot_epoch, first.state_epoch, first.leader_epoch) == (True, 1, 3, 4)
    assert (first.start_offset, first.batches) == (-1, ())
    assert (second.snapshot, second.state_epoch, second.leader_epoch, second.log_offset) == (
        False,
        None,
        5,
        1,
    )
    assert second.batches == (StateBatch(0, 9, "acknowledged", 1), StateBatch(10, 10, "archived", 5))


@pytest.mark.parametrize("value", [b"", update(0, (0, 9, 2, 1))[:30], snapshot(0, 0)[:20]])
def test_a_record_that_is_cut_short(value: bytes) -> None:
    with pytest.raises(ValueError, match="offset 4: "):
        list(stored_states([record(4, 1 if len(value) != 20 else 0, value)]))


def test_what_the_records_come_to() -> None:
    """The start offset lags: the records after it that are done count, up to the first that is not."""
    states = stored_states(
        [
            record(0, 0, snapshot(0, 0)),
            record(1, 1, update(-1, (0, 4, 2, 1), (5, 5, 0, 1), (6, 6, 4, 1))),
            record(2, 1, update(5, (5, 5, 2, 2))),
        ]
    )
    state = folded(states)["g", TOPIC, 2]
    assert (state.start, state.done_until) == (5, 7)
    assert [state.state(offset) for offset in (4, 5, 6, 7)] == [
        *2 * ["acknowledged"],
        "archived",
        "available",
    ]
    state.store(snapshot=True, start_offset=3, batches=())
    assert (state.done_until, state.state(5)) == (3, "available")
    assert ShareState().done_until == -1
