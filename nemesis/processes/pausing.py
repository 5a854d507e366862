"""Processes that hang for a while: the kernel accepts connections to them, and nothing answers."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from harness.clock import now_ns
from harness.errors import ProcessDiedError
from harness.lab.model import Host
from harness.waiting import wait_until
from nemesis.fault import Evidence, Fault, Targets
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, Placement, ScheduledFault


class ProcessPause(ScheduledFault):
    """Main processes that are stopped by SIGSTOP until healed."""

    mechanism = "pause"
    undoable = True
    takes = "hosts"
    lasts = True
    processes = "running"
    weight = 8
    placements = (Placement(at="node", rank=8, says="{} paused", subject="Pausing {}"),)

    def __init__(self, registry: FaultRegistry, hosts: Sequence[Host]) -> None:
        """``hosts`` are paused all at once."""
        self.name = f"pause {', '.join(host.name for host in hosts)}"
        self._context, self._lab, self._journal = registry.context, registry.lab, registry.journal
        self._hosts = tuple(host.name for host in hosts)
        self._paused: set[str] = set()

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the hosts."""
        return cls(registry, aim.hosts)

    def targets(self) -> Targets:
        """The hosts, and the signal."""
        return {"hosts": list(self._hosts), "signal": "SIGSTOP"}

    def inject(self) -> None:
        """SIGSTOP."""
        for host in self._hosts:
            self._paused.add(host)
            self._context.paused.add(host)
            self._lab.signal(host, signal.SIGSTOP)
            self._journal.write("processes", ns=now_ns(), host=host, event="paused", pid=self._lab.pid(host))

    def verify(self) -> Evidence:
        """Check that the kernel reports every process as stopped."""
        return {"states": self._await("T")}

    def heal(self) -> None:
        """SIGCONT to those that still run."""
        for host in sorted(self._paused):
            self._paused.discard(host)
            self._context.paused.discard(host)
            if self._lab.alive(host):
                self._lab.signal(host, signal.SIGCONT)
                pid = self._lab.pid(host)
                self._journal.write("processes", ns=now_ns(), host=host, event="resumed", pid=pid)

    def verify_healed(self) -> Evidence:
        """Check that none is stopped any more; a process that was killed meanwhile does not count."""
        return {"states": self._await("RSDI")}

    def _await(self, states: str) -> Mapping[str, str]:
        state_by_host: dict[str, str] = {}
        for host in self._hosts:
            pid = self._lab.pid(host)
            if pid is None:
                if states == "T":
                    raise ProcessDiedError(f"{host} ended before it could be paused; see its log.")
                continue
            state = wait_until(
                lambda host=host: self._lab.process_state(host),  # type: ignore[misc]
                within_s=2.0,
                poll_s=0.005,
                awaiting=f"{host} (pid {pid}) to be in one of the states {states!r}",
                accept=lambda state: state is not None and state in states,
            )
            state_by_host[host] = str(state)
        return state_by_host
