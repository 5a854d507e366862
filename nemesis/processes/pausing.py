"""Processes that hang for a while: alive for the kernel, silent for everybody else."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.clock import now_ns
from harness.errors import ProcessDiedError
from harness.history.journal import Journal
from harness.lab.model import Host
from harness.waiting import wait_until
from nemesis.fault import Evidence, Kind, Targets
from nemesis.ground import Ground


class Paused:
    """Main processes that are stopped by SIGSTOP: connections to them open, and nobody answers."""

    kind: Kind = "process"
    mechanism = "pause"
    undoable = True
    ends_processes = False

    def __init__(self, ground: Ground, journal: Journal, hosts: Sequence[Host]) -> None:
        """All hosts are paused at once."""
        self._ground, lab = ground, ground.lab
        self.name = f"pause {', '.join(host.name for host in hosts)}"
        self._lab, self._journal = lab, journal
        self._hosts = tuple(host.name for host in hosts)
        self._paused: set[str] = set()

    def targets(self) -> Targets:
        """The hosts, and the signal."""
        return {"hosts": list(self._hosts), "signal": "SIGSTOP"}

    def inject(self) -> None:
        """SIGSTOP."""
        for host in self._hosts:
            self._paused.add(host)
            self._ground.paused.add(host)
            self._lab.signal(host, signal.SIGSTOP)
            self._journal.write("processes", ns=now_ns(), host=host, event="paused", pid=self._lab.pid(host))

    def verify(self) -> Evidence:
        """The kernel says that every thread group is stopped."""
        return {"states": self._await("T")}

    def heal(self) -> None:
        """SIGCONT to those that still live."""
        for host in sorted(self._paused):
            self._paused.discard(host)
            self._ground.paused.discard(host)
            if self._lab.alive(host):
                self._lab.signal(host, signal.SIGCONT)
                pid = self._lab.pid(host)
                self._journal.write("processes", ns=now_ns(), host=host, event="resumed", pid=pid)

    def verify_healed(self) -> Evidence:
        """None is stopped any more; one that was killed while it was paused is not waited for."""
        return {"states": self._await("RSDI")}

    def _await(self, wanted: str) -> Mapping[str, str]:
        found = {}
        for host in self._hosts:
            pid = self._lab.pid(host)
            if pid is None:
                if wanted == "T":
                    raise ProcessDiedError(f"{host} ended when it was to be paused; look at its log.")
                continue
            found[host] = wait_until(
                lambda pid=pid: process_state(pid),  # type: ignore[misc]
                within_s=2.0,
                poll_s=0.005,
                awaiting=f"{host} (pid {pid}) to be in one of the states {wanted!r}",
                accept=lambda state: state in wanted,
            )
        return found


def process_state(pid: int) -> str:
    """The kernel's one-letter state of a process: `T` is stopped, `S` sleeps, `R` runs."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2]
