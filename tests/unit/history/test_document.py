"""The page on the format of histories agrees with the schema."""

from __future__ import annotations

from pathlib import Path

from harness.history.document import document
from harness.history.schema import TABLES, VIEWS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "history.md"


def test_the_page_is_current() -> None:
    remedy = "run `python -m harness.history.document > docs/history.md`"
    assert PAGE.read_text(encoding="utf-8") == document(), remedy


def test_every_table_column_and_view_is_explained() -> None:
    text = document()
    for name, table in TABLES.items():
        section = text.split(f"\n### {name}\n")[1].split("\n### ")[0]
        for column in table.columns:
            line = next(line for line in section.splitlines() if line.startswith(f"| `{column.name}` |"))
            assert column.description in line
            assert ("| yes |" in line) == column.required
    assert all(f"\n### {name}\n" in text for name in VIEWS)


def test_no_placeholder_is_left() -> None:
    assert "@@" not in document()
