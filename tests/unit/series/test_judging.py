"""The record of a judged run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.claims.evaluate import ClaimResult
from checkers.groups.findings import GROUP_CLASSES
from checkers.tables.output import FINDINGS
from checkers.transactions.fates import TRANSACTION_CLASSES
from checkers.verdict import TRANSACTIONS_AND_GROUPS, Judgement
from harness.errors import ProcessDiedError
from harness.history.schema import SCHEMA_VERSION
from run.folder import RunFolder
from studies.series import judging
from studies.series.job import Job
from studies.series.judging import JobRun, judge_job, summarised
from studies.series.summary import AS_SAID, OTHERWISE, RunSummary


def test_a_judged_run_is_recorded_with_its_losses_and_its_findings_about_transactions() -> None:
    judgement = Judgement(
        verdict="violated",
        exit_code=1,
        fates={"kept": 5, "lost": 1, "lost_after_read": 2, "duplicated": 1},
        findings_by_class={"lost": 1, "server_error": 4, "commit_lost": 2, "torn_transaction": 1},
    )
    run = RunSummary(scenario="a", version="2.7.1", mode="zookeeper", verdict="crashed")
    recorded = summarised(judgement, run)
    assert (recorded.verdict, recorded.lost, recorded.duplicated) == ("violated", 3, 1)
    assert recorded.findings == {"torn_transaction": 1, "commit_lost": 2}


def test_a_judged_run_says_which_of_two_outcomes_occurred() -> None:
    """A claim that allows one outcome, or none of whose outcomes occurred, has no entry."""

    def claim(name: str, occurred: str, status: str, *, two: bool = True) -> ClaimResult:
        return ClaimResult(
            name=name,
            section="",
            says="the leader changes",
            observed="",
            status=status,
            as_declared=status == "confirmed",
            erratum=None,
            either={"says": "the leader stays"} if two else None,
            occurred=occurred,
        )

    claims = [
        claim("first", "the leader changes", "confirmed"),
        claim("second", "the leader stays", "confirmed"),
        claim("neither", "", "unknown"),
        claim("plain", "the leader changes", "confirmed", two=False),
    ]
    run = RunSummary(scenario="a", version="2.7.1", mode="zookeeper", verdict="crashed")
    judgement = Judgement(verdict="as declared", exit_code=0, fates={}, findings_by_class={}, claims=claims)
    assert summarised(judgement, run).outcomes == {"first": AS_SAID, "second": OTHERWISE}


def test_a_judged_run_keeps_the_sentences_of_claims_that_are_not_as_declared() -> None:
    """An erratum stands for the sentence that it corrects; two allowed outcomes are both expected."""

    def claim(name: str, *, as_declared: bool = False, **values: Any) -> ClaimResult:
        facts = {"section": "", "status": "refuted", "observed": "", "erratum": None, **values}
        return ClaimResult(name=name, says=f"{name}.", as_declared=as_declared, **facts)

    claims = (
        claim("plain"),
        claim("good", as_declared=True),
        claim("corrected", erratum={"says": "instead"}),
        claim("two", either={"says": "other"}),
    )
    run = RunSummary(scenario="a", version="2.7.1", mode="zookeeper", verdict="crashed")
    recorded = summarised(Judgement(verdict="violated", exit_code=1, claims=claims), run)
    assert recorded.says == {"plain": "plain.", "corrected": "corrected.", "two": "two."}
    assert recorded.expected == {"plain": ["plain."], "corrected": ["instead"], "two": ["two.", "other"]}


def test_the_record_of_a_run_has_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_commit", lambda: "0a1b2c")
    assert judging.unfit(Job(scenario="a", version="2.7.1", mode="zookeeper"), "why").commit == "0a1b2c"


def test_a_run_that_failed_before_its_logs_were_read_is_judged_without_spark(tmp_path: Path) -> None:
    """So it is known at once that it failed, and why; the cause comes from its folder."""
    folder = RunFolder.create(tmp_path, "a")
    folder.update(schema_version=SCHEMA_VERSION, scenario="a")
    folder.ended("crashed", ProcessDiedError("broker1 ended by itself", facts={"role": "broker"}))

    def no_session() -> Any:
        raise AssertionError("Spark is not needed")

    run = JobRun(Job(scenario="a", version="2.7.1", mode="kraft"), folder.path, 12.0)
    summary = judge_job(no_session, run)
    assert (summary.verdict, summary.seconds) == ("crashed", 12.0)
    assert summary.reasons[0] == "broker1 ended by itself"
    assert summary.cause == {"error": "ProcessDiedError", "place": "", "role": "broker"}
    assert json.loads((folder.path / "judgement.json").read_text())["verdict"] == "crashed"


def test_findings_about_transactions_and_groups_are_classes_of_findings() -> None:
    assert set(TRANSACTIONS_AND_GROUPS) <= set(FINDINGS)
    assert {*TRANSACTION_CLASSES, *GROUP_CLASSES} <= set(TRANSACTIONS_AND_GROUPS)
