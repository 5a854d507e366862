"""Compares what readers received with the final log: aborted reads, conflicts, skips, steps back, replays.

A *stream* is what one reader without a group received, or what all members of one consumer group received.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from checkers.partition.fate import CODE
from checkers.partition.fates import Fates
from checkers.partition.logs import Log, PartitionReplicas, reference_of
from checkers.partition.messages import FOREVER, Flags, Ints, ReadArrays, SendArrays, Texts
from checkers.partition.removals import NONE

POSITIONED = ("assigned", "sought", "revoked", "lost")
"""Events after which a member's position is no longer that after its last read."""
_SETTLED = [CODE[name] for name in ("kept", "unknown_kept", "duplicated", "moved", "phantom")]


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """A row of `groups` about a partition."""

    ns: int
    group: str
    reader: int
    event: str
    offset: int


# ---- what readers received


def aborted_reads(
    partition: PartitionReplicas, sends: SendArrays, fates: Fates, logs: Sequence[Log], reads: ReadArrays
) -> Ints:
    """Reads (the first of each message) of messages that were aborted or are not in the final log.

    Of messages that nobody sent to this partition: the first read at each offset at which no replica holds
    such a record. If nobody recorded the producers, there is none.
    """
    if not partition.producers_recorded:
        return np.empty(0, dtype=np.int64)
    recognised = reads.row >= 0
    row = np.where(recognised, reads.row, 0)
    if not len(sends):
        return unsent(logs, reads)
    reference = reference_of(partition, logs)
    in_sync = sum(1 << bit for bit, log in enumerate(logs) if partition.in_sync(log.broker))
    dropped = (fates.fate == CODE["unknown_dropped"]) & ~((fates.holders & in_sync) != 0).astype(bool)
    guilty = recognised & ~sends.aborted[row] & (fates.fate == CODE["failed"])[row]
    guilty |= recognised & sends.withheld[row] & reads.committed
    maybe = recognised & ~sends.aborted[row] & dropped[row]
    maybe &= ~_removed(partition, sends, reference, reads, np.flatnonzero(maybe))
    suspects = _first(np.flatnonzero(guilty | maybe), reads, with_offset=False)
    return np.sort(np.concatenate([suspects, unsent(logs, reads)]))


def unsent(logs: Sequence[Log], reads: ReadArrays) -> Ints:
    """Reads of records that are no message of this partition and that no replica holds at their offset.

    A damaged record may be any record.
    """
    rows = np.flatnonzero(reads.row < 0)
    if not len(rows):
        return rows
    stands = np.zeros(len(rows), dtype=bool)
    for log in logs:
        place = log.at(reads.offset[rows])
        if len(log):
            same = (log.writer[place] == reads.writer[rows]) & (log.seq[place] == reads.seq[rows])
            stands |= (place >= 0) & ~log.control[place] & (same | ~log.intact[place])
    return _first(rows[~stands], reads, with_offset=True)


def conflicts(
    partition: PartitionReplicas, sends: SendArrays, fates: Fates, logs: Sequence[Log], reads: ReadArrays
) -> Ints:
    """Reads (the first of each message and offset) of messages that have another offset in the final log."""
    if not len(sends):
        return np.empty(0, dtype=np.int64)
    recognised = reads.row >= 0
    row = np.where(recognised, reads.row, 0)
    settled = recognised & np.isin(fates.fate[row], _SETTLED) & (fates.copies[row] > 0)
    settled &= ~(reads.committed & sends.aborted[row])
    settled &= (reads.offset != fates.found_offset[row]) & (reads.offset != sends.offset[row])
    rows = np.flatnonzero(settled)
    if not len(rows):
        return rows
    reference = reference_of(partition, logs)
    place = reference.at(reads.offset[rows])
    own = (place >= 0) & (reference.row[place] == reads.row[rows]) if len(reference) else place >= 0
    own |= _removed(partition, sends, reference, reads, rows)[rows]
    return _first(rows[~own], reads, with_offset=True)


def _removed(
    partition: PartitionReplicas, sends: SendArrays, reference: Log, reads: ReadArrays, rows: Ints
) -> Flags:
    """Which of the reads at ``rows``, of known messages, are at an offset from which those may be removed."""
    removed = np.zeros(len(reads), dtype=bool)
    offsets, message = reads.offset[rows], reads.row[rows]
    reasons = partition.removal_reasons(
        offsets, reference.at(offsets) >= 0, sends.sent_ns[message], sends.writer[message]
    )
    removed[rows] = reasons != NONE
    return removed


