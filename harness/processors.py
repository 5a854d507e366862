"""How busy the processors of this machine are: on a busy machine, a late event says nothing about Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

BUSY_PERCENT = 90
"""A machine counts as busy from this use on. What takes too long may then have waited for a processor, so
claims do not take it as evidence."""

STARVED = 2.0
"""A thread counts as starved if it waited for a processor this many times as long as it ran: everything took
three times as long then. Busy processors alone do not show that: they may serve every thread at once."""
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


class Starvation:
    """Whether this thread got a processor whenever it could have run, since the construction.

    A thread that polls needs processors as Kafka's processes do: for short work, again and again.
    """

    def __init__(
        self,
        stat: Callable[[], str] = Path("/proc/thread-self/schedstat").read_text,
        *,
        from_start: bool = False,
    ) -> None:
        """``stat`` returns how long this thread has run, and how long it waited to run (ns, proc(5)).

        ``from_start`` counts from the start of the thread.
        """
        self._stat = stat
        self._before = (0, 0) if from_start else self._times()

    def starved(self) -> bool:
        """Whether it waited `STARVED` times as long as it ran; false where the kernel does not count that."""
        ran, waited = (now - before for now, before in zip(self._times(), self._before, strict=True))
        return 0 < ran * STARVED <= waited

    def slowdown(self) -> float:
        """How many times as long this thread took as it would have alone; 1 if the kernel does not count."""
        ran, waited = (now - before for now, before in zip(self._times(), self._before, strict=True))
        return (ran + waited) / ran if ran > 0 else 1.0

    def _times(self) -> tuple[int, int]:
        try:
            ran, waited, _ = map(int, self._stat().split())
        except (OSError, ValueError):
            return 0, 0
        return ran, waited
