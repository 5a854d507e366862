"""Topics that were only watched: replicas are compared by batch, and nobody knows what was sent."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.partition.logs import Log, PartitionReplicas, Replica, empty_log
from checkers.partition.replicas import differences, odd_records
from checkers.partition.watched import HighWatermarks, Sighted, Truncated, truncated

NOTHING = np.empty(0, dtype=np.int64)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def log(broker: int, *batches: tuple[int, int, int]) -> Log:
    """Batches by offset, epoch and CRC."""
    offset, epoch, crc = (ints(*column) for column in zip(*batches, strict=True))
    flags = np.ones(len(batches), dtype=bool)
    return Log(
        broker=broker,
        offset=offset,
        epoch=epoch,
        writer=np.full(len(batches), -1),
        seq=np.full(len(batches), -1),
        batch_crc=crc,
        intact=flags,
        at_home=flags,
        control=~flags,
        row=np.full(len(batches), -1),
        origin=np.ones(len(batches), dtype=np.int8),
    )


def partition(*logs: Log, compacted: bool = False, log_start: int = 0) -> PartitionReplicas:
    """The first one leads."""
    return PartitionReplicas(
        topic="orders",
        number=0,
        replicas={
            one.broker: Replica(
                broker=one.broker,
                log_start=log_start,
                leo=int(one.offset[-1]) + 1 if len(one) else 0,
                leader=one is logs[0],
                in_sync=True,
                compacted=compacted,
                watched_from=log_start,
            )
            for one in logs
        },
        reference=logs[0].broker,
        compacted=compacted,
        producers_recorded=False,
        spans={one.broker: (int(one.offset[0]), int(one.offset[-1])) for one in logs if len(one)},
    )


A = log(1, (0, 0, 7), (5, 0, 8), (9, 1, 9))


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        (log(2, (0, 0, 7), (5, 0, 8), (9, 1, 9)), []),
        (log(2, (0, 0, 7), (5, 0, 6), (9, 1, 9)), [(0, 5)]),
        (log(2, (0, 0, 7), (5, 0, 8), (9, 2, 9)), [(1, 9)]),
        (log(2, (0, 0, 7), (5, 0, 8)), [(4, 9)]),
        (log(2, (0, 0, 7), (9, 1, 9)), [(2, 5)]),
    ],
    ids=["equal", "another CRC", "another epoch", "an end missing", "one missing"],
)
def test_replicas_are_compared_by_crc_and_epoch(other: Log, kinds: list[tuple[int, int]]) -> None:
    both = partition(A, other)
    found = differences(both, [A, other], NOTHING)
    assert list(zip(found.kind.tolist(), found.offset.tolist(), strict=True)) == kinds
    assert len(odd_records(both, [A, other])) == 0, "nobody knows who sent them"


def test_compacted_replicas_are_not_compared() -> None:
    other = log(2, (0, 0, 7), (5, 0, 6))
    assert len(differences(partition(A, other, compacted=True), [A, other], NOTHING)) == 0


def sighted(*rows: tuple[int, int, int, int, int]) -> Sighted:
    """Broker, offset, epoch, when it was seen, and when it was gone."""
    broker, offset, epoch, seen_ns, gone_ns = (ints(*column) for column in zip(*rows, strict=True))
    return Sighted(broker=broker, offset=offset, epoch=epoch, seen_ns=seen_ns, gone_ns=gone_ns)


def marks(*rows: tuple[int, int, int]) -> HighWatermarks:
    """Broker, time and high watermark."""
    broker, ns, offset = (ints(*column) for column in zip(*rows, strict=True))
    return HighWatermarks(broker=broker, ns=ns, offset=offset)


def rows(found: Truncated) -> list[tuple[int, ...]]:
    columns = ("offset", "last_offset", "epoch", "count", "committed_ns", "last_broker", "now_epoch")
    return list(zip(*(getattr(found, name).tolist() for name in columns), strict=True))


COMMITTED = marks((1, 10, 5), (1, 20, 12), (2, 10, 5))
NOW = log(2, (0, 0, 7), (5, 1, 1), (6, 1, 2))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([(1, 5, 0, 12, 30), (1, 9, 0, 12, 30)], [(5, 9, 0, 2, 20, 1, 1)]),
        ([(1, 5, 0, 12, -1)], [(5, 5, 0, 1, 20, 1, 1)]),
        ([(1, 0, 0, 5, 30)], []),
        ([(1, 5, 0, 12, 20)], []),
        ([(2, 5, 0, 5, 30)], []),
        ([(1, 15, 0, 12, 30)], []),
    ],
    ids=[
        "seen to go",
        "its broker is away",
        "still on another replica",
        "gone before it was committed",
        "committed on another replica only",
        "never committed",
    ],
)
def test_what_was_committed_and_is_gone_is_told(
    seen: list[tuple[int, int, int, int, int]], said: list[tuple[int, ...]]
) -> None:
    replicas = partition(NOW, empty_log(1))
    assert rows(truncated(replicas, [NOW, empty_log(1)], sighted(*seen), COMMITTED)) == said


@pytest.mark.parametrize("why", [{"compacted": True}, {"log_start": 6}])
def test_what_compaction_or_retention_took_is_not_told(why: dict[str, int]) -> None:
    replicas = partition(NOW, empty_log(1), **why)  # type: ignore[arg-type]
    seen = sighted((1, 5, 0, 12, 30))
    assert len(truncated(replicas, [NOW, empty_log(1)], seen, COMMITTED)) == 0


def test_nothing_seen_is_nothing_gone() -> None:
    empty = Sighted(broker=NOTHING, offset=NOTHING, epoch=NOTHING, seen_ns=NOTHING, gone_ns=NOTHING)
    none = HighWatermarks(broker=NOTHING, ns=NOTHING, offset=NOTHING)
    assert len(truncated(partition(NOW), [NOW], empty, none)) == 0
