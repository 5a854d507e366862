"""Transactions of streams, reduced while they go on: those about which nothing is to be said are forgotten.

A transaction is *settled* if its application was told that it is committed or aborted, all its messages are
settled (`checkers.partition.rolling`), and in each partition one marker of that kind decided them, and
nothing else (`checkers.partition.ledger`). Of an aborted one, messages that failed may be missing. All
messages of the others become part of the rest, with the markers that decided them, so that the kernel judges
each of these transactions as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from checkers.partition.decisions import ABORT, COMMIT
from checkers.partition.fate import TRANSACTION_ENDS
from checkers.partition.ledger import Ledger
from checkers.partition.messages import EMPTY, Flags, Ints
from checkers.partition.rolling import RollingPartition, writers_and_seqs
from checkers.transactions.answers import ABORTED, COMMITTED, OPEN, REPORTED, UNKNOWN
from harness.history.stream_journal import ACKNOWLEDGED, STATES
from harness.host_files import HostFiles
from harness.kafka.model import TopicPartition
from run.soak.lines import NewRows
from run.soak.streams import ROWS_AT_ONCE, Streams

_FAILED = STATES.index("fail")
_OUTWEIGHS = {UNKNOWN: 1, COMMITTED: 2, ABORTED: 3}
"""Of several answers about one transaction, the one that counts (`checkers.transactions.answers`)."""
_ASKED_COMMIT = "committing"


@dataclass(kw_only=True)
class _Told:
    """What a writer's application was told, by number of the transaction."""

    ends: bytearray
    """Positions in `REPORTED`."""
    commits: bytearray
    """1: it asked for a commit."""

    def until(self, txn: int) -> None:
        """Make room for a transaction."""
        missing = txn + 1 - len(self.ends)
        if missing > 0:
            self.ends.extend(bytes(missing))
            self.commits.extend(bytes(missing))


