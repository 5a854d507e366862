"""Transactions of one topic partition in a rolling judgement: which marker decided which records.

The next marker of its producer id decides a transactional record (`checkers.partition.decisions`). The
records of one transaction that the same marker decides are a *part*. A part is all that is needed to know
how its records were decided, and to restore what their batches said, so they need not stay in memory. What
is undecided, and the latest epochs of each producer id, pass from one window to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from checkers.partition.decisions import ProducerRecords
from checkers.partition.messages import Flags, Ints

Rows = npt.NDArray[np.void]

PART = np.dtype(
    [
        ("writer", "<i4"),
        ("txn", "<i8"),
        ("producer", "<i8"),
        ("epoch", "<i4"),
        ("count", "<i4"),
        ("first", "<i8"),
        ("last", "<i8"),
        ("marker_offset", "<i8"),
        ("kind", "i1"),
        ("raised", "<i8"),
    ]
)
"""Records of a producer id and epoch: how many, their first and last offset, and their marker's with its kind
(-1: none).

``txn`` is -1 if it is not known. ``raised`` is the first offset at which the producer id had a later epoch,
if that is before its last record; else -1.
"""
MARKER = np.dtype(
    [("offset", "<i8"), ("producer", "<i8"), ("epoch", "<i4"), ("coordinator_epoch", "<i4"), ("kind", "i1")]
)
"""A marker, as in `ProducerRecords`."""
NO_PARTS: Rows = np.empty(0, dtype=PART)
NO_MARKERS: Rows = np.empty(0, dtype=MARKER)
UNKNOWN_COORDINATOR = -2
"""A coordinator epoch that is not known; -1 is that of a marker which an operator's tool wrote."""
_EPOCHS_KEPT = 8
"""Latest epochs of a producer id that are known; an older one counts as the first of these."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What a window says of transactions."""

    parts: Rows = field(default_factory=lambda: NO_PARTS)
    """Those whose marker is in the window."""
    markers: Rows = field(default_factory=lambda: NO_MARKERS)
    open: Rows = field(default_factory=lambda: NO_PARTS)
    """Those that had no marker where the window ends, also of earlier windows."""
    epochs: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """By producer id, its latest epochs and the first offset of each, up to the end of the window."""


NOTHING = Ledger()


def joined(ledgers: Sequence[Ledger]) -> Ledger:
    """What adjacent windows say together."""
    return Ledger(
        parts=np.concatenate([one.parts for one in ledgers]),
        markers=np.concatenate([one.markers for one in ledgers]),
        open=ledgers[-1].open,
        epochs=ledgers[-1].epochs,
    )


def followed_by(before: Ledger, records: ProducerRecords, writer: Ints, txn: Ints) -> Ledger:
    """What the window right behind another one says.

    ``records`` are those of its reference log, by offset; ``writer`` and ``txn`` are of the same length, -1
    for a record that is no message of a transaction as far as is known.
    """
    written = (records.producer >= 0) & (records.control | (records.transactional == 1))
    if not written.any():
        return Ledger(open=before.open, epochs=before.epochs)
    fold = _Fold(before)
    for producer in np.unique(records.producer[written]).tolist():
        rows = np.flatnonzero(written & (records.producer == producer))
        fold.take(producer, records.take(rows), writer[rows], txn[rows])
    return fold.ledger()


