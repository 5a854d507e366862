"""`acked report`, `acked compare` and `acked runs` from the command line."""

from __future__ import annotations

import html
import json
import os
import shutil
import webbrowser
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from cli.commands import app
from cli.pages import add_page
from harness.errors import BadDataError, UsageError
from report.markdown import plain
from report.page import write
from tests.pages import BISECTED, REPLAYED, SHRUNK, long_comparison, stored

RunJudge = Callable[[str], Path]


def acked(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_report_is_written_or_printed(judged: RunJudge, tmp_path: Path) -> None:
    folder = judged("no-fault")
    target = tmp_path / "page.html"
    assert acked("report", folder, "--output", target).endswith("page.html\n")
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json.loads(acked("report", folder, "--json"))["run"]["scenario"] == "no-fault"


def test_report_of_no_run_is_refused(judged: RunJudge, tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match="is not a judged run folder"):
        acked("report", tmp_path)
    with pytest.raises(UsageError, match="--output .* cannot be written .*; name another file"):
        acked("report", judged("no-fault"), "--output", tmp_path / "nowhere" / "page.html")


def test_a_report_has_one_form_at_a_time(judged: RunJudge, tmp_path: Path) -> None:
    """It goes to stdout or to a file; a wrong combination is one sentence."""
    folder, file = judged("no-fault"), tmp_path / "run.md"
    assert acked("report", folder, "--markdown", "--output", file) == ""
    assert acked("report", folder, "--markdown") == file.read_text(encoding="utf-8")
    assert acked("report", folder, "--junit").startswith("<?xml")
    with pytest.raises(UsageError, match="are two forms of one report"):
        acked("report", folder, "--junit", "--json")
    with pytest.raises(UsageError, match="no page that --open could show"):
        acked("report", folder, "--junit", "--open")


def test_every_series_has_each_form(tmp_path: Path) -> None:
    """JSON is its document; Markdown and JUnit XML begin with what its page begins with."""
    documents = {
        "assessment.json": stored("assessment"),
        "search.json": stored("search"),
        "compare.json": long_comparison(),
        "shrink.json": SHRUNK,
        "replay.json": REPLAYED,
        "bisect.json": BISECTED,
        "runs.jsonl": {"scenario": "a", "version": "2.7.1", "mode": "zookeeper", "verdict": "unknown"},
    }
    for file, document in documents.items():
        folder = tmp_path / "runs" / "x" / file
        folder.mkdir(parents=True)
        (folder / file).write_text(json.dumps(document) + "\n")
        told = json.loads(acked("report", folder, "--json"))
        if file != "runs.jsonl":
            assert told == json.loads(json.dumps(document))
        page = Path(acked("report", folder).removeprefix("Page: ").strip()).read_text(encoding="utf-8")
        answer = html.unescape(page.partition('<p class="headline">')[2].partition("</p>")[0])
        assert answer and plain(answer) in acked("report", folder, "--markdown")
        suite = ElementTree.fromstring(acked("report", folder, "--junit").encode())[0]
        assert int(suite.get("tests", "0")) == len(suite) > 0
    output = tmp_path / "night.md"
    assert acked("report", folder, "--markdown", "--output", output) == ""
    assert "1 unknown" in output.read_text()


def test_series_has_an_index(tmp_path: Path) -> None:
    series = tmp_path / "runs" / "all" / "2026-01-05T00-00-00"
    series.mkdir(parents=True)
    run = {"scenario": "a", "version": "2.7.1", "mode": "zookeeper", "verdict": "violated", "lost": 1}
    (series / "runs.jsonl").write_text(json.dumps(run) + "\n")
    assert acked("report", series).endswith("index.html\n")
    assert "<h1>violated</h1>" in (series / "index.html").read_text(encoding="utf-8")


def test_runs_and_series_are_opened(
    judged: RunJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By folder, or as the list names them; a page is written if there is none."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    folder = tmp_path / "no-fault" / "2026-01-01"
    shutil.copytree(judged("no-fault"), folder)
    acked("runs", "open", "no-fault/2026-01-01", "--runs", tmp_path)
    page = folder / "report.html"
    assert page.read_text().startswith("<!DOCTYPE html>")
    page.write_text("mine")
    acked("runs", "open", folder)
    assert opened == [page.resolve().as_uri()] * 2
    assert page.read_text() == "mine"
    series = tmp_path / "all" / "1"
    series.mkdir(parents=True)
    (series / "runs.jsonl").write_text("")
    acked("runs", "open", "all/1", "--runs", tmp_path)
    assert opened[-1] == (series / "index.html").resolve().as_uri()
    with pytest.raises(BadDataError, match="is not a judged run folder"):
        acked("runs", "open", tmp_path / "none")


def test_page_that_cannot_be_made_costs_nothing_but_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    assert add_page(tmp_path, said.append) is None
    assert len(said) == 1
    assert said[0].startswith("there is no page of this run: ")
    monkeypatch.setattr(write, "model_and_latencies", lambda folder: folder / 7)
    add_page(tmp_path, said.append)
    assert "please report it" in said[1]


def test_runs_are_compared_and_pruned(judged: RunJudge, tmp_path: Path) -> None:
    folder = judged("no-fault")
    for words in (("compare",), ("runs", "compare")):
        assert json.loads(acked(*words, folder, folder, "--json"))["claims"] == []
    for stamp in ("2026-01-01", "2026-01-02"):
        copy = shutil.copytree(folder, tmp_path / "no-fault" / stamp)
        for path in (copy, *copy.rglob("*")):
            os.utime(path, (0, 0))
    assert [run["verdict"] for run in json.loads(acked("runs", "--runs", tmp_path, "--json"))] == [
        "as declared"
    ] * 2
    assert "2 runs" in acked("runs", "--runs", tmp_path)
    assert "would remove" in acked("runs", "prune", "--runs", tmp_path, "--keep", 1, "--dry-run")
    assert (tmp_path / "no-fault" / "2026-01-01").exists()
    acked("runs", "prune", "--runs", tmp_path, "--keep", 1)
    assert [path.name for path in (tmp_path / "no-fault").iterdir()] == ["2026-01-02"]
