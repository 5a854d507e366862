"""Which tests belong to `make test`, and which of the long ones to a share of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import pytest


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, all but every ``step``-th of them marked as long."""
    return [
        case if number % step == 0 else pytest.param(case, marks=pytest.mark.long)
        for number, case in enumerate(cases)
    ]


LONGEST_S = 900
"""Tests that may take longer run every night only."""


def in_share(item: pytest.Item, share: str) -> bool:
    """Whether a test is a long one of this share, written as `3/10`. The shares are disjoint."""
    number, count = (int(part) for part in share.split("/"))
    limit = item.get_closest_marker("timeout")
    return (
        item.get_closest_marker("long") is not None
        and (limit is None or limit.args[0] <= LONGEST_S)
        and crc32(item.nodeid.encode()) % count == number - 1
    )
