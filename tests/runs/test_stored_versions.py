"""What a scenario claims about other Kafka versions than its own rests on a stored run as well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from harness.kafka.versions import VERSIONS
from run.scenario import Scenario
from scenarios.catalogue import all_scenarios
from tests.runs.store import COMMAND
from tests.runs.stored import other_versions, read_stored

STORED_BY_SCENARIO: dict[str, list[str]] = {}
for _name in other_versions():
    STORED_BY_SCENARIO.setdefault(_name.partition("/")[2].partition("@")[0], []).append(_name)


def _forms(declared: Mapping[str, Any]) -> dict[str, str]:
    """The claims of one version, whole, as text; the value is the name of the claim."""
    return {json.dumps(claim, sort_keys=True): claim["name"] for claim in declared["claims"]}


def _versions(scenario: Scenario) -> list[str]:
    """Those that the scenario names, else those at which one of its claims or errata changes."""
    if scenario.versions:
        return list(scenario.versions)
    entries = [*scenario.claims, *(claim.erratum for claim in scenario.claims if claim.erratum)]
    return sorted({entry.since for entry in entries if entry.since})


@pytest.mark.parametrize("name", sorted(all_scenarios()))
def test_every_claim_about_another_version_is_in_a_stored_run(name: str) -> None:
    scenario = all_scenarios()[name]
    forms = _forms(scenario.declared())
    for stored in STORED_BY_SCENARIO.get(name, ()):
        forms |= _forms(read_stored(stored).declared)
    for version in _versions(scenario):
        missing = [claim for form, claim in _forms(scenario.declared(version)).items() if form not in forms]
        assert not missing, f"run {name} with --kafka {version}, and store it: {COMMAND}"


def test_the_scenarios_name_known_versions() -> None:
    named = {version.partition("@")[0] for one in all_scenarios().values() for version in one.versions}
    assert named <= set(VERSIONS)