class _Fold:
    """Takes the records of one producer id after the other."""

    def __init__(self, before: Ledger) -> None:
        self._open: dict[int, list[dict[str, int]]] = {}
        for row in before.open:
            part = {name: int(row[name]) for name in PART.names or ()}
            self._open.setdefault(part["producer"], []).append(part)
        self._epochs = dict(before.epochs)
        self._parts: list[dict[str, int]] = []
        self._markers: list[Rows] = []

    def take(self, producer: int, records: ProducerRecords, writer: Ints, txn: Ints) -> None:
        """All records of a producer id in the window."""
        raised = self._raised(producer, records)
        at = np.flatnonzero(records.control)
        self._markers.append(_markers(records.take(at)))
        columns = np.stack([records.epoch.astype(np.int64), writer, txn, records.control.astype(np.int64)])
        changes = (np.diff(columns, axis=1) != 0).any(axis=0) | records.control[1:]
        edges = np.append(0, np.flatnonzero(changes) + 1)
        for first, end in zip(edges.tolist(), [*edges[1:].tolist(), len(writer)], strict=True):
            if records.control[first]:
                self._close(producer, int(records.offset[first]), int(records.marker[first]))
                continue
            self._add(
                {
                    "writer": int(writer[first]),
                    "txn": int(txn[first]),
                    "producer": producer,
                    "epoch": int(records.epoch[first]),
                    "count": end - first,
                    "first": int(records.offset[first]),
                    "last": int(records.offset[end - 1]),
                    "marker_offset": -1,
                    "kind": -1,
                    "raised": int(raised[first:end].max()),
                }
            )

    def _add(self, part: dict[str, int]) -> None:
        parts = self._open.setdefault(part["producer"], [])
        same = [one for one in parts if (one["writer"], one["txn"]) == (part["writer"], part["txn"])]
        if same and same[-1]["epoch"] == part["epoch"]:
            known = same[-1]
            known["count"] += part["count"]
            known["last"] = part["last"]
            known["raised"] = max(known["raised"], part["raised"])
        else:
            parts.append(part)

    def _close(self, producer: int, offset: int, kind: int) -> None:
        for part in self._open.pop(producer, []):
            self._parts.append({**part, "marker_offset": offset, "kind": kind})

    def _raised(self, producer: int, records: ProducerRecords) -> Ints:
        """Of each record, the first offset before it at which the producer id had a later epoch; -1: none."""
        known = list(self._epochs.get(producer, ()))
        before = known[-1][0] if known else -1
        highest = np.maximum.accumulate(np.append(before, records.epoch))[:-1]
        rises = np.flatnonzero(records.epoch > highest)
        known += zip(records.epoch[rises].tolist(), records.offset[rises].tolist(), strict=True)
        raised = np.full(len(highest), -1, dtype=np.int64)
        for row in np.flatnonzero(highest > records.epoch).tolist():
            raised[row] = next(offset for epoch, offset in known if epoch > records.epoch[row])
        self._epochs[producer] = tuple(known[-_EPOCHS_KEPT:])
        return raised

    def ledger(self) -> Ledger:
        """What the window says."""
        order = np.concatenate([NO_MARKERS, *self._markers])
        return Ledger(
            parts=_rows(self._parts),
            markers=order[np.argsort(order["offset"], kind="stable")],
            open=_rows([part for parts in self._open.values() for part in parts]),
            epochs=self._epochs,
        )


def _rows(parts: Sequence[Mapping[str, int]]) -> Rows:
    return np.array([tuple(part[name] for name in PART.names or ()) for part in parts], dtype=PART)


def _markers(records: ProducerRecords) -> Rows:
    rows = np.empty(len(records.offset), dtype=MARKER)
    for name in ("offset", "producer", "epoch", "coordinator_epoch"):
        rows[name] = getattr(records, name)
    rows["kind"] = records.marker
    return rows


@dataclass(frozen=True, kw_only=True)
class BatchColumns:
    """What the batches of some records said, as columns of `copies`; -1 stands for null."""

    producer: Ints
    epoch: Ints
    marker: Ints
    coordinator_epoch: Ints
    """`UNKNOWN_COORDINATOR` stands for null."""


def columns_of(ledger: Ledger, offset: Ints, writer: Ints, txn: Ints, control: Flags) -> BatchColumns:
    """What the ledger of all windows knows of some of their records."""
    empty = {"producer": -1, "epoch": -1, "kind": -1, "coordinator_epoch": UNKNOWN_COORDINATOR}
    found = {name: np.full(len(offset), value, dtype=np.int64) for name, value in empty.items()}
    rows, known = np.flatnonzero(control), ledger.markers["offset"]
    if len(rows) and len(known):
        place = np.minimum(np.searchsorted(known, offset[rows]), len(known) - 1)
        hit = known[place] == offset[rows]
        for name, values in found.items():
            values[rows[hit]] = ledger.markers[name][place[hit]]
    parts: dict[tuple[int, int], list[Rows]] = {}
    every = np.concatenate([ledger.parts, ledger.open])
    for part in every[np.isin(every["txn"], txn[~control]) & np.isin(every["writer"], writer[~control])]:
        parts.setdefault((int(part["writer"]), int(part["txn"])), []).append(part)
    for row in np.flatnonzero(~control).tolist() if parts else ():
        for part in parts.get((int(writer[row]), int(txn[row])), ()):
            if part["first"] <= offset[row] <= part["last"]:
                found["producer"][row], found["epoch"][row] = part["producer"], part["epoch"]
                break
    return BatchColumns(
        producer=found["producer"],
        epoch=found["epoch"],
        marker=found["kind"],
        coordinator_epoch=found["coordinator_epoch"],
    )
