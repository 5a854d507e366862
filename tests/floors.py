"""Writes the rules of imports in `pyproject.toml` into `docs/architecture.md`: `python -m tests.floors`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from importlinter.api import read_configuration

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- floors: `python -m tests.floors` -->\n", "<!-- end of floors -->\n"


def contracts() -> list[Mapping[str, Any]]:
    """The contracts of import-linter, in their order."""
    return list(read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"])


def section() -> str:
    """The contracts as Markdown."""
    return "".join(line for contract in contracts() for line in _lines(contract))


def with_section(page: str) -> str:
    """The page with its part about imports written anew."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{section()}\n{END}{rest.split(END)[1]}"


def _lines(contract: Mapping[str, Any]) -> Iterator[str]:
    if contract["type"] == "layers":
        floors = " → ".join(_floor(layer) for layer in contract["layers"])
        yield f"* {contract['name']}: {floors}.\n"
    else:
        yield f"* {contract['name']}: {_names(contract['source_modules'])} without "
        yield f"{_names(contract['forbidden_modules'])}.\n"


def _floor(layer: str) -> str:
    return ", ".join(f"`{name.strip()}`" for name in layer.replace("|", ":").split(":"))


def _names(modules: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in modules)


if __name__ == "__main__":
    PAGE.write_text(with_section(PAGE.read_text()))
