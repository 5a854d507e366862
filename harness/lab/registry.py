"""The kinds of labs: the two of acked, and those that installed packages offer.

A package offers a lab by an entry point of the group `acked.labs`, which names a `LabKind`. The name of the
entry point is that of `--lab`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.lab.model import Lab, Topology

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "acked.labs"
EMBEDDED = "embedded"
"""The lab that needs nothing but this machine: the default."""
_OWN = {EMBEDDED: "harness.lab.embedded:KIND", "compose": "harness.lab.docker:KIND"}


def _as_it_is(work: Callable[[], int]) -> int:
    return work()


@dataclass(frozen=True, kw_only=True)
class LabKind:
    """A kind of lab."""

    make: Callable[[Topology, Path], Lab]
    """A lab with these hosts, which keeps their files below a run folder; not up yet."""
    requires: tuple[str, ...]
    """The checks of `acked doctor` that it needs besides those of every lab."""
    enter: Callable[[Callable[[], int]], int] = _as_it_is
    """Calls the harness where it reaches the hosts, such as in namespaces of its own; returns its result."""


def names() -> list[str]:
    """The names of all kinds of labs, acked's own first."""
    return list(_points())


def lab_kind(name: str) -> LabKind:
    """The kind of lab with this name. Raises UsageError for an unknown one, or one that cannot be loaded."""
    points = _points()
    if name not in points:
        raise UsageError(f"There is no lab {name!r}; use {' or '.join(points)}.")
    try:
        kind = points[name].load()
    except Exception as error:
        if name in _OWN:
            raise
        raise UsageError(
            f"The lab {name!r} of an installed package ({points[name].value}) cannot be loaded "
            f"({type(error).__name__}: {error}); repair it, or uninstall it."
        ) from None
    if not isinstance(kind, LabKind):
        raise UsageError(f"The entry point {points[name].value} of {GROUP} names no LabKind; correct it.")
    return kind


def _points() -> dict[str, EntryPoint]:
    """By name; a package cannot replace a lab of acked."""
    from importlib.metadata import EntryPoint, entry_points  # every command imports this module

    own = {name: EntryPoint(name, value, GROUP) for name, value in _OWN.items()}
    return own | {point.name: point for point in entry_points(group=GROUP) if point.name not in own}
