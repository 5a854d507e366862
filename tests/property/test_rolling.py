"""A rolling judgement equals that of the whole: same fates, same findings, wherever windows are closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import numpy as np
import pytest

from checkers.partition.fate import CODE, FATES
from checkers.partition.fates import (
    claimed_offsets,
    decide,
    explained_offsets,
    flagged,
    out_of_order,
    recognise,
)
from checkers.partition.logs import CopyArrays, PartitionReplicas, Replica, logs_of
from checkers.partition.messages import EMPTY, FAIL, INFO, NO_HOMES, OK, KeyIndex, SendArrays, no_reads
from checkers.partition.replicas import differences, odd_records
from checkers.partition.rolling import RollingPartition, Window, sends_of

BROKERS = (1, 2, 3)
Record = tuple[int, int, int, bool]
"""Epoch, writer, number, intact."""
Log = dict[int, Record]
_KINDS = {
    **{"ok": 60, "fail": 3, "info": 3, "info stands": 3, "phantom": 1},
    **{"unplaced": 1, "twice": 3, "late": 3, "moved": 1, "claims": 1},
}
"""What becomes of a message, and how often."""


class Sent:
    """All messages, in memory."""

    def __init__(self, rows: SendArrays) -> None:
        self.rows = rows

    def between(self, writer: int, first: int, last: int) -> SendArrays:
        """Some of them."""
        rows = self.rows
        return some(rows, (rows.writer == writer) & (rows.seq >= first) & (rows.seq <= last))


def some(rows: SendArrays, chosen: np.ndarray) -> SendArrays:
    return SendArrays(**{name: values[chosen] for name, values in vars(rows).items()})


def copies(log: Log, low: int = 0, high: int = 10**9) -> CopyArrays:
    items = [(offset, *record) for offset, record in sorted(log.items()) if low <= offset < high]
    offset, epoch, writer, seq, intact = (
        (np.array(column, dtype=np.int64) for column in zip(*items, strict=True)) if items else [EMPTY] * 5
    )
    count = len(items)
    return CopyArrays(
        offset=offset,
        epoch=epoch,
        writer=writer,
        seq=seq,
        intact=intact.astype(bool),
        at_home=np.ones(count, dtype=bool),
        control=np.zeros(count, dtype=bool),
        batch_crc=np.full(count, -1, dtype=np.int64),
    )


class Run:
    """A partition's history: logs that grow, differ and are truncated, and what the clients were told."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.logs: dict[int, Log] = {broker: {} for broker in BROKERS}
        self.sends: dict[tuple[int, int], tuple[int, int]] = {}
        self.next = {1: 0, 2: 0}
        self.epoch = 0
        self.leader = 1
        self.end = 0

    def append(self, writer: int, seq: int, brokers: tuple[int, ...]) -> int:
        offset, self.end = self.end, self.end + 1
        for broker in brokers:
            self.logs[broker][offset] = (self.epoch, writer, seq, True)
        return offset

    def grow(self, brokers: tuple[int, ...]) -> None:
        random, before, known = self.random, self.end, dict(self.next)
        for _ in range(random.randrange(1, 12)):
            writer = random.choice((1, 2))
            seq = self.next[writer]
            self.next[writer] += 1
            kind = random.choices(
                (
                    "ok",
                    "fail",
                    "info",
                    "info stands",
                    "phantom",
                    "unplaced",
                    "twice",
                    "late",
                    "moved",
                    "claims",
                ),
                (60, 3, 3, 3, 1, 1, 3, 3, 1, 1),
            )[0]
            if kind in ("fail", "info"):
                self.sends[writer, seq] = (FAIL if kind == "fail" else INFO, -1)
                continue
            if kind == "claims":  # acknowledged at the offset of another record
                self.sends[writer, seq] = (OK, random.randrange(max(1, self.end)))
                continue
            offset = self.append(writer, seq, brokers)
            outcome = {"info stands": INFO, "phantom": FAIL}.get(kind, OK)
            placed = kind not in ("unplaced", "info stands", "phantom")
            if kind == "twice":  # the second copy is acknowledged, perhaps much later
                offset = self.append(writer, seq, brokers)
            if kind == "late" and self.sends:
                self.append(*random.choice(sorted(self.sends)), brokers)
            self.sends[writer, seq] = (outcome, (offset + (kind == "moved")) if placed else -1)
        if random.random() < 0.2:
            self.append(9, random.randrange(5), brokers)
        if random.random() < 0.3 and self.end > before + 2:
            self.swap(brokers, random.randrange(before, self.end - 1), known)

    def swap(self, brokers: tuple[int, ...], at: int, known: Mapping[int, int]) -> None:
        """Two new neighbours stand in the other order, and were acknowledged there."""
        log = self.logs[self.leader]
        if (
            at not in log
            or at + 1 not in log
            or any(log[at + n][2] < known.get(log[at + n][1], 9) for n in (0, 1))
        ):
            return
        for broker in brokers:
            held = self.logs[broker]
            if at in held and at + 1 in held:
                held[at], held[at + 1] = held[at + 1], held[at]
        new = {self.logs[self.leader][offset][1:3]: offset for offset in (at, at + 1)}
        for key, offset in new.items():
            if key in self.sends and self.sends[key] in ((OK, at), (OK, at + 1)):
                self.sends[key] = (OK, offset)

    def truncate(self, floor: int) -> int:
        """An unclean election: what the old leader held from some offset on is gone."""
        at = self.random.randrange(max(floor, self.end - 20), self.end + 1)
        for broker in BROKERS:
            self.logs[broker] = {o: r for o, r in self.logs[broker].items() if o < at}
        self.end, self.epoch = at, self.epoch + 1
        return at

    def damage(self, floor: int) -> int:
        """Something happens to one replica, at an offset that is returned."""
        if self.end <= floor:
            return floor
        random = self.random
        at, broker = random.randrange(floor, self.end), random.choice(BROKERS)
        log = self.logs[broker]
        if at not in log:
            return at
        kind = random.choice(("corrupt", "nameless", "drop", "other", "epoch", "short", "corrupt all"))
        epoch, writer, seq, _ = log[at]
        if kind == "corrupt":
            log[at] = (epoch, writer, seq, False)
        elif kind == "nameless":
            log[at] = (epoch, -1, -1, False)
        elif kind == "drop":
            del log[at]
        elif kind == "other":
            log[at] = (epoch, 2, random.randrange(max(1, self.next[2])), True)
        elif kind == "epoch":
            log[at] = (epoch + 7, writer, seq, True)
        elif kind == "short":
            self.logs[broker] = {o: r for o, r in log.items() if o < at}
        else:
            for one in self.logs.values():
                if at in one:
                    one[at] = (*one[at][:3], False)
        return at

    def rows(self) -> SendArrays:
        keys = sorted(self.sends)
        columns = [
            [writer for writer, _ in keys],
            [seq for _, seq in keys],
            [self.sends[key][0] for key in keys],
            [self.sends[key][1] for key in keys],
            [1000 + seq for _, seq in keys],
        ]
        return sends_of(*(np.array(column, dtype=np.int64) for column in columns))


