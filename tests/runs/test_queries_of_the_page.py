"""The queries of `docs/analysis.md` about groups and transactions, against stored runs and their findings."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.runs.stored import ask, derive, read_stored, written

PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"
_SECTION = PAGE.read_text().split("\n## Groups and transactions\n")[1].split("\n## ")[0]
_BLOCK = re.compile(r"`([\w-]+)`:\n\n```sql\n(.*?)```\s*```\n(.*?)```", re.DOTALL)
EXAMPLES = {name: (query, shown) for name, query, shown in _BLOCK.findall(_SECTION)}
CLASSES = {
    "offsets-commit-lost": {"commit_lost"},
    "stale-coordinator-offsets": {"stale_offset"},
    "static-member-az-isolated": {"double_ownership"},
    "commit-marker-lost": {"hung_transaction", "hanging_transaction"},
}
"""The findings that each query shows, by the stored run that the page asks."""
OTHERS = ("exactly-once-az-isolated", "offsets-commit-lost-unclean", "late-produce-unverified")


@cache
def found(name: str) -> tuple[tuple[str, str, int], ...]:
    """Class, topic and partition of the findings of a stored run."""
    with written(read_stored(name).tables) as folder:
        rows = derive(folder, transactions=True).findings.to_pylist()
    return tuple((row["class"], row["topic"], row["partition"]) for row in rows)


def text_of(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    """As `acked sql` prints them."""
    lines = [columns, *([str(value) for value in row] for row in rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def test_each_class_has_a_query() -> None:
    assert set(EXAMPLES) == set(CLASSES)


@pytest.mark.parametrize("example", CLASSES)
def test_the_page_shows_the_answer(example: str) -> None:
    query, shown = EXAMPLES[example]
    assert text_of(*ask(read_stored(example).tables, query)) == shown


@pytest.mark.long
@pytest.mark.parametrize("example", CLASSES)
def test_the_query_finds_what_the_checker_finds(example: str) -> None:
    """In the run of the example, in those of the others, and in some where everything looks alike."""
    for name in (*CLASSES, *OTHERS):
        columns, rows = ask(read_stored(name).tables, EXAMPLES[example][0])
        places = {(row[columns.index("topic")], row[columns.index("partition")]) for row in rows}
        expected = {(topic, partition) for kind, topic, partition in found(name) if kind in CLASSES[example]}
        assert places == expected, name
