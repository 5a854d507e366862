"""The public API: documented completely, and changed only on purpose."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from acked.document import MODULES, document, fields_of, listing

PAGE = Path(__file__).resolve().parents[3] / "docs" / "api.md"
LISTING = Path(__file__).with_name("public.txt")


def test_a_change_of_the_public_api_is_noted() -> None:
    """The stored listing has every public name with its signature, so that a change is seen in review."""
    remedy = (
        "the public API has changed: note it in CHANGELOG.md, then run "
        "`python -m acked.document --listing > tests/unit/api/public.txt`"
    )
    assert LISTING.read_text(encoding="utf-8").splitlines() == listing(), remedy


def test_the_page_is_current() -> None:
    remedy = "run `python -m acked.document > docs/api.md`"
    assert PAGE.read_text(encoding="utf-8") == document(), remedy


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_exists_once_and_is_explained(name: str) -> None:
    """So is each attribute and, because the page cannot be written without it, each method."""
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), public
        if inspect.isclass(thing):
            assert [field for field, _, said in fields_of(thing) if not said] == [], public


def test_what_the_harness_needs_is_not_public() -> None:
    lines = listing()
    assert any(line.startswith("acked.Stage.mark(name: str") for line in lines)
    assert not any(".Stage.journal" in line or ".Scenario.file" in line or "._" in line for line in lines)