def judged(
    sends: SendArrays, logs: Mapping[int, CopyArrays], final: Mapping[int, Log], leader: int
) -> tuple[Counter[object], set[object]]:
    """Fates by writer and outcome, and findings, as the kernel decides them."""
    spans = {broker: (min(log), max(log)) for broker, log in final.items() if log}
    replicas = {
        broker: Replica(broker=broker, log_start=0, leo=max(log, default=-1) + 1, leader=broker == leader)
        for broker, log in final.items()
    }
    partition = PartitionReplicas(topic="t", number=0, replicas=replicas, reference=leader, spans=spans)
    index = KeyIndex(sends.writer, sends.seq, "t/0")
    held = logs_of(partition, index, {b: log for b, log in logs.items() if len(log.offset)}, NO_HOMES)
    reads = no_reads()
    held = recognise(partition, sends, held, reads)
    fates = decide(partition, sends, held, reads)
    counts = Counter[object](
        zip(sends.writer.tolist(), sends.outcome.tolist(), fates.fate.tolist(), strict=True)
    )
    own, late = flagged(partition, fates, held), out_of_order(sends, fates)
    offsets = fates.found_offset
    found: set[object] = {
        (
            FATES[fates.fate[row]].name,
            int(sends.writer[row]),
            int(sends.seq[row]),
            int(offsets[row]),
        )
        for row in own.tolist()
    }
    found |= {("out of order", int(sends.writer[row]), int(sends.seq[row])) for row in late.tolist()}
    odd = odd_records(partition, held)
    claimed = claimed_offsets(sends, held, fates)
    reported = np.unique(np.concatenate([odd.offset, claimed, explained_offsets(held, fates)]))
    for records in (odd, differences(partition, held, reported)):
        names = ("kind", "broker", "offset", "epoch", "writer", "seq", "count")
        rows = zip(*(getattr(records, name).tolist() for name in names), strict=True)
        found |= {("record", records is odd, *row) for row in rows}
    return counts, found


