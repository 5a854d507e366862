"""Expired offsets, resets and stalls: checker against truth, on hand-made histories and changed ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from checkers.evidence import gather
from checkers.groups.findings import group_findings
from checkers.tables.source import open_source
from tests.histories import History
from tests.independent import groups
from tests.unit.checkers import test_group_expiry as expiry
from tests.unit.checkers import test_group_positions as positions

S = 10**9
CLASSES = ("offset_expired", "commit_lost", "group_reset", "group_stalled")
Row = dict[str, Any]


def of_rows(*rows: Row) -> History:
    """A history of events of one group, on brokers that keep committed offsets for a minute."""
    made = History()
    for row in rows:
        made.add("groups", **{"group": "g", "topic": "t", "partition": 0, **row})
    return made.add("configs", **expiry.RETENTION)


HISTORIES: dict[str, History] = {
    **positions.BACK,
    **positions.STILL,
    "expired": of_rows(*expiry.LEFT, *expiry.returns(95 * S)),
    "expired with KIP-848": of_rows(
        expiry.LEFT[0] | {"protocol": "consumer"}, *expiry.LEFT[1:], *expiry.returns(75 * S)
    ),
    **{f"not expired: {name}": of_rows(*rows) for name, (rows, _) in expiry.LOOK_ALIKE.items()},
    "reset": positions.history(
        positions.COMMITTED,
        [*positions.RECEIVED, *positions.AGAIN],
        marks=positions.LOGS,
        views=positions.UNCLEAN,
    ),
    "retired": positions.history(
        positions.SLOW,
        [*positions.RECEIVED, (1, 41, 100)],
        marks=positions.RETIRED,
        views=positions.LED,
    ),
    "stalled": positions.history(
        positions.STOOD,
        [*positions.READ, (1, 45, 12)],
        marks=positions.ARRIVED,
        views=positions.NO_COORDINATOR,
    ),
    "wiped": positions.history(
        positions.COMMITTED,
        [*positions.RECEIVED, *positions.AGAIN],
        marks=(positions.log(2, 10, 22), positions.log(2, 28, 0)),
        views=(positions.leads(2, 0, 0, (2,)), positions.leads(2, 2, 27, (2,))),
        faults=[positions.wiped(26, "t/0")],
    ),
}


def changed(history: History, random: Random) -> History:
    """The same with rows left out, moved in time, or of another member."""
    made = History()
    for table, rows in history.rows.items():
        for row in rows:
            one = dict(row)
            if random.random() < 0.06:
                continue
            if one.get("ns") is not None and random.random() < 0.15:
                moved = max(S, one["ns"] + random.randint(-30, 30) * S)
                if one.get("asked_ns") is not None:
                    one["asked_ns"] += moved - one["ns"]
                one["ns"] = moved
            if table == "groups" and random.random() < 0.05:
                one["reader"] = random.choice((1, 2, 3))
            made.add(table, **one)
    return made


def disagreement(history: History, folder: Path) -> str:
    """What checker and truth say differently; empty if they agree."""
    rows: dict[str, list[dict[str, Any]]] = {"sends": [], "copies": [], **history.rows}
    truth = Counter(
        {(one.name, one.offset): count for one, count in groups.findings(rows).items() if one.name in CLASSES}
    )
    said = Counter(
        (row["class"], row["offset"] if row["class"] != "group_stalled" else None)
        for row in group_findings(gather(open_source(history.write(folder))))
        if row["class"] in CLASSES
    )
    return "" if truth == said else f"truth {dict(truth)}, checker {dict(said)}"


@pytest.mark.parametrize("name", HISTORIES)
def test_the_truth_about_hand_made_histories(tmp_path: Path, name: str) -> None:
    assert disagreement(HISTORIES[name], tmp_path) == ""


def compare(folder: Path, variants: int) -> Counter[str]:
    """Compare changed histories; returns how often each class was found."""
    count_by_class: Counter[str] = Counter()
    for place, (name, history) in enumerate(HISTORIES.items()):
        for number in range(variants):
            one = changed(history, Random(f"{name} {number}"))
            difference = disagreement(one, folder / f"{place}-{number}")
            assert difference == "", f"{name} {number}: {difference}"
            rows: dict[str, list[dict[str, Any]]] = {"sends": [], "copies": [], **one.rows}
            count_by_class.update(finding.name for finding in groups.findings(rows))
    return count_by_class


def test_the_truth_about_changed_histories(tmp_path: Path) -> None:
    count_by_class = compare(tmp_path, 4)
    assert min(count_by_class[name] for name in CLASSES) > 0, count_by_class


@pytest.mark.long
def test_the_truth_about_many_changed_histories(tmp_path: Path) -> None:
    count_by_class = compare(tmp_path, 30)
    assert min(count_by_class[name] for name in CLASSES) > 15, count_by_class
