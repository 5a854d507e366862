"""What is said of stored facts that no sentence can be made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.errors import BadDataError

REMEDY = "judge the run again with `acked check`"
"""Judging writes `life` and `findings`, so it replaces what is damaged there, or of an earlier version."""


@contextmanager
def worded(what: str) -> Iterator[None]:
    """Raise BadDataError if no sentence can be made of ``what``: a fact is missing or has another type."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise BadDataError(
            f"{what} cannot be put into words ({type(error).__name__}: {error}); {REMEDY}."
        ) from error
