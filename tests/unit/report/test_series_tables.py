"""Tables of many runs: ranges where runs differ, and every planned scenario from the start."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from harness.console import Console
from report import series
from report.console import RowTable
from studies.series.summary import RunSummary, add_up, grid

CLAIMS = {"a": "confirmed", "b": "confirmed", "c": "confirmed"}
GOOD = RunSummary(
    scenario="no-fault", version="2.7.1", mode="zookeeper", verdict="as declared", seconds=12.4, claims=CLAIMS
)


def _printed(table: RowTable) -> str:
    out = StringIO()
    table.show(Console(width=200, file=out))
    return out.getvalue()


def test_a_row_shows_ranges_where_runs_differ() -> None:
    """An equal verdict is shown once; losses that vary are shown as a range."""
    other = replace(GOOD, lost=7, seconds=20.0)
    text = series.markdown([("no-fault", add_up([GOOD, other]))])
    assert text.splitlines()[2] == "| no-fault | 2 | 2/2 as declared | 0–7 | 0 | 0 | 3 / 0 | 12–20 |"
    bad = replace(GOOD, verdict="violated", claims={**CLAIMS, "d": "unknown"})
    line = series.markdown([("no-fault", add_up([GOOD, bad]))]).splitlines()[2]
    assert "| 1/2 as declared, 1/2 violated |" in line
    assert "| 3 / 0; 3 / 0 / 1 open |" in line


def test_a_run_that_was_not_judged_has_no_figures() -> None:
    crashed = add_up([replace(GOOD, verdict="crashed", claims={})])
    assert series.markdown([("x", crashed)]).splitlines()[2] == "| x | 1 | crashed | – | – | – | – | – |"


def test_a_table_names_what_has_not_ended_yet() -> None:
    """The runs are counted against those planned."""
    text = _printed(series.table([("no-fault", add_up([GOOD])), ("bridge", None)], repeat=3))
    assert "1/3 as declared" in text
    assert "bridge    not run" in text


def test_a_run_that_has_ended_is_one_line() -> None:
    """The line has the verdict and the details that an operator wants next."""
    where = "no-fault on 2.7.1 zookeeper: "
    assert series.ended(GOOD) == where + "as declared, nothing lost (12 s)"
    bad = replace(GOOD, verdict="violated", lost=3, duplicated=1)
    assert series.ended(bad) == where + "violated, 3 lost, 1 duplicated (12 s)"
    assert series.ended(replace(GOOD, verdict="crashed", lost=3)) == where + "crashed (12 s)"


def test_the_matrix_has_a_column_per_version() -> None:
    """Signs on the terminal, words in the document, and a dash for cells that did not run."""
    runs = [
        GOOD,
        replace(GOOD, version="2.4.1", verdict="violated", lost=2),
        replace(GOOD, version="2.4.1", lost=5),
        replace(GOOD, scenario="bridge"),
    ]
    cells = grid(runs)
    lines = _printed(series.matrix(cells)).splitlines()
    assert lines[0].split() == ["scenario", "mode", "2.4.1", "2.7.1"]
    assert lines[1].split() == ["bridge", "zookeeper", "–", "✓"]
    assert lines[2].split(maxsplit=2)[2].strip() == "1/2 ✗, 1/2 ✓, 2–5 lost  ✓"
    assert series.matrix_markdown(cells).splitlines()[2:] == [
        "| bridge | zookeeper | – | as declared, nothing lost |",
        "| no-fault | zookeeper | 1/2 violated, 1/2 as declared, 2–5 lost | as declared, nothing lost |",
    ]


def test_the_matrix_counts_findings_about_transactions_and_groups() -> None:
    """Beside lost and duplicated messages, as a range where runs differ."""
    torn = replace(GOOD, lost=1, findings={"torn_transaction": 1})
    cells = grid([torn, GOOD, replace(GOOD, scenario="bridge", findings={"commit_lost": 3})])
    lines = _printed(series.matrix(cells)).splitlines()
    assert lines[1].split(maxsplit=2)[2].strip() == "✓ 3 commit_lost"
    assert lines[2].split(maxsplit=2)[2].strip() == "2/2 ✓, 0–1 lost, 0–1 torn_transaction"
    assert "| as declared, 3 commit_lost |" in series.matrix_markdown(cells)
    assert series.ended(torn).endswith(": as declared, 1 lost, 1 torn_transaction (12 s)")


def test_reasons_are_shown_of_runs_that_are_not_as_declared() -> None:
    """For a run that was not judged, the first reason is enough."""
    out = StringIO()
    runs = [
        GOOD,
        replace(GOOD, verdict="violated", reasons=("a", "b")),
        replace(GOOD, verdict="crashed", reasons=("c", "d")),
    ]
    series.show_reasons(runs, Console(width=200, file=out))
    assert [line.split(": ")[1] for line in out.getvalue().splitlines()] == ["a; b", "c"]
