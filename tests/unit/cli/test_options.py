"""Options whose values several commands read with one parser."""

from __future__ import annotations

import pytest

from cli.options import duration
from harness.errors import UsageError


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("45m", 2700.0), ("1.5h", 5400.0)])
def test_durations(text: str, seconds: float) -> None:
    assert duration("--budget", text) == seconds


@pytest.mark.parametrize("text", ["", "45", "0m", "-3m", "45 minutes", "m", "9" * 400 + "s", "1e3s"])
def test_a_duration_needs_a_unit(text: str) -> None:
    with pytest.raises(UsageError, match=r"--budget .*: give a time with its unit, .* from 1s to 8760h\."):
        duration("--budget", text)


@pytest.mark.parametrize("text", ["4s", "169h"])
def test_a_duration_has_bounds(text: str) -> None:
    with pytest.raises(UsageError, match=f"--for {text}: .* from 5s to 168h"):
        duration("--for", text, least_s=5, most_h=168)