class Follower:
    """Judges a run while it lasts, with windows, journals and replicas that come when they come."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.random = run.random
        self.taken = {1: 0, 2: 0}
        self.sent = Sent(run.rows())
        self.partition = RollingPartition(sent=self.sent)
        self.partition.take([run.rows()], {1: 0, 2: 0})
        self.merged = 0

    def take(self, *, everything: bool = False) -> None:
        self.sent.rows = rows = self.run.rows()
        following = {
            writer: end if everything else self.random.randrange(self.taken[writer], end + 1)
            for writer, end in self.run.next.items()
        }
        chosen = np.zeros(len(rows), dtype=bool)
        for writer in following:
            chosen |= (
                (rows.writer == writer) & (rows.seq >= self.taken[writer]) & (rows.seq < following[writer])
            )
        self.taken = following
        self.partition.take([some(rows, chosen)], following)

    def close(self, high: int, brokers: tuple[int, ...]) -> None:
        low, leader = self.partition.judged, self.run.leader
        here = {b: {o: r for o, r in self.run.logs[b].items() if low <= o < high} for b in brokers}
        equal = [b for b in brokers if here[b] == here[leader] and b != leader]
        logs = {b: copies(here[b]) for b in brokers if b not in equal}
        self.partition.close(high, leader, logs, equal)

    def advance(self) -> None:
        low = self.partition.judged
        high = self.random.randrange(low, self.run.end + 1)
        if high > low:
            others = [
                broker for broker in BROKERS if broker != self.run.leader and self.random.random() < 0.7
            ]
            self.close(high, (self.run.leader, *others))

    def finish(self) -> None:
        """Compare every replica with every window, as at the end of a run."""
        self.take(everything=True)
        for window in list(self.partition.windows):
            for broker in BROKERS:
                if broker in window.equal:
                    continue
                if not self.same(window, broker):
                    self.partition.rewind(window.low)
                    break
                self.partition.confirm(broker, window)
            else:
                continue
            break
        while self.partition.judged < self.run.end:
            self.close(min(self.run.end, self.partition.judged + self.random.randrange(1, 30)), BROKERS)

    def same(self, window: Window, broker: int) -> bool:
        held, reference = (
            {o: r for o, r in self.run.logs[b].items() if window.low <= o < window.high}
            for b in (broker, window.broker)
        )
        return held == reference

    def merge(self) -> None:
        below = self.partition.judged - 25
        if self.random.random() < 0.5:  # it is killed, and goes on from what it has stored
            stored, self.partition = self.partition.state(), RollingPartition(sent=self.sent)
            self.partition.restore(stored, self.taken)
        for window in self.partition.windows:
            for broker in BROKERS:
                if window.high <= below and broker not in window.equal and self.same(window, broker):
                    self.partition.confirm(broker, window)
        self.partition.merge(below)
        if self.partition.windows:
            self.merged = max(self.merged, self.partition.windows[0].high if below > 0 else 0)


@pytest.mark.parametrize("block", range(8))
def test_rolling_judgement_is_that_of_the_whole(block: int) -> None:
    seen = Counter[str]()
    for seed in range(block * 60, block * 60 + 60):
        run = Run(seed)
        follower = Follower(run)
        for _ in range(run.random.randrange(1, 14)):
            run.grow(BROKERS)
            for _ in range(run.random.randrange(3)):
                run.random.choice((follower.take, follower.advance))()
            if run.random.random() < 0.25:
                follower.partition.rewind(run.truncate(follower.merged))
                seen["truncated"] += 1
            if run.random.random() < 0.1:
                follower.merge()
        for _ in range(run.random.choice((0, 0, 1, 2))):
            follower.partition.rewind(run.damage(follower.merged))
        follower.finish()
        whole, found = judged(
            run.rows(), {b: copies(log) for b, log in run.logs.items()}, run.logs, run.leader
        )
        rest = follower.partition.rest(BROKERS)
        counts, rolling = judged(rest.sends, rest.copies, run.logs, run.leader)
        for writer, count in follower.partition.settled.items():
            counts[writer, OK, CODE["kept"]] += count
        for (writer, outcome), count in follower.partition.absent.items():
            fate = CODE["failed" if outcome == FAIL else "unknown_dropped"]
            counts[writer, outcome, fate] += count
        assert +counts == +whole, f"seed {seed}"
        assert rolling == found, f"seed {seed}"
        seen["settled"] += follower.partition.settled.total()
        seen["messages"] += len(run.sends)
        seen.update(str(one[0]) for one in found)
    assert seen["settled"] > seen["messages"] / 20
    assert {"truncated", "lost", "duplicated", "out of order", "record"} <= set(seen)
