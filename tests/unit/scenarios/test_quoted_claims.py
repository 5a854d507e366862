"""docs/transactions.md quotes the output of runs: every quoted sentence is a claim of the named scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenarios.catalogue import all_scenarios

PAGE = Path(__file__).parents[3] / "docs" / "transactions.md"
_BLOCK = re.compile(r"^```\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_CLAIM = re.compile(r"^ ✓ confirmed +(.*\n(?: {18}.*\n)*)", re.MULTILINE)
_NAME = re.compile(r"`(?:acked run )?([a-z0-9-]+)`")


def quoted(page: str) -> list[tuple[str, str]]:
    """Scenario and sentence; a block belongs to the scenario that the text before it names last."""
    found = []
    for block in _BLOCK.finditer(page):
        names = [name for name in _NAME.findall(page[: block.start()]) if name in all_scenarios()]
        found += [(names[-1], " ".join(claim.split())) for claim in _CLAIM.findall(block[1])]
    return found


def unknown(page: str) -> list[tuple[str, str]]:
    return [
        (name, says)
        for name, says in quoted(page)
        if says not in {claim.says for claim in all_scenarios()[name].claims}
    ]


def test_every_quoted_sentence_is_a_claim() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(quoted(page)) > 20
    assert unknown(page) == []


@pytest.mark.parametrize(
    ("before", "after"), [("late-produce-v2", "late-produce-after-abort"), ("read", "red")]
)
def test_a_quote_of_another_scenario_or_of_another_text_is_found(before: str, after: str) -> None:
    """Both happened: a block of output stood below the wrong sentence, and claims were rewritten."""
    assert unknown(PAGE.read_text(encoding="utf-8").replace(before, after))
