"""What consumers received, from their journals (`harness.history.read_journal`), reduced while they read on.

A delivery is *plain* if it comes right behind the one before it of its reader and partition, and its message
was acknowledged at the offset at which it was received. Plain deliveries are forgotten, but for the offsets
that a block of rows holds: should their messages become part of the rest, their rows are read again. All
others are kept by their row numbers. What they are about, and what a step passed over, becomes part of the
rest too, so that the kernel judges what was received as it judges a stored run (`checkers.partition`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.partition.deliveries import POSITIONED
from checkers.partition.messages import EMPTY, Flags, Ints
from checkers.partition.rolling import RollingPartition, identities
from checkers.transactions.answers import ABORTED, COMMITTED, OPEN
from harness.clock import now_ns
from harness.history.read_journal import SUFFIX
from harness.history.reads import ROW, ReadHeader, check_rows, parse_read_header, reads_table
from harness.history.schema import TABLES
from harness.history.stream_journal import ACKNOWLEDGED, BEGUN
from harness.host_files import HostFiles
from harness.kafka.model import TopicPartition
from run.soak.lines import NewRows
from run.soak.streams import NEAR, Streams
from run.soak.transactions import Transactions

_BLOCK_ROWS = 1 << 16
"""Rows of a journal that are looked at together, and remembered as a block: 3.5 MB."""
_SETTLE_NS = 5 * 10**9
"""How old a delivery is when it is looked at first. Its message has mostly ended by then."""
_HEADER_BYTES = 1 << 16
_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, kw_only=True)
class _Block:
    """Rows of a journal that were looked at, and the offsets that they have of each partition."""

    first: int
    count: int
    from_ns: int
    until_ns: int
    places: Ints
    lows: Ints
    highs: Ints

    def joined(self, more: _Block) -> _Block:
        """With the rows right behind it."""
        places = np.concatenate([self.places, more.places])
        which, lows, _ = _spans(places, np.concatenate([self.lows, more.lows]))
        _, _, highs = _spans(places, np.concatenate([self.highs, more.highs]))
        return _Block(
            first=self.first,
            count=self.count + more.count,
            from_ns=min(self.from_ns, more.from_ns),
            until_ns=max(self.until_ns, more.until_ns),
            places=which,
            lows=lows,
            highs=highs,
        )

    def concerns(self, place: int, offsets: Ints) -> bool:
        """Whether one of some rising offsets of a partition may be in it."""
        where = np.flatnonzero(self.places == place)
        if not len(where):
            return False
        low, high = np.searchsorted(offsets, [self.lows[where[0]], self.highs[where[0]] + 1])
        return bool(high > low)


@dataclass(kw_only=True)
class _Journal:
    """The journal of one consumer."""

    files: HostFiles
    name: str
    header: ReadHeader
    taken: int = 0
    """Rows that were looked at."""
    last: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By partition, number and offset of its last row among them."""
    kept: list[Ints] = field(default_factory=list)
    """Numbers of rows that are not plain, and of those before and behind them."""
    pending: Ints = field(default_factory=lambda: EMPTY)
    """Numbers of rows whose message has not ended."""
    blocks: list[_Block] = field(default_factory=list)
    steps: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Steps ahead, each a row of its partition, the rows before and behind it, and their offsets."""

    def keep(self, numbers: Ints) -> None:
        """Keep some rows."""
        if len(numbers):
            self.kept.append(numbers)

    def note(self, block: _Block) -> None:
        """Remember rows that were looked at."""
        if self.blocks and self.blocks[-1].count + block.count <= _BLOCK_ROWS:
            self.blocks[-1] = self.blocks[-1].joined(block)
        else:
            self.blocks.append(block)

    def rows(self, first: int, count: int) -> npt.NDArray[np.void]:
        """As many rows from ``first`` on as there are, up to ``count``."""
        size = ROW.itemsize
        raw = self.files.read(self.name, self.header.header_bytes + first * size, count * size)
        rows = np.frombuffer(raw[: len(raw) // size * size], dtype=ROW)
        check_rows(f"{self.files}/{self.name}", self.header, first, rows)
        return rows

    def some(self, numbers: Ints) -> npt.NDArray[np.void]:
        """Rows by their numbers, which rise."""
        parts = [np.empty(0, dtype=ROW)]
        for some in _near(numbers):
            held = self.rows(int(some[0]), int(some[-1] - some[0]) + 1)
            parts.append(held[some - some[0]])
        return np.concatenate(parts)


@dataclass(frozen=True)
class _Unread:
    """Offsets of a partition that readers step over, rising."""

    markers: Ints
    all: Ints
    """Also messages of aborted transactions, which readers of committed records do not receive."""


@dataclass(frozen=True)
class _Event:
    """Something that moved a group member's position."""

    reader: int
    place: int
    ns: int


