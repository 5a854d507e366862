"""Planted transactions: fast plan, pieces, SQL in DuckDB and brute force have the same result."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, seed, settings

from tests.histories import History
from tests.oracles import duckdb_plan, findings_of, transactions_of
from tests.property.test_checker import SETTINGS
from tests.property.transactions import brute_force, planted
from tests.transactions import judged, ordered

OTHERS = ("lost", "undetermined", "out_of_order", "phantom", "lost_after_read")
"""Findings about messages, which other tests compare."""


def check_model(history: History, folder: Path, **cut: int) -> dict[str, list[dict[str, Any]]]:
    """The fast plan against brute force."""
    found = judged(history, folder, **cut)
    states, fates, findings = brute_force(history)
    assert {(row["writer"], row["seq"]): row["state"] for row in found["records"]} == states
    reported = {
        (row["writer"], row["txn"]): (row["reported"], row["visible"], row["finding"])
        for row in found["fates"]
    }
    assert reported == fates
    places = [
        (row["class"], row["partition"], row["offset"], row["writer"], row["seq"])
        for row in found["findings"]
        if row["class"] not in OTHERS
    ]
    assert sorted(places) == sorted(findings)
    return found


def check_all(history: History) -> None:
    """All ways to the answer."""
    with tempfile.TemporaryDirectory() as scratch:
        whole = check_model(history, Path(scratch) / "whole")
        pieces = judged(history, Path(scratch) / "pieces", piece_messages=1, split_rows=2)
        for table, rows in whole.items():
            assert ordered(pieces[table]) == ordered(rows), f"pieces differ in {table}"
        with duckdb_plan(Path(scratch) / "whole") as general:
            reported = transactions_of(general)
            seen = sorted(map(str, findings_of(general)))
        assert ordered(reported["transaction_fates"]) == ordered(whole["fates"])
        assert ordered(reported["transaction_records"]) == ordered(whole["records"])
        place = ("class", "topic", "partition", "offset", "writer", "seq")
        assert seen == sorted(str(tuple(row[key] for key in place)) for row in whole["findings"])


@pytest.mark.long
@settings(SETTINGS, max_examples=300)
@given(planted())
def test_every_way_comes_to_the_same(history: History) -> None:
    check_all(history)


@settings(SETTINGS, max_examples=100)
@given(planted())
def test_the_fast_plan_finds_what_was_planted(history: History) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        check_model(history, Path(scratch) / "history")


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
@pytest.mark.timeout(3600)
def test_the_fast_plan_finds_what_was_planted_thousands_of_times(part: int) -> None:
    """Two thousand histories in each part."""

    @seed(part)
    @settings(SETTINGS, max_examples=2000, derandomize=False, database=None)
    @given(planted())
    def find(history: History) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            check_model(history, Path(scratch) / "history")

    find()
