"""The page on findings lists the fates and findings that the code defines."""

from __future__ import annotations

from pathlib import Path

from checkers.promises.judging import PROMISE_COLUMNS
from checkers.records import CAUSES, NOT_KNOWN
from checkers.tables.output import FATE_MEANINGS, FINDINGS, LIFE
from report.words.causes import SENTENCES

DOCS = Path(__file__).parents[3] / "docs"


def test_the_findings_page_names_every_fate_finding_and_column() -> None:
    page = (DOCS / "findings.md").read_text()
    names = (*FATE_MEANINGS, *FINDINGS, *LIFE.names, *PROMISE_COLUMNS)
    missing = [name for name in names if f"`{name}`" not in page]
    assert not missing


def test_the_findings_page_lists_every_kind_of_cause() -> None:
    page = (DOCS / "findings.md").read_text()
    assert [row for row in CAUSES.items() if "| `{}` | {} |".format(*row) not in page] == []


def test_every_kind_of_cause_has_a_sentence() -> None:
    """A test of `report.words` makes them of real facts; here no kind may be forgotten."""
    assert SENTENCES.keys() == CAUSES.keys()
    assert CAUSES.keys() > NOT_KNOWN
