"""Scenarios: all of the catalogue are complete, wrong names get an answer, and versions select claims."""

from __future__ import annotations

import pytest

from harness.cluster.setup import Setup
from harness.errors import UsageError
from run.catalogue import find
from run.scenario import Claim, Erratum, Expected, Scenario, speaks_of
from scenarios.catalogue import all_scenarios


def test_every_scenario_says_what_it_is() -> None:
    """Name, title, faults and outcome for `acked list`; claims with distinct names."""
    for scenario in all_scenarios().values():
        assert scenario.title, scenario.name
        assert scenario.outcome, scenario.name
        for version in scenario.versions or (scenario.kafka,):
            names = [claim["name"] for claim in scenario.declared(version)["claims"]]
            assert len(set(names)) == len(names), (scenario.name, version)


def test_the_nearest_name_is_offered() -> None:
    """A typing error in a name is answered with the nearest one."""
    with pytest.raises(UsageError, match="did you mean 'leader-az-isolated'"):
        find("leader-az-isolatd")


def scenario(**changes: object) -> Scenario:
    """A scenario whose claim changes in 3.7.0."""
    cured = Erratum(says="it does not", because="a fix", holds="SELECT false AS holds", since="3.7.0")
    values: dict[str, object] = {
        "name": "example",
        "title": "",
        "article": "",
        "section": "",
        "body": lambda _stage: None,
        "setup": Setup(topics=()),
        "claims": (
            Claim(name="loses", says="it loses", section="1", holds="SELECT true AS holds", erratum=cured),
            Claim(name="early", says="only then", section="1", holds="SELECT true AS holds", before="3.9.0"),
        ),
        "expected": (Expected(finding="lost", where="true", because="", before="3.7.0"),),
        "kafka": "3.9.1",
        "mode": "kraft",
        "versions": ("3.6.2", "3.9.1", "4.3.1"),
    }
    return Scenario(**{**values, **changes})  # type: ignore[arg-type]


def test_an_erratum_is_told_only_of_its_versions() -> None:
    """The claims in a run folder are those for the version that ran, so that judging needs no versions."""
    old, new = scenario().declared("3.6.2"), scenario().declared("3.9.1")
    assert [claim["erratum"] is None for claim in old["claims"]] == [True, True]
    assert [claim["name"] for claim in new["claims"]] == ["loses"]
    assert new["claims"][0]["erratum"]["says"] == "it does not"
    assert "since" not in new["claims"][0]["erratum"]
    assert (len(old["expected"]), len(new["expected"])) == (1, 0)


def test_an_erratum_of_one_client_is_told_only_of_that_client() -> None:
    """With the Java client the sentence itself must hold, and what librdkafka does is not expected."""
    other = Erratum(says="it does not", because="", holds="SELECT false AS holds", client="librdkafka")
    claims = (
        Claim(name="told", says="it is told", holds="SELECT true AS holds", erratum=other),
        Claim(name="of-java", says="so is this", holds="SELECT true AS holds", client="java"),
    )
    expected = (Expected(finding="lost", where="true", because="", client="librdkafka"),)
    one = scenario(claims=claims, expected=expected)
    librdkafka, java = one.declared("3.9.1"), one.declared("3.9.1", "java")
    assert [(claim["name"], bool(claim["erratum"])) for claim in librdkafka["claims"]] == [("told", True)]
    assert [(claim["name"], bool(claim["erratum"])) for claim in java["claims"]] == [
        ("told", False),
        ("of-java", False),
    ]
    assert (len(librdkafka["expected"]), len(java["expected"])) == (1, 0)
    assert "client" not in java["claims"][0]


def test_a_producer_of_the_java_client_is_told_of_its_leader() -> None:
    declared = {claim["name"]: claim for claim in find("clients-notice").declared(client="java")["claims"]}
    assert declared["refresh-tells-all"]["erratum"] is None
    assert declared["clients-notice-soon"]["erratum"] is not None


@pytest.mark.parametrize(
    ("version", "speaks"), [("3.6.2", False), ("3.7.0", True), ("3.10.0", True), ("4.0.0", False)]
)
def test_bounds_compare_numbers_not_text(version: str, speaks: bool) -> None:
    """3.10 comes after 3.9, and the upper bound itself is excluded."""
    assert (
        speaks_of(Expected(finding="lost", where="", because="", since="3.7.0", before="4.0.0"), version)
        is speaks
    )
