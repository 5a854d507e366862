"""Judged run folders that tests of the model and of the page share. The tests only read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs.judged import judged_run


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The judged folder of a stored run, made once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = judged_run(name, tmp_path_factory.mktemp("judged") / name)
        return made[name]

    return folder
