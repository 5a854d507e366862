"""How often something comes back: an interval for its rate, and when enough runs were made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Z_95 = 1.959964
Decision = Literal["", "comes back", "does not come back"]


def wilson(hits: int, runs: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's interval for a rate: the lower and the upper bound; (0, 1) without a run."""
    if not runs:
        return 0.0, 1.0
    rate = hits / runs
    middle = rate + z * z / (2 * runs)
    half = z * math.sqrt(rate * (1 - rate) / runs + z * z / (4 * runs * runs))
    below = 1 + z * z / runs
    low, high = (middle - half) / below, (middle + half) / below
    return (0.0 if hits == 0 else max(0.0, low)), (1.0 if hits == runs else min(1.0, high))


@dataclass(frozen=True, kw_only=True)
class Sequential:
    """Wald's sequential test of two rates: it decides with as few runs as possible."""

    rare: float = 0.05
    """At this rate or below, it does not come back."""
    often: float = 0.5
    """At this rate or above, it comes back."""
    error: float = 0.05
    """How often the decision may be wrong, in each direction."""

    def decide(self, hits: int, runs: int) -> Decision:
        """The decision after some runs; empty while there is none."""
        odds = hits * math.log(self.often / self.rare)
        odds += (runs - hits) * math.log((1 - self.often) / (1 - self.rare))
        limit = math.log((1 - self.error) / self.error)
        if odds >= limit:
            return "comes back"
        return "does not come back" if odds <= -limit else ""


def misses_that_tell(rate: float, error: float = 0.05, most: int = 12) -> int:
    """How many runs without a hit exclude this rate, with an error probability of ``error``."""
    if rate >= 1 - error:
        return 1
    if rate <= 0:
        return most
    return min(most, math.ceil(math.log(error) / math.log(1 - rate)))
