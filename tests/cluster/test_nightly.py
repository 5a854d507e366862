"""The nightly job for real: a series that is resumed, a violation, a flaky case, and the merge of shards."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.series.folder import SeriesFolder
from harness.series.plan import Cell
from harness.series.summary import FILE, RunSummary, append, read_summaries
from tests.cluster.conftest import left_on_machine

ROOT = Path(__file__).parents[2]
VIOLATED = RunSummary(
    scenario="canary",
    version="2.7.1",
    mode="zookeeper",
    verdict="violated",
    reasons=("1 lost that nothing declared",),
    folder="nightly/runs/canary/2026",
    ended="2026-01-01T00:00:00+00:00",
)


def nightly(command: str, folder: Path, *options: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run `harness/nightly.sh` as `make nightly` does."""
    chosen = {"SCENARIOS": "canary", "VERSIONS": "", "REPEAT": "1", "SHARD": "1/1", "BUDGET": "10m"}
    folders = {name: str(folder / name.lower()) for name in ("NIGHT", "SHARDS", "EARLIER")}
    return subprocess.run(
        ["bash", "harness/nightly.sh", command, *options],
        cwd=ROOT,
        env={**os.environ, "LAB": "embedded", **chosen, **folders, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.cluster
def test_a_night_with_a_violation_that_is_resumed(tmp_path: Path) -> None:
    """A series of two runs was interrupted after the first, which was violated; now the other one runs."""
    series = tmp_path / "night" / "runs" / "all" / "2026-01-01T00-00-00"
    series.mkdir(parents=True)
    append(series / FILE, VIOLATED)
    done = nightly("run", tmp_path, "--resume", str(series), REPEAT="2")
    assert done.returncode == 1, done.stderr
    runs = read_summaries([series / FILE])
    assert [run.verdict for run in runs] == ["violated", "as declared"]
    assert not Path(runs[1].folder).exists(), "only folders of failed runs are kept"
    summary = (tmp_path / "night" / "summary.md").read_text()
    assert summary.startswith("## acked: 2 runs: 1 as declared, 1 violated; 1 flaky\n")
    suite = ElementTree.parse(tmp_path / "night" / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert left_on_machine(tmp_path) == []


@pytest.mark.long
@pytest.mark.cluster
def test_a_budget_that_is_too_small_for_any_run(tmp_path: Path) -> None:
    """Nothing starts, what was not run is named, and the exit code is not that of a success."""
    done = nightly("run", tmp_path, BUDGET="1s")
    assert done.returncode == 2, done.stderr
    assert "left out, because the time was over: canary on 2.7.1 zookeeper" in done.stderr
    assert "- canary on 2.7.1 zookeeper" in (tmp_path / "night" / "summary.md").read_text()
    suite = ElementTree.parse(tmp_path / "night" / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("skipped")) == ("1", "1")


def test_shards_are_merged_and_handed_to_the_next_night(tmp_path: Path) -> None:
    good = {**asdict(VIOLATED), "verdict": "as declared", "reasons": (), "ended": "2026-01-02T00:00:00+00:00"}
    for number, run in enumerate((VIOLATED, RunSummary(**{**good, "scenario": "bridge"})), 1):
        file = tmp_path / "shards" / f"night-{number}" / "runs" / "all" / "t" / FILE
        file.parent.mkdir(parents=True)
        append(file, run)
        half = Cell(scenario=f"late-{number}", version="2.7.1", mode="zookeeper")
        SeriesFolder(file.parent).plan([run.cell, half])
        with file.open("a") as lines:
            lines.write('{"scenario": "ca')
    page = tmp_path / "shards" / "night-1" / "runs" / "canary" / "2026" / "report.html"
    page.parent.mkdir(parents=True)
    page.write_text("")
    (tmp_path / "earlier").mkdir()
    append(tmp_path / "earlier" / FILE, RunSummary(**good))
    done = nightly("merge", tmp_path)
    assert done.returncode == 1, done.stderr
    summary = (tmp_path / "night" / "summary.md").read_text()
    assert summary.startswith("## acked: 2 runs: 1 as declared, 1 violated; 2 not run\n")
    assert "- late-1 on 2.7.1 zookeeper\n- late-2 on 2.7.1 zookeeper\n" in summary
    assert "| canary on 2.7.1 zookeeper | ✓✗ |" in summary
    suite = ElementTree.parse(tmp_path / "night" / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "2")
    index = (tmp_path / "night" / "index.html").read_text()
    assert 'href="../shards/night-1/runs/canary/2026/report.html"' in index
    assert "2 planned and not run" in index
    lines = (tmp_path / "night" / FILE).read_text().splitlines()
    assert [json.loads(line)["scenario"] for line in lines] == ["canary", "canary", "bridge"]


def test_what_a_night_keeps_is_bounded(tmp_path: Path) -> None:
    """The oldest run folders keep their page and judgement; data folders do not count."""
    folders = [tmp_path / "night" / "runs" / "canary" / str(number) for number in (1, 2, 3)]
    for number, folder in enumerate(folders):
        for name in ("run.json", "judgement.json", "report.html"):
            (folder / "nodes" / "data").mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("{}")
        (folder / "nodes" / "log").write_bytes(b"x" * 2_000_000)
        (folder / "nodes" / "data" / "log").write_bytes(b"x" * 9_000_000)
        os.utime(folder / "run.json", (number, number))
    done = nightly("run", tmp_path, SHARD="2/2", KEEP_MB="5")
    assert done.returncode == 0, done.stderr
    assert [(folder / "nodes").exists() for folder in folders] == [False, True, True]
    assert sorted(path.name for path in folders[0].iterdir()) == ["judgement.json", "report.html", "run.json"]


def test_a_share_with_nothing_in_it_passes(tmp_path: Path) -> None:
    """There are more shards than cases, as when a night is started by hand for one of them."""
    done = nightly("run", tmp_path, SHARD="2/2")
    assert done.returncode == 0, done.stderr
    assert "nothing to run in this share" in done.stderr
    done = nightly("run", tmp_path, SHARD="3/3", VERSIONS="2.7.1", SCENARIOS="canary, canary")
    assert done.returncode == 0, done.stderr


def test_a_night_without_any_shard_fails(tmp_path: Path) -> None:
    done = nightly("merge", tmp_path)
    assert done.returncode == 255
    assert "No shard left a runs.jsonl" in (tmp_path / "night" / "summary.md").read_text()
