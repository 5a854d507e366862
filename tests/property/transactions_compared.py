"""Planted transactions judged in three ways: whole partitions, partitions in pieces, and brute force.

Histories are judged together, as topics of one history, because most of the cost is that of a folder.
Topics, writers, readers and transactional ids are disjoint (`tests.histories.apart`), so that the answers can
be split again. A history that differs is judged again alone.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from hypothesis.internal.conjecture.data import ConjectureData

from tests.histories import SPAN, History, apart, joined
from tests.independent.layout import plain
from tests.property.transactions import brute_force, planted
from tests.transactions import judged, judged_folder

OTHERS = ("lost", "undetermined", "out_of_order", "phantom", "lost_after_read")
"""Findings about messages, which other tests compare."""
PLACE = ("class", "topic", "partition", "offset", "writer", "seq")
COLUMNS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "brute force": {
        "findings": PLACE,
        "fates": ("writer", "txn", "reported", "visible", "finding"),
        "records": ("writer", "seq", "state"),
    },
}
"""By way and table: the columns that it knows, if not all."""
WAYS = ("pieces", "brute force")
"""What is compared with whole partitions."""
TOGETHER = 100
"""Histories that are judged together."""

Rows = list[dict[str, Any]]
Answers = Mapping[str, Rows]
"""Rows of `findings`, `fates` and `records` (and, of the checker, `anomalies`)."""


def histories_of(seed: int, numbers: Iterable[int]) -> list[History]:
    """Planted histories, each a pure function of seed and number.

    Hypothesis itself, which runs a test with the examples of a strategy, repeats a quarter of them.
    """
    strategy = planted()
    return [ConjectureData(random=Random(f"{seed}/{number}")).draw(strategy) for number in numbers]


# ---- the ways


def by_brute_force(history: History) -> Answers:
    """The model of one history."""
    states, fates, findings = brute_force(history)
    topic = history.rows["replicas"][0]["topic"]
    return {
        "findings": [
            {"class": name, "topic": topic, "partition": p, "offset": o, "writer": w, "seq": q}
            for name, p, o, w, q in findings
        ],
        "fates": [
            {"writer": w, "txn": txn, "reported": reported, "visible": visible, "finding": finding}
            for (w, txn), (reported, visible, finding) in fates.items()
        ],
        "records": [{"writer": w, "seq": q, "state": state} for (w, q), state in states.items()],
    }


def check_model(history: History, folder: Path, **cut: int) -> Answers:
    """The checker against brute force; returns what the checker found."""
    found = judged(history, folder, **cut)
    odd = _compared("brute force", found, by_brute_force(history))
    assert not odd, "\n".join(map(str, odd))
    return found


# ---- many histories together


@dataclass(frozen=True)
class Difference:
    """Rows of one history that one way has and whole partitions have not, or the other way round."""

    number: int
    way: str
    table: str
    theirs: tuple[str, ...]
    ours: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table}: only by {self.way}: {list(self.theirs)}; only whole: {list(self.ours)}"


def differences(histories: Sequence[History], ways: Sequence[str] = WAYS) -> list[Difference]:
    """Judge histories together, whole and in these ways; returns where they differ."""
    disjoint = [apart(f"t{number}", number, history) for number, history in enumerate(histories)]
    everything = joined(disjoint)
    with tempfile.TemporaryDirectory(prefix="acked-planted-") as scratch:
        apart_folder, mixed_folder = Path(scratch) / "partitions", Path(scratch) / "mixed"
        apart_folder.mkdir()
        replace(plain(0), files="partitions").write(
            {"sends": [], "copies": []} | everything.rows, apart_folder
        )
        everything.write(mixed_folder)
        found = judged_folder(apart_folder)
        judge: Mapping[str, Callable[[], Answers]] = {
            "pieces": lambda: judged_folder(mixed_folder, piece_messages=1, split_rows=2),
            "brute force": lambda: _together(by_brute_force(history) for history in disjoint),
        }
        return [one for way in ways for one in _compared(way, found, judge[way]())]


def _together(answers: Iterable[Answers]) -> Answers:
    found: dict[str, Rows] = {name: [] for name in COLUMNS["brute force"]}
    for answer in answers:
        for name, rows in answer.items():
            found[name] += rows
    return found


def _compared(way: str, ours: Answers, theirs: Answers) -> list[Difference]:
    found = []
    for table, rows in theirs.items():
        columns = COLUMNS.get(way, {}).get(table)
        mine = [
            row
            for row in ours[table]
            if way != "brute force" or table != "findings" or row["class"] not in OTHERS
        ]
        has, lacks = (_by_history(some, columns) for some in (rows, mine))
        for number in sorted({*has, *lacks}):
            more, fewer = has.get(number, Counter()), lacks.get(number, Counter())
            if more != fewer:
                texts = (tuple(sorted((a - b).elements())) for a, b in ((more, fewer), (fewer, more)))
                found.append(Difference(number, way, table, *texts))
    return found


def _by_history(rows: Rows, columns: Sequence[str] | None) -> dict[int, Counter[str]]:
    """Rows as text, with these columns only, by the number of their history."""
    found: dict[int, Counter[str]] = {}
    for row in rows:
        kept = {name: row[name] for name in columns or sorted(row)}
        number = row["writer"] // SPAN if row["writer"] is not None else int(row["topic"].removeprefix("t"))
        found.setdefault(number, Counter())[str(kept)] += 1
    return found


def disagreements(histories: Sequence[History], ways: Sequence[str] = WAYS) -> list[str]:
    """Each history on which the ways differ: its number, what differs when it is judged alone, its rows."""
    found = []
    for first in range(0, len(histories), TOGETHER):
        batch = histories[first : first + TOGETHER]
        for number, texts in _guilty(batch, ways).items():
            rows = [f"{table}: {row}" for table, rows in batch[number].rows.items() for row in rows]
            found.append("\n    ".join((f"history {first + number}", *texts, *rows)))
    return found


def _guilty(batch: Sequence[History], ways: Sequence[str]) -> dict[int, list[str]]:
    """The numbers of the histories that differ, and how."""
    together: dict[int, list[str]] = {}
    try:
        for one in differences(batch, ways):
            together.setdefault(one.number, []).append(str(one))
    except Exception as error:  # noqa: BLE001 - whatever it is, one of them causes it
        alone = {number: _alone(history, ways) for number, history in enumerate(batch)}
        return {number: texts for number, texts in alone.items() if texts} or {0: [f"in a batch: {error!r}"]}
    return {
        number: _alone(batch[number], ways) or ["only in a batch", *texts]
        for number, texts in together.items()
    }


def _alone(history: History, ways: Sequence[str]) -> list[str]:
    try:
        return [str(one) for one in differences([history], ways)]
    except Exception as error:  # noqa: BLE001 - as above
        return [repr(error)]
