"""Finds scenarios: those of the catalogue, of installed packages, and of files that the user names.

A package offers scenarios by entry points of the group `acked.scenarios`, each a module, a scenario or a
tuple of scenarios. The catalogue is offered the same way. A file of the user declares `SCENARIO` or
`SCENARIOS`.
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points

from harness.errors import UsageError, quoted
from run.scenario import Scenario
from run.scenario_file import find_in_file, from_module, is_file, require_distinct

GROUP = "acked.scenarios"
_SHOWN = 5
"""How many of the user's own scenarios a message names."""


def modules() -> list[str]:
    """Names of the modules that declare scenarios; a process that runs many imports them beforehand."""
    return [point.module for point in entry_points(group=GROUP)]


def known_scenarios() -> dict[str, Scenario]:
    """The scenarios that have a name here: the catalogue's, then those of installed packages.

    Raises UsageError for a package that cannot be loaded, or that uses the name of another scenario.
    """
    points = sorted(entry_points(group=GROUP), key=_is_of_others)
    return by_name(scenario for point in points for scenario in _offered(point))


def by_name(scenarios: Iterable[Scenario]) -> dict[str, Scenario]:
    """Scenarios by name, in the order given. Raises UsageError if two have the same name."""
    scenarios = list(scenarios)
    require_distinct(scenarios)
    return {scenario.name: scenario for scenario in scenarios}


def find(reference: str) -> Scenario:
    """The scenario with this name, or in this file (`my_case.py`, `my_case.py:NAME`).

    Raises UsageError: it suggests the nearest name, or says what is wrong with the file.
    """
    catalogue = known_scenarios()
    if is_file(reference):
        from_file = find_in_file(reference)
        require_distinct([*catalogue.values(), from_file])
        return from_file
    if reference in catalogue:
        return catalogue[reference]
    near = difflib.get_close_matches(reference, catalogue, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else "`acked list` shows them all."
    raise UsageError(f"There is no scenario {reference!r}; {hint}")


def select(references: Sequence[str], own: Sequence[Scenario] = ()) -> list[Scenario]:
    """Scenarios that globs match, in their own order, then those of the files that are named.

    Globs choose from the scenarios that have a name here, and from ``own``, which were read from files.
    Raises UsageError for a glob that matches none, and for two scenarios of one name.
    """
    catalogue = known_scenarios()
    candidates = by_name([*catalogue.values(), *own])
    chosen_names: set[str] = set()
    for glob in references:
        if not is_file(glob):
            matching = fnmatch.filter(candidates, glob)
            if not matching:
                raise UsageError(
                    _matches_none(glob, list(catalogue), list(dict.fromkeys(one.name for one in own)))
                )
            chosen_names |= set(matching)
    chosen = [scenario for name, scenario in candidates.items() if name in chosen_names]
    named = [find_in_file(reference) for reference in references if is_file(reference)]
    require_distinct([*candidates.values(), *named])
    return list(by_name([*chosen, *named]).values())


def _matches_none(glob: str, catalogue: Sequence[str], own: Sequence[str]) -> str:
    near = difflib.get_close_matches(glob, [*own, *catalogue], n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}? " if near else ""
    searched = f"the catalogue ({len(catalogue)} scenarios)"
    if own:
        shown = ", ".join(own[:_SHOWN]) + (f" and {len(own) - _SHOWN} more" if len(own) > _SHOWN else "")
        searched += f" or of --from ({shown})"
    return f"{quoted(glob)} matches no scenario of {searched}; {hint}`acked list` shows the catalogue" + (
        "." if own else ", and --from adds scenarios of your own."
    )


def _is_of_others(point: EntryPoint) -> bool:
    return point.dist is None or point.dist.name != "acked"


def _offered(point: EntryPoint) -> list[Scenario]:
    package = point.dist.name if point.dist else point.module
    try:
        declared = point.load()
        if not _is_of_others(point):
            return list(declared)
        return from_module(importlib.import_module(point.module), declared, point.module)
    except UsageError as error:
        raise UsageError(
            f"The installed package {package} offers a wrong scenario: {error.message}"
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever the package raises: shown as a sentence
        raise UsageError(
            f"The scenarios of the installed package {package} ({point.value}) cannot be loaded "
            f"({type(error).__name__}: {error}); repair it, or uninstall it."
        ) from None
