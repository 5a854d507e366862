"""How busy the machine is, once a second: on a busy one, an event that comes late says nothing of Kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.clock import now_ns
from harness.history.journal import Journal

_IDLE = slice(3, 5)
"""Of the fields of the line `cpu` in `/proc/stat`: idle, and waiting for input or output (proc(5))."""
_COUNTED = 8
"""The fields after these are part of others."""


class MachinePoller:
    """Records in `machine` which share of the processors' time was in use since the poll before."""

    name = "the machine"
    period_s = 1.0

    def __init__(self, journal: Journal, stat: Callable[[], str] = Path("/proc/stat").read_text) -> None:
        """``stat`` returns what `/proc/stat` holds now."""
        self._journal = journal
        self._stat = stat
        self._before = self._ticks()

    def poll(self) -> None:
        """Record the share since the poll before, or since the start."""
        now = self._ticks()
        total, idle = (after - before for after, before in zip(now, self._before, strict=True))
        if total <= 0:
            return
        self._before = now
        self._journal.write("machine", ns=now_ns(), busy=round(100 * (total - idle) / total))

    def close(self) -> None:
        """Nothing is open."""

    def _ticks(self) -> tuple[int, int]:
        """Ticks of all processors since boot: all of them, and those in which nothing ran."""
        ticks = [int(field) for field in self._stat().partition("\n")[0].split()[1 : 1 + _COUNTED]]
        return sum(ticks), sum(ticks[_IDLE])
