"""The fate of each message of one topic partition, and whether the log has it in the order of sending.

A message is lost only if no replica holds it. Absence proves nothing unless the final read was complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkers.partition.fate import CODE, FATES
from checkers.partition.logs import NOBODY, OWN, Log, PartitionReplicas, reference_of
from checkers.partition.messages import FAIL, INFO, OK, Flags, Ints, ReadArrays, SendArrays, distinct
from checkers.partition.removals import NONE, TOPIC_DELETED

_BITS = 62
"""Number of replicas that fit into the bits of one machine word."""


@dataclass(frozen=True, kw_only=True)
class Fates:
    """One entry per message of `sends`; -1 stands for null."""

    fate: Ints
    copies: Ints
    """How many records of the reference log are the message, damaged ones included."""
    found_offset: Ints
    found_epoch: Ints
    extra_offset: Ints
    """Lowest offset of a duplicated message besides `found_offset`."""
    holders: Ints
    """Bit n: the n-th log holds an intact copy."""
    overwriter: Ints
    """Position in the reference log of the record at an absent message's offset."""
    removal: Ints
    """Why a retired message may have been removed, a code of `checkers.partition.removals`; -1 for others."""
    reads: Ints
    """How often readers received it."""


def read_counts(reads: ReadArrays, messages: int) -> Ints:
    """How often readers received each message."""
    if not len(reads):
        return np.broadcast_to(np.int64(0), messages)
    return np.bincount(reads.row[reads.row >= 0], minlength=messages)


def recognise(
    partition: PartitionReplicas, sends: SendArrays, logs: Sequence[Log], reads: ReadArrays
) -> list[Log]:
    """The logs, with records damaged beyond recognition assigned to messages where possible.

    Another replica's record at the same offset tells which message it is. Otherwise it is the newest message
    that was acknowledged there and of which no good copy is left.
    """
    offsets = _unreadable_offsets(logs)
    if not len(offsets):
        return list(logs)
    owner = np.full(len(offsets), -1, dtype=np.int64)
    settled = np.zeros(len(offsets), dtype=bool)
    held = np.zeros(len(sends), dtype=bool)
    for log in sorted(logs, key=lambda log: log.broker == partition.reference):  # the reference decides
        place = log.at(offsets)
        recognised = (
            (place >= 0) & (log.origin[place] == OWN) & ~log.control[place] if len(log) else place >= 0
        )
        owner[recognised] = log.row[place[recognised]]
        settled |= recognised
        held[log.row[(log.row >= 0) & log.intact]] = True
    place_of = np.where(sends.offset >= 0, sends.offset, _read_offset(reads, len(sends)))
    claimants = np.flatnonzero((sends.outcome != FAIL) & ~held & np.isin(place_of, offsets[~settled]))
    newest = claimants[np.lexsort((sends.seq[claimants], sends.writer[claimants], sends.sent_ns[claimants]))]
    where = np.searchsorted(offsets, place_of[newest])
    owner[where] = newest
    return [_with_owners(log, offsets, owner) for log in logs]


def _unreadable(log: Log) -> Flags:
    unreadable: Flags = ~log.intact & ~log.control & (log.row < 0) & (log.origin != OWN)
    return unreadable


def _unreadable_offsets(logs: Sequence[Log]) -> Ints:
    parts = [log.offset[_unreadable(log)] for log in logs if not log.intact.all()]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def _with_owners(log: Log, offsets: Ints, owner: Ints) -> Log:
    rows = np.flatnonzero(_unreadable(log))
    if not len(rows):
        return log
    row = log.row.copy()
    row[rows] = owner[np.searchsorted(offsets, log.offset[rows])]
    return Log(**{**vars(log), "row": row})


def _read_offset(reads: ReadArrays, messages: int) -> Ints:
    """The highest offset at which a reader received each message; -1 for none."""
    highest = np.full(messages, -1, dtype=np.int64)
    recognised = np.flatnonzero(reads.row >= 0)
    np.maximum.at(highest, reads.row[recognised], reads.offset[recognised])
    return highest


