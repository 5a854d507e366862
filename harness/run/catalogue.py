"""Finds the scenarios: each module below `scenarios/` may declare `SCENARIO` or `SCENARIOS`."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

import scenarios
from harness.errors import UsageError
from harness.scenario import Scenario


def modules() -> list[str]:
    """Names of all modules below `scenarios/`."""
    found = pkgutil.walk_packages(scenarios.__path__, f"{scenarios.__name__}.")
    return [module.name for module in found if not module.ispkg]


@cache
def all_scenarios() -> dict[str, Scenario]:
    """All scenarios by name, ordered by article and section."""
    found: list[Scenario] = []
    for name in modules():
        module = importlib.import_module(name)
        one = getattr(module, "SCENARIO", None)
        found += [one] if one is not None else list(getattr(module, "SCENARIOS", ()))
    found.sort(key=lambda scenario: (scenario.article, scenario.section, scenario.name))
    return {scenario.name: scenario for scenario in found}


def find(name: str) -> Scenario:
    """The scenario with this name. Raises UsageError that suggests the nearest name."""
    known = all_scenarios()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else "`acked list` shows them all."
    raise UsageError(f"There is no scenario {name!r}; {hint}")
