"""What became of each message of one topic partition: vectorised, pure, arrays in and arrays out.

The *reference* is the log that counts: the leader's where it is known, else the most advanced replica. A
message is lost only if no replica holds it. Absence proves nothing unless the final read was whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkers.partition.fate import CODE
from checkers.partition.keys import KeyIndex
from harness.errors import BadDataError

OK, FAIL, INFO = 0, 1, 2
MOST_REPLICAS = 62
"""The holders of a message are bits of one number."""

FATE_NAMES = tuple(CODE)
FATE = CODE


@dataclass(frozen=True)
class Sends:
    """Columns of `sends` that decide a fate; -1 stands for null."""

    writer: Any
    seq: Any
    outcome: Any
    offset: Any

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True)
class Log:
    """One replica's final log, by rising offset; ``row`` is the message in `sends`, -1 if nobody sent it.

    ``good`` marks records that count as a copy of their message: not a marker, intact, at home.
    """

    broker: int
    offset: Any
    epoch: Any
    writer: Any
    seq: Any
    good: Any
    intact: Any
    home: Any
    control: Any
    row: Any
    foreign: Any
    """Intact records that name no message of this partition: sent by nobody, or sent elsewhere."""

    def at(self, offsets: Any) -> Any:
        """Position of each offset in this log, -1 where it holds none."""
        if not len(self.offset):
            return np.full(len(offsets), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self.offset, offsets), len(self.offset) - 1)
        return np.where(self.offset[place] == offsets, place, -1)


@dataclass(frozen=True)
class Replica:
    """What is known of one replica at the end (its row in `replicas`)."""

    broker: int
    complete: bool = True
    log_start: int = -1
    leo: int = -1
    leader: bool = False
    in_sync: bool | None = None
    compacted: bool = False


@dataclass(frozen=True)
class Context:
    """One topic partition: its replicas, the reference among them, and whether absence proves anything."""

    topic: str
    partition: int
    replicas: Mapping[int, Replica] = field(default_factory=dict)
    reference: int = -1
    conclusive: bool = True
    compacted: bool = False
    spans: Mapping[int, tuple[int, int]] | None = None
    """First and last offset of each replica, when the logs at hand are but a piece of it."""

    @property
    def name(self) -> str:
        """`topic/partition`, as messages name their home."""
        return f"{self.topic}/{self.partition}"


def empty_log(broker: int) -> Log:
    """The log of a replica that has no record in a piece."""
    numbers, flags = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    return Log(broker, numbers, numbers, numbers, numbers, flags, flags, flags, flags, numbers, flags)


def choose_reference(
    replicas: Mapping[int, Replica], ends: Mapping[int, tuple[int, int]], listed: bool
) -> tuple[int, bool]:
    """The reference broker (-1: none) and whether absence from the logs proves a loss.

    ``ends`` gives last epoch and last offset of each replica that holds records; ``listed`` says that the
    history has a `replicas` table, so that a partition without rows there was never read.
    """
    if listed and not replicas:
        return _most_advanced(ends), False
    leaders = [replica for replica in replicas.values() if replica.leader]
    if len(leaders) == 1 and leaders[0].complete:
        return leaders[0].broker, True
    whole = [replica for replica in replicas.values() if replica.complete]
    best = [r for r in whole if r.in_sync is not False] or whole
    if listed:
        among = {r.broker: ends.get(r.broker, (-1, r.leo - 1)) for r in best} or dict(ends)
    else:
        among = dict(ends)
    conclusive = not leaders and bool(whole or not listed) and len(whole) == len(replicas)
    return _most_advanced(among), conclusive


def _most_advanced(ends: Mapping[int, tuple[int, int]]) -> int:
    return max(ends, key=lambda broker: (*ends[broker], -broker)) if ends else -1


def split_logs(
    context: Context,
    index: KeyIndex,
    copies: Mapping[str, Any],
    seqs: tuple[int, int] | None = None,
) -> list[Log]:
    """Copies as one log per replica, by offset. Raises BadDataError for two records at one offset.

    ``seqs`` says that the index knows sequences from the first up to below the second only: of records
    outside nothing is claimed.
    """
    broker = copies["broker"]
    logs = []
    for number in np.flatnonzero(np.bincount(broker)) if len(broker) else ():
        rows = np.flatnonzero(broker == number)
        if len(rows) == rows[-1] - rows[0] + 1:
            part = {name: values[rows[0] : rows[-1] + 1] for name, values in copies.items()}
        else:
            part = {name: values[rows] for name, values in copies.items()}
        steps = np.diff(part["offset"])
        if len(steps) and int(steps.min()) < 0:
            order = np.argsort(part["offset"], kind="stable")
            part = {name: values[order] for name, values in part.items()}
            steps = np.diff(part["offset"])
        if len(steps) and not np.all(steps):
            twice = int(part["offset"][np.flatnonzero(steps == 0)[0]])
            raise BadDataError(
                f"copies of {context.name} hold two records at offset {twice} of broker {int(number)}; "
                f"a replica has one record per offset."
            )
        good = part["intact"] & part["home"] & ~part["control"]
        row = np.where(good, index.find(part["writer"], part["seq"]), np.int32(-1))
        stray = good & (row < 0)
        if seqs is not None:
            stray &= (part["seq"] < 0) | ((part["seq"] >= seqs[0]) & (part["seq"] < seqs[1]))
        logs.append(
            Log(
                int(number),
                part["offset"],
                part["epoch"],
                part["writer"],
                part["seq"],
                good,
                part["intact"],
                part["home"],
                part["control"],
                row,
                stray,
            )
        )
    return logs


@dataclass(frozen=True)
class Fates:
    """One entry per message of `sends`."""

    fate: Any
    copies: Any
    found_offset: Any
    found_epoch: Any
    extra_offset: Any
    """The first further offset of a duplicated message, -1 else."""
    holders: Any
    """Bit mask of the logs (by position in the list) that hold the message."""
    overwriter: Any
    """Position in the reference log of what stands at the offset of an absent message, -1 else."""


def decide(context: Context, sends: Sends, logs: list[Log], read: Any) -> Fates:
    """The fate of every message; ``read`` counts how often each was handed to a reader."""
    if len(logs) > MOST_REPLICAS:
        raise BadDataError(
            f"copies of {context.name} are of {len(logs)} replicas, and the fast plan holds at most "
            f"{MOST_REPLICAS}; judge them with --plan general."
        )
    count = len(sends)
    holders = np.zeros(count, dtype=np.int64)
    for bit, log in enumerate(logs):
        mine = np.zeros(count, dtype=bool)
        mine[log.row[log.row >= 0]] = True
        holders |= mine.astype(np.int64) << bit
    reference = next((log for log in logs if log.broker == context.reference), None)
    copies, found_offset, found_epoch, extra = _places(count, sends, reference)
    present = holders != 0
    outcome, offset = sends.outcome, sends.offset
    ok = outcome == OK
    absent = ok & ~present
    fate = np.full(count, FATE["kept"], dtype=np.int8)
    fate[ok & (found_offset != offset) & (offset >= 0)] = FATE["moved"]
    fate[ok & present & (copies == 0)] = FATE["diverged"]
    fate[absent] = FATE["lost"]
    fate[absent & (read > 0)] = FATE["lost_after_read"]
    fate[(outcome == INFO) & (copies == 1)] = FATE["unknown_kept"]
    fate[(outcome == INFO) & (copies == 0)] = FATE["unknown_dropped"]
    fate[(outcome != FAIL) & (copies > 1)] = FATE["duplicated"]
    fate[(outcome == FAIL) & ~present] = FATE["failed"]
    fate[(outcome == FAIL) & present] = FATE["phantom"]
    overwriter = _explain_absence(context, sends, logs, reference, absent, fate)
    if not context.conclusive:
        unknown = np.isin(fate, [FATE[n] for n in ("lost", "lost_after_read", "unknown_dropped", "failed")])
        fate[unknown & ~present] = FATE["undetermined"]
        fate[fate == FATE["diverged"]] = FATE["kept"]
    return Fates(fate, copies, found_offset, found_epoch, extra, holders, overwriter)


def _places(count: int, sends: Sends, log: Log | None) -> tuple[Any, Any, Any, Any]:
    """Copies in the reference log, the offset and epoch that are the message's own, and a further offset."""
    found = np.full(count, -1, dtype=np.int64)
    epoch = np.full(count, -1, dtype=np.int32)
    extra = np.full(count, -1, dtype=np.int64)
    if log is None:
        return np.zeros(count, dtype=np.int32), found, epoch, extra
    held = np.flatnonzero(log.row >= 0)
    rows, offsets = log.row[held], log.offset[held]
    copies = np.bincount(rows, minlength=count).astype(np.int32)
    found[rows[::-1]], epoch[rows[::-1]] = offsets[::-1], log.epoch[held][::-1]
    exact = np.flatnonzero(sends.offset[rows] == offsets)
    found[rows[exact]], epoch[rows[exact]] = offsets[exact], log.epoch[held[exact]]
    other = np.flatnonzero((copies[rows] > 1) & (found[rows] != offsets))
    extra[rows[other][::-1]] = offsets[other][::-1]
    return copies, found, epoch, extra


