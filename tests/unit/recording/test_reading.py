"""What the consumer of a recording has not received at its end is a fact."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import run.recording.reading
from harness.kafka.model import PartitionState, TopicPartition
from harness.kafka.wire.offsets import Offset
from run.recording.reading import unreceived
from workloads.protocol.results import PartitionRead, ReadResult

KEYS = [TopicPartition("t", number) for number in range(5)]
ENDS = (4, 4, 0, 4, None)


def progress(*positions: int | None) -> ReadResult:
    """The positions of a consumer that reads until it is stopped."""
    parts = tuple(
        PartitionRead(partition=key, start=None, end=None, position=at, count=0, complete=False)
        for key, at in zip(KEYS, positions, strict=True)
    )
    return ReadResult(partitions=parts, count=0, errors=())


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Partition 4 has no leader."""

    def end_offsets(_leader: object, keys: list[TopicPartition], **_: object) -> dict[TopicPartition, Offset]:
        return {key: Offset(int(str(ENDS[key.partition])), 0) for key in keys}

    monkeypatch.setattr(run.recording.reading, "end_offsets", end_offsets)
    monkeypatch.setattr(run.recording.reading, "_CATCH_UP_S", 0.3)
    return SimpleNamespace(
        dialect=None,
        partition=lambda _topic, number: PartitionState(
            leader=-1 if number == 4 else 1, leader_epoch=0, isr=(1,), replicas=(1,)
        ),
        topology=SimpleNamespace(host=lambda _name: SimpleNamespace(broker_endpoint=None)),
    )


def test_a_reader_that_catches_up_misses_nothing(cluster: Any) -> None:
    told = [progress(0, None, None, 3, None), *(2 * [progress(4, 4, None, 4, None)])]
    reader: Any = SimpleNamespace(progress=lambda: told.pop(0) if len(told) > 1 else told[0])
    assert unreceived(cluster, reader, KEYS[:4]) == []


def test_what_it_does_not_receive_has_a_range(cluster: Any) -> None:
    """Where the partition has no leader, its end is not known."""
    reader: Any = SimpleNamespace(progress=lambda: progress(4, None, None, 3, 2))
    rows = unreceived(cluster, reader, KEYS)
    assert [(row["partition"], row["from_offset"], row["to_offset"]) for row in rows] == [
        (1, 0, 4),
        (3, 3, 4),
        (4, 2, None),
    ]
    assert {row["source"] for row in rows} == {"reader"}