def decide(
    partition: PartitionReplicas,
    sends: SendArrays,
    logs: Sequence[Log],
    reads: ReadArrays,
    away: Flags | None = None,
) -> Fates:
    """Give every message its fate. ``away`` marks those that were found in another partition."""
    count = len(sends)
    holders, damaged = _holders(count, logs)
    reference = reference_of(partition, logs)
    copies, found_offset, found_epoch, extra = places(count, sends, reference)
    read = read_counts(reads, count)
    outcome, offset = sends.outcome, sends.offset
    ok = outcome == OK
    good = holders != 0
    stands = copies > 0
    fate = np.full(count, CODE["kept"], dtype=np.int8)
    fate[ok & (found_offset != offset) & (offset >= 0)] = CODE["moved"]
    fate[(outcome == INFO) & stands] = CODE["unknown_kept"]
    fate[(outcome == INFO) & ~stands] = CODE["unknown_dropped"]
    fate[(outcome != FAIL) & (copies > 1)] = CODE["duplicated"]
    fate[outcome == FAIL] = CODE["failed"]
    overwriter: Ints = np.broadcast_to(np.int64(-1), count)
    removal = np.full(count, NONE, dtype=np.int8)
    fate[(outcome == FAIL) & (good | damaged) & ~sends.aborted] = CODE["phantom"]
    if not (good.all() and stands.all()):
        fate[(outcome != FAIL) & (copies <= 1) & damaged & ~good] = CODE["corrupt"]
        fate[ok & ~stands & good] = CODE["diverged"]
        absent = np.flatnonzero(ok & ~stands & ~good & ~damaged)
        fate[absent] = np.where(read[absent] > 0, CODE["lost_after_read"], CODE["lost"])
        gone = np.flatnonzero(ok & ~stands)
        overwriter = np.full(count, -1, dtype=np.int64)
        overwriter[gone] = reference.at(offset[gone])
        _explain(partition, sends, logs, reads, gone, reference, fate, overwriter, removal, away)
        overwriter[good | damaged] = -1
        _place_on_followers(logs, fate, copies, found_offset, found_epoch)
    return Fates(
        fate=fate,
        copies=copies,
        found_offset=found_offset,
        found_epoch=found_epoch,
        extra_offset=extra,
        holders=holders,
        overwriter=overwriter,
        removal=removal,
        reads=read,
    )


def _explain(
    partition: PartitionReplicas,
    sends: SendArrays,
    logs: Sequence[Log],
    reads: ReadArrays,
    gone: Ints,
    reference: Log,
    fate: Ints,
    overwriter: Ints,
    removal: Ints,
    away: Flags | None,
) -> None:
    """Fates of acknowledged messages that the reference log does not hold (rows ``gone``)."""
    lost = np.isin(fate[gone], (CODE["lost"], CODE["lost_after_read"]))
    over = overwriter[gone]
    if len(reference):
        by_nobody = (over >= 0) & (reference.origin[over] == NOBODY)
        by_nobody &= reference.intact[over] & ~reference.control[over]
        fate[gone[lost & by_nobody]] = CODE["overwritten"]
    if not partition.conclusive:
        fate[gone[lost]] = CODE["undetermined"]
        fate[gone[fate[gone] == CODE["diverged"]]] = CODE["kept"]
        open_ = np.isin(fate, (CODE["unknown_dropped"], CODE["failed"])) & ~_held_anywhere(len(sends), logs)
        rows = np.flatnonzero(open_ & ~sends.aborted)
        stood = _likely_place(sends, logs, reads, rows)
        reasons = _reasons(partition, sends, reference, rows, stood)
        removed = (fate[rows] == CODE["unknown_dropped"]) & (reasons != NONE)
        fate[rows[~removed]] = CODE["undetermined"]
    fate[gone[lost & sends.aborted[gone]]] = CODE["failed"]
    place = _likely_place(sends, logs, reads, gone)
    reasons = _reasons(partition, sends, reference, gone, place)
    retired = (reasons != NONE) & (fate[gone] != CODE["kept"])
    fate[gone[retired]] = CODE["retired"]
    if away is not None:
        fate[gone[away[gone] & ~_held_anywhere(len(sends), logs)[gone]]] = CODE["misrouted"]
    removal[gone] = np.where(fate[gone] == CODE["retired"], reasons, NONE)


def _reasons(
    partition: PartitionReplicas, sends: SendArrays, reference: Log, rows: Ints, place: Ints
) -> Ints:
    """Why messages (``rows``) that stood at ``place`` may have been removed.

    If it is not known where a message stood, an incomplete read explains that it is absent as well.
    """
    reasons = partition.removal_reasons(
        place, reference.at(place) >= 0, sends.sent_ns[rows], sends.writer[rows]
    )
    if not partition.conclusive:
        reasons[(place < 0) & (reasons != TOPIC_DELETED)] = NONE
    return reasons


def _held_anywhere(count: int, logs: Sequence[Log]) -> Flags:
    held = np.zeros(count, dtype=bool)
    for log in logs:
        held[log.row[log.row >= 0]] = True
    return held


def _likely_place(sends: SendArrays, logs: Sequence[Log], reads: ReadArrays, rows: Ints) -> Ints:
    """The offset of an absent message: as reported, else on a follower, else as it was read; -1 unknown."""
    place = sends.offset[rows]
    if (place >= 0).all():
        return place
    held = np.full(len(sends), -1, dtype=np.int64)
    for log in reversed(logs):
        positions = np.flatnonzero(log.row >= 0)[::-1]
        held[log.row[positions]] = log.offset[positions]
    place = np.where(place >= 0, place, held[rows])
    return np.where(place >= 0, place, _read_offset(reads, len(sends))[rows])


def _holders(count: int, logs: Sequence[Log]) -> tuple[Ints, Flags]:
    """Which logs hold an intact copy of each message, and whether any holds a damaged one."""
    kind = np.uint8 if len(logs) <= 8 else np.int64 if len(logs) <= _BITS else object
    holders = np.zeros(count, dtype=kind)
    damaged = np.zeros(count, dtype=bool)
    for bit, log in enumerate(logs):
        held = log.row >= 0
        whole = bool(log.intact.all())
        copied = np.zeros(count, dtype=bool)
        copied[log.row[held if whole else held & log.intact]] = True
        holders |= copied.astype(holders.dtype) << bit
        if not whole:
            damaged[log.row[held & ~log.intact]] = True
    return holders, damaged


