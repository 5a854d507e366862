"""The judgement of an assessment is that of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import EXIT_AS_DECLARED, EXIT_UNKNOWN, EXIT_VIOLATED
from report.assessment import verdict as verdict_in_words
from studies.assess.outcome import lost_by_producer, outcome, repeated_failure
from studies.series.summary import RunSummary


def run(verdict: str, lost: int = 0) -> RunSummary:
    reasons = () if verdict == "as declared" else ("because of this",)
    return RunSummary(
        scenario="kill-broker1.roles-here",
        version="2.7.1",
        mode="zookeeper",
        verdict=verdict,
        lost=lost,
        reasons=reasons,
        folder="runs/1",
    )


@pytest.mark.parametrize(
    ("verdicts", "verdict", "exit_code"),
    [
        (("as declared", "as declared"), "as declared", EXIT_AS_DECLARED),
        (("as declared", "unfit"), "as declared", EXIT_AS_DECLARED),
        (("as declared", "violated", "crashed"), "violated", EXIT_VIOLATED),
        (("as declared", "crashed"), "unknown", EXIT_UNKNOWN),
        (("as declared", "invalid"), "unknown", EXIT_UNKNOWN),
        (("as declared", "unknown"), "unknown", EXIT_UNKNOWN),
        ((), "unknown", EXIT_UNKNOWN),
    ],
)
def test_the_runs_decide(verdicts: tuple[str, ...], verdict: str, exit_code: int) -> None:
    result = outcome([run(one) for one in verdicts])
    assert (result.verdict, result.exit_code) == (verdict, exit_code)
    others = [one for one in verdicts if one not in ("as declared", "unfit")]
    assert [one["verdict"] for one in result.runs] == others


def test_losses_that_are_not_promised_to_be_prevented_change_nothing() -> None:
    assert outcome([run("as declared", lost=139)]).verdict == "as declared"


def test_the_words_name_the_runs_that_are_not_as_declared() -> None:
    result = outcome([run("as declared"), run("violated")])
    line = {"case": "kill-broker1.roles-here", "says": "broker1 killed"}
    document = {"verdict": result.verdict, "not_as_declared": result.runs, "lines": [line]}
    assert verdict_in_words(document) == [
        "verdict: violated: a promise of Kafka was broken, or something happened that no fault explains.",
        "violated: broker1 killed: because of this (runs/1)",
    ]


SLOW = {"error": "WaitTimeoutError", "place": "harness.cluster.zookeeper_start.StartedZooKeeperCluster.boot"}
DEAD = {"error": "ProcessDiedError", "place": "harness.cluster.processes.check_alive", "role": "broker"}
NO_EFFECT = {"error": "InvalidRunError", "place": "nemesis.context.FaultContext.prove"}


def failing(cause: Mapping[str, str], verdict: str = "crashed", case: str = "kill-broker1") -> RunSummary:
    return replace(run(verdict), cause=cause, scenario=case, reasons=(f"it took {case} 60 s", "too long"))


@pytest.mark.parametrize(
    ("runs", "failed_alike"),
    [
        ([failing(SLOW)], 0),
        ([failing(SLOW, case="a"), failing(SLOW, case="b")], 2),
        ([failing(SLOW), failing(DEAD)], 0),
        ([failing(SLOW), failing(DEAD), failing(SLOW)], 2),
        ([failing(SLOW), run("as declared"), failing(SLOW)], 2),
        ([failing(SLOW, "invalid"), failing(SLOW)], 2),
        ([failing(NO_EFFECT, "invalid"), failing(NO_EFFECT, "invalid")], 0),
        ([run("invalid"), run("invalid"), run("unknown"), run("violated"), run("violated")], 0),
    ],
)
def test_two_failures_for_one_reason_stop_an_assessment(runs: list[RunSummary], failed_alike: int) -> None:
    """The reason is the class and place of an error, whatever it says; a fault without effect is none."""
    repeated = repeated_failure(runs)
    assert (len(repeated.runs) if repeated else 0) == failed_alike


def test_the_reason_is_kept_in_full() -> None:
    repeated = repeated_failure([failing(SLOW, case="a"), failing(SLOW, case="b")])
    assert repeated is not None
    assert repeated.as_json() == {
        "cause": SLOW,
        "reasons": ["it took b 60 s", "too long"],
        "runs": ["runs/1", "runs/1"],
    }


@pytest.mark.parametrize(
    ("cause", "matters"),
    [
        (SLOW, True),
        ({"error": "LostClusterError", "place": ""}, True),
        ({"error": "LostClusterError", "place": "", "status": "1"}, False),
        (DEAD, False),
        ({**DEAD, "status": "-9"}, True),
        ({"error": "LabError", "place": ""}, False),
        ({}, False),
    ],
)
def test_fewer_clusters_help_against_what_a_busy_machine_causes(
    cause: Mapping[str, str], matters: bool
) -> None:
    repeated = repeated_failure([failing(cause), failing(cause)])
    assert repeated is not None and repeated.side_by_side_matters is matters


def test_losses_are_counted_by_producer(tmp_path: Path) -> None:
    rows = [
        {"writer_name": "az1-orders-acks=all", "fate": "kept", "count": 90},
        {"writer_name": "az1-orders-acks=1", "fate": "lost", "count": 7},
        {"writer_name": "az2-or-ders-acks=1", "fate": "lost_after_read", "count": 3},
        {"writer_name": "az2-orders-acks=1", "fate": "not_acknowledged", "count": 2},
    ]
    (tmp_path / "judgement.json").write_text(json.dumps({"fates_by_writer": rows}))
    assert lost_by_producer(replace(run("as declared"), folder=str(tmp_path))) == {
        "acks=all": 0,
        "acks=1": 10,
    }
