"""Records of runs: lines that can be read again, and the summary of several runs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.errors import BadDataError
from studies.series.job import Job
from studies.series.summary import (
    RunSummary,
    add_up,
    append,
    grid,
    read_summaries,
    same_at_the_end,
    same_claims,
)

CLAIMS = {"a": "confirmed", "b": "confirmed", "c": "confirmed"}
GOOD = RunSummary(
    scenario="no-fault",
    version="2.7.1",
    mode="zookeeper",
    verdict="as declared",
    seconds=12.4,
    claims=CLAIMS,
    observed={"a": "seen"},
    says={"a": "A."},
    expected={"a": ["A.", "B."]},
    commit="0a1b2c",
    outcomes={"a": "otherwise"},
    findings={"torn_transaction": 1},
    reasons=("because",),
    folder="runs/no-fault/1",
)
LINE_OF_OLD = (
    '{"scenario": "canary", "version": "2.7.1", "mode": "zookeeper", "verdict": "as declared", "lost": 0, '
    '"duplicated": 0, "moved": 0, "seconds": 26.2, "claims": {"damage-is-seen": "confirmed"}, "reasons": [], '
    '"folder": "runs/canary/2026-11-22T01-57-42", "ended": "2026-11-22T01:58:34+00:00"}'
)


def test_a_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Every column is read; a last line that was cut short is left out."""
    file = tmp_path / "runs.jsonl"
    append(file, GOOD)
    with file.open("a") as lines:
        lines.write('{"scenario": "bri')
    assert read_summaries([file]) == [GOOD]


def test_lines_of_earlier_releases_can_be_read(tmp_path: Path) -> None:
    """They lack the columns `kept` and `observed`; columns of later releases are ignored."""
    file = tmp_path / "runs.jsonl"
    file.write_text(f'{LINE_OF_OLD}\n{LINE_OF_OLD[:-1]}, "later": 1, "folder": "x"}}\n')
    one, other = read_summaries([file])
    assert one.job == other.job == Job(scenario="canary", version="2.7.1", mode="zookeeper")
    assert (one.kept, one.seconds, one.claim_counts) == (0, 26.2, (1, 0, 0))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("scenario", None),
        ("version", "new"),
        ("version", 2.7),
        ("mode", 1),
        ("verdict", "fine"),
        ("verdict", ["crashed"]),
        ("lost", "3"),
        ("lost", True),
        ("duplicated", -1),
        ("seconds", "12"),
        ("seconds", float("nan")),
        ("claims", ["a"]),
        ("claims", {"a": 1}),
        ("observed", {"a": None}),
        ("findings", ["skip"]),
        ("findings", {"skip": "1"}),
        ("reasons", "because"),
        ("reasons", [1]),
        ("expected", {"a": "A."}),
        ("says", ["A."]),
        ("folder", 7),
        ("ended", None),
    ],
)
def test_a_value_of_another_type_is_named_with_file_and_line(
    column: str, value: object, tmp_path: Path
) -> None:
    file = tmp_path / "runs.jsonl"
    append(file, GOOD)
    with file.open("a") as lines:
        lines.write(json.dumps({**asdict(GOOD), column: value}) + "\n")
    with pytest.raises(BadDataError, match=rf"runs\.jsonl, line 2: {column} is .*, not "):
        read_summaries([file])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{}", "lacks 'scenario'"),
        ("[1]", "holds no JSON object"),
        ("{", "not valid JSON"),
        ("[" * 9**5, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_record_is_named(line: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(f"{line}\n")
    with pytest.raises(BadDataError, match=f"line 1.* {problem}"):
        read_summaries([file])


def test_a_run_in_two_files_counts_once(tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    other, third = replace(GOOD, folder="2"), replace(GOOD, folder="3")
    for file, runs in ((first, (GOOD, other)), (second, (other, third))):
        for run in runs:
            append(file, run)
    assert read_summaries([first, second]) == [GOOD, other, third]


def test_totals_are_ranges_of_the_runs_that_were_judged() -> None:
    """A crashed run has no counts."""
    crashed = replace(GOOD, verdict="crashed", lost=0, seconds=1.0, claims={})
    totals = add_up([replace(GOOD, lost=7), crashed, replace(GOOD, lost=3, seconds=20.0)])
    assert (totals.runs, totals.verdicts) == (3, {"as declared": 2, "crashed": 1})
    assert (totals.lost, totals.seconds, totals.claims) == ((3, 7), (12, 20), ((3, 0, 0),))
    assert add_up([crashed]).claims == ()


def test_the_worst_verdict_decides() -> None:
    """A crash outweighs everything; without a run the verdict is unknown."""
    bad, dead = replace(GOOD, verdict="violated"), replace(GOOD, verdict="crashed")
    assert add_up([GOOD, bad, dead]).worst == "crashed"
    assert add_up([GOOD]).worst == "as declared"
    assert add_up([]).worst == "unknown"


def test_claims_are_compared_over_runs_that_were_judged() -> None:
    other = replace(GOOD, claims={**CLAIMS, "b": "refuted"})
    assert same_claims([GOOD, GOOD, replace(GOOD, verdict="invalid", claims={})])
    assert not same_claims([GOOD, other])


def test_the_latest_runs_that_agree_are_counted() -> None:
    """They count in the order in which they ended, whatever the order of the lines."""
    runs = [replace(GOOD, ended=str(number)) for number in range(4)]
    runs[1] = replace(runs[1], verdict="violated")
    assert same_at_the_end([runs[3], runs[0], runs[1], runs[2]]) == 2


def test_a_grid_sorts_versions_by_number() -> None:
    """3.10 comes after 3.9; a version that speaks an older protocol follows the version itself."""
    labels = ("3.10.0", "2.7.1@2.6", "3.9.1", "2.7.1")
    cells = grid([replace(GOOD, version=label) for label in labels])
    assert cells.versions == ("2.7.1", "2.7.1@2.6", "3.9.1", "3.10.0")
    assert set(cells.lines[("no-fault", "zookeeper")]) == set(labels)
