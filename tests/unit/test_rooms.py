"""Which room may import which: one direction, no way back (`docs/architecture.md`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (
    "harness",
    "nemesis",
    "workloads",
    "checkers",
    "scenarios",
    "report",
    "compose",
    "benchmarks",
    "tests",
)

MAY_IMPORT: Mapping[str, tuple[str, ...]] = {
    "harness": ("harness",),
    "harness/cli": ROOMS[:6],
    "harness/run": ROOMS[:6],
    "nemesis": ("nemesis", "harness"),
    "workloads": ("workloads", "harness"),
    "checkers": ("checkers", "harness.history.schema", "harness.errors"),
    "scenarios": ("scenarios", "harness", "nemesis", "workloads", "checkers"),
    "report": ("report", "harness.errors"),
    "compose": ("compose",),
}
"""Folder → what its modules may import of this project; the longest folder that fits counts."""


def _modules() -> list[Path]:
    return sorted(path for room in ROOMS[:7] for path in (ROOT / room).rglob("*.py"))


def imports(source: str) -> Iterator[str]:
    """Dotted names of this project's modules that ``source`` imports, at any depth of the code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in ROOMS)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ROOMS:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def allowed(folder: str) -> tuple[str, ...]:
    """What modules of ``folder`` (relative to the checkout) may import."""
    fitting = [room for room in MAY_IMPORT if folder == room or folder.startswith(room + "/")]
    return MAY_IMPORT[max(fitting, key=len)]


def forbidden(folder: str, source: str) -> list[str]:
    """Imports in ``source`` that its folder does not allow."""
    names = allowed(folder)
    return [
        found
        for found in imports(source)
        if not any(found == name or found.startswith(name + ".") for name in names)
    ]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_what_its_room_may(path: Path) -> None:
    folder = str(path.parent.relative_to(ROOT))
    assert forbidden(folder, path.read_text()) == [], f"{folder} may import {', '.join(allowed(folder))}"


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("harness/lab", "from nemesis.links import Cut"),
        ("harness/lab", "def late():\n    import checkers.judge"),
        ("nemesis", "from workloads.client import Client"),
        ("checkers", "from harness.lab import model"),
        ("checkers", "import harness.waiting"),
        ("report", "from harness.scenario import Claim"),
        ("workloads", "from tests.unit import fake"),
    ],
)
def test_a_forbidden_import_is_seen(folder: str, source: str) -> None:
    assert forbidden(folder, source)


def test_an_import_in_a_comment_or_text_is_none() -> None:
    assert forbidden("harness", '# import nemesis\ntext = "import nemesis"\nimport nemesis_of_others\n') == []
