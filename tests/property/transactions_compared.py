"""Planted transactions judged by the checker and by brute force.

Histories are judged together, as topics of one history, because most of the cost is that of a folder.
Topics, writers, readers and transactional ids are disjoint (`tests.histories.apart`), so that the answers can
be split again. A history that differs is judged again alone.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from hypothesis.internal.conjecture.data import ConjectureData

from tests.histories import SPAN, History, apart, joined
from tests.property.transactions import brute_force, planted
from tests.transactions import judged, judged_folder

OTHERS = ("lost", "undetermined", "out_of_order", "phantom", "lost_after_read")
"""Findings about messages, which other tests compare."""
PLACE = ("class", "topic", "partition", "offset", "writer", "seq")
COLUMNS: Mapping[str, Sequence[str]] = {
    "findings": PLACE,
    "fates": ("writer", "txn", "reported", "visible", "finding"),
    "records": ("writer", "seq", "state"),
}
"""By table: the columns that brute force knows."""
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


def check_model(history: History, folder: Path) -> None:
    """Fail unless the checker and brute force say the same."""
    odd = _compared(judged(history, folder), by_brute_force(history))
    assert not odd, "\n".join(map(str, odd))


# ---- many histories together


@dataclass(frozen=True)
class Difference:
    """Rows of one history that only one side has."""

    number: int
    table: str
    by_brute_force: tuple[str, ...]
    by_checker: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.table}: only by brute force: {list(self.by_brute_force)}; "
            f"only by the checker: {list(self.by_checker)}"
        )


def differences(histories: Sequence[History]) -> list[Difference]:
    """Judge histories together, from files that are split by partition first; returns where they differ."""
    disjoint = [apart(f"t{number}", number, history) for number, history in enumerate(histories)]
    with tempfile.TemporaryDirectory(prefix="acked-planted-") as scratch:
        folder = joined(disjoint).write(Path(scratch) / "history")
        judgement = judged_folder(folder, split_rows=2)
    return _compared(judgement, _together(by_brute_force(history) for history in disjoint))


def _together(answers: Iterable[Answers]) -> Answers:
    tables: dict[str, Rows] = {name: [] for name in COLUMNS}
    for answer in answers:
        for name, rows in answer.items():
            tables[name] += rows
    return tables


def _compared(judgement: Answers, model: Answers) -> list[Difference]:
    odd = []
    for table, rows in model.items():
        judged_rows = [row for row in judgement[table] if table != "findings" or row["class"] not in OTHERS]
        has, lacks = (_by_history(some, COLUMNS[table]) for some in (rows, judged_rows))
        for number in sorted({*has, *lacks}):
            more, fewer = has.get(number, Counter()), lacks.get(number, Counter())
            if more != fewer:
                texts = (tuple(sorted((a - b).elements())) for a, b in ((more, fewer), (fewer, more)))
                odd.append(Difference(number, table, *texts))
    return odd


def _by_history(rows: Rows, columns: Sequence[str] | None) -> dict[int, Counter[str]]:
    """Rows as text, with these columns only, by the number of their history."""
    rows_by_history: dict[int, Counter[str]] = {}
    for row in rows:
        kept = {name: row[name] for name in columns}
        number = row["writer"] // SPAN if row["writer"] is not None else int(row["topic"].removeprefix("t"))
        rows_by_history.setdefault(number, Counter())[str(kept)] += 1
    return rows_by_history


def disagreements(histories: Sequence[History]) -> list[str]:
    """Each history on which the two differ: its number, what differs when it is judged alone, its rows."""
    texts_by_history = []
    for first in range(0, len(histories), TOGETHER):
        batch = histories[first : first + TOGETHER]
        for number, texts in _guilty(batch).items():
            rows = [f"{table}: {row}" for table, rows in batch[number].rows.items() for row in rows]
            texts_by_history.append("\n    ".join((f"history {first + number}", *texts, *rows)))
    return texts_by_history


def _guilty(batch: Sequence[History]) -> dict[int, list[str]]:
    """The numbers of the histories that differ, and how."""
    together: dict[int, list[str]] = {}
    try:
        for one in differences(batch):
            together.setdefault(one.number, []).append(str(one))
    except Exception as error:  # noqa: BLE001 - whatever it is, one of them causes it
        alone = {number: _alone(history) for number, history in enumerate(batch)}
        return {number: texts for number, texts in alone.items() if texts} or {0: [f"in a batch: {error!r}"]}
    return {
        number: _alone(batch[number]) or ["only in a batch", *texts] for number, texts in together.items()
    }


def _alone(history: History) -> list[str]:
    try:
        return [str(one) for one in differences([history])]
    except Exception as error:  # noqa: BLE001 - as above
        return [repr(error)]
