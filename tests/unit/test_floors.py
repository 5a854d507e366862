"""Imports run downwards and without circles: the contracts in `pyproject.toml`, as in `make check`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.cli import lint_imports

from tests.floors import PAGE, ROOT, with_section

PACKAGES = tuple(read_configuration(str(ROOT / "pyproject.toml"))["session_options"]["root_packages"])
"""The packages of the project, the highest first."""


def imports(source: str) -> Iterator[str]:
    """Dotted names of all imports in ``source``, at any depth of the code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_contract_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", no_cache=True) == 0


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def _order(graph: grimp.ImportGraph) -> list[str]:
    """Modules after those that they import. Raises CycleError."""
    importing = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    return list(TopologicalSorter(importing).static_order())


def test_only_one_console_prints_values_of_others() -> None:
    """`harness.console` makes their control characters visible."""
    sources = {path: path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert [path for path, text in sources.items() if "rich.console.Console" in set(imports(text))] == []
    assert [path for path, text in sources.items() if "typer.echo" in text and "cli" in path.parts] == []


def test_no_circle_of_imports(graph: grimp.ImportGraph) -> None:
    assert len(_order(graph)) == len(graph.modules)


def test_a_circle_is_seen(graph: grimp.ImportGraph) -> None:
    graph.add_import(importer="harness.errors", imported="harness.waiting")
    try:
        with pytest.raises(CycleError):
            _order(graph)
    finally:
        graph.remove_import(importer="harness.errors", imported="harness.waiting")


def test_the_page_shows_the_contracts() -> None:
    assert PAGE.read_text() == with_section(PAGE.read_text()), "run python -m tests.floors"


def test_every_package_says_what_it_holds_where_it_runs_and_what_it_may_import() -> None:
    silent = []
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")):
        text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split()).lower()
        silent += [
            f"{path.relative_to(ROOT)}: {word}"
            for word in ("run", "import")
            if not re.search(rf"\b{word}s?\b", text)
        ]
    assert silent == []
