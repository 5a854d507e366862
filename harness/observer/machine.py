"""How busy the machine is, once a second."""

from __future__ import annotations

from harness.clock import now_ns
from harness.history.journal import Journal
from harness.processors import ProcessorUse


class MachinePoller:
    """Records in `machine` which share of the processors' time was in use since the previous poll."""

    name = "the machine"
    period_s = 1.0

    def __init__(self, journal: Journal, use: ProcessorUse | None = None) -> None:
        """``use`` measures the share; by default, that of this machine."""
        self._journal = journal
        self._use = use or ProcessorUse()

    def poll(self) -> None:
        """Record the share since the previous poll, or since the start."""
        if (busy := self._use.percent()) is not None:
            self._journal.write("machine", ns=now_ns(), busy=busy)

    def close(self) -> None:
        """Do nothing: nothing is open."""
