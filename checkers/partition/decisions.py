"""What a partition's log says about transactions: which marker decided each record, and what is readable.

The next marker of its producer id decides a transactional record. A reader of committed records receives the
records that a `commit` decided, up to the last stable offset (LSO).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.partition.fate import CODE
from checkers.partition.messages import FOREVER, Flags, Ints

STATES = ("readable", "blocked", "aborted", "undecided", "lost", "dropped", "absent", "unknown")
READABLE, BLOCKED, ABORTED, UNDECIDED, LOST, DROPPED, ABSENT, UNKNOWN = range(8)
COMMITTED = ("readable", "blocked")
"""States of records whose transaction a marker committed."""
MARKERS = ("abort", "commit")
ABORT, COMMIT = 0, 1
"""Codes of markers; -1: not recorded."""
MISSING_FATES = tuple(
    CODE[name] for name in ("lost", "lost_after_read", "overwritten", "diverged", "corrupt", "misrouted")
)
"""Fates of messages that are missing from the reference log without an explanation."""


@dataclass(frozen=True, kw_only=True)
class ProducerRecords:
    """Records of one replica's log and their producers, in any order; -1 stands for null."""

    offset: Ints
    producer: Ints
    epoch: Ints
    control: Flags
    transactional: Ints
    """1, 0, or -1 if it is not recorded."""
    marker: Ints
    """`COMMIT`, `ABORT` or -1."""
    coordinator_epoch: Ints

    def take(self, rows: Ints | Flags | slice) -> ProducerRecords:
        """Some of them."""
        return ProducerRecords(**{name: values[rows] for name, values in vars(self).items()})


def all_producer_records(parts: Sequence[ProducerRecords]) -> ProducerRecords:
    """Records of several parts as one."""
    if not parts:
        return _nobody().take(slice(0, 0))
    names = ProducerRecords.__dataclass_fields__
    return ProducerRecords(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )


@dataclass(frozen=True, kw_only=True)
class TransactionLog:
    """What decides a partition's records: markers of its reference log, and where readers stop."""

    producer: Ints
    """Producer id of each marker; markers are ordered by producer id and offset."""
    offset: Ints
    epoch: Ints
    coordinator_epoch: Ints
    commit: Ints
    """`COMMIT`, `ABORT` or -1."""
    epoch_producer: Ints
    """The epochs of each producer id, by producer id and epoch: …"""
    epoch_number: Ints
    epoch_offset: Ints
    """… the first offset with this epoch or a later one."""
    high_watermark: int
    limit: int
    """Where the readable part ends: the LSO, or `FOREVER`."""
    conclusive: bool
    """The log was read to its end, so that an absent marker does not exist."""
    read_ns: int
    """When the log was read; -1 if not known."""


def transaction_log(
    markers: ProducerRecords,
    epochs: ProducerRecords,
    first_undecided: int,
    *,
    high_watermark: int,
    last_stable_offset: int,
    conclusive: bool,
    read_ns: int,
) -> TransactionLog:
    """Order the markers; -1 stands for an offset that is not known.

    ``epochs`` are the first records of each producer id and epoch; further records do no harm.
    """
    order = np.lexsort((markers.offset, markers.producer))
    limits = [high_watermark, last_stable_offset, first_undecided if conclusive else -1]
    by_epoch = np.lexsort((epochs.offset, epochs.epoch, epochs.producer))
    producer, epoch, offset = (
        getattr(epochs, name)[by_epoch].astype(np.int64) for name in ("producer", "epoch", "offset")
    )
    first = np.flatnonzero(np.append(True, (producer[1:] != producer[:-1]) | (epoch[1:] != epoch[:-1])))
    first = first[: len(producer)]
    producer, epoch, offset = producer[first], epoch[first], offset[first].copy()
    for low, high in _runs(producer):
        offset[low:high] = np.minimum.accumulate(offset[low:high][::-1])[::-1]
    return TransactionLog(
        producer=markers.producer[order].astype(np.int64),
        offset=markers.offset[order].astype(np.int64),
        epoch=markers.epoch[order],
        coordinator_epoch=markers.coordinator_epoch[order],
        commit=markers.marker[order],
        epoch_producer=producer,
        epoch_number=epoch,
        epoch_offset=offset,
        high_watermark=FOREVER if high_watermark < 0 else high_watermark,
        limit=min((limit for limit in limits if limit >= 0), default=FOREVER),
        conclusive=conclusive,
        read_ns=read_ns,
    )


