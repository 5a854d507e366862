"""The texts of what claims observed: words for a reader, not the arrays and structs of SQL."""

from __future__ import annotations

import re

import pytest

from tests.runs.stored import judge_tables, read_stored

_RAW = re.compile(r"\[\[|\[\]|[{}]|on \[|(?<!\d)[01] times|(?<!\d)1 messages (?!.* of)|None|NULL")
"""Nested and empty lists, structs, and counts without a grammatical number."""


@pytest.mark.parametrize(
    "name",
    ["canary", "leader-az-isolated", "hw-truncation-fast-failovers", "controller-cut-from-brokers"],
)
def test_observations_are_in_words(name: str) -> None:
    stored = read_stored(name)
    for claim in judge_tables(stored.tables, stored.declared):
        for part in claim.observed.split("; "):
            if not re.match(r"\d+ of \d+ ", part):
                assert not _RAW.search(part), f"{name}: {claim.name} observed {claim.observed!r}"


def test_observations_name_brokers_and_counts() -> None:
    stored = read_stored("canary")
    (claim,) = [one for one in judge_tables(stored.tables, stored.declared) if one.name == "damage-is-seen"]
    assert claim.observed == (
        "findings: 1, corrupt at offset 1 of t on broker3; 1 message on broker1, broker2, broker3"
    )
