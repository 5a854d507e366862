"""The search for the Kafka version in which a claim changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.errors import InvalidRunError, UsageError
from harness.kafka.versions import kafka_version
from run.catalogue import find
from run.scenario import Claim
from studies.series.bisect import candidates, search
from studies.series.summary import RunSummary

SCENARIO = replace(
    find("kraft-zombie-controller"),
    name="example",
    claims=(
        Claim(name="loses", says="it loses", section="1", holds="SELECT true AS holds"),
        Claim(name="early", says="only then", section="1", holds="SELECT true AS holds", before="3.9.0"),
    ),
)


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
    assert change.sentence() == "loses changes in 3.7.0: confirmed in 3.6.2, refuted in 3.7.0."


def test_no_change_takes_two_runs() -> None:
    """If both ends agree, nothing between them is run."""
    change = search("loses", ["3.6.2", "3.7.0", "3.9.1"], lambda v: summary(v, {"loses": "confirmed"}))
    assert change.first == ""
    assert len(change.statuses) == 2
    assert "in all versions that were tried" in change.sentence()


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
