"""Which cases of a parametrized test belong to `make test`, if all of them would take minutes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, all but every ``step``-th of them marked as long."""
    return [
        case if number % step == 0 else pytest.param(case, marks=pytest.mark.long)
        for number, case in enumerate(cases)
    ]
