"""The form of the catalogue: names, claims, marks, and the document generated from it."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from functools import cache
from types import ModuleType

import pytest

from checkers.tables.output import FATE_MEANINGS, FINDINGS
from run.scenario import Scenario
from scenarios import document
from scenarios.beyond.configuration_matrix import KINDS, PRODUCERS, SCENARIO, fate_of
from scenarios.catalogue import all_scenarios

_MARKS = re.compile(r"\{mark\??:([^{}]+)\}")
"""The marks that a query names in braces."""

EVERY = sorted(all_scenarios().values(), key=lambda scenario: scenario.name)
_NOTED = re.compile(r"FROM marks WHERE name = '([^']+)'")


def _id(scenario: Scenario) -> str:
    return scenario.name


def _queries(scenario: Scenario) -> list[str]:
    found = [entry.where for entry in scenario.expected]
    for claim in scenario.claims:
        found += [claim.holds, claim.given]
        found += [other.holds for other in (claim.erratum, claim.either) if other]
    return found


@pytest.mark.parametrize("scenario", EVERY, ids=_id)
def test_a_scenario_says_what_it_is(scenario: Scenario) -> None:
    """It has a title, an outcome, distinct claims, known classes of findings and existing topics."""
    assert scenario.title
    assert scenario.outcome
    names = Counter((claim.name, claim.since, claim.before) for claim in scenario.claims)
    assert max(names.values(), default=1) == 1
    assert {entry.finding for entry in scenario.expected} <= set(FINDINGS) | set(FATE_MEANINGS)
    assert all(claim.says.endswith((".", "!", ")")) for claim in scenario.claims)
    assert len({topic.name for topic in scenario.setup.topics}) == len(scenario.setup.topics)


@cache
def _texts(module: ModuleType | None) -> frozenset[object]:
    """The constants in the source of a module."""
    assert module is not None
    tree = ast.parse(inspect.getsource(module))
    return frozenset(node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value)


@pytest.mark.parametrize("scenario", EVERY, ids=_id)
def test_claims_name_marks_that_the_scenario_sets(scenario: Scenario) -> None:
    """With a misspelt mark a claim would always be unknown."""
    module = inspect.getmodule(scenario.body)
    assert module is not None
    written = _texts(module) | _texts(inspect.getmodule(document.main))
    for name in list(vars(module)):
        origin = inspect.getmodule(getattr(module, name))
        if origin is not None and origin.__name__.startswith("scenarios."):
            written |= _texts(origin)
    for query in _queries(scenario):
        for mark in (*_MARKS.findall(query), *_NOTED.findall(query)):
            assert mark in written, f"{scenario.name} has no mark {mark!r}"


@pytest.mark.parametrize("scenario", EVERY, ids=_id)
def test_a_claim_about_reads_ends_at_a_mark(scenario: Scenario) -> None:
    """The final consumer reads after all marks; its records must not change the result of a claim."""
    for query in _queries(scenario):
        if "FROM reads" in query:
            assert re.search(r"ns (<=?|BETWEEN .* AND) \{mark:", query), query


def test_each_step_is_in_words() -> None:
    """A fault that stays for longer than a block is named once, and without the code that injects it."""
    steps = re.findall(r"^\d+\. \*\*(.*)\*\*$", document.document(), re.MULTILINE)
    assert len(steps) > 200
    assert not [step for step in steps if re.search(r"inject|['\"]", step)]


def test_the_catalogue_document_is_up_to_date() -> None:
    """`docs/catalogue.md` agrees with the scenarios."""
    assert document.FILE.read_text() == document.document(), "run `python -m scenarios.document`"


def test_the_matrix_has_every_combination_once() -> None:
    """Two situations, two settings of min.insync, two of unclean election, four producers."""
    assert len(KINDS) * len(PRODUCERS) == 32
    cells = {claim.name for claim in SCENARIO.claims}
    assert {f"{kind.topic}-{producer}" for kind in KINDS for producer in PRODUCERS} <= cells
    kept = {(k.topic, p) for k in KINDS for p in PRODUCERS if fate_of(k, p) == "kept"}
    assert ("shrunk-min1-clean", "all") in kept
    assert ("shrunk-min1-unclean", "all") not in kept