class Transactions:
    """All transactions of the streams of a run."""

    def __init__(self, files: Iterable[HostFiles], streams: Streams) -> None:
        """``files`` are those of the hosts, or folders, in which journals of lines lie."""
        self._rows = NewRows(files, "transactions")
        self._streams = streams
        self._told: dict[int, _Told] = {}
        self.ended = Counter[str]()
        """Transactions by what was answered first."""

    def take(self) -> None:
        """Take answers that have come since. Raises OSError, ValueError."""
        for row in self._rows.take():
            writer, txn, event = row.get("writer"), row.get("txn"), row.get("event")
            if not (isinstance(writer, int) and isinstance(txn, int) and isinstance(event, str)) or txn < 0:
                continue
            told = self._told.setdefault(writer, _Told(ends=bytearray(), commits=bytearray()))
            told.until(txn)
            if event == _ASKED_COMMIT:
                told.commits[txn] = 1
            elif event in TRANSACTION_ENDS:
                end, before = REPORTED.index(event), told.ends[txn]
                if before == OPEN:
                    self.ended[event] += 1
                if _OUTWEIGHS[end] > _OUTWEIGHS.get(before, 0):
                    told.ends[txn] = end

    def reported(self, writer: Ints, seq: Ints) -> Ints:
        """What was told about the transaction of each message (`REPORTED`); -1 if it is in none."""
        txn = self._streams.transaction_of(writer, seq)
        codes = np.full(len(txn), -1, dtype=np.int64)
        for number in np.unique(writer[txn >= 0]).tolist():
            own = np.flatnonzero((writer == number) & (txn >= 0))
            codes[own] = _ends_of(self._told.get(number), txn[own])
        return codes

    def single_out(self, parts: Mapping[TopicPartition, RollingPartition]) -> None:
        """Make what is not settled part of the rest, with all that decides it."""
        exposed: dict[int, Ints] = {}
        while True:
            unsettled = self._unsettled(parts)
            new = {
                writer: np.setdiff1d(txns, exposed.get(writer, EMPTY)) for writer, txns in unsettled.items()
            }
            if not any(map(len, new.values())):
                return
            for writer, txns in new.items():
                self._expose(parts, writer, txns)
            exposed = unsettled

    def settled_aborted(self, parts: Mapping[TopicPartition, RollingPartition]) -> dict[TopicPartition, Ints]:
        """By topic partition, the offsets of messages of aborted transactions that are settled, rising."""
        found: dict[TopicPartition, list[Ints]] = {}
        unsettled = self._unsettled(parts)
        for writer, (size, count) in self._streams.transactions.items():
            number = np.arange(-(-count // size))
            aborted = number[_ends_of(self._told.get(writer), number) == ABORTED]
            aborted = np.setdiff1d(aborted, unsettled.get(writer, EMPTY))
            blocks = max(1, -(-len(aborted) * size // ROWS_AT_ONCE))
            for some in np.array_split(aborted, blocks):
                rows, targets = self._streams.sent(writer, _seqs(some, size, count))
                acknowledged = rows["state"] == ACKNOWLEDGED
                for target, key in enumerate(targets):
                    there = acknowledged & (rows["target"] == target)
                    found.setdefault(key, []).append(rows["offset"][there])
        return {key: np.unique(np.concatenate(offsets)) for key, offsets in found.items()}

    def _expose(self, parts: Mapping[TopicPartition, RollingPartition], writer: int, txns: Ints) -> None:
        size, count = self._streams.transactions[writer]
        seqs = _seqs(txns, size, count)
        for rolling in parts.values():
            rolling.expose(np.full(len(seqs), writer, dtype=np.int64), seqs)
            ledger = rolling.ledger
            decided = np.concatenate([ledger.parts, ledger.open])
            decided = decided[(decided["writer"] == writer) & np.isin(decided["txn"], txns)]
            rolling.uncover_markers(decided["marker_offset"])
            rolling.uncover(np.unique(decided["raised"][decided["raised"] >= 0]))

    def _unsettled(self, parts: Mapping[TopicPartition, RollingPartition]) -> dict[int, Ints]:
        """By writer, the transactions that are not settled, rising."""
        decided = [_decided(place, rolling.ledger) for place, rolling in enumerate(parts.values())]
        of_all = np.concatenate(decided) if decided else np.empty(0, dtype=_DECIDED)
        odd = _twice(of_all, "place", "writer", "txn") | _twice(of_all, "place", "marker_offset")
        odd |= of_all["odd"]
        named = np.unique(np.concatenate([EMPTY, *(rolling.named for rolling in parts.values())]))
        writers, seqs = writers_and_seqs(named)
        found = {}
        for writer, (size, count) in self._streams.transactions.items():
            txns = -(-count // size)
            own = (of_all["writer"] == writer) & (of_all["txn"] >= 0) & (of_all["txn"] < txns)
            txn, kind, weight = of_all["txn"][own], of_all["kind"][own], of_all["count"][own]
            commits, aborts = (
                np.bincount(txn[kind == one], weight[kind == one], txns).astype(np.int64)
                for one in (COMMIT, ABORT)
            )
            bad = np.zeros(txns, dtype=bool)
            bad[txn[odd[own]]] = True
            mine = seqs[writers == writer]
            bad[np.unique(mine[mine < count] // size)] = True
            messages = np.minimum(np.arange(1, txns + 1) * size, count) - np.arange(txns) * size
            told = self._told.get(writer)
            ends = _ends_of(told, np.arange(txns))
            asked = np.zeros(txns, dtype=bool)
            if told is not None:
                commit = np.frombuffer(bytes(told.commits), dtype=np.uint8)[:txns]
                asked[: len(commit)] = commit == 1
            whole = (ends == COMMITTED) & asked & (commits == messages)
            gone = (ends == ABORTED) & (commits == 0) & ~bad
            short = np.flatnonzero(gone & (aborts < messages))
            gone[short] = self._failures(writer, short) == (messages - aborts)[short]
            found[writer] = np.flatnonzero(bad | ~(whole | gone))
        return found

    def _failures(self, writer: int, txns: Ints) -> Ints:
        """How many messages of some transactions have definitely failed."""
        size, count = self._streams.transactions[writer]
        seqs = _seqs(txns, size, count)
        rows, _ = self._streams.sent(writer, seqs)
        failed = seqs[rows["state"] == _FAILED] // size
        return np.bincount(np.searchsorted(txns, failed), minlength=len(txns)).astype(np.int64)


_DECIDED = np.dtype(
    [
        ("place", "<i4"),
        ("writer", "<i4"),
        ("txn", "<i8"),
        ("count", "<i4"),
        ("marker_offset", "<i8"),
        ("kind", "i1"),
        ("odd", "?"),
    ]
)


def _decided(place: int, ledger: Ledger) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """The parts of one topic partition; those without a marker get one of their own, below all offsets."""
    parts = np.concatenate([ledger.parts, ledger.open])
    rows = np.zeros(len(parts), dtype=_DECIDED)
    rows["place"] = place
    for name in ("writer", "txn", "count", "marker_offset", "kind"):
        rows[name] = parts[name]
    rows["odd"] = (parts["marker_offset"] < 0) | (parts["raised"] >= 0) | (parts["txn"] < 0)
    undecided = np.flatnonzero(parts["marker_offset"] < 0)
    rows["marker_offset"][undecided] = -1 - undecided
    return rows


def _twice(rows: np.ndarray[tuple[int], np.dtype[np.void]], *names: str) -> Flags:
    """Which rows have the same values as another one."""
    twice = np.zeros(len(rows), dtype=bool)
    columns = [rows[name] for name in names]
    order = np.lexsort(columns)
    same = np.all([column[order[1:]] == column[order[:-1]] for column in columns], axis=0)
    twice[order[1:][same]] = True
    twice[order[:-1][same]] = True
    return twice


def _ends_of(told: _Told | None, txns: Ints) -> Ints:
    ends = np.full(len(txns), OPEN, dtype=np.int64)
    if told is not None and len(told.ends):
        known = txns < len(told.ends)
        ends[known] = np.frombuffer(bytes(told.ends), dtype=np.uint8)[txns[known]]
    return ends


def _seqs(txns: Ints, size: int, count: int) -> Ints:
    """The numbers of all messages of some transactions of a writer that has sent ``count`` messages."""
    seqs = (txns[:, None] * size + np.arange(size)).reshape(-1)
    return seqs[seqs < count]
