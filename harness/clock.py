"""The clock of a run: monotonic nanoseconds, related once to the wall clock.

All hosts of a lab share one kernel, so the times of its `CLOCK_MONOTONIC` can be compared across processes.
The wall clock is used only to place the lines of broker logs and to show dates.
"""

from __future__ import annotations

import time
from dataclasses import dataclass


def now_ns() -> int:
    """Nanoseconds of the machine's monotonic clock."""
    return time.monotonic_ns()


@dataclass(frozen=True)
class Anchor:
    """The same instant on both clocks, in nanoseconds."""

    monotonic_ns: int
    wall_ns: int

    @classmethod
    def take(cls) -> Anchor:
        """Read both clocks as closely together as Python allows."""
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        return cls((before + after) // 2, wall)

    def monotonic_from_wall(self, wall_ns: int) -> int:
        """Monotonic time of a wall-clock time. Wrong if the wall clock was set in between."""
        return wall_ns - self.wall_ns + self.monotonic_ns

    def wall_from_monotonic(self, monotonic_ns: int) -> int:
        """Wall-clock time of a monotonic time."""
        return monotonic_ns - self.monotonic_ns + self.wall_ns
