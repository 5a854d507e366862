"""The record of a judged run."""

from __future__ import annotations

from checkers.claims.evaluate import ClaimResult
from checkers.groups.findings import GROUP_CLASSES
from checkers.tables.output import FINDINGS
from checkers.transactions.fates import TRANSACTION_CLASSES
from checkers.verdict import TRANSACTIONS_AND_GROUPS, Judgement
from studies.series.judging import summarised
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


def test_findings_about_transactions_and_groups_are_classes_of_findings() -> None:
    assert set(TRANSACTIONS_AND_GROUPS) <= set(FINDINGS)
    assert {*TRANSACTION_CLASSES, *GROUP_CLASSES} <= set(TRANSACTIONS_AND_GROUPS)
