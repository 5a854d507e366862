"""The catalogue: what the modules in the folders of `scenarios/` declare as `SCENARIO` or `SCENARIOS`.

The entry point `catalogue` of the group `acked.scenarios` names `SCENARIOS`, so that `run.catalogue` finds
them as it finds those of the user's packages.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import scenarios
from run.scenario import Scenario


def _declared() -> Iterator[Scenario]:
    for package in pkgutil.iter_modules(scenarios.__path__):
        if package.ispkg:
            yield from _declared_in(f"{scenarios.__name__}.{package.name}")


def _declared_in(package: str) -> Iterator[Scenario]:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        declaring = importlib.import_module(f"{package}.{module.name}")
        scenario = getattr(declaring, "SCENARIO", None)
        yield from [scenario] if scenario is not None else getattr(declaring, "SCENARIOS", ())


SCENARIOS = tuple(
    sorted(_declared(), key=lambda scenario: (scenario.article, scenario.section, scenario.name))
)
"""All scenarios of the catalogue, ordered by article and section."""


def all_scenarios() -> dict[str, Scenario]:
    """The scenarios of the catalogue by name, in its order."""
    return {scenario.name: scenario for scenario in SCENARIOS}