def _first(rows: Ints, reads: ReadArrays, *, with_offset: bool) -> Ints:
    """Of ``rows``, the first by time of each message (and offset), in the order of the table."""
    if not len(rows):
        return rows
    ordered = rows[np.argsort(reads.ns[rows], kind="stable")]
    columns = [reads.writer[ordered].astype(np.int64), reads.seq[ordered]]
    columns += [reads.offset[ordered]] if with_offset else []
    _, first = np.unique(np.stack(columns, axis=1), axis=0, return_index=True)
    return np.sort(ordered[first])


# ---- the order in which they received it


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Suspicious steps of streams from one read to the next, one entry per step.

    A step back is an anomaly by itself. A step ahead is one if the reader should have received messages
    between ``low`` and ``offset``, both excluded. A step ``past`` what a member received is that member's
    commit.
    """

    back: Flags
    past: Flags
    reader: Ints
    """The reader that received ``offset``, or committed it."""
    before_reader: Ints
    """The reader that received the record before it, and when."""
    before_ns: Ints
    group: Texts
    low: Ints
    offset: Ints
    writer: Ints
    seq: Ints
    ns: Ints
    uncommitted: Flags
    """The reader also asked for records of open and aborted transactions."""
    since_ns: Ints
    """What the stream received from this time on …"""
    until_ns: Ints
    """… up to this time was not skipped: nobody sought in between."""

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, rows: Ints) -> Steps:
        """Some of them."""
        return Steps(**{name: values[rows] for name, values in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """Pairs of successive reads of a stream (as rows) whose offsets do not follow each other."""

    before: Ints
    after: Ints
    back: Flags
    low: Ints
    undone: Flags
    """The reader went back to what it had received in transactions that were not committed."""

    def take(self, rows: Ints | Flags) -> _Pairs:
        return _Pairs(**{name: values[rows] for name, values in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class _Commits:
    """A commit for each of some reads; -1: there is none."""

    offset: Ints
    ns: Ints
    reader: Ints


def suspicious_steps(reads: ReadArrays, events: Sequence[GroupRow], reference: Log) -> Steps:
    """Steps that no event of a group explains, as far as the reference log alone can tell."""
    pairs, skipping, commits = _repositioned(reads, events, _pairs(reads))
    before, after = reads.offset[pairs.before], reads.offset[pairs.after]
    suspicious = np.zeros(len(after), dtype=bool)
    past = np.zeros(len(skipping.after), dtype=bool)
    if len(reference):
        place = reference.at(before)
        stood = (place >= 0) & (reference.writer[place] == reads.writer[pairs.before])
        stood &= reference.seq[place] == reads.seq[pairs.before]
        messages = reference.offset[reference.intact & reference.at_home & ~reference.control]
        passed = np.searchsorted(messages, after, "left") - np.searchsorted(messages, pairs.low, "right")
        # If the record that it had read is no longer at its offset, the reader had to go back.
        suspicious = np.where(pairs.back, stood, passed > 0)
        passed = np.searchsorted(messages, commits.offset, "left")
        past = passed > np.searchsorted(messages, skipping.low, "right")
    pairs, skipping = pairs.take(suspicious), skipping.take(past)
    since, until = _runs(reads, events, pairs)
    steps, count = pairs.after, len(skipping.before)
    # A commit has no message. It concerns the reader of the record before it.
    no_message = np.full(count, -1, dtype=np.int64)
    rows = np.concatenate([steps, skipping.before])
    before_rows = np.concatenate([pairs.before, skipping.before])
    return Steps(
        back=np.concatenate([pairs.back, np.zeros(count, dtype=bool)]),
        past=np.concatenate([np.zeros(len(steps), dtype=bool), np.ones(count, dtype=bool)]),
        reader=reads.reader[rows].astype(np.int64),
        before_reader=reads.reader[before_rows].astype(np.int64),
        before_ns=reads.ns[before_rows],
        group=reads.group_names(rows),
        low=np.concatenate([pairs.low, skipping.low]),
        offset=np.concatenate([reads.offset[steps], commits.offset[past]]),
        writer=np.concatenate([reads.writer[steps].astype(np.int64), no_message]),
        seq=np.concatenate([reads.seq[steps], no_message]),
        ns=np.concatenate([reads.ns[steps], commits.ns[past]]),
        uncommitted=reads.uncommitted[rows],
        since_ns=np.concatenate([since, np.full(count, -FOREVER)]),
        until_ns=np.concatenate([until, np.full(count, FOREVER)]),
    )


def _pairs(reads: ReadArrays) -> _Pairs:
    streams = reads.streams()
    order = np.lexsort((reads.ns, streams))
    before, after = order[:-1], order[1:]
    step = reads.offset[after] - reads.offset[before]
    odd = (streams[before] == streams[after]) & (step != 1)
    before, after, back = before[odd], after[odd], step[odd] <= 0
    undone = back & (reads.offset[after] >= _floors(reads, streams, order)[before])
    undone &= reads.undone[after] != reads.undone[before]
    return _Pairs(before=before, after=after, back=back, low=reads.offset[before], undone=undone)


def _floors(reads: ReadArrays, streams: Ints, order: Ints) -> Ints:
    """How far each reader may go back after each read: through successive transactions without a commit."""
    if (reads.undone < 0).all():
        return reads.floor
    floors = reads.floor.copy()
    inside = floors[order] != FOREVER
    follows = inside[1:] & inside[:-1] & (streams[order][1:] == streams[order][:-1])
    starts = np.flatnonzero(inside & ~np.append(False, follows))
    ends = np.flatnonzero(inside & ~np.append(follows, False)) + 1
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        rows = order[start:end]
        floors[rows] = np.minimum.accumulate(floors[rows])
    return floors


def _repositioned(
    reads: ReadArrays, events: Sequence[GroupRow], pairs: _Pairs
) -> tuple[_Pairs, _Pairs, _Commits]:
    """Steps that no seek, assignment or commit explains, and commits past the first read.

    A new position within a group is the group's committed offset. A lower position is a replay, and a higher
    one skips the records in between. A group that never committed starts wherever its configuration says.
    """
    grouped = reads.group[pairs.after] >= 0
    moved = _newest(reads, events, pairs, "sought") > -FOREVER
    assigned_ns = _newest(reads, events, pairs, "assigned")
    assigned = assigned_ns > -FOREVER
    moved |= (assigned | pairs.undone) & ~grouped
    handover = grouped & (assigned | (reads.reader[pairs.before] != reads.reader[pairs.after]))
    read_ns = reads.ns[pairs.after]
    at_least_once = grouped & pairs.back
    at_least_once &= reads.offset[pairs.after] >= _committed(reads, events, pairs.after, read_ns).offset
    # A member does not begin at an offset that it commits itself.
    committed = _committed(reads, events, pairs.after, assigned_ns)
    other = _committed(reads, events, pairs.after, read_ns, by_others=True)
    start, start_ns, committer = (
        np.where(assigned, getattr(committed, name), getattr(other, name))
        for name in ("offset", "ns", "reader")
    )
    fresh = handover & ~pairs.back & (start < 0)
    low = np.where(handover & ~pairs.back, np.maximum(pairs.low, start - 1), pairs.low)
    kept = replace(pairs, low=low)
    past = handover & ~moved & ~pairs.back & (start - 1 > pairs.low)
    past &= (committer == reads.reader[pairs.before]) & (start_ns > reads.ns[pairs.before])
    rows = [row for row in np.flatnonzero(past).tolist() if _stayed(reads, events, pairs, row, start_ns)]
    chosen = np.array(rows, dtype=np.int64)
    commits = _Commits(offset=start[chosen], ns=start_ns[chosen], reader=committer[chosen])
    return kept.take(~(moved | at_least_once | fresh)), pairs.take(chosen), commits


def _stayed(reads: ReadArrays, events: Sequence[GroupRow], pairs: _Pairs, row: int, until_ns: Ints) -> bool:
    """Whether a member had the partition assigned, and nothing moved it from its read to its commit."""
    reader, since = int(reads.reader[pairs.before[row]]), int(reads.ns[pairs.before[row]])
    own_events = [
        event
        for event in events
        if event.reader == reader and event.ns <= until_ns[row] and event.event in POSITIONED
    ]
    return any(event.event == "assigned" for event in own_events) and all(
        event.ns < since for event in own_events
    )


def _newest(reads: ReadArrays, events: Sequence[GroupRow], pairs: _Pairs, kind: str) -> Ints:
    """When the reader last had such an event between the two reads; -FOREVER: never."""
    event_ns = np.full(len(pairs.after), -FOREVER, dtype=np.int64)
    reader, since, until = reads.reader[pairs.after], reads.ns[pairs.before], reads.ns[pairs.after]
    for event in events:
        if event.event == kind:
            between = (reader == event.reader) & (since <= event.ns) & (event.ns <= until)
            event_ns[between] = np.maximum(event_ns[between], event.ns)
    return event_ns


def _committed(
    reads: ReadArrays, events: Sequence[GroupRow], rows: Ints, at_ns: Ints, *, by_others: bool = False
) -> _Commits:
    """The newest commit of each read's group up to a time; or the newest of its other members."""
    newest_commits = np.full((3, len(rows)), -1, dtype=np.int64)
    for position, name in enumerate(reads.groups):
        commits = [e for e in events if e.event == "committed" and e.group == name and e.offset >= 0]
        commits.sort(key=lambda event: (event.ns, event.offset, event.reader))
        of_group = np.flatnonzero(reads.group[rows] == position)
        for reader in np.unique(reads.reader[rows[of_group]]).tolist() if by_others else (None,):
            counted = [event for event in commits if reader is None or event.reader != reader]
            times = np.array([event.ns for event in counted], dtype=np.int64)
            values = [(-1, -1, -1), *((event.offset, event.ns, event.reader) for event in counted)]
            chosen = of_group if reader is None else of_group[reads.reader[rows[of_group]] == reader]
            newest = np.searchsorted(times, at_ns[chosen], side="right")
            newest_commits[:, chosen] = np.array(values, dtype=np.int64)[newest].T
    return _Commits(offset=newest_commits[0], ns=newest_commits[1], reader=newest_commits[2])


