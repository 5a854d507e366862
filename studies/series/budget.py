"""`--budget`: how long a command may start runs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from studies.series.job import Job

UNKNOWN_S = 60.0
"""Estimate if no job has run before; none of the catalogue takes longer on an idle machine."""


@dataclass
class Budget:
    """Wall time, from now on, in which runs must end: none starts that would end later."""

    seconds: float = math.inf
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.began

    @property
    def left_s(self) -> float:
        """Seconds until the end; infinite without a limit."""
        return max(0.0, self.seconds - self.elapsed_s)

    def allows(self, needed_s: float) -> bool:
        """Whether a run that takes so long should end in time, if it starts now."""
        return self.elapsed_s + needed_s <= self.seconds


def as_before(took: Mapping[Job, float]) -> Callable[[Job], float]:
    """How many seconds a job takes: as long as it ``took`` before, or else as long as jobs usually take."""
    usual = statistics.median(took.values()) if took else UNKNOWN_S
    return lambda job: took.get(job, usual)