def _runs(values: Ints) -> list[tuple[int, int]]:
    """Where equal neighbours begin and end."""
    if not len(values):
        return []
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    bounds = [0, *edges.tolist(), len(values)]
    return list(zip(bounds[:-1], bounds[1:], strict=True))


def markers_of(records: ProducerRecords) -> ProducerRecords:
    """The markers among some records."""
    return records.take(records.control & (records.producer >= 0))


def first_epochs(records: ProducerRecords) -> ProducerRecords:
    """The first record of each producer id and epoch."""
    with_producer = records.take(np.flatnonzero(records.producer >= 0))
    order = np.lexsort((with_producer.offset, with_producer.epoch, with_producer.producer))
    producer, epoch = with_producer.producer[order], with_producer.epoch[order]
    fresh = np.append(True, (producer[1:] != producer[:-1]) | (epoch[1:] != epoch[:-1]))[: len(order)]
    return with_producer.take(order[fresh])


def last_markers(markers: ProducerRecords) -> dict[int, int]:
    """The offset of the last marker of each producer id."""
    order = np.lexsort((markers.offset, markers.producer))
    pairs = zip(markers.producer[order].tolist(), markers.offset[order].tolist(), strict=True)
    return dict(pairs)


def undecided_from(records: ProducerRecords, last: dict[int, int]) -> int:
    """The first record of a transaction that no marker follows; -1 if there is none."""
    rows = np.flatnonzero(~records.control & (records.transactional == 1) & (records.producer >= 0))
    producer, offset = records.producer[rows], records.offset[rows]
    if not len(offset):
        return -1
    producers = np.array(sorted(last), dtype=np.int64)
    ends = np.array([*(last[int(p)] for p in producers), -1], dtype=np.int64)
    place = np.searchsorted(producers, producer)
    place = np.minimum(place, max(0, len(producers) - 1))
    ours = producers[place] == producer if len(producers) else np.zeros(len(offset), dtype=bool)
    open_ = offset > np.where(ours, ends[place], -1)
    return int(offset[open_].min()) if open_.any() else -1


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """One entry per message of a transaction; -1 stands for null."""

    row: Ints
    """The message in `sends`."""
    state: Ints
    """Position in `STATES`."""
    offset: Ints
    """Its offset in the reference log."""
    producer: Ints
    epoch: Ints
    marker: Ints
    """`COMMIT` or `ABORT`, of the marker that decided it."""
    marker_offset: Ints
    marker_epoch: Ints
    coordinator_epoch: Ints
    outdated: Flags
    """Its producer id had a later epoch at a lower offset."""

    def __len__(self) -> int:
        return len(self.row)