def _runs(reads: ReadArrays, events: Sequence[GroupRow], pairs: _Pairs) -> tuple[Ints, Ints]:
    """The time around each step in which no reader of the stream sought."""
    since = np.full(len(pairs.after), -FOREVER, dtype=np.int64)
    until = np.full(len(pairs.after), FOREVER, dtype=np.int64)
    before, after = reads.ns[pairs.before], reads.ns[pairs.after]
    reader, group = reads.reader[pairs.after], reads.group[pairs.after]
    for event in events:
        if event.event != "sought":
            continue
        position = reads.groups.index(event.group) if event.group in reads.groups else -2
        concerned = np.where(group >= 0, group == position, reader == event.reader)
        since = np.where(concerned & (event.ns <= before), np.maximum(since, event.ns), since)
        until = np.where(concerned & (event.ns >= after), np.minimum(until, event.ns), until)
    return since, until


@dataclass(frozen=True, kw_only=True)
class SkippedMessages:
    """Per step ahead: how many messages the reader should have received, and the first of them (else -1)."""

    count: Ints
    offset: Ints
    writer: Ints
    seq: Ints


def missed(jumps: Steps, reference: Log, sends: SendArrays, reads: ReadArrays) -> SkippedMessages:
    """The messages that each step ahead passed over.

    Not counted are messages that were sent after the read, messages that a reader of committed records must
    not see, and messages that the stream received before or after without a seek in between.
    """
    count = np.zeros(len(jumps), dtype=np.int64)
    first = np.full(len(jumps), -1, dtype=np.int64)
    places = np.flatnonzero((reference.row >= 0) & reference.intact)
    offsets = reference.offset[places]
    lows = np.searchsorted(offsets, jumps.low, side="right")
    highs = np.searchsorted(offsets, jumps.offset, side="left")
    streams = reads.streams()
    handed: dict[tuple[int, int, int], Ints] = {}
    for number in np.flatnonzero(highs > lows).tolist():
        rows = reference.row[places[lows[number] : highs[number]]]
        due = sends.sent_ns[rows] <= jumps.ns[number]
        if not jumps.uncommitted[number]:
            due &= sends.visible[rows]
        if not due.any():
            continue
        name = jumps.group[number]
        if name is None:
            stream = int(jumps.reader[number])
        else:
            stream = -1 - reads.groups.index(name) if name in reads.groups else FOREVER
        run = (stream, int(jumps.since_ns[number]), int(jumps.until_ns[number]))
        if run not in handed:
            within = (streams == stream) & (reads.row >= 0) & (reads.ns >= run[1]) & (reads.ns <= run[2])
            handed[run] = np.unique(reads.row[within])
        due &= ~np.isin(rows, handed[run])
        passed = np.flatnonzero(due)
        if len(passed):
            count[number], first[number] = len(passed), places[lows[number] + passed[0]]
    some = first >= 0
    at = np.where(some, first, 0)
    columns = {
        name: np.where(some, getattr(reference, name)[at], -1) if len(reference) else first
        for name in ("offset", "writer", "seq")
    }
    return SkippedMessages(count=count, **columns)
