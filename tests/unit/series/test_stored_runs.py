"""Stored runs: what is listed, what goes when old ones are removed, and what never goes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.runs import size_of, size_text
from harness.errors import BadDataError, UsageError
from studies.series.rejudge import judge_by
from studies.series.stored import (
    QUIET_S,
    SETTLED_S,
    StoredRun,
    remove,
    stored_runs,
    stored_series,
    to_remove,
)

NOW = 1_000_000.0


def make(
    runs: Path, scenario: str, stamp: str, *, verdict: str = "as declared", status: str = "complete"
) -> Path:
    folder = runs / scenario / stamp
    (folder / "journal").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"scenario": scenario, "kafka": "2.7.1", "status": status}))
    if verdict:
        (folder / "judgement.json").write_text(
            json.dumps({"verdict": verdict, "fates": {"lost": 2, "kept": 5}})
        )
    latest = folder.parent / "latest"
    latest.unlink(missing_ok=True)
    latest.symlink_to(stamp)
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (NOW - 10 * QUIET_S, NOW - 10 * QUIET_S))
    return folder


def names(stored: list[StoredRun]) -> list[str]:
    return [f"{run.folder.parent.name}/{run.folder.name}" for run in stored]


def doomed(
    runs: Path, *, keep: int = 1, keep_failed: bool = False, max_bytes: int | None = None
) -> list[str]:
    stored = stored_runs(runs)
    return names(to_remove(stored, keep=keep, keep_failed=keep_failed, max_bytes=max_bytes, now_s=NOW))


def test_runs_are_listed_once_and_newest_first(tmp_path: Path) -> None:
    make(tmp_path, "a", "2026-01-01")
    make(tmp_path, "a", "2026-01-03")
    make(tmp_path, "b", "2026-01-02", verdict="violated")
    (tmp_path / "all" / "2026-01-04").mkdir(parents=True)
    (tmp_path / "all" / "2026-01-04" / "runs.jsonl").write_text("")
    stored = stored_runs(tmp_path)
    assert names(stored) == ["a/2026-01-03", "b/2026-01-02", "a/2026-01-01"]
    assert (stored[1].verdict, stored[1].lost, stored[1].kafka) == ("violated", 2, "2.7.1")


def test_assessments_are_listed(tmp_path: Path) -> None:
    """One that is complete, with a broken promise, and one that was interrupted."""
    plan = {"version": "2.7.1", "mode": "kraft", "cases": ["a", "b"], "repeat": 2}
    lines = [{"settings": {"acks=all": {"promise": promise}}} for promise in ("kept", "broken")]
    for stamp, runs in (("1", 4), ("2", 1)):
        folder = tmp_path / "assess" / stamp
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "runs.jsonl").write_text("{}\n" * runs)
    (tmp_path / "assess" / "1" / "assessment.json").write_text(
        json.dumps({"lines": lines, "verdict": "violated"})
    )
    assert [
        (one.folder.name, one.kafka, one.mode, one.ended, one.planned, one.outcomes, one.verdict)
        for one in stored_series(tmp_path)
    ] == [
        ("2", "2.7.1", "kraft", 1, 4, {}, ""),
        ("1", "2.7.1", "kraft", 4, 4, {"broken promises": 1}, "violated"),
    ]


def test_every_kind_of_series_is_listed(tmp_path: Path) -> None:
    """Newest first, each with what came of it."""
    files = {
        "all/2026-01-05": {"planned.jsonl": "{}\n" * 3, "runs.jsonl": ""},
        "search/2026-01-04": {
            "plan.json": '{"version": "4.3.1", "mode": "kraft"}',
            "schedules.jsonl": "{}\n" * 7,
            "search.json": '{"groups": [{"finding": {"weight": "new"}}, {"finding": {"weight": "known"}}]}',
        },
        "compare/2026-01-03": {"comparison.json": "{}", "compare.json": '{"groups": [{"weight": "new"}]}'},
        "compare/2026-01-03/1": {"schedules.jsonl": "{}\n" * 3},
        "compare/2026-01-03/2": {"schedules.jsonl": "{}\n" * 2},
        "replay/2026-01-02": {"replay.json": '{"hits": 0, "runs": 4}'},
        "shrink/2026-01-01": {"tests.jsonl": "{}\n", "smallest.json": '{"steps": [1, 2]}'},
    }
    for place, contents in files.items():
        (tmp_path / place).mkdir(parents=True)
        for name, text in contents.items():
            (tmp_path / place / name).write_text(text)
    assert [
        (f"{one.kind}/{one.folder.name}", one.kafka, one.ended, one.planned, one.outcomes)
        for one in stored_series(tmp_path)
    ] == [
        ("all/2026-01-05", "", 0, 3, {}),
        ("search/2026-01-04", "4.3.1", 7, 0, {"known findings": 1, "new findings": 1}),
        ("compare/2026-01-03", "", 5, 0, {"new findings": 1}),
        ("replay/2026-01-02", "", 4, 0, {"came back": 0}),
        ("shrink/2026-01-01", "", 1, 0, {"steps left": 2}),
    ]


DAMAGED = ["{", "7", "[" * 9**5, '{"a":' * 9**5]


@pytest.mark.parametrize("manifest", [*DAMAGED, '{"kafka": 7, "status": ["complete"]}'])
def test_run_with_a_damaged_manifest_is_listed_without_it(tmp_path: Path, manifest: str) -> None:
    (make(tmp_path, "a", "1") / "run.json").write_text(manifest)
    (run,) = stored_runs(tmp_path)
    assert (run.scenario, run.kafka, run.status, run.verdict) == ("a", "", "", "as declared")


@pytest.mark.parametrize(
    "judgement",
    [
        *DAMAGED,
        '{"fates": "x"}',
        '{"fates": ["lost"]}',
        '{"fates": {"lost": "x"}}',
        '{"fates": {"lost": Infinity}}',
        '{"verdict": 7}',
    ],
)
def test_run_with_a_damaged_judgement_is_listed_as_not_judged(tmp_path: Path, judgement: str) -> None:
    (make(tmp_path, "a", "1") / "judgement.json").write_text(judgement)
    (run,) = stored_runs(tmp_path)
    assert (run.status, run.verdict, run.lost) == ("complete", "", 0)


@pytest.mark.parametrize(
    ("plan", "document", "runs"),
    [
        *((damaged, damaged, b"\xff\n") for damaged in DAMAGED),
        ('{"cases": 7}', '{"lines": 7}', b"\xff\n"),
        ('{"repeat": "x"}', '{"lines": [7]}', b"\xff\n"),
        ('{"cases": ["a"], "repeat": Infinity}', '{"lines": [{"settings": {"acks=all": 7}}]}', b"\xff\n"),
    ],
)
def test_damaged_assessment_is_listed(tmp_path: Path, plan: str, document: str, runs: bytes) -> None:
    folder = tmp_path / "assess" / "1"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(plan)
    (folder / "assessment.json").write_text(document)
    (folder / "runs.jsonl").write_bytes(runs)
    (series,) = stored_series(tmp_path)
    assert (series.kafka, series.mode, series.ended, series.planned, series.outcomes) == ("", "", 1, 0, {})


@pytest.mark.parametrize("client", [7, None, ["java"]])
def test_run_with_a_damaged_client_is_not_judged_again(tmp_path: Path, client: object) -> None:
    folder = make(tmp_path, "no-fault", "1")
    (folder / "run.json").write_text(json.dumps({"scenario": "no-fault", "kafka": "2.7.1", "client": client}))
    with pytest.raises(BadDataError, match=r"run\.json has a client that is no JSON object"):
        judge_by([folder], "no-fault")


def test_newest_of_each_scenario_stay(tmp_path: Path) -> None:
    for stamp in ("1", "2", "3"):
        make(tmp_path, "a", stamp)
    make(tmp_path, "b", "1")
    assert doomed(tmp_path) == ["a/1", "a/2"]
    assert doomed(tmp_path, keep=2) == ["a/1"]
    assert doomed(tmp_path, keep=0) == ["b/1", "a/1", "a/2", "a/3"]


def test_failed_runs_stay_if_that_is_asked_for(tmp_path: Path) -> None:
    make(tmp_path, "a", "1", verdict="violated")
    make(tmp_path, "a", "2", verdict="invalid")
    make(tmp_path, "a", "3")
    make(tmp_path, "a", "4")
    assert doomed(tmp_path, keep_failed=True) == ["a/3"]
    assert doomed(tmp_path) == ["a/1", "a/2", "a/3"]


@pytest.mark.parametrize(("verdict", "status"), [("", "running"), ("", "complete"), ("", "")])
def test_run_that_may_be_in_progress_is_never_removed(tmp_path: Path, verdict: str, status: str) -> None:
    folder = make(tmp_path, "a", "1", verdict=verdict, status=status)
    make(tmp_path, "a", "2")
    assert doomed(tmp_path) == ["a/1"]
    os.utime(folder / "journal", (NOW - QUIET_S / 2, NOW - QUIET_S / 2))
    assert doomed(tmp_path) == []
    assert doomed(tmp_path, keep=0, max_bytes=0) == ["a/2"]


def test_run_whose_page_may_still_be_written_is_not_removed(tmp_path: Path) -> None:
    folder = make(tmp_path, "a", "1")
    make(tmp_path, "a", "2")
    (folder / "report.html").write_text("")
    os.utime(folder / "report.html", (NOW - SETTLED_S / 2, NOW - SETTLED_S / 2))
    assert doomed(tmp_path) == []
    os.utime(folder / "report.html", (NOW - 2 * SETTLED_S, NOW - 2 * SETTLED_S))
    os.utime(folder, (NOW - 2 * SETTLED_S, NOW - 2 * SETTLED_S))
    assert doomed(tmp_path) == ["a/1"]


def test_size_removes_the_oldest_but_no_scenario_altogether(tmp_path: Path) -> None:
    for scenario, stamp in (("a", "1"), ("a", "2"), ("a", "3"), ("b", "0")):
        data = make(tmp_path, scenario, stamp) / "data"
        data.write_bytes(b"x" * 1_000_000)
        for path in (data, data.parent):
            os.utime(path, (0, 0))
    assert doomed(tmp_path, keep=9, max_bytes=10**9) == []
    assert doomed(tmp_path, keep=9, max_bytes=3_500_000) == ["a/1"]
    assert doomed(tmp_path, keep=9, max_bytes=0) == ["a/1", "a/2"]


def test_link_to_the_latest_follows(tmp_path: Path) -> None:
    make(tmp_path, "a", "1")
    make(tmp_path, "a", "2")
    newest = stored_runs(tmp_path)[0]
    remove(newest)
    assert (tmp_path / "a" / "latest").resolve().name == "1"
    remove(stored_runs(tmp_path)[0])
    assert not (tmp_path / "a").exists()


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        stored_runs(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("text", "size"), [("500", 500), ("20G", 20 * 10**9), ("1.5MB", 1_500_000), ("3 k", 3000)]
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "5X", "1,5G"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--max-size"):
        size_of(text)


def test_sizes_are_shown() -> None:
    assert [size_text(size) for size in (12, 1_500, 2_000_000_000)] == ["12 B", "1.5 kB", "2.0 GB"]
