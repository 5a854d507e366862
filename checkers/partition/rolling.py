"""Rolling judgement: closed windows of a topic partition's log leave memory, and what they held still counts.

A window is a range of offsets that was read from the leader and compared with the other replicas. Of its
records, those are *settled* whose message was acknowledged at that very offset, stands there on every
replica that was compared, and stands nowhere else as far as is known. Nothing that comes later changes what
the kernel says of any other message because of them, so they are counted and forgotten. So are messages that
failed, or whose outcome is unknown, and that no log holds. All else is the *rest*: messages and records that
the kernel (`checkers.partition.fates` and the others) judges at the end, or at any time, as it judges a
stored partition. So there is one judge: a rolling judgement is that of the rest, and the settled counts.

What comes later can make a settled message part of the rest again: another copy of it, a message that was
acknowledged at the offset of its record, or a truncation (`rewind`). Its row is then read again from the
journal of its stream (`SentRows`), so that memory need not hold it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from checkers.partition.decisions import ProducerRecords
from checkers.partition.ledger import NOTHING, Ledger, followed_by, joined
from checkers.partition.logs import CopyArrays, together
from checkers.partition.messages import EMPTY, FAIL, INFO, OK, Flags, Ints, SendArrays, distinct

_SEQ_BITS = 34
"""Sequence numbers of streams have ten digits (`harness.history.identity.SEQ_DIGITS`)."""
_AHEAD = 1 << 20
"""How far a stream may be ahead of those of its messages that have ended, at most."""
_GAP = 4096
"""Sequence numbers that are further apart are looked up separately."""


class SentRows(Protocol):
    """The messages that were sent to one topic partition."""

    def between(self, writer: int, first: int, last: int) -> SendArrays:
        """A writer's messages to the partition with numbers from ``first`` to ``last``, by number."""

    def transaction_of(self, writer: Ints, seq: Ints) -> Ints:
        """The number of each message's transaction, -1 if it is in none."""


@dataclass(kw_only=True)
class Window:
    """A closed range of offsets, ``low`` included and ``high`` not."""

    low: int
    high: int
    broker: int
    """The replica that it was read from: the reference."""
    digest: int
    """Digest of its batches there; 0: none."""
    size_bytes: int
    """Size of these batches."""
    equal: set[int]
    """Replicas that hold the same, the reference included."""
    records: dict[int, CopyArrays]
    """The rest of its records: those of the reference, and of each replica that differs."""
    epochs: tuple[Ints, Ints]
    """Offsets from which on the reference has another leader epoch, and these epochs."""
    settled: Counter[int]
    """Acknowledged messages that are settled here, by writer."""
    spans: dict[int, tuple[int, int]]
    """Lowest and highest number of the messages here, by writer."""
    highest: dict[int, int]
    """Highest number of each writer here or in an earlier window."""
    ledger: Ledger = NOTHING
    """What its records and markers say of transactions."""

    def epoch_at(self, offsets: Ints) -> Ints:
        """Leader epoch of the reference's records at some offsets."""
        starts, epochs = self.epochs
        return epochs[np.searchsorted(starts, offsets, side="right") - 1]


@dataclass(kw_only=True)
class Rest:
    """What the kernel judges."""

    sends: SendArrays
    copies: Mapping[int, CopyArrays]
    """By broker, of the replicas that were compared."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A rolling judgement as what can be stored: messages are identities, whose rows are in the journals."""

    windows: Sequence[Window]
    frozen: int
    absent: Counter[tuple[int, int]]
    named: Ints
    rest: Ints
    waiting: Ints


