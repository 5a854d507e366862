"""The page on findings lists the fates and findings that the code defines."""

from __future__ import annotations

from pathlib import Path

from checkers.promises.judging import COLUMNS
from checkers.tables.output import FATES, FINDINGS, LIFE

DOCS = Path(__file__).parents[3] / "docs"


def test_the_findings_page_names_every_fate_finding_and_column() -> None:
    page = (DOCS / "findings.md").read_text()
    names = (*FATES, *FINDINGS, *LIFE.names, *COLUMNS)
    missing = [name for name in names if f"`{name}`" not in page]
    assert not missing
