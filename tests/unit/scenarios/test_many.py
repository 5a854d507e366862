"""Many runs in one table: which ones, what the table says, and what decides the exit code."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harness.errors import BadDataError, UsageError
from harness.run.catalogue import all_scenarios
from harness.series import rows
from harness.series import series as many
from harness.series.cell import Cell
from harness.series.pool import CellResult
from harness.series.rows import Row
from scenarios import repeats

CLAIMS = {"a": "confirmed", "b": "confirmed", "c": "confirmed"}
GOOD = Row(
    "no-fault", "2.7.1", "zookeeper", "as declared", seconds=12.4, claims=CLAIMS, folder="runs/no-fault/1"
)


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


def test_what_took_longest_comes_first_in_each_round() -> None:
    """What never ran, or could not be judged, comes before; the order of rounds stays."""
    names = ("no-fault", "bridge", "canary", "flapping-link")
    cells = [Cell(name, "2.7.1", "zookeeper") for name in names] * 2
    known = [
        GOOD,
        replace(GOOD, scenario="bridge", seconds=40.0),
        replace(GOOD, scenario="flapping-link", seconds=20.0),
        replace(GOOD, scenario="canary", verdict="crashed", seconds=1.0),
    ]
    ordered = [cell.scenario for cell in rows.longest_first(cells, known)]
    assert ordered == ["canary", "bridge", "flapping-link", "no-fault"] * 2
    assert rows.longest_first(cells, []) == cells


def test_a_damaged_file_of_an_earlier_series_stops_nobody(tmp_path: Path) -> None:
    for name, text in (("good", None), ("bad", "{}\n")):
        file = tmp_path / "all" / name / rows.FILE
        file.parent.mkdir(parents=True)
        if text is None:
            rows.append(file, GOOD)
        else:
            file.write_text(text)
    assert many.earlier(tmp_path) == [GOOD]


def test_a_row_shows_ranges_where_runs_differ() -> None:
    """The same verdict each time is one word; losses may vary, and then both ends are shown."""
    other = replace(GOOD, lost=7, seconds=20.0)
    assert many.cells_of([GOOD, other], 2) == ("2/2 as declared", "0–7", "0", "0", "3 / 0", "12–20")
    bad = replace(GOOD, verdict="violated", claims={**CLAIMS, "d": "unknown"})
    assert many.cells_of([GOOD, bad], 2)[0] == "1/2 as declared, 1/2 violated"
    assert many.cells_of([], 1)[0] == "…"


def test_the_worst_verdict_decides() -> None:
    """A crash outweighs everything; no run at all proves nothing."""
    bad, dead = replace(GOOD, verdict="violated"), replace(GOOD, verdict="crashed")
    assert rows.worst([GOOD, bad, dead]) == "crashed"
    assert rows.worst([GOOD]) == "as declared"
    assert rows.worst([]) == "unknown"


def test_the_outcome_is_kept(tmp_path: Path) -> None:
    """As JSON for programs and as a table for people."""
    many.keep([GOOD], tmp_path, {"parallel": 3})
    assert '"parallel": 3' in (tmp_path / "all.json").read_text()
    assert "| no-fault | 1 | as declared |" in (tmp_path / "all.md").read_text()


def test_a_series_goes_on_where_it_was(tmp_path: Path) -> None:
    """A line per run, written as it ends; what the lines have is not run again, a torn last line is."""
    series = many.Series.begin(tmp_path, "all", None)
    cell = Cell("no-fault", "2.7.1", "zookeeper")
    series.add(CellResult(cell, tmp_path / "run", "as declared", claims=CLAIMS, seconds=3.0))
    with series.file.open("a") as lines:
        lines.write('{"scenario": "bri')
    again = many.Series.begin(tmp_path, "all", series.folder)
    assert [row.key for row in again.rows] == [("no-fault", "2.7.1", "zookeeper")]
    planned = many.cells(many.select("no-fault,bridge"), 2)
    left = [one.scenario for one in rows.remaining(planned, again.rows)]
    assert sorted(left) == ["bridge", "bridge", "no-fault"]
    with pytest.raises(BadDataError, match=r"has no runs\.jsonl"):
        many.Series.begin(tmp_path, "all", tmp_path)


def test_a_series_without_a_run_leaves_nothing(tmp_path: Path) -> None:
    """Interrupted before the first run ended."""
    series = many.Series.begin(tmp_path, "all", None)
    series.close()
    assert not series.folder.exists()


def test_rows_of_several_rounds_add_up(tmp_path: Path) -> None:
    """Two files, one run in both: three runs, and a claim that flickered is named."""
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    other = replace(GOOD, folder="2", lost=4, ended="2026-01-02T00:00:00+00:00")
    third = replace(GOOD, folder="3", claims={**CLAIMS, "b": "refuted"})
    for file, mine in ((first, (GOOD, other)), (second, (other, third))):
        for row in mine:
            rows.append(file, row)
    found = rows.read_rows([first, second])
    assert len(found) == 3
    text = repeats.table(found)
    assert "3 runs, 2026-01-02; 3 of them as declared." in text
    assert "| no-fault | 2.7.1 | zookeeper | 3 | 3/3 as declared | 2 | no: b | 2 / 1; 3 / 0 | 0–4 |" in text
    crashed = replace(GOOD, verdict="crashed", folder="4", claims={})
    assert "| 1 | crashed | 1 | – |" in repeats.table([crashed])
    first.write_text("{}\n")
    with pytest.raises(BadDataError, match="line 1 is no row"):
        rows.read_rows([first])


def test_what_is_written_by_hand_around_a_table_stays() -> None:
    """Only what lies between the marks is replaced, in both documents."""
    for file in (repeats.CATALOGUE, repeats.VERSIONS):
        text = file.read_text()
        fresh = repeats.with_table(text, "NEW", file.name)
        assert fresh.split(repeats.BEGIN)[0] == text.split(repeats.BEGIN)[0]
        assert fresh.split(repeats.END)[1] == text.split(repeats.END)[1]
        assert f"{repeats.BEGIN}\n\nNEW\n\n{repeats.END}" in fresh
    with pytest.raises(BadDataError, match="lacks the lines"):
        repeats.with_table("", "NEW", "x.md")


def test_the_table_names_what_has_not_ended_yet() -> None:
    """A live table shows every row from the start."""
    console = Console(width=200, file=StringIO())
    console.print(many.table(many.select("no-fault,bridge"), [GOOD], 1))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "bridge" in text
    assert "as declared" in text