def places(count: int, sends: SendArrays, log: Log) -> tuple[Ints, Ints, Ints, Ints]:
    """Copies in the reference log, the offset and epoch that are the message's own, and a further offset."""
    own_offset = np.full(count, -1, dtype=np.int64)
    epoch = np.full(count, -1, dtype=np.int32)
    extra: Ints = np.broadcast_to(np.int64(-1), count)
    rows, offsets, epochs = log.row, log.offset, log.epoch
    if len(rows) and int(rows.min()) < 0:
        held = np.flatnonzero(rows >= 0)
        rows, offsets, epochs = rows[held], offsets[held], epochs[held]
    copies = np.bincount(rows, minlength=count).astype(np.int32)
    if not len(rows) or int(copies.max()) == 1:
        own_offset[rows], epoch[rows] = offsets, epochs
        return copies, own_offset, epoch, extra
    own_offset[rows[::-1]], epoch[rows[::-1]] = offsets[::-1], epochs[::-1]
    exact = np.flatnonzero(sends.offset[rows] == offsets)
    own_offset[rows[exact]], epoch[rows[exact]] = offsets[exact], epochs[exact]
    extra = extra.copy()
    other = np.flatnonzero((copies[rows] > 1) & (own_offset[rows] != offsets))
    extra[rows[other][::-1]] = offsets[other][::-1]
    return copies, own_offset, epoch, extra


def _place_on_followers(
    logs: Sequence[Log], fate: Ints, copies: Ints, found_offset: Ints, found_epoch: Ints
) -> None:
    """Give messages that are findings and that only followers hold the place that the first follower has."""
    unplaced = np.isin(fate, (CODE["phantom"], CODE["diverged"])) & (copies == 0)
    for log in reversed(logs) if unplaced.any() else ():
        positions = np.flatnonzero(log.row >= 0)[::-1]
        positions = positions[unplaced[log.row[positions]]]
        found_offset[log.row[positions]], found_epoch[log.row[positions]] = (
            log.offset[positions],
            log.epoch[positions],
        )


def claimed_offsets(sends: SendArrays, logs: Sequence[Log], fates: Fates) -> Ints:
    """Offsets whose record a message's own finding already covers."""
    parts = [sends.offset[fates.fate == CODE["overwritten"]]]
    corrupt = fates.fate == CODE["corrupt"]
    for log in logs if corrupt.any() else ():
        positions = np.flatnonzero(log.row >= 0)
        parts.append(log.offset[positions[corrupt[log.row[positions]] & ~log.intact[positions]]])
    return np.unique(np.concatenate(parts))


def explained_offsets(logs: Sequence[Log], fates: Fates) -> Ints:
    """Offsets of phantoms. It is not a further finding that some replicas lack what should not exist."""
    phantom = fates.fate == CODE["phantom"]
    parts = [np.empty(0, dtype=np.int64)]
    for log in logs if phantom.any() else ():
        positions = np.flatnonzero(log.row >= 0)
        parts.append(log.offset[positions[phantom[log.row[positions]]]])
    return np.unique(np.concatenate(parts))


def flagged(partition: PartitionReplicas, fates: Fates, logs: Sequence[Log]) -> Ints:
    """Messages that are findings of their own.

    A message that an in-sync follower holds and the reference log lacks is a finding about replicas instead.
    """
    loud = _LOUD[fates.fate]
    if not loud.any():
        return np.empty(0, dtype=np.int64)
    in_sync = sum(1 << bit for bit, log in enumerate(logs) if partition.in_sync(log.broker))
    held = (fates.holders & in_sync) != 0
    loud &= ~((fates.fate == CODE["diverged"]) & held.astype(bool))
    return np.flatnonzero(loud)


_LOUD = np.array([fate.of_message for fate in FATES])


# ---- the order in which writers sent


def ordered(sends: SendArrays, fates: Fates) -> Ints:
    """Messages whose order counts: acknowledged, in the reference log once, and at the offset reported."""
    return np.flatnonzero((sends.outcome == OK) & (fates.fate == CODE["kept"]) & (fates.copies == 1))


def out_of_order(sends: SendArrays, fates: Fates) -> Ints:
    """Messages with a higher offset than a later one of their writer."""
    rows = ordered(sends, fates)
    late = [rows[:0]]
    writers = sends.writer[rows]
    for writer in distinct(writers).tolist():
        own_rows = rows[writers == writer]
        seqs = sends.seq[own_rows]
        if len(seqs) > 1 and not np.all(seqs[1:] > seqs[:-1]):
            own_rows = own_rows[np.argsort(seqs, kind="stable")]
        offsets = fates.found_offset[own_rows]
        if not np.all(offsets[1:] > offsets[:-1]):
            lowest = np.minimum.accumulate(offsets[:0:-1])[::-1]
            late.append(own_rows[:-1][offsets[:-1] > lowest])
    return np.concatenate(late)
