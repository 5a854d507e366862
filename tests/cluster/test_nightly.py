"""The real nightly job: a series that is resumed, a violation, a flaky case, and the merge of shards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.waiting import wait_until
from studies.series.folder import SeriesFolder
from studies.series.job import Job
from studies.series.summary import FILE, RunSummary, append, read_summaries
from tests.cluster.conftest import left_on_machine, processes_of

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


TURNCOAT = """
from pathlib import Path

from acked import Claim, Scenario, Setup, Stage, Topic
from acked.steps import seed

RAN = Path({ran!r})


def body(stage: Stage) -> None:
    seed(stage, "t")
    if RAN.exists():
        stage.mark("again")
    RAN.touch()


SCENARIO = Scenario(
    name="turncoat",
    title="A claim holds in the first run alone",
    body=body,
    setup=Setup(topics=(Topic("t", (1, 2, 3)),), stream_rate=0),
    claims=(
        Claim(
            name="first",
            says="The scenario has not been run before.",
            holds="SELECT count(*) = 0 AS holds, concat(count(*), ' marks') AS observed FROM marks "
            "WHERE name = 'again'",
        ),
    ),
)
"""


def make(target: str, folder: Path, *, night: Path, **settings: str) -> subprocess.Popen[str]:
    """Start `make TARGET` as a CI job does, in a process group of its own."""
    folders = {"NIGHT": str(night), "SHARDS": str(folder / "shards"), "EARLIER": str(folder / "earlier")}
    return subprocess.Popen(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        env={**os.environ, **folders, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a shell may ignore it
    )


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_night_that_is_interrupted_resumed_and_merged(tmp_path: Path) -> None:
    """A case holds in its first run and is violated in its second, during which the night is interrupted."""
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "turncoat.py").write_text(TURNCOAT.format(ran=str(tmp_path / "ran")))
    shard = tmp_path / "shards" / "night-1"
    chosen = {"SCENARIOS": "turn*", "REPEAT": "2", "SHARD": "1/1", "BUDGET": "10m"}
    options = f"--from {tmp_path / 'cases'} --parallel 1"

    begun = make("nightly", tmp_path, night=shard, ARGS=options, **chosen)
    runs = shard / "runs"
    wait_until(lambda: list(runs.glob(f"all/*/{FILE}")), within_s=200, awaiting="the first run to be judged")
    (series,) = runs.glob("all/*")
    wait_until(
        lambda: any((one / "journal").is_dir() for one in runs.glob("turncoat/2*")),
        within_s=100,
        awaiting="the second run to begin",
    )
    os.killpg(begun.pid, signal.SIGINT)
    said, _ = begun.communicate(timeout=100)
    assert begun.returncode != 0, said
    assert "interrupted after 1 of 2 runs" in said
    assert f"--resume {series}" in said
    assert left_on_machine(tmp_path) == []
    assert processes_of(tmp_path) == []
    assert (shard / "summary.md").read_text().startswith("## acked: 1 run: 1 as declared; 1 not run\n")

    resumed = make("nightly", tmp_path, night=shard, ARGS=f"{options} --resume {series}", **chosen)
    said, _ = resumed.communicate(timeout=300)
    assert resumed.returncode == 2, said
    verdicts = {run.verdict: Path(run.folder) for run in read_summaries([series / FILE])}
    assert list(verdicts) == ["as declared", "violated"], said
    assert not verdicts["as declared"].exists(), "only folders of failed runs are kept"
    assert (verdicts["violated"] / "report.html").is_file()
    assert left_on_machine(tmp_path) == []

    merged = make("nightly-summary", tmp_path, night=tmp_path / "merged")
    said, _ = merged.communicate(timeout=100)
    assert merged.returncode == 2, said
    summary = (tmp_path / "merged" / "summary.md").read_text()
    assert summary.startswith("## acked: 2 runs: 1 as declared, 1 violated; 1 flaky\n")
    assert ": 1 as declared, 1 violated; claim first: 1 confirmed, 1 refuted (The scenario has " in summary
    assert (
        "  - The scenario has not been run before. Observed: 1 marks (refuted). Expected: confirmed.\n"
        in summary
    )
    suite = ElementTree.parse(tmp_path / "merged" / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    index = (tmp_path / "merged" / "index.html").read_text()
    assert 'class="flicker"' in index
    assert f'href="../shards/night-1/runs/turncoat/{verdicts["violated"].name}/report.html"' in index


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
        half = Job(scenario=f"late-{number}", version="2.7.1", mode="zookeeper")
        SeriesFolder(file.parent).plan([run.job, half])
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
    assert summary.startswith("## acked: 2 runs: 1 as declared, 1 violated; 2 not run; 1 new\n")
    assert "[page](../shards/night-1/runs/canary/2026/report.html)" in summary
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


@pytest.mark.parametrize("versions", [pytest.param("", marks=pytest.mark.long), "2.7.1"])
def test_own_scenarios_share_a_night_with_the_catalogue(tmp_path: Path, versions: str) -> None:
    """A glob chooses from both; without FROM, the message names what was searched."""
    for place in ("cases", "more cases"):
        (tmp_path / place).mkdir()
        text = TURNCOAT.format(ran=str(tmp_path / "ran")).replace("turncoat", place.replace(" ", "-"))
        (tmp_path / place / "one.py").write_text(text)
    chosen = {"SCENARIOS": "canary,cases,more-*", "SHARD": "4/4", "VERSIONS": versions}
    done = nightly(
        "run", tmp_path, FROM=f"{tmp_path / 'cases'},{tmp_path / 'more cases' / 'one.py'}", **chosen
    )
    assert done.returncode == 0, done.stderr
    assert "nothing to run in this share" in done.stderr, "three cases and four shares"
    done = nightly("run", tmp_path, **chosen)
    assert done.returncode == 254, done.stderr
    assert "'cases' matches no scenario of the catalogue" in done.stderr


def test_a_night_without_any_shard_fails(tmp_path: Path) -> None:
    done = nightly("merge", tmp_path)
    assert done.returncode == 255
    assert "No shard left a runs.jsonl" in (tmp_path / "night" / "summary.md").read_text()
