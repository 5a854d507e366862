"""Batches of watched topics that were committed and are on no replica any more.

Nobody knows what was sent to such a topic. But what a replica holds below its own high watermark is
committed: consumers may have received it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkers.partition.logs import Log, PartitionReplicas, epoch_starts, reference_of
from checkers.partition.messages import FOREVER, Flags, Ints


@dataclass(frozen=True, kw_only=True)
class Sighted:
    """Batches that were seen on replicas, one entry for each replica and batch; -1 stands for null."""

    broker: Ints
    offset: Ints
    epoch: Ints
    seen_ns: Ints
    gone_ns: Ints

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(frozen=True, kw_only=True)
class HighWatermarks:
    """The high watermark that each replica stated of itself, by rising time."""

    broker: Ints
    ns: Ints
    offset: Ints


@dataclass(frozen=True, kw_only=True)
class Truncated:
    """Batches of one leader epoch that were committed and are on no replica any more, one entry each."""

    offset: Ints
    """Of the first."""
    last_offset: Ints
    epoch: Ints
    count: Ints
    """How many batches."""
    committed_ns: Ints
    """When a replica that held the first one stated a high watermark above it."""
    last_broker: Ints
    """A broker that held the first one."""
    now_epoch: Ints
    """Leader epoch of what the reference holds at the first offset; -1: nothing."""

    def __len__(self) -> int:
        return len(self.offset)


def truncated(
    partition: PartitionReplicas, logs: Sequence[Log], seen: Sighted, watermarks: HighWatermarks
) -> Truncated:
    """What was committed and is gone. Compaction takes batches on each replica by itself: it is left out."""
    reference = reference_of(partition, logs)
    committed = np.full(len(seen), FOREVER, dtype=np.int64)
    if partition.conclusive and not partition.compacted:
        committed = _committed(seen, watermarks)
    gone = np.flatnonzero((committed < FOREVER) & (seen.offset >= partition.log_start) & ~_held(logs, seen))
    # Replicas may have held the same batch: the one that was seen to be committed first counts.
    gone = gone[np.lexsort((committed[gone], seen.offset[gone], seen.epoch[gone]))]
    offset, epoch = seen.offset[gone], seen.epoch[gone]
    another = np.append(True, (np.diff(offset) != 0) | (np.diff(epoch) != 0))[: len(gone)]
    gone, offset, epoch = gone[another], offset[another], epoch[another]
    first = np.flatnonzero(np.append(True, np.diff(epoch) != 0)[: len(gone)])
    count = np.diff(np.append(first, len(gone)))
    return Truncated(
        offset=offset[first],
        last_offset=offset[first + count - 1],
        epoch=epoch[first],
        count=count,
        committed_ns=committed[gone[first]],
        last_broker=seen.broker[gone[first]],
        now_epoch=epoch_starts(reference, offset[first])[0],
    )


def _held(logs: Sequence[Log], seen: Sighted) -> Flags:
    """Whether a replica holds each batch at the end."""
    held = np.zeros(len(seen), dtype=bool)
    for log in logs:
        place = log.at(seen.offset)
        there = place >= 0
        held[there] |= log.epoch[place[there]] == seen.epoch[there]
    return held


def _committed(seen: Sighted, watermarks: HighWatermarks) -> Ints:
    """When the replica stated a high watermark above each batch while it held it; FOREVER: never."""
    committed = np.full(len(seen), FOREVER, dtype=np.int64)
    for broker in np.unique(seen.broker).tolist():
        own = watermarks.broker == broker
        ns, offset = watermarks.ns[own], watermarks.offset[own]
        rows = np.flatnonzero(seen.broker == broker)
        spans = np.stack([seen.seen_ns[rows], seen.gone_ns[rows]], axis=1)
        for seen_ns, gone_ns in np.unique(spans, axis=0).tolist():
            low = int(np.searchsorted(ns, seen_ns))
            high = len(ns) if gone_ns < 0 else int(np.searchsorted(ns, gone_ns))
            reached = np.maximum.accumulate(offset[low:high])
            alike = rows[(spans[:, 0] == seen_ns) & (spans[:, 1] == gone_ns)]
            place = np.searchsorted(reached, seen.offset[alike], side="right")
            above = place < len(reached)
            committed[alike[above]] = ns[low + place[above]]
    return committed