def decisions_of(log: TransactionLog, records: ProducerRecords, row: Ints, offset: Ints) -> Decisions:
    """How each message was decided, as far as the log tells.

    ``row`` are messages of transactions, ``offset`` their offsets in the reference log (-1: none), and
    ``records`` the records there, by rising offset. Messages without an offset are `ABSENT`.
    """
    place = np.searchsorted(records.offset, offset)
    place = np.minimum(place, max(0, len(records.offset) - 1))
    stands = offset >= 0
    if len(records.offset):
        stands &= records.offset[place] == offset
    else:
        stands = np.zeros(len(row), dtype=bool)
        place = np.zeros(len(row), dtype=np.int64)
        records = _nobody()
    producer = np.where(stands, records.producer[place], -1).astype(np.int64)
    epoch = np.where(stands, records.epoch[place], -1).astype(np.int64)
    transactional = np.where(stands, records.transactional[place], -1)
    named = stands & (transactional == 1) & (producer >= 0)
    marker = _next_marker(log, producer, offset, named)
    decided = marker >= 0
    at = np.where(decided, marker, 0)
    commit, marker_offset, marker_epoch, coordinator = (
        np.where(decided, column[at], -1) if len(log.offset) else np.full(len(row), -1, dtype=np.int64)
        for column in (log.commit, log.offset, log.epoch, log.coordinator_epoch)
    )
    below = offset < log.limit
    state = np.full(len(row), UNKNOWN, dtype=np.int8)
    plain = stands & (transactional == 0)
    committed = (decided & (commit == COMMIT)) | plain
    state[committed & below], state[committed & ~below] = READABLE, BLOCKED
    state[decided & (commit == ABORT)] = ABORTED
    state[named & ~decided & log.conclusive & (offset < log.high_watermark)] = UNDECIDED
    state[~stands] = ABSENT
    return Decisions(
        row=row,
        state=state,
        offset=np.where(stands, offset, -1),
        producer=producer,
        epoch=epoch,
        marker=commit,
        marker_offset=marker_offset,
        marker_epoch=marker_epoch,
        coordinator_epoch=coordinator,
        outdated=named & (_epoch_raised(log, producer, epoch) < offset),
    )


def _nobody() -> ProducerRecords:
    one = np.full(1, -1, dtype=np.int64)
    columns: dict[str, Any] = dict.fromkeys(ProducerRecords.__dataclass_fields__, one)
    return ProducerRecords(**{**columns, "control": one >= 0})


def _next_marker(log: TransactionLog, producer: Ints, offset: Ints, eligible: Flags) -> Ints:
    """Position of the first marker of each producer id after an offset, -1 for none."""
    markers = np.full(len(offset), -1, dtype=np.int64)
    rows = np.flatnonzero(eligible)
    if not len(rows) or not len(log.offset):
        return markers
    place = _search(log.producer, log.offset, producer[rows], offset[rows])
    inside = np.minimum(place, len(log.offset) - 1)
    same = (place < len(log.offset)) & (log.producer[inside] == producer[rows])
    markers[rows] = np.where(same, place, -1)
    return markers


def _epoch_raised(log: TransactionLog, producer: Ints, epoch: Ints) -> Ints:
    """The first offset at which each producer id has a later epoch; `FOREVER` for none."""
    offsets = np.full(len(producer), FOREVER, dtype=np.int64)
    if not len(log.epoch_producer):
        return offsets
    place = _search(log.epoch_producer, log.epoch_number, producer, epoch)
    inside = np.minimum(place, len(log.epoch_producer) - 1)
    later = (place < len(log.epoch_producer)) & (log.epoch_producer[inside] == producer) & (producer >= 0)
    offsets[later] = log.epoch_offset[inside[later]]
    return offsets


def _search(major: Ints, minor: Ints, wanted_major: Ints, wanted_minor: Ints) -> Ints:
    """In rising pairs, the position of the first one after each wanted pair."""
    majors = np.unique(major)
    rank = np.searchsorted(majors, wanted_major, side="left")
    low, high = int(minor.min()), int(minor.max())
    span = high - low + 2
    if span * (len(majors) + 1) >= 1 << 62:
        ranks = np.unique(minor)
        minor, wanted_minor = np.searchsorted(ranks, minor), np.searchsorted(ranks, wanted_minor, "right") - 1
        low, span = 0, len(ranks) + 1
    key = np.searchsorted(majors, major) * span + (minor - low)
    behind = np.clip(wanted_minor - low, -1, span - 2)
    return np.searchsorted(key, rank * span + behind, side="right")


def with_losses(decisions: Decisions, fate: Ints, *, whole: bool) -> Decisions:
    """The same with `LOST` and `DROPPED` for messages that the reference log lacks without an explanation.

    ``whole`` says that the log was read to its end, and that nothing was removed from it.
    """
    state, fates = decisions.state.copy(), fate[decisions.row]
    absent = state == ABSENT
    state[absent & np.isin(fates, MISSING_FATES)] = LOST
    state[absent & (fates == CODE["unknown_dropped"]) & whole] = DROPPED
    return Decisions(**{**vars(decisions), "state": state})
