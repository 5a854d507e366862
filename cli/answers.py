"""What `acked sql` prints about a query and its answer, alone or in the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.console import Console

if TYPE_CHECKING:
    from checkers.ask.sql import Answer


def note_quotes(text: str) -> None:
    """Say which columns a query has in double quotes, which is how Spark writes texts."""
    from checkers.ask.names import quoted_columns

    for name in quoted_columns(text)[:1]:
        note(f'"{name}" in double quotes is a text in Spark SQL; write `{name}` in backticks for the column.')


def show_answer(answer: Answer, limit: int, form: str) -> None:
    """Print rows, ``limit`` at most (0: all), and say if there are more."""
    from report.rows import show_rows

    show_rows(answer.columns, answer.rows[:limit] if limit else answer.rows, form)
    if limit and len(answer.rows) > limit:
        note(f"There are more than {limit} rows; --limit 0 shows all.")


def note(text: str) -> None:
    """Print a remark to stderr."""
    Console(stderr=True, highlight=False, markup=False).print(text, style="dim", soft_wrap=True)