class Deliveries:
    """What all consumers of a run received."""

    def __init__(self, files: Iterable[HostFiles], streams: Streams, transactions: Transactions) -> None:
        """``files`` are those of the hosts, or folders, in which journals lie."""
        self._files = tuple(files)
        self._streams = streams
        self._transactions = transactions
        self._rows = NewRows(self._files, "groups")
        self._journals: list[_Journal] = []
        self._places: dict[TopicPartition, int] = {}
        self._events: list[_Event] = []
        self._committed: dict[int, dict[int, int]] = {}
        """By partition and reader, the offset that it has committed last."""
        self._passed: list[tuple[int, int, int]] = []
        """Partition and offsets, both included, at which something must be known to judge a step."""
        self._opened: tuple[str, int, npt.NDArray[np.void], Ints] | None = None
        """The block that was read last, by journal and first row."""
        self.received = 0
        """Records that were looked at."""

    def take(self, *, all_of_it: bool = False) -> bool:
        """Look at what consumers have received since; returns whether there may be much more.

        With ``all_of_it`` also at what is recent: no consumer runs any more. Raises BadDataError, OSError.
        """
        self._look()
        before_ns = now_ns() - (0 if all_of_it else _SETTLE_NS)
        much = False
        for journal in self._journals:
            rows = journal.rows(journal.taken, _BLOCK_ROWS)
            much |= len(rows) == _BLOCK_ROWS or (all_of_it and len(rows) > 0)
            if not all_of_it:
                rows = rows[: _first(rows["ns"] > before_ns)]
            if len(rows):
                self._take(journal, rows)
            if len(journal.pending):
                self._ask_again(journal)
        return much

    def committed(self, key: TopicPartition, readers: int) -> int:
        """The offset below which so many readers have committed a partition; 0 if fewer have."""
        offsets = self._committed.get(self._place(key), {})
        return min(offsets.values()) if offsets and len(offsets) >= readers else 0

    def single_out(self, parts: Mapping[TopicPartition, RollingPartition]) -> None:
        """Keep what is next to what moved a position, too; all that is kept is about messages of the rest."""
        keys = {self._place(key): rolling for key, rolling in parts.items()}
        unread = {self._place(key): offsets for key, offsets in self._unread(parts).items()}
        for journal in self._journals:
            self._judge_steps(journal, unread)
            kept = _all([*journal.kept, journal.pending, *self._beside_events(journal)])
            kept = _all([kept, *(np.array([number]) for number, _ in journal.last.values())])
            journal.kept = [_all([kept, *self._before(journal, kept)])]
            journal.pending = EMPTY
            rows = journal.some(journal.kept[0])
            places = self._places_of(journal, rows)
            for place, rolling in keys.items():
                own = rows[places == place]
                rolling.expose(own["writer"].astype(np.int64), own["seq"])
        for place, rolling in keys.items():
            passed = [np.arange(low, high + 1) for at, low, high in self._passed if at == place]
            rolling.uncover(np.unique(np.concatenate([EMPTY, *passed])))

    def table(self, parts: Mapping[TopicPartition, RollingPartition]) -> pa.Table:
        """The deliveries that are kept, and those of messages of the rest, as rows of `reads`."""
        tables = [TABLES["reads"].arrow().empty_table()]
        rests = {self._place(key): rolling.rest(()).sends for key, rolling in parts.items()}
        offsets = {place: np.unique(rest.offset[rest.offset >= 0]) for place, rest in rests.items()}
        named = np.unique(
            np.concatenate([EMPTY, *(identities(rest.writer, rest.seq) for rest in rests.values())])
        )
        for journal in sorted(self._journals, key=lambda one: one.header.reader):
            rows = journal.some(_all([*journal.kept, *self._of_rest(journal, offsets, named)]))
            tables.append(reads_table(journal.header, rows[np.argsort(rows["ns"], kind="stable")]))
        return pa.concat_tables(tables)

    # ---- journals

    def _look(self) -> None:
        for files in self._files:
            for name in files.names():
                if name.endswith(SUFFIX):
                    self._add(files, name)
        for row in self._rows.take():
            self._note(row)

    def _add(self, files: HostFiles, name: str) -> None:
        if any(one.files is files and one.name == name for one in self._journals):
            return
        head = files.read(name, 0, _HEADER_BYTES)
        header = parse_read_header(head[: head.find(b"\n") + 1], f"{files}/{name}")
        if header is not None:
            self._journals.append(_Journal(files=files, name=name, header=header))

    def _note(self, row: Mapping[str, object]) -> None:
        """Note a commit, or what moved a position."""
        event, reader, offset = row.get("event"), row.get("reader"), row.get("offset")
        topic, partition, ns = row.get("topic"), row.get("partition"), row.get("ns")
        if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(reader, int)):
            return
        place = self._place(TopicPartition(topic, partition))
        if event == "committed" and isinstance(offset, int):
            self._committed.setdefault(place, {})[reader] = offset
        elif event in POSITIONED and isinstance(ns, int):
            self._events.append(_Event(reader, place, ns))

    def _place(self, key: TopicPartition) -> int:
        return self._places.setdefault(key, len(self._places))

    def _places_of(self, journal: _Journal, rows: npt.NDArray[np.void]) -> Ints:
        """The number of each row's topic partition."""
        codes = (rows["topic"].astype(np.int64) << 32) | rows["partition"]
        distinct, number = np.unique(codes, return_inverse=True)
        topics = journal.header.topics
        keys = (TopicPartition(topics[code >> 32], code & 0xFFFFFFFF) for code in distinct.tolist())
        places: Ints = np.array([self._place(key) for key in keys], dtype=np.int64)[number]
        return places

    # ---- what is plain

    def _take(self, journal: _Journal, rows: npt.NDArray[np.void]) -> None:
        places = self._places_of(journal, rows)
        self._keep_steps(journal, rows, places)
        state = self._states(journal, rows)
        numbers = journal.taken + np.arange(len(rows))
        journal.pending = np.concatenate([journal.pending, numbers[state == _OPEN]])
        journal.keep(numbers[state == _ODD])
        which, lows, highs = _spans(places, rows["offset"])
        journal.note(
            _Block(
                first=journal.taken,
                count=len(rows),
                from_ns=int(rows["ns"].min()),
                until_ns=int(rows["ns"].max()),
                places=which,
                lows=lows,
                highs=highs,
            )
        )
        journal.taken += len(rows)
        self.received += len(rows)

    def _keep_steps(self, journal: _Journal, rows: npt.NDArray[np.void], places: Ints) -> None:
        """Keep the first row of each partition, and both ends of a step back; note steps ahead."""
        order = np.argsort(places, kind="stable")
        place, offset = places[order], rows["offset"][order]
        begins = np.flatnonzero(np.append(True, np.diff(place) != 0))
        number = journal.taken + order
        before, before_offset = np.append(-1, number[:-1]), np.append(-1, offset[:-1])
        for at in begins.tolist():
            before[at], before_offset[at] = journal.last.get(int(place[at]), (-1, -1))
        back = (before >= 0) & (offset <= before_offset)
        journal.keep(_all([number[(before < 0) | back], before[back]]))
        lows = before_offset[back].tolist()
        self._passed += zip(place[back].tolist(), lows, lows, strict=True)
        ahead = np.flatnonzero((before >= 0) & (offset > before_offset + 1))
        if len(ahead):
            columns = (place, before, number, before_offset, offset)
            journal.steps.append(np.stack([column[ahead] for column in columns], axis=1))
        for at in np.append(begins[1:], len(order)) - 1:
            journal.last[int(place[at])] = int(number[at]), int(offset[at])

    def _unread(self, parts: Mapping[TopicPartition, RollingPartition]) -> dict[TopicPartition, _Unread]:
        """What readers rightly do not receive."""
        aborted = self._transactions.settled_aborted(parts) if self._journals else {}
        found = {}
        for key, rolling in parts.items():
            markers = rolling.ledger.markers["offset"]
            found[key] = _Unread(markers, np.union1d(markers, aborted.get(key, EMPTY)))
        return found

    def _judge_steps(self, journal: _Journal, unread: Mapping[int, _Unread]) -> None:
        """Keep both ends of each step ahead over what the reader may have missed."""
        if not journal.steps:
            return
        steps = np.concatenate(journal.steps)
        journal.steps = []
        passed = np.zeros(len(steps), dtype=np.int64)
        for place, offsets in unread.items():
            there = np.flatnonzero(steps[:, 0] == place)
            known = offsets.markers if journal.header.isolation == _UNCOMMITTED else offsets.all
            begin = np.searchsorted(known, steps[there, 3], side="right")
            passed[there] = np.searchsorted(known, steps[there, 4]) - begin
        odd = steps[passed != steps[:, 4] - steps[:, 3] - 1]
        journal.keep(_all([odd[:, 1], odd[:, 2]]))
        self._passed += [(place, low, high) for place, low, high in odd[:, [0, 3, 4]].tolist()]

    def _ask_again(self, journal: _Journal) -> None:
        state = self._states(journal, journal.some(journal.pending))
        journal.keep(journal.pending[state == _ODD])
        journal.pending = journal.pending[state == _OPEN]

    def _states(self, journal: _Journal, rows: npt.NDArray[np.void]) -> Ints:
        """Whether each message was acknowledged where it was received, was not, or has not ended."""
        states = np.full(len(rows), _ODD, dtype=np.int64)
        places = self._places_of(journal, rows)
        for writer in np.unique(rows["writer"]).tolist():
            own = np.flatnonzero((rows["writer"] == writer) & (rows["seq"] >= 0))
            if writer < 0 or not len(own):
                continue
            sent, targets = self._streams.sent(writer, rows["seq"][own])
            homes = np.array([self._place(key) for key in targets], dtype=np.int64)
            if not len(homes):
                continue
            home = homes[np.clip(sent["target"], 0, len(homes) - 1)]
            same = (sent["offset"] == rows["offset"][own]) & (home == places[own])
            told = self._transactions.reported(rows["writer"][own].astype(np.int64), rows["seq"][own])
            plain = (told < 0) | (told == COMMITTED)
            if journal.header.isolation == _UNCOMMITTED:
                plain |= told == ABORTED
            right = (sent["state"] == ACKNOWLEDGED) & same
            states[own[right & plain]] = _PLAIN
            states[own[right & (told == OPEN)]] = _OPEN
            states[own[sent["state"] == BEGUN]] = _OPEN
        return states

    # ---- what is read again

    def _of_rest(self, journal: _Journal, offsets: Mapping[int, Ints], named: Ints) -> Iterator[Ints]:
        """Numbers of the rows with messages of the rest."""
        for block in journal.blocks:
            if any(block.concerns(place, some) for place, some in offsets.items() if len(some)):
                rows = journal.rows(block.first, block.count)
                held = np.isin(identities(rows["writer"].astype(np.int64), rows["seq"]), named)
                yield block.first + np.flatnonzero(held & (rows["writer"] >= 0))

    def _beside_events(self, journal: _Journal) -> Iterator[Ints]:
        """Numbers of the rows right before and right behind what moved the reader's position."""
        for event in self._events:
            if event.reader != journal.header.reader:
                continue
            before = self._nearest(
                journal, reversed(journal.blocks), event, lambda ns, at: ns <= at, last=True
            )
            after = self._nearest(journal, journal.blocks, event, lambda ns, at: ns > at, last=False)
            yield np.array([number for number in (before, after) if number >= 0], dtype=np.int64)

    def _nearest(
        self,
        journal: _Journal,
        blocks: Iterable[_Block],
        event: _Event,
        fits: Callable[[Ints, int], Flags],
        *,
        last: bool,
    ) -> int:
        """The number of the first row in the order of ``blocks`` that fits an event; -1: none does."""
        for block in blocks:
            edges = np.array([block.from_ns, block.until_ns])
            if event.place not in block.places or not fits(edges, event.ns).any():
                continue
            rows, places = self._block(journal, block)
            there = np.flatnonzero(fits(rows["ns"], event.ns) & (places == event.place))
            if len(there):
                return block.first + int(there[-1 if last else 0])
        return -1

    def _block(self, journal: _Journal, block: _Block) -> tuple[npt.NDArray[np.void], Ints]:
        """The rows of a block and their partitions; an event often concerns all partitions at once."""
        if self._opened is None or self._opened[:2] != (journal.name, block.first):
            rows = journal.rows(block.first, block.count)
            self._opened = (journal.name, block.first, rows, self._places_of(journal, rows))
        return self._opened[2:]

    def _before(self, journal: _Journal, numbers: Ints) -> Iterator[Ints]:
        """Numbers of the rows right before some others, of the same partition, as far as they are near."""
        for some in _near(numbers):
            first = max(0, int(some[0]) - NEAR)
            places = self._places_of(journal, journal.rows(first, int(some[-1]) - first + 1))
            order = np.argsort(places, kind="stable")
            before = np.full(len(places), -1, dtype=np.int64)
            same = np.flatnonzero(np.diff(places[order]) == 0)
            before[order[same + 1]] = order[same]
            preceding = before[some - first]
            yield first + preceding[preceding >= 0]


_PLAIN, _ODD, _OPEN = 0, 1, 2


def _near(numbers: Ints) -> list[Ints]:
    """Rising numbers, in groups that are read at once."""
    if not len(numbers):
        return []
    apart = (np.diff(numbers) > NEAR) | (np.diff(numbers // _BLOCK_ROWS) > 0)
    return np.split(numbers, np.flatnonzero(apart) + 1)


def _first(flags: Flags) -> int:
    """The position of the first flag that is set, else their number."""
    return int(np.argmax(flags)) if flags.any() else len(flags)


def _all(parts: Sequence[Ints]) -> Ints:
    numbers: Ints = np.unique(np.concatenate([EMPTY, *parts]))
    return numbers


def _spans(places: Ints, offsets: Ints) -> tuple[Ints, Ints, Ints]:
    """Each partition, and the lowest and the highest of its offsets."""
    which, number = np.unique(places, return_inverse=True)
    lows = np.full(len(which), np.iinfo(np.int64).max)
    highs = np.full(len(which), -1, dtype=np.int64)
    np.minimum.at(lows, number, offsets)
    np.maximum.at(highs, number, offsets)
    return which, lows, highs