def _explain_absence(
    context: Context, sends: Sends, logs: list[Log], reference: Log | None, absent: Any, fate: Any
) -> Any:
    overwriter = np.full(len(sends), -1, dtype=np.int64)
    where = np.flatnonzero(absent & (sends.offset >= 0))
    for log in logs:
        damaged = np.flatnonzero(~log.intact)
        if not len(damaged):
            continue
        bad = np.isin(sends.offset[where], log.offset[damaged])
        fate[where[bad]] = FATE["corrupt"]
    if reference is not None:
        place = reference.at(sends.offset[where])
        hit = place >= 0
        overwriter[where[hit]] = place[hit]
        stray = np.zeros(len(where), dtype=bool)
        stray[hit] = reference.foreign[place[hit]]
        stray &= np.isin(fate[where], [FATE["lost"], FATE["lost_after_read"]])
        fate[where[stray]] = FATE["overwritten"]
    known = context.replicas.get(context.reference)
    start = known.log_start if known is not None else -1
    gone = sends.offset[where] < start
    if context.compacted:
        gone |= _below_end(sends.offset[where], known, reference)
    gone &= overwriter[where] < 0
    fate[where[gone]] = FATE["retired"]
    return overwriter


def _below_end(offsets: Any, known: Replica | None, reference: Log | None) -> Any:
    if known is not None and known.leo >= 0:
        return offsets < known.leo
    end = int(reference.offset[-1]) if reference is not None and len(reference.offset) else -1
    return offsets <= end
