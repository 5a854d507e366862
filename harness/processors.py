"""How busy the processors of this machine are: on a busy machine, a late event says nothing about Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

BUSY_PERCENT = 90
"""A machine counts as busy from this use on. What takes too long may then have waited for a processor, so
claims do not take it as evidence."""

_IDLE = slice(3, 5)
"""The fields of the line `cpu` in `/proc/stat` for idle, and for waiting for input or output (proc(5))."""
_COUNTED = 8
"""How many fields to add up; later fields are already contained in earlier ones."""


class ProcessorUse:
    """The share of the processors' time that was in use, from one call of `percent` to the next."""

    def __init__(self, stat: Callable[[], str] = Path("/proc/stat").read_text) -> None:
        """``stat`` returns what `/proc/stat` holds now."""
        self._stat = stat
        self._before = self._ticks()

    def percent(self) -> int | None:
        """The share since the previous call, or since construction; None if no tick has passed."""
        now = self._ticks()
        total, idle = (after - before for after, before in zip(now, self._before, strict=True))
        if total <= 0:
            return None
        self._before = now
        return round(100 * (total - idle) / total)

    def _ticks(self) -> tuple[int, int]:
        """Ticks of all processors since boot: the total, and the idle ones."""
        ticks = [int(field) for field in self._stat().partition("\n")[0].split()[1 : 1 + _COUNTED]]
        return sum(ticks), sum(ticks[_IDLE])
