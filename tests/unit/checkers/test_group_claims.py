"""Sentences about committed offsets, on rows of `groups`: true, false, and unknown where nobody asked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from checkers.claims.builders import group_offsets
from harness.history.schema import TABLES
from tests.runs.stored import judge_tables

G = group_offsets("g")
MARKS = {"cut": 100, "moved": 200, "asked": 300}
AFTER_CUT: dict[str, Any] = {"after": "cut", "before": "asked"}


def row(ns: int, event: str, broker: int, offset: int | None, error: int = 0, group: str = "g") -> Any:
    blank = dict.fromkeys(TABLES["groups"].arrow().names)
    reported = {"ns": ns, "event": event, "broker": broker, "offset": offset, "error": error}
    return {**blank, **reported, "group": group, "reader": 1, "topic": "t", "partition": 0}


HISTORY = [
    row(50, "committed", 1, 10),
    row(110, "commit_failed", 1, 20, 7),
    row(120, "fetched", 1, 10),
    row(130, "fetched", 2, None, 14),
    row(210, "fetched", 2, 10),
    row(220, "committed", 2, 12),
    row(230, "fetched", 1, None, 16),
    row(240, "committed", 1, 99, group="other"),
]
LOST = [*HISTORY[:1], row(110, "committed", 1, 20), row(210, "fetched", 2, 10)]


def judge(sentence: str, rows: list[Any]) -> tuple[str, str]:
    marks = [{"ns": ns, "name": name, "text": name} for name, ns in MARKS.items()]
    tables = {
        name: pa.Table.from_pylist(content, schema=TABLES[name].arrow())
        for name, content in {"marks": marks, "groups": rows, "sends": [], "copies": []}.items()
    }
    claim = {"name": "c", "says": "It is so.", "section": "1", "holds": sentence}
    (found,) = judge_tables(tables, {"claims": [claim]})
    return found.status, found.observed


@pytest.mark.parametrize(
    ("sentence", "status", "observed"),
    [
        (G.commits_answered(7, at=1, **AFTER_CUT), "confirmed", "1 commit: error 7"),
        (G.commits_answered(0, at=1, **AFTER_CUT), "refuted", "1 commit: error 7"),
        (G.commits_answered(0, at=(2, 3), **AFTER_CUT), "confirmed", "1 commit: error 0"),
        (G.commits_answered(7, at=1, offsets=(21,), **AFTER_CUT), "unknown", "0 commits: error none"),
        (
            G.commits_answered(7, at=1, not_within_s=9e-9, **AFTER_CUT),
            "confirmed",
            "1 commit: error 7, the first after 0.0 s",
        ),
        (
            G.commits_answered(7, at=1, not_within_s=12e-9, **AFTER_CUT),
            "refuted",
            "1 commit: error 7, the first after 0.0 s",
        ),
        (G.is_answered(10, by=1, after="cut", before="moved"), "confirmed", "1 answer: 10"),
        (G.is_answered(11, by=1, after="cut", before="moved"), "refuted", "1 answer: 10"),
        (G.is_answered(10, by=2, **AFTER_CUT), "refuted", "2 answers: 10 or error 14"),
        (G.is_answered(10, by=3, **AFTER_CUT), "unknown", "0 answers: none"),
        (G.is_answered(10, by=2, after="moved", before="asked", at_least=2), "unknown", "1 answer: 10"),
        (G.is_refused(16, by=1, after="moved", before="asked"), "confirmed", "1 answer: error 16"),
        (G.is_refused(16, by=1, **AFTER_CUT), "refuted", "2 answers: 10 or error 16"),
    ],
)
def test_what_brokers_answered(sentence: str, status: str, observed: str) -> None:
    assert judge(sentence, HISTORY) == (status, observed)


@pytest.mark.parametrize(
    ("rows", "lost", "none_lost"),
    [
        (LOST, "confirmed", "refuted"),
        ([*LOST, row(220, "fetched", 2, 20)], "refuted", "confirmed"),
        ([*LOST[:2], row(210, "fetched", 2, None)], "confirmed", "refuted"),
        ([*LOST[:2], row(210, "fetched", 2, None, 14)], "unknown", "unknown"),
        ([row(110, "commit_failed", 1, 20, 7), row(210, "fetched", 2, 10)], "refuted", "unknown"),
        (LOST[:2], "unknown", "unknown"),
    ],
)
def test_acknowledged_commits_are_compared_with_the_last_answer(
    rows: list[Any], lost: str, none_lost: str
) -> None:
    assert judge(G.acknowledged_then_lost(by=(2, 3), **AFTER_CUT), rows)[0] == lost
    assert judge(G.none_lost(by=(2, 3), **AFTER_CUT), rows)[0] == none_lost


def test_the_messages_that_are_processed_again_are_counted() -> None:
    observed = judge(G.acknowledged_then_lost(by=(2, 3), **AFTER_CUT), LOST)[1]
    assert observed == "1 acknowledged, 1 lost: offset 10, 10 messages are processed again"