@dataclass(kw_only=True)
class RollingPartition:
    """The windows of one topic partition, and the rest."""

    sent: SentRows
    start: int = 0
    """Offset from which on windows are closed."""
    windows: list[Window] = field(default_factory=list)
    absent: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Settled messages that no log holds, by writer and outcome (`FAIL`, `INFO`)."""
    frozen: int = 0
    """The offset below which no record can change any more (`merge`)."""
    _taken: dict[int, int] = field(default_factory=dict)
    """By writer, the number below which all its messages were taken."""
    _waiting: list[SendArrays] = field(default_factory=list)
    """Messages with an offset that no window has reached."""
    _named: Ints = field(default_factory=lambda: EMPTY)
    """Identities in the rest, also of messages that are not taken yet or that nobody sent."""
    _rest: list[SendArrays] = field(default_factory=list)

    @property
    def judged(self) -> int:
        """The offset below which all windows are closed."""
        return self.windows[-1].high if self.windows else self.start

    @property
    def settled(self) -> Counter[int]:
        """Acknowledged messages that are settled, by writer."""
        total = Counter[int]()
        for window in self.windows:
            total.update(window.settled)
        return total

    @property
    def waiting(self) -> int:
        """Messages that wait for a window."""
        return sum(map(len, self._waiting))

    @property
    def oldest_ns(self) -> int:
        """When the oldest of them was sent; 0: none waits."""
        return min((int(rows.sent_ns.min()) for rows in self._waiting if len(rows)), default=0)

    def keep_ends(self) -> None:
        """Make the first and the last record part of the rest: they say where a log begins and ends."""
        if self.windows:
            self.uncover(np.array([self.windows[0].low, self.judged - 1]))

    def expose(self, writer: Ints, seq: Ints) -> None:
        """Make messages part of the rest, and what stands for them in closed windows."""
        named = (writer >= 0) & (seq >= 0)
        self._expose([(writer[named], seq[named])], self.judged)

    def uncover(self, offsets: Ints) -> None:
        """Make the settled messages at some offsets, of closed windows, part of the rest."""
        for window in self.windows:
            if not ((offsets >= window.low) & (offsets < window.high)).any():
                continue
            for rows in self._settled_in(window):
                there = np.flatnonzero(np.isin(rows.offset, offsets))
                self._expose([(rows.writer[there], rows.seq[there])], self.judged)
        self.uncover_markers(offsets)

    @property
    def named(self) -> Ints:
        """Identities in the rest, rising."""
        return self._named

    @property
    def undecided(self) -> int:
        """The lowest offset of a transaction without a marker, or `judged`."""
        open_ = self.windows[-1].ledger.open if self.windows else NOTHING.open
        return min(self.judged, int(open_["first"].min())) if len(open_) else self.judged

    @property
    def ledger(self) -> Ledger:
        """What all windows say of transactions."""
        return joined([window.ledger for window in self.windows] or [NOTHING])

    def transactions_in(self, log: CopyArrays) -> Ints:
        """The number of the transaction that each record names, -1 if it names none, or is damaged."""
        named = log.intact & log.at_home & ~log.control & (log.writer >= 0) & (log.seq >= 0)
        txn = np.full(len(log.offset), -1, dtype=np.int64)
        txn[named] = self.sent.transaction_of(log.writer[named], log.seq[named])
        return txn

    def uncover_markers(self, offsets: Ints) -> None:
        """Make the markers at some offsets part of the rest."""
        for window in self.windows:
            held = window.records[window.broker].offset
            known = window.ledger.markers["offset"]
            wanted = known[np.isin(known, offsets) & ~np.isin(known, held)]
            if len(wanted):
                self._insert(window, _marker_records(wanted, window))

    def highest_seq(self) -> dict[int, int]:
        """The highest number of each writer in a closed window."""
        return self.windows[-1].highest if self.windows else {}

    # ---- what comes in

    def take(self, ended: Sequence[SendArrays], taken: Mapping[int, int]) -> None:
        """Messages that have ended. ``taken``: by writer, the number below which none is still to come.

        Those of all writers come at once, because a message with a lower number than ``taken`` is settled
        unless it is in the rest.
        """
        rows = _joined(ended)
        named = np.isin(identities(rows.writer, rows.seq), self._named)
        placed = (rows.offset >= 0) & (rows.outcome != FAIL)
        late = placed & (rows.offset < self.judged)
        gone = ~placed & ~named & (rows.outcome != OK)
        for outcome in (FAIL, INFO):
            counted = rows.writer[gone & (rows.outcome == outcome)]
            for writer in distinct(counted).tolist():
                self.absent[writer, outcome] += int(np.count_nonzero(counted == writer))
        self._taken.update(taken)
        waits = np.flatnonzero(placed & ~late)
        if len(waits):
            self._waiting.append(_some(rows, waits))
        kept = np.flatnonzero(~gone & ~(placed & ~late))
        if len(kept):
            self._keep(_some(rows, kept))
        if late.any():
            self.uncover(rows.offset[late])

    def close(
        self,
        high: int,
        reference: int,
        logs: Mapping[int, CopyArrays],
        equal: Collection[int],
        digest: int = 0,
        size_bytes: int = 0,
        producers: ProducerRecords | None = None,
    ) -> Window:
        """Close the window from `judged` to ``high``.

        ``logs`` has the records there of the ``reference`` and of each replica that differs; replicas in
        ``equal`` hold what the reference holds. ``producers`` are the records of the reference again; without
        them nothing is known of transactions.
        """
        low, log = self.judged, logs[reference]
        highest = dict(self.highest_seq())
        mine, before = self._due(low, high)
        alike = log.intact.copy()
        for broker, other in logs.items():
            if broker != reference:
                alike &= _same(log, other)
        ledger, marks = NOTHING, np.zeros(len(log.offset), dtype=bool)
        if producers is not None:
            txn = self.transactions_in(log)
            known = self.windows[-1].ledger if self.windows else NOTHING
            ledger = followed_by(known, producers, np.where(txn >= 0, log.writer, -1), txn)
            marks = alike & np.isin(log.offset, ledger.markers["offset"])
        settled = alike & log.at_home & ~log.control & (log.writer >= 0) & (log.seq >= 0)
        place = _at(log, mine.offset)
        fits = (place >= 0) & (mine.outcome == OK)
        fits[fits] = (log.writer[place[fits]] == mine.writer[fits]) & (log.seq[place[fits]] == mine.seq[fits])
        acknowledged = np.zeros(len(log.offset), dtype=bool)
        acknowledged[place[fits]] = True
        settled &= acknowledged
        settled &= ~np.isin(log.offset, np.concatenate([mine.offset[~fits], before]))
        disordered, spans = self._disorder(_places(log, logs.values(), mine), highest)
        for writer, (first, last) in disordered.items():
            settled &= ~((log.writer == writer) & (log.seq >= first) & (log.seq <= last))
        self._expose([*self._strays(logs, log.offset[settled]), *self._settled_between(disordered, low)], low)
        settled &= ~np.isin(identities(log.writer, log.seq), self._named)
        settled_offsets = log.offset[settled]
        left_out = log.offset[settled | marks]
        writers = log.writer[settled]
        window = Window(
            low=low,
            high=high,
            broker=reference,
            digest=digest,
            size_bytes=size_bytes,
            equal={reference, *equal},
            records={
                broker: one.take(np.flatnonzero(~np.isin(one.offset, left_out)))
                for broker, one in logs.items()
            },
            epochs=_epochs(log),
            settled=Counter({w: int(np.count_nonzero(writers == w)) for w in distinct(writers).tolist()}),
            spans=spans,
            highest=highest,
            ledger=ledger,
        )
        self._name(log.writer[~settled], log.seq[~settled])
        self.windows.append(window)
        rest = np.flatnonzero(~(fits & np.isin(mine.offset, settled_offsets)))
        if len(rest):
            self._keep(_some(mine, rest))
        return window

    def rewind(self, offset: int) -> None:
        """Open the window that holds ``offset`` and all later ones again, as their records have changed."""
        while self.windows and self.windows[-1].high > offset:
            window = self.windows.pop()
            for rows in self._settled_in(window):
                self._waiting.append(rows)

    def confirm(self, broker: int, window: Window) -> None:
        """A replica holds in a closed window what the reference holds."""
        window.equal.add(broker)
        window.records = {
            one: log for one, log in window.records.items() if one != broker or one == window.broker
        }

    def merge(self, below: int) -> None:
        """Join windows below an offset that no record can change any more; they are never to be opened."""
        self.frozen = max(self.frozen, below)
        old = [window for window in self.windows if window.high <= below]
        if len(old) < 2 or any(window.equal != old[0].equal for window in old):
            return
        old = [w for w in old if set(w.records) == {w.broker}]
        if len(old) < 2 or old != self.windows[: len(old)]:
            return
        spans = dict(old[0].spans)
        settled = Counter[int]()
        for window in old:
            settled.update(window.settled)
            for writer, (first, last) in window.spans.items():
                known = spans.get(writer, (first, last))
                spans[writer] = min(known[0], first), max(known[1], last)
        starts = np.concatenate([window.epochs[0] for window in old])
        epochs = np.concatenate([window.epochs[1] for window in old])
        changes = np.flatnonzero(np.append(True, np.diff(epochs) != 0)) if len(epochs) else EMPTY
        merged = Window(
            low=old[0].low,
            high=old[-1].high,
            broker=old[0].broker,
            digest=0,
            size_bytes=0,
            equal=old[0].equal,
            records={old[0].broker: _records([window.records[window.broker] for window in old])},
            epochs=(starts[changes], epochs[changes]),
            settled=settled,
            spans=spans,
            highest=old[-1].highest,
            ledger=joined([window.ledger for window in old]),
        )
        self.windows[: len(old)] = [merged]

    def records_of(self, window: Window) -> Iterable[CopyArrays]:
        """What the reference holds in a window: the rest, and what is settled."""
        yield window.records[window.broker]
        for rows in self._settled_in(window):
            yield _standing(rows, window)

    # ---- what is judged

    def rest(self, brokers: Iterable[int], *, waiting: bool = True) -> Rest:
        """Messages and records of some replicas that the kernel judges.

        Messages that no window has reached are among them if they are wanted.
        """
        copies = {}
        for broker in brokers:
            parts = [
                window.records[window.broker] if broker in window.equal else window.records[broker]
                for window in self.windows
                if broker in window.equal or broker in window.records
            ]
            if parts:
                copies[broker] = _records(parts)
        sends = _joined([*self._rest, *(self._waiting if waiting else ())])
        return Rest(sends=_some(sends, np.lexsort((sends.seq, sends.writer))), copies=copies)

    def __len__(self) -> int:
        """Messages in the rest."""
        return sum(map(len, self._rest))

    # ---- what is stored

    def state(self) -> State:
        """What `restore` needs."""
        rest, waiting = _joined(self._rest), _joined(self._waiting)
        return State(
            windows=tuple(self.windows),
            frozen=self.frozen,
            absent=self.absent,
            named=self._named,
            rest=np.unique(identities(rest.writer, rest.seq)),
            waiting=np.unique(identities(waiting.writer, waiting.seq)),
        )

    def restore(self, state: State, taken: Mapping[int, int]) -> None:
        """Begin where a state ended."""
        self.windows, self.frozen = list(state.windows), state.frozen
        self.absent, self._named = state.absent, state.named
        self._taken.update(taken)
        self._rest = [rows for rows in self._rows_of(state.rest) if len(rows)]
        self._waiting = [rows for rows in self._rows_of(state.waiting) if len(rows)]

    # ---- steps of closing a window

    def _due(self, low: int, high: int) -> tuple[SendArrays, Ints]:
        """Messages with an offset in a window, which wait no longer; and offsets of those in the rest."""
        waiting = _joined(self._waiting)
        due = waiting.offset < high
        left = np.flatnonzero(~due)
        self._waiting = [_some(waiting, left)] if len(left) else []
        parts = [rows.offset[(rows.offset >= low) & (rows.offset < high)] for rows in self._rest]
        return _some(waiting, np.flatnonzero(due)), np.concatenate([EMPTY, *parts])

    def _disorder(
        self, places: tuple[Ints, Ints], highest: dict[int, int]
    ) -> tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]]:
        """By writer, the numbers among which the order of a window is not that of sending, and all numbers.

        ``places``: writer and number of its records. Raises those of ``highest``.
        """
        disordered, spans = {}, {}
        writers, numbers = places
        for writer in distinct(writers).tolist():
            if writer not in self._taken:
                continue
            seqs = numbers[writers == writer]
            seqs = seqs[seqs < self._taken[writer] + _AHEAD]  # else damage has changed the number
            if not len(seqs):
                continue
            spans[writer] = int(seqs.min()), int(seqs.max())
            before = np.maximum.accumulate(np.append(highest.get(writer, -1), seqs))[:-1]
            back = seqs <= before
            if back.any():
                disordered[writer] = int(seqs[back].min()), int(before[back].max())
            highest[writer] = max(highest.get(writer, -1), spans[writer][1])
        return disordered, spans

    def _strays(self, logs: Mapping[int, CopyArrays], settled: Ints) -> list[tuple[Ints, Ints]]:
        """Identities of the records of a window that are not settled."""
        strays = []
        for log in logs.values():
            chosen = np.flatnonzero((log.writer >= 0) & (log.seq >= 0) & ~np.isin(log.offset, settled))
            strays.append((log.writer[chosen], log.seq[chosen]))
        return strays

    def _settled_between(self, numbers: Mapping[int, tuple[int, int]], below: int) -> list[tuple[Ints, Ints]]:
        """Identities of acknowledged messages with numbers in a range, at offsets below another."""
        found = []
        for writer, (first, last) in numbers.items():
            rows = self.sent.between(writer, first, min(last, self._taken.get(writer, 0) - 1))
            chosen = np.flatnonzero(
                (rows.outcome == OK) & (rows.offset >= self.start) & (rows.offset < below)
            )
            found.append((rows.writer[chosen], rows.seq[chosen]))
        return found

    def _expose(self, messages: Iterable[tuple[Ints, Ints]], judged: int) -> None:
        """Make messages part of the rest; settled ones come back with their records, below ``judged``."""
        pairs = list(messages)
        writer = np.concatenate([EMPTY, *(pair[0] for pair in pairs)])
        seq = np.concatenate([EMPTY, *(pair[1] for pair in pairs)])
        new = np.setdiff1d(identities(writer, seq), self._named)
        if not len(new):
            return
        for rows in self._rows_of(new):
            placed = (rows.offset >= 0) & (rows.outcome != FAIL)
            counted = ~placed & (rows.outcome != OK)
            for who, outcome in zip(
                rows.writer[counted].tolist(), rows.outcome[counted].tolist(), strict=True
            ):
                self.absent[who, outcome] -= 1
            stood = placed & (rows.outcome == OK) & (rows.offset < judged)
            back = np.flatnonzero(counted | stood)
            if len(back):
                self._rest.append(_some(rows, back))
            if stood.any():
                self._put_back(_some(rows, np.flatnonzero(stood)))
        self._named = np.union1d(self._named, new)

    def _rows_of(self, keys: Ints) -> Iterable[SendArrays]:
        """The rows of messages that were taken, by their identities, which rise."""
        writers, seqs = writers_and_seqs(keys)
        if not len(keys):
            return
        edges = np.flatnonzero((np.diff(writers) != 0) | (np.diff(seqs) > _GAP)) + 1
        for first, last in zip([0, *edges], [*edges, len(keys)], strict=True):
            writer = int(writers[first])
            taken = self._taken.get(writer, 0)
            if int(seqs[first]) >= taken:
                continue
            rows = self.sent.between(writer, int(seqs[first]), min(int(seqs[last - 1]), taken - 1))
            yield _some(rows, np.flatnonzero(np.isin(rows.seq, seqs[first:last])))

    def _put_back(self, rows: SendArrays) -> None:
        """Records of settled messages, which stand where the rows say, become part of the rest."""
        lows = np.array([window.low for window in self.windows])
        numbers = np.searchsorted(lows, rows.offset, side="right") - 1
        for number in distinct(numbers).tolist():
            window = self.windows[number]
            here = _some(rows, np.flatnonzero(numbers == number))
            window.settled.subtract(here.writer.tolist())
            self._insert(window, _standing(here, window))

    def _insert(self, window: Window, more: CopyArrays) -> None:
        """Add records that all compared replicas hold to those that memory holds of a window."""
        for broker, log in window.records.items():
            both = _records([log, more])
            window.records[broker] = both.take(np.argsort(both.offset, kind="stable"))

    def _settled_in(self, window: Window) -> Iterable[SendArrays]:
        """The messages that are settled in a window."""
        for writer, (first, last) in window.spans.items():
            rows = self.sent.between(writer, first, min(last, self._taken.get(writer, 0) - 1))
            here = (rows.outcome == OK) & (rows.offset >= window.low) & (rows.offset < window.high)
            here &= ~np.isin(identities(rows.writer, rows.seq), self._named)
            yield _some(rows, np.flatnonzero(here))

    def _keep(self, rows: SendArrays) -> None:
        self._rest.append(rows)
        self._name(rows.writer, rows.seq)

    def _name(self, writer: Ints, seq: Ints) -> None:
        keys = identities(writer, seq)[(writer >= 0) & (seq >= 0)]
        if len(keys):
            self._named = np.union1d(self._named, keys)


def no_sends() -> SendArrays:
    """No messages."""
    return sends_of(EMPTY, EMPTY, EMPTY, EMPTY, EMPTY)


def sends_of(writer: Ints, seq: Ints, outcome: Ints, offset: Ints, sent_ns: Ints) -> SendArrays:
    """Messages that are in no transaction."""
    count = len(seq)
    return SendArrays(
        writer=writer,
        seq=seq,
        outcome=outcome,
        offset=offset,
        sent_ns=sent_ns,
        aborted=np.zeros(count, dtype=bool),
        visible=np.ones(count, dtype=bool),
        withheld=np.zeros(count, dtype=bool),
        transaction=np.full(count, -1, dtype=np.int64),
    )


def _standing(rows: SendArrays, window: Window) -> CopyArrays:
    """The records of settled messages, which stand where they were acknowledged."""
    count = len(rows)
    return CopyArrays(
        offset=rows.offset,
        epoch=window.epoch_at(rows.offset),
        writer=rows.writer,
        seq=rows.seq,
        intact=np.ones(count, dtype=bool),
        at_home=np.ones(count, dtype=bool),
        control=np.zeros(count, dtype=bool),
        batch_crc=np.full(count, -1, dtype=np.int64),
    )


def _marker_records(offsets: Ints, window: Window) -> CopyArrays:
    """Markers, which all compared replicas hold."""
    count = len(offsets)
    nobody = np.full(count, -1, dtype=np.int64)
    return CopyArrays(
        offset=offsets,
        epoch=window.epoch_at(offsets),
        writer=nobody,
        seq=nobody,
        intact=np.ones(count, dtype=bool),
        at_home=np.ones(count, dtype=bool),
        control=np.ones(count, dtype=bool),
        batch_crc=nobody,
    )


def identities(writer: Ints, seq: Ints) -> Ints:
    """One number for each message, which rises with its writer and its number."""
    keys: Ints = (writer.astype(np.int64) << _SEQ_BITS) | seq
    return keys


def writers_and_seqs(keys: Ints) -> tuple[Ints, Ints]:
    """Writers and numbers of some identities."""
    return keys >> _SEQ_BITS, keys & ((1 << _SEQ_BITS) - 1)


def _some(rows: SendArrays, which: Ints) -> SendArrays:
    return SendArrays(**{name: values[which] for name, values in vars(rows).items()})


def _joined(parts: Sequence[SendArrays]) -> SendArrays:
    if len(parts) == 1:
        return parts[0]
    every = [no_sends(), *parts]
    return SendArrays(
        **{name: np.concatenate([vars(part)[name] for part in every]) for name in vars(every[0])}
    )


def _places(log: CopyArrays, logs: Iterable[CopyArrays], mine: SendArrays) -> tuple[Ints, Ints]:
    """Writers and numbers of the records of a window, by offset.

    Where the reference's record is damaged, it may be whatever another replica holds there, or whatever was
    acknowledged there.
    """
    own = ~log.control & (log.at_home | ~log.intact) & (log.writer >= 0) & (log.seq >= 0)
    if log.intact.all():
        return log.writer[own], log.seq[own]
    damaged = log.offset[~log.intact]
    parts = [(log.offset[own], log.writer[own], log.seq[own])]
    for other in logs:
        there = np.isin(other.offset, damaged) & (other.writer >= 0) & (other.seq >= 0)
        parts.append((other.offset[there], other.writer[there], other.seq[there]))
    there = np.isin(mine.offset, damaged)
    parts.append((mine.offset[there], mine.writer[there], mine.seq[there]))
    offsets, writers, seqs = (np.concatenate(column) for column in zip(*parts, strict=True))
    _, first = np.unique(np.stack([offsets, writers, seqs]), axis=1, return_index=True)
    return writers[first], seqs[first]


def _records(parts: Sequence[CopyArrays]) -> CopyArrays:
    held = [part for part in parts if len(part.offset)]
    return together(held) if held else parts[0]


def _at(log: CopyArrays, offsets: Ints) -> Ints:
    """Position of each offset in a log, -1 where it holds none."""
    if not len(log.offset):
        return np.full(len(offsets), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(log.offset, offsets), len(log.offset) - 1)
    return np.where(log.offset[place] == offsets, place, -1)


def _same(log: CopyArrays, other: CopyArrays) -> Flags:
    """Which records another replica holds at the same offset, in the same epoch, and undamaged."""
    place = _at(other, log.offset)
    same: Flags = place >= 0
    theirs = place[same]
    for name in ("epoch", "writer", "seq", "control", "at_home"):
        same[same] = vars(log)[name][same] == vars(other)[name][theirs]
        theirs = place[same]
    same[same] = other.intact[theirs]
    return same


def _epochs(log: CopyArrays) -> tuple[Ints, Ints]:
    if not len(log.offset):
        return EMPTY, EMPTY
    changes = np.flatnonzero(np.append(True, np.diff(log.epoch) != 0))
    return log.offset[changes], log.epoch[changes]
