"""The search for the Kafka version in which a claim changes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness.console import Console
from harness.errors import InvalidRunError, UsageError
from harness.kafka.versions import kafka_version
from report.bisect import show_bisect
from report.kinds import KINDS
from report.model.bisected import bisect_opening
from report.model.shapes import BisectShape
from run.catalogue import find
from run.scenario import Claim
from studies.series.bisect import ClaimChange, bisect_document, candidates, search
from studies.series.summary import RunSummary

SCENARIO = replace(
    find("kraft-zombie-controller"),
    name="example",
    claims=(
        Claim(name="loses", says="it loses", section="1", holds="SELECT true AS holds"),
        Claim(name="early", says="only then", section="1", holds="SELECT true AS holds", before="3.9.0"),
    ),
)


BISECTS = next(kind for kind in KINDS if kind.file == "bisect.json")


def summary(version: str, claims: Mapping[str, str], verdict: str = "as declared") -> RunSummary:
    return RunSummary(
        scenario="example", version=version, mode="kraft", verdict=verdict, claims=claims, folder="runs/x"
    )


def test_the_search_halves() -> None:
    """Five versions, a change in the fourth: three runs are enough."""
    versions = ["3.3.0", "3.4.0", "3.5.0", "3.6.2", "3.7.0", "3.8.0", "3.9.1", "4.1.0"]
    run: list[str] = []

    def on(version: str) -> RunSummary:
        run.append(version)
        old = versions.index(version) < versions.index("3.7.0")
        return summary(version, {"loses": "confirmed" if old else "refuted"})

    change = search("loses", versions, on)
    assert (change.last_before, change.first) == ("3.6.2", "3.7.0")
    assert len(run) == len(set(run)) == 5


def test_no_change_takes_two_runs() -> None:
    """If both ends agree, nothing between them is run."""
    run: list[str] = []

    def on(version: str) -> RunSummary:
        run.append(version)
        return summary(version, {"loses": "confirmed"})

    assert search("loses", ["3.6.2", "3.7.0", "3.9.1"], on) == ClaimChange()
    assert run == ["3.6.2", "3.9.1"]


def document(answers: Mapping[str, str], change: ClaimChange | None = None, problem: str = "") -> Any:
    """Of `bisect.json`, in its stored form."""
    runs = [
        replace(summary(version, {"loses": status}), observed={"loses": "3 of 9"})
        for version, status in answers.items()
    ]
    versions = ["3.6.2", "3.7.0", "3.9.1"]
    told = bisect_document(SCENARIO, "kraft", "loses", versions, runs, change, problem)
    return msgspec.convert(json.loads(json.dumps(told)), BisectShape)


@pytest.mark.parametrize(
    ("answers", "change", "problem", "tone", "word", "answer"),
    [
        ({}, None, "", "undecided", "under way", "0 runs have ended."),
        (
            {"3.6.2": "confirmed", "3.9.1": "refuted", "3.7.0": "refuted"},
            ClaimChange("3.6.2", "3.7.0"),
            "",
            "kept",
            "changes in 3.7.0",
            "The claim is confirmed up to 3.6.2, and refuted from 3.7.0 on.",
        ),
        (
            {"3.6.2": "confirmed", "3.9.1": "confirmed"},
            ClaimChange(),
            "",
            "undecided",
            "no change",
            "The claim is confirmed in 3.6.2 and in 3.9.1; nothing between them was tried.",
        ),
        ({"3.6.2": "unknown"}, None, "It is not known.", "void", "no answer", "It is not known."),
    ],
)
def test_a_bisect_in_every_form(
    answers: Mapping[str, str],
    change: ClaimChange | None,
    problem: str,
    tone: str,
    word: str,
    answer: str,
) -> None:
    told = document(answers, change, problem)
    opening = bisect_opening(told)
    assert (opening.tone, opening.word, opening.answer) == (tone, word, answer)
    page, markdown = BISECTS.page(told, lambda run: "there.html"), BISECTS.markdown(told)
    assert f'<p class="headline">{answer}</p>' in page
    assert page.count('<th scope="row">') == 3 and page.count('href="there.html"') == len(answers)
    assert f"**{answer}**" in markdown and "it loses" in markdown
    failed = BISECTS.junit(told).count("<error")
    assert failed == (tone != "kept")
    out = io.StringIO()
    show_bisect(told, Console(file=out, width=200))
    assert out.getvalue().splitlines()[0] == answer


@pytest.mark.parametrize(("status", "verdict"), [("unknown", "unknown"), ("confirmed", "crashed")])
def test_a_run_that_decides_nothing_ends_the_search(status: str, verdict: str) -> None:
    """An incomplete answer could name the wrong version."""
    with pytest.raises(InvalidRunError, match="does not decide claim 'loses'"):
        search("loses", ["3.6.2", "3.9.1"], lambda v: summary(v, {"loses": status}, verdict))


def test_only_versions_that_have_the_claim_are_searched() -> None:
    """The claim `early` applies below 3.9 only, so there is nothing to compare."""
    versions = tuple(kafka_version(name) for name in ("3.6.2", "3.9.1", "4.3.1"))
    assert [v.version for v in candidates(SCENARIO, "loses", versions, "kraft")] == [
        "3.6.2",
        "3.9.1",
        "4.3.1",
    ]
    with pytest.raises(UsageError, match="1 do"):
        candidates(SCENARIO, "early", versions, "kraft")
    with pytest.raises(UsageError, match="has no claim 'nonsense'; it has early, loses"):
        candidates(SCENARIO, "nonsense", versions, "kraft")
