"""How busy the processors of this machine are: on a busy machine, a late event says nothing about Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

BUSY_PERCENT = 90
"""From this use on a machine counts as busy: what takes too long may have waited for a processor, and claims
do not take it as evidence."""

_IDLE = slice(3, 5)
"""Of the fields of the line `cpu` in `/proc/stat`: idle, and waiting for input or output (proc(5))."""
_COUNTED = 8
"""The fields after these are part of others."""


class ProcessorUse:
    """The share of the processors' time that was in use, from one call of `percent` to the next."""

    def __init__(self, stat: Callable[[], str] = Path("/proc/stat").read_text) -> None:
        """``stat`` returns what `/proc/stat` holds now."""
        self._stat = stat
        self._before = self._ticks()

    def percent(self) -> int | None:
        """The share since the call before, or since construction; None where no tick has passed."""
        now = self._ticks()
        total, idle = (after - before for after, before in zip(now, self._before, strict=True))
        if total <= 0:
            return None
        self._before = now
        return round(100 * (total - idle) / total)

    def _ticks(self) -> tuple[int, int]:
        """Ticks of all processors since boot: all of them, and those in which nothing ran."""
        ticks = [int(field) for field in self._stat().partition("\n")[0].split()[1 : 1 + _COUNTED]]
        return sum(ticks), sum(ticks[_IDLE])
