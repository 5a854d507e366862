"""Checks that Spark understands the SQL of the user's scenarios, before anything starts.

The catalogue's SQL has been tested. The SQL of a user's file is tried on empty tables. Spark runs in a
process of its own, because hosts are made from a process without threads. Each text is tried once: the cache
remembers what Spark has understood.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.artifacts.cache import cache_dir
from harness.errors import UnfitError, UsageError
from harness.history.schema import SCHEMA_VERSION
from harness.kafka.model import Library
from run.declaration import line_of
from run.scenario import Scenario

_LIMIT_S = 180.0


def require_sql(scenarios: Iterable[Scenario], *, say: Callable[[str], None] = lambda text: None) -> None:
    """Raise UsageError, with file and line, if Spark does not understand a query of the user's scenario."""
    asked = [
        (one, one.declared(version, client))
        for one in scenarios
        if one.file
        for version in _versions(one)
        for client in _clients(one)
    ]
    new = [(one, declared) for one, declared in asked if not _note(declared).exists()]
    if not new:
        return
    say("checking the SQL of the claims (once for each change)")
    for (one, declared), refused in zip(new, _ask([declared for _, declared in new]), strict=True):
        refuse(one, refused)
        with suppress(OSError):  # Spark is then asked again next time
            _note(declared).parent.mkdir(parents=True, exist_ok=True)
            _note(declared).touch()


def refuse(scenario: Scenario, refused: Mapping[str, str]) -> None:
    """Raise UsageError, with file and line, for the first query that Spark has refused, if any."""
    for query, reason in refused.items():
        what = f"the SQL of {_what(scenario, query)} cannot be understood"
        raise UsageError(f"{_place(scenario, query)}: {what}: {reason.rstrip('.')}; correct it.")


def _versions(scenario: Scenario) -> tuple[str, ...]:
    return scenario.versions or (scenario.kafka,)


def _clients(scenario: Scenario) -> tuple[Library, ...]:
    """librdkafka, and the Java client if the scenario declares something for only one of the two."""
    entries = (*scenario.claims, *scenario.expected, *(claim.erratum for claim in scenario.claims))
    differ = any(entry is not None and entry.client for entry in entries)
    return ("librdkafka", "java") if differ else ("librdkafka",)


def _ask(declared: list[dict[str, Any]]) -> list[dict[str, str]]:
    command = [sys.executable, "-m", "checkers.claims.understood"]
    try:
        done = subprocess.run(
            command, input=json.dumps(declared), capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnfitError(
            f"Spark did not check the SQL of the claims within {_LIMIT_S:g} s; try again."
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnfitError(f"Spark cannot check the SQL of the claims: {last}")
    objections: list[dict[str, str]] = json.loads(done.stdout)
    return objections


def _note(declared: dict[str, Any]) -> Path:
    """The empty file that says that a declaration's SQL was understood."""
    text = json.dumps([SCHEMA_VERSION, declared["claims"], declared["expected"]], sort_keys=True)
    return cache_dir() / "claims" / hashlib.sha256(text.encode()).hexdigest()[:32]


def _place(scenario: Scenario, query: str) -> str:
    if scenario.file is None:
        return "the catalogue"
    if query.startswith("expected "):
        finding = scenario.expected[int(query.split()[1]) - 1].finding
        line = line_of(scenario.file.text, "Expected", finding)
    else:
        line = line_of(scenario.file.text, "Claim", query.partition(" (")[0])
    return f"{scenario.file.path}:{line}"


def _what(scenario: Scenario, query: str) -> str:
    if query.startswith("expected "):
        return f"the expected finding {scenario.expected[int(query.split()[1]) - 1].finding!r}"
    name, _, part = query.partition(" (")
    return f"claim {name!r}" + (f" ({part}" if part else "")
