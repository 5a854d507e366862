"""The journals of streams (`harness.history.stream_journal`), read while they are written."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from checkers.partition.messages import FAIL, INFO, OK, Ints, SendArrays
from checkers.partition.rolling import no_sends, sends_of
from harness.errors import BadDataError
from harness.history.schema import TABLES
from harness.history.sends import ROW, sends_table
from harness.history.stream_journal import (
    ACKNOWLEDGED,
    BEGUN,
    PAGE_BYTES,
    ROW_BYTES,
    STATES,
    SUFFIX,
    StreamHeader,
    parse_header,
)
from harness.host_files import HostFiles
from harness.kafka.model import TopicPartition

ROWS_AT_ONCE = 1 << 15
"""Rows of a journal that are read together: 1.3 MB."""
NEAR = 4096
"""Rows that are farther apart are read separately."""
_OUTCOMES = np.full(len(STATES), INFO, dtype=np.int64)
_OUTCOMES[ACKNOWLEDGED], _OUTCOMES[STATES.index("fail")] = OK, FAIL


@dataclass(kw_only=True)
class _Journal:
    """The journal of one stream."""

    files: HostFiles
    name: str
    header: StreamHeader
    taken: int = 0
    """Number of the first message that was not taken yet."""
    oldest_ns: int = 0
    """When that message was sent; 0: it was not."""

    def rows(self, first: int, count: int) -> npt.NDArray[np.void]:
        """As many rows from ``first`` on as there are, up to ``count``.

        A client stores the state of a row last, but a reader copies a row from its beginning to its end. So
        the states are those of a look before the one that copies the rest, unless all messages have ended.
        """
        rows = self._copied(first, count)
        if first + len(rows) <= self.taken:
            return rows
        later = self._copied(first, len(rows)).copy()
        later["state"] = rows["state"]
        return later

    def _copied(self, first: int, count: int) -> npt.NDArray[np.void]:
        if count <= 0:
            return np.empty(0, dtype=ROW)
        raw = self.files.read(self.name, self.header.header_bytes + first * ROW_BYTES, count * ROW_BYTES)
        return np.frombuffer(raw[: len(raw) // ROW_BYTES * ROW_BYTES], dtype=ROW)

    def ended(self, *, all_of_it: bool) -> npt.NDArray[np.void]:
        """The next rows that have an outcome; with ``all_of_it`` also those that never got one."""
        rows = self.rows(self.taken, ROWS_AT_ONCE)
        unfinished = np.flatnonzero(rows["state"] < (BEGUN if all_of_it else BEGUN + 1))
        self.oldest_ns = int(rows["sent_ns"][unfinished[0]]) if len(unfinished) else 0
        return rows[: unfinished[0]] if len(unfinished) else rows


class Streams:
    """All streams of a run, by writer."""

    def __init__(self, files: Iterable[HostFiles]) -> None:
        """``files`` are those of the hosts, or folders, in which journals of streams lie."""
        self._places = tuple(files)
        self._journals: dict[int, _Journal] = {}
        self._last_ns = 0
        self.ended = 0
        """Messages that have ended."""
        self.acknowledged = 0
        self.more = False
        """Whether a journal had a whole block when messages were taken last, and so may have more."""
        self.longest_gap_ns = 0
        """The longest time without an acknowledgement, in the order of the journals."""

    def look(self) -> None:
        """Look for journals of streams that have begun. Raises BadDataError, OSError."""
        for files in self._places:
            for name in files.names():
                if name.endswith(SUFFIX) and not any(
                    one.files is files and one.name == name for one in self._journals.values()
                ):
                    self._add(files, name)

    def _add(self, files: HostFiles, name: str) -> None:
        begin = files.read(name, 0, PAGE_BYTES)
        if len(begin) < PAGE_BYTES:
            return  # it is being made
        header = parse_header(io.BytesIO(begin).read, f"{files}/{name}")
        if header.writer in self._journals:
            raise BadDataError(f"{files}/{name} is a second journal of the stream of writer {header.writer}.")
        self._journals[header.writer] = _Journal(files=files, name=name, header=header)

    @property
    def taken(self) -> Mapping[int, int]:
        """By writer, the number below which all messages were taken."""
        return {writer: journal.taken for writer, journal in self._journals.items()}

    @property
    def transactions(self) -> Mapping[int, tuple[int, int]]:
        """By writer with transactions, how many messages each has, and how many messages were taken."""
        return {
            writer: (journal.header.transaction, journal.taken)
            for writer, journal in self._journals.items()
            if journal.header.transaction
        }

    def transaction_of(self, writer: Ints, seq: Ints) -> Ints:
        """The number of each message's transaction, -1 if it is in none."""
        txn = np.full(len(seq), -1, dtype=np.int64)
        for number, (size, _) in self.transactions.items():
            own = writer == number
            txn[own] = seq[own] // size
        return txn

    def go_on(self, taken: Mapping[int, int]) -> None:
        """Take what comes after messages that were taken before. Raises BadDataError for other streams."""
        for writer, count in taken.items():
            if writer not in self._journals:
                raise BadDataError(f"The journal of the stream of writer {writer} is gone.")
            self._journals[writer].taken = count
            self.ended += count

    @property
    def oldest_ns(self) -> int:
        """When the oldest message without an outcome was sent; 0: there is none."""
        return min((one.oldest_ns for one in self._journals.values() if one.oldest_ns), default=0)

    def take(
        self, *, only: Collection[int] | None = None, all_of_it: bool = False
    ) -> dict[TopicPartition, list[SendArrays]]:
        """The next messages that have ended, by topic partition, a block of each stream at most.

        ``only``: those of some writers. With ``all_of_it``, messages that never got an outcome count as
        ended: no client runs any more.
        """
        found: dict[TopicPartition, list[SendArrays]] = {}
        self.more = False
        for writer, journal in self._journals.items():
            if only is not None and writer not in only:
                continue
            rows = journal.ended(all_of_it=all_of_it)
            self.more |= len(rows) == ROWS_AT_ONCE
            first, journal.taken = journal.taken, journal.taken + len(rows)
            self._note(rows)
            for key, arrays in _by_target(journal.header, first, rows):
                found.setdefault(key, []).append(arrays)
        return found

    def _note(self, rows: npt.NDArray[np.void]) -> None:
        """Count messages, and look for the longest time without an acknowledgement."""
        self.ended += len(rows)
        done = np.sort(rows["done_ns"][rows["state"] == ACKNOWLEDGED])
        if len(done):
            self.acknowledged += len(done)
            if self._last_ns:
                done = np.append(self._last_ns, done)
            self.longest_gap_ns = max(self.longest_gap_ns, int(np.diff(done).max(initial=0)))
            self._last_ns = max(self._last_ns, int(done[-1]))

    def span_ns(self) -> tuple[int, int]:
        """When the first message was sent, and when the last one that was begun; zeros without any."""
        firsts, lasts = [], []
        for journal in self._journals.values():
            begun = journal.rows(journal.taken - 1, 1 + ROWS_AT_ONCE) if journal.taken else journal.rows(0, 1)
            begun = begun[begun["state"] >= BEGUN]
            if len(begun):
                firsts.append(int(journal.rows(0, 1)["sent_ns"][0]))
                lasts.append(int(begun["sent_ns"][-1]))
        return min(firsts, default=0), max(lasts, default=0)

    def of(self, key: TopicPartition) -> StreamsOf:
        """The messages to one topic partition."""
        return StreamsOf(self, key)

    def between(self, key: TopicPartition, writer: int, first: int, last: int) -> SendArrays:
        """A writer's messages to a topic partition with numbers from ``first`` to ``last``."""
        journal = self._journals.get(writer)
        if journal is None or key not in journal.header.targets:
            return no_sends()
        rows = journal.rows(first, last - first + 1)
        target = journal.header.targets.index(key)
        return _arrays(journal.header.writer, first, rows, np.flatnonzero(rows["target"] == target))

    def sent(self, writer: int, seqs: Ints) -> tuple[npt.NDArray[np.void], Sequence[TopicPartition]]:
        """The rows of a writer's messages, zeros for one that was not sent; and what their targets are."""
        found = np.zeros(len(seqs), dtype=ROW)
        journal = self._journals.get(writer)
        if journal is None:
            return found, ()
        order = np.argsort(seqs, kind="stable")
        rising = seqs[order]
        apart = (np.diff(rising) > NEAR) | (np.diff(rising // ROWS_AT_ONCE) > 0)
        for places in np.split(order, np.flatnonzero(apart) + 1) if len(order) else ():
            first = int(seqs[places[0]])
            rows = journal.rows(first, int(seqs[places[-1]]) - first + 1)
            there = places[seqs[places] - first < len(rows)]
            found[there] = rows[seqs[there] - first]
        return found, [TopicPartition(*target) for target in journal.header.targets]

    def table(self, writers: Ints, seqs: Ints) -> pa.Table:
        """Some messages as rows of `sends`, by writer and number; both arrays are sorted so."""
        parts = [TABLES["sends"].arrow().empty_table()]
        for writer, journal in sorted(self._journals.items()):
            numbers = seqs[writers == writer]
            edges = np.flatnonzero(np.diff(numbers) > 1) + 1
            rows, runs = [], zip([0, *edges], [*edges, len(numbers)], strict=True)
            for begin, end in runs if len(numbers) else ():
                rows.append(journal.rows(int(numbers[begin]), int(end - begin)))
            if rows:
                parts.append(sends_table(np.concatenate(rows), numbers, journal.header))
        return pa.concat_tables(parts)


@dataclass(frozen=True)
class StreamsOf:
    """The messages to one topic partition (`checkers.partition.rolling.SentRows`)."""

    streams: Streams
    key: TopicPartition

    def between(self, writer: int, first: int, last: int) -> SendArrays:
        """A writer's messages with numbers from ``first`` to ``last``."""
        return self.streams.between(self.key, writer, first, last)

    def transaction_of(self, writer: Ints, seq: Ints) -> Ints:
        """The number of each message's transaction, -1 if it is in none."""
        return self.streams.transaction_of(writer, seq)


def _by_target(
    header: StreamHeader, first: int, rows: npt.NDArray[np.void]
) -> Iterator[tuple[TopicPartition, SendArrays]]:
    for target, place in enumerate(header.targets):
        chosen = np.flatnonzero(rows["target"] == target)
        if len(chosen):
            yield TopicPartition(*place), _arrays(header.writer, first, rows, chosen)


def _arrays(writer: int, first: int, rows: npt.NDArray[np.void], chosen: Ints) -> SendArrays:
    some = rows[chosen]
    return sends_of(
        writer=np.full(len(some), writer, dtype=np.int64),
        seq=first + chosen.astype(np.int64),
        outcome=_OUTCOMES[some["state"]],
        offset=np.where(some["state"] > BEGUN, some["offset"], -1),
        sent_ns=some["sent_ns"].astype(np.int64),
    )
