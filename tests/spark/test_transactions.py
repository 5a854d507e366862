"""Transactions on Spark: claims, queries, stories and promises can use what is judged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.ask.sql import query
from checkers.ask.story import story as story_of
from checkers.judge import judge_import
from harness.errors import UsageError
from report.words.causes import cause_of
from tests.anomalies.transactions import TRANSACTIONS, Story, ended
from tests.histories import History, together

pytestmark = pytest.mark.spark


def watched() -> History:
    """A transaction that holds up the last stable offset for two and a half seconds."""
    story = Story().event(1, "begin").write(1).marker("commit")
    history = ended(story, 1, "commit").done()
    place = {"topic": "t", "partition": 0, "broker": 1, "leo": 2}
    for at, high, stable in ((1.0, 0, 0), (2.0, 1, 0), (3.0, 2, 0), (4.5, 2, 2)):
        ns = int(at * 10**9)
        history.add("watermarks", ns=ns, high_watermark=high, last_stable_offset=stable, **place)
    return history


def histories(names: Iterable[str]) -> dict[str, History]:
    return {name: TRANSACTIONS[name][1] for name in names} | {"watched": watched()}


def findings_of(folder: Path) -> list[tuple[Any, ...]]:
    rows = pq.read_table(folder / "findings.parquet").to_pylist()
    return sorted(((r["topic"], r["class"], r["partition"], r["offset"], r["seq"]) for r in rows), key=str)


def expected_of(names: Iterable[str]) -> list[tuple[Any, ...]]:
    findings = [(name, c, p, o, q) for name in names for c, p, o, q in TRANSACTIONS[name][2]]
    return sorted(findings, key=str)


def test_transactions_are_judged_queried_and_narrated(spark: Any, tmp_path: Path) -> None:
    """One history of each finding: its name, the story of a transaction, the view of blocked readers."""
    names = list(
        {tuple(c for c, *_ in expected): name for name, (_, _, expected) in TRANSACTIONS.items()}.values()
    )
    names = sorted({*names, "late-abort"}, key=[*TRANSACTIONS].index)
    folder = together(histories(names), tmp_path / "history")
    judgement = judge_import(spark, folder)
    assert findings_of(folder) == expected_of(names)
    writer = 1 + 100 * names.index("late-abort")
    lines = list(map(str, story_of(spark, folder, f"txn:{writer}/2", cause_of)))
    assert (
        lines[0]
        == "Transaction 2 of p (transactional.id xlate-abort): reported as committed, part of it readable"
    )
    text = "\n".join(lines)
    parts = (
        "it began",
        "acknowledged at offset 2",
        "the application asked to commit",
        "reported to the application: committed",
    )
    places = [text.find(part) for part in parts]
    assert -1 not in places and places == sorted(places), text
    assert "late-abort/0 at offset 2: aborted, decided by the abort at offset 3 (producer epoch 0" in text
    assert lines[-1].strip().startswith("cause  torn transaction: late marker: a delayed request to abort")
    with pytest.raises(UsageError, match="has no transaction"):
        story_of(spark, folder, "txn:9999/1", cause_of)
    with pytest.raises(UsageError, match="names no transaction"):
        story_of(spark, folder, "txn:9999", cause_of)
    watched_lines = "\n".join(map(str, story_of(spark, folder, f"txn:{1 + 100 * len(names)}/1", cause_of)))
    assert "watched/0 readable up to offset 0 on broker1" in watched_lines
    name = "zombie-before-successor-begins"
    fenced_lines = "\n".join(
        map(str, story_of(spark, folder, f"txn:{1 + 100 * names.index(name)}/1", cause_of))
    )
    assert "q, with the same transactional id, fenced it" in fenced_lines
    blocked = """select writer, txn, seconds from blocked_readers where topic = 'watched'"""
    columns, rows = query(spark, blocked, [folder])
    assert (columns, rows) == (["writer", "txn", "seconds"], [(1 + 100 * len(names), 1, 2.5)])
    assert "KAFKA-17754" in {row["known_bug"] for row in judgement.promises}


@pytest.mark.long
def test_every_history_of_transactions(spark: Any, tmp_path: Path) -> None:
    folder = together(histories(TRANSACTIONS), tmp_path)
    judgement = judge_import(spark, folder)
    assert findings_of(folder) == expected_of(TRANSACTIONS)
    assert {"KAFKA-17754", "KAFKA-20716"} <= {row["known_bug"] for row in judgement.promises}
