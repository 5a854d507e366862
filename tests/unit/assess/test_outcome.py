"""The judgement of an assessment is that of its runs."""

from __future__ import annotations

import pytest

from harness.errors import EXIT_AS_DECLARED, EXIT_UNKNOWN, EXIT_VIOLATED
from report.assessment import verdict as verdict_in_words
from studies.assess.outcome import CrashWatch, outcome
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


@pytest.mark.parametrize(
    ("verdicts", "stops"),
    [
        (("crashed",), False),
        (("crashed", "crashed"), True),
        (("as declared", "crashed", "crashed"), True),
        (("crashed", "as declared", "crashed"), False),
        (("invalid", "invalid"), False),
    ],
)
def test_two_crashes_in_a_row_stop_an_assessment(verdicts: tuple[str, ...], stops: bool) -> None:
    watch = CrashWatch()
    for verdict in verdicts:
        watch.ended(run(verdict))
    assert watch.reasons == (("because of this",) if stops else ())
