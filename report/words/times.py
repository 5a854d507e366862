"""What the times of a run count from, in words."""

from __future__ import annotations


def counted_from(fault: str, utc: str = "") -> str:
    """A sentence that says what time zero is.

    ``fault`` names the first fault in force, if there is one; ``utc`` is the moment in ISO 8601, or empty.
    """
    when = f", {utc[11:23]} UTC" if utc else ""
    return f"Times count from {'the first fault' if fault else 'the first recorded event'}{when}."


def zero_of_axis(fault: str) -> str:
    """What the axis of a picture counts from, after `since`."""
    return "the fault" if fault else "the start"
