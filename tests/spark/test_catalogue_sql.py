"""The SQL of every claim and expectation of the catalogue is understood by Spark, without any run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import pytest

from checkers.claims.evaluate import ask
from checkers.claims.moments import Moments
from checkers.claims.understood import make_empty_tables, queries_declared, refused
from checkers.spark.session import settings_for_small_data
from run.scenario import Scenario
from scenarios.catalogue import all_scenarios

_MARKS = re.compile(r"\{mark\??:([^{}]+)\}")
"""The marks that a query names in braces."""

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def empty(spark: Any) -> Any:
    """A session in which every table exists and is empty."""
    make_empty_tables(spark)
    return spark


def _declared(scenario: Scenario) -> dict[str, Any]:
    """With the claims of all versions."""
    return {**scenario.declared(), "claims": [asdict(claim) for claim in scenario.claims]}


def _parts() -> dict[str, dict[str, Any]]:
    """Every claim and every expected finding of the catalogue as a declaration of its own, by name."""
    parts: dict[str, dict[str, Any]] = {}
    for name, scenario in all_scenarios().items():
        declared = _declared(scenario)
        for claim in declared["claims"]:
            parts[f"{name}: {claim['name']}"] = {"claims": [claim], "expected": []}
        for number, entry in enumerate(declared["expected"], start=1):
            parts[f"{name}: expected {number}"] = {"claims": [], "expected": [entry]}
    return parts


def _sequences(part: dict[str, Any]) -> set[tuple[str, str]]:
    """Two words or signs in a row, wherever in its queries; all literals and moments are alike."""
    text = "\n".join(queries_declared(part).values())
    alike = re.sub(r"'(?:[^']|'')*'|\{[^}]*\}|\b\d+(\.\d+)?\b", "0", text)
    tokens = re.findall(r"\w+|[^\s\w]", alike)
    return set(pairwise(tokens))


def _covering(parts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Some of the parts, in which every sequence of the others occurs."""
    seen: set[tuple[str, str]] = set()
    chosen = {}
    for name, part in sorted(parts.items(), key=lambda item: -len(str(item[1]))):
        if not (sequences := _sequences(part)) <= seen:
            seen |= sequences
            chosen[name] = part
    return chosen


@pytest.mark.parametrize("choose", [_covering, pytest.param(dict, id="all", marks=pytest.mark.long)])
def test_every_claim_is_understood(
    choose: Callable[[dict[str, dict[str, Any]]], dict[str, dict[str, Any]]], empty: Any
) -> None:
    """Spark finds every table and column that a claim names, and no mistake of syntax.

    Without the long tests: every construction that claims use. DuckDB asks every claim of a stored run
    (tests/runs/test_stored_controls.py), so that it would refuse a table or column that does not exist.
    """
    parts = choose(_parts())
    assert len(parts) > 50
    mistakes = {name: refused(empty, part) for name, part in parts.items()}
    assert {name: refusals for name, refusals in mistakes.items() if refusals} == {}


def test_a_misspelt_column_is_always_among_the_chosen() -> None:
    parts = _parts()
    left = parts.keys() - _covering(parts).keys()
    name = next(name for name, part in parts.items() if name in left and "topic" in str(part["claims"]))
    (claim,) = parts[name]["claims"]
    misspelt = {**claim, "holds": claim["holds"].replace("topic", "topik")}
    assert name in _covering({**parts, name: {"claims": [misspelt], "expected": []}})


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(all_scenarios()))
def test_claims_are_sql_and_do_not_hold_where_nothing_was_seen(name: str, empty: Any) -> None:
    """With every mark set and every table empty no claim is confirmed and no erratum holds."""
    scenario = all_scenarios()[name]
    queries = queries_declared(_declared(scenario))
    marks = {mark: 10**9 * n for n, mark in enumerate(_MARKS.findall(" ".join(queries.values())))}
    with settings_for_small_data(empty):
        answers = ask(empty, queries, Moments(marks=marks))
    preconditions = {claim.name for claim in scenario.claims if claim.precondition}
    held = {claim for claim, answer in answers.items() if answer.holds} - preconditions
    assert {claim for claim in held if not claim.endswith("(given)")} == set()


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ("SELECT count(*) > 0 AS holds, '' AS observed FROM life", ""),
        ("SELECT holds, observed FORM life", "FORM|life"),
        ("SELECT count(*) > 0 AS holds FROM life", "observed"),
        ("SELECT fatal = 'lost' AS holds, '' AS observed FROM life", "fatal"),
        ("SELECT ns > {mark:cut} AS holds, '' AS observed FROM liefe", "liefe"),
    ],
)
def test_sql_that_spark_refuses_is_named(holds: str, said: str, empty: Any) -> None:
    """Syntax, columns and tables are checked without a run; a moment is no mistake."""
    expected = [{"where": "fate = 'lost' AND detail LIKE '%x%' AND outcome = 'ok' AND topic = 't'"}]
    declared = {"claims": [{"name": "mine", "holds": holds}], "expected": expected}
    answer = refused(empty, declared)
    assert list(answer) == (["mine"] if said else [])
    assert all(re.search(said, sentence) for sentence in answer.values())
