"""`acked bisect` from the command line, with stand-ins for runs: what it prints, keeps, and refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import bisect as module
from cli.commands import app
from harness.errors import InvalidRunError
from studies.series.fleet import JudgedRun
from studies.series.job import Job
from studies.series.planned import worked_in
from studies.series.summary import RunSummary

VERSIONS = ("0.10.2.2", "0.11.0.3", "1.1.1")
CLAIM = "m2-lost"
Answers = Mapping[str, str]


class StandInFleet:
    """Answers the claim by the version."""

    answers: Answers = {}
    seen: list[bool]

    def __init__(self, kind: object, place: object, runs: Path, parallel: int) -> None:
        self.runs = runs

    def __enter__(self) -> StandInFleet:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def run(self, job: Job) -> JudgedRun[object]:
        (series,) = self.runs.glob("bisect/*")
        self.seen.append(worked_in(series) and (series / "index.html").is_file())
        if self.answers[job.version] == "Ctrl-C":
            raise KeyboardInterrupt
        told = {"claims": {CLAIM: self.answers[job.version]}, "observed": {CLAIM: "1 of 1 lost"}}
        return JudgedRun(
            job,
            RunSummary(
                scenario=job.scenario,
                version=job.version,
                mode=job.mode,
                verdict="as declared",
                folder="runs/x/1",
                **told,  # type: ignore[arg-type]
            ),
        )


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[StandInFleet]:
    for name in ("run.session.prepare", "run.session.require_lab", "run.claims.require_sql"):
        monkeypatch.setattr(name, lambda *_, **__: None)
    monkeypatch.setattr("harness.artifacts.resolve_all", lambda *_, **__: None)
    monkeypatch.setattr(module, "Fleet", StandInFleet)
    monkeypatch.setattr(module, "add_page", lambda *_: None)
    StandInFleet.seen = []
    return StandInFleet


def bisected(runs: Path, *more: str) -> tuple[int, str]:
    command = ["bisect", "hw-truncation-by-version", "--claim", CLAIM, "--versions", ",".join(VERSIONS)]
    done = CliRunner().invoke(app, [*command, "--runs", str(runs), *more], catch_exceptions=False)
    return done.exit_code, done.stdout


def kept(runs: Path) -> tuple[dict[str, object], str]:
    (series,) = runs.glob("bisect/*")
    return json.loads((series / "bisect.json").read_text()), (series / "index.html").read_text()


def test_the_answer_is_printed_and_kept(tmp_path: Path, stand_in: type[StandInFleet]) -> None:
    stand_in.answers = dict(zip(VERSIONS, ("confirmed", "refuted", "refuted"), strict=True))
    code, said = bisected(tmp_path)
    assert code == 0 and "The claim is confirmed up to 0.10.2.2, and refuted from 0.11.0.3 on." in said
    document, page = kept(tmp_path)
    assert (document["last_before"], document["first"], document["over"]) == ("0.10.2.2", "0.11.0.3", True)
    assert "<h1>changes in 0.11.0.3</h1>" in page
    assert stand_in.seen == [True] * 3, "under way, with a page, during each run"
    stand_in.answers = dict.fromkeys(VERSIONS, "confirmed")
    code, said = bisected(tmp_path / "again", "--json")
    assert (code, json.loads(said)["first"]) == (2, "")


def test_what_ends_without_an_answer_says_so(tmp_path: Path, stand_in: type[StandInFleet]) -> None:
    stand_in.answers = dict.fromkeys(VERSIONS, "unknown")
    with pytest.raises(InvalidRunError, match="does not decide claim"):
        bisected(tmp_path / "a")
    document, page = kept(tmp_path / "a")
    assert document["over"] and "does not decide claim" in str(document["problem"]) and "no answer" in page
    stand_in.answers = {**dict.fromkeys(VERSIONS, "confirmed"), "1.1.1": "Ctrl-C"}
    bisected(tmp_path / "b")
    assert "interrupted" in str(kept(tmp_path / "b")[0]["problem"])
