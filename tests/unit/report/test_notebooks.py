"""The notebooks of `examples/` run, and print what is stored in them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.notebooks import FOLDER, executed, outputs, shown

FILES = sorted(FOLDER.glob("*.ipynb"))
MOST_BYTES = 60_000


@pytest.mark.long
def test_stored_outputs_are_those_of_today(tmp_path: Path) -> None:
    """`python -m tests.notebooks` stores others."""
    assert len(FILES) == 2
    with shown(tmp_path):
        for file in FILES:
            stored = nbformat.read(file, as_version=4)
            assert outputs(executed(file)) == outputs(stored), file.name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_notebook_is_small_and_has_tables_and_a_picture(file: Path) -> None:
    kinds = {kind for cell in outputs(nbformat.read(file, as_version=4)) for one in cell for kind in one}
    assert kinds >= {"text/html", "image/svg+xml"}
    assert file.stat().st_size < MOST_BYTES
    assert "/tmp" not in file.read_text(encoding="utf-8")
