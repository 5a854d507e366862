"""Many runs in one table: which ones, what the table says, and what decides the exit code."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harness.errors import UsageError
from harness.run import many
from harness.run.catalogue import all_scenarios
from harness.run.many import Outcome

GOOD = Outcome("no-fault", "as declared", (), 0, 0, 0, 3, 0, 0, 12.4, "runs/no-fault/1")


def test_globs_choose_scenarios() -> None:
    """Several globs are separated by commas; the catalogue's order stays."""
    chosen = [scenario.name for scenario in many.select("no-fault, leader-az*")]
    assert chosen == [name for name in all_scenarios() if name == "no-fault" or name.startswith("leader-az")]
    assert len(many.select("")) == len(all_scenarios())


def test_a_glob_that_means_nothing_is_said() -> None:
    """Nobody waits eight minutes for a misspelt name."""
    with pytest.raises(UsageError, match="'no-fualt'"):
        many.select("no-fualt")


def test_repeats_come_in_rounds() -> None:
    """Round by round, so that an early end has seen everything once."""
    names = [cell.scenario for cell in many.cells(many.select("no-fault,bridge"), 2)]
    assert names == [*names[:2], *names[:2]]
    with pytest.raises(UsageError, match="--repeat 0"):
        many.cells([], 0)


def test_a_row_shows_ranges_where_runs_differ() -> None:
    """The same verdict each time is one word; losses may vary, and then both ends are shown."""
    other = replace(GOOD, lost=7, seconds=20.0)
    assert many.cells_of([GOOD, other], 2) == ("2/2 as declared", "0–7", "0", "0", "3 / 0", "12–20")
    bad = replace(GOOD, verdict="violated", open=1)
    assert many.cells_of([GOOD, bad], 2)[0] == "1/2 as declared, 1/2 violated"
    assert many.cells_of([], 1)[0] == "…"


def test_the_worst_verdict_decides() -> None:
    """A crash outweighs everything; no run at all proves nothing."""
    assert (
        many.worst([GOOD, replace(GOOD, verdict="violated"), replace(GOOD, verdict="crashed")]) == "crashed"
    )
    assert many.worst([GOOD]) == "as declared"
    assert many.worst([]) == "unknown"


def test_the_outcome_is_kept(tmp_path: Path) -> None:
    """As JSON for programs and as a table for people."""
    folder = many.keep([GOOD], tmp_path, {"parallel": 3})
    assert '"parallel": 3' in (folder / "all.json").read_text()
    assert "| no-fault | 1 | as declared |" in (folder / "all.md").read_text()


def test_the_table_names_what_has_not_ended_yet() -> None:
    """A live table shows every row from the start."""
    console = Console(width=200, file=StringIO())
    console.print(many.table(many.select("no-fault,bridge"), [GOOD], 1))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "bridge" in text
    assert "as declared" in text
