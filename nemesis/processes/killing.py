"""Processes that are killed or stopped, and started again; healed when they run, whoever starts them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence, Set
from typing import Literal

from harness.clock import now_ns
from harness.errors import InvalidRunError
from harness.history.journal import Journal
from harness.lab.model import Host, Lab, Topology
from nemesis.fault import Evidence, Kind, Targets

Ending = Literal["kill", "stop"]
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}
_EVENTS = {"kill": "killed", "stop": "stopped"}
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)

Restart = Callable[[str], None]
"""Starts a host's process again and returns when the cluster knows it again."""


def running(lab: Lab, topology: Topology, patterns: Sequence[str]) -> tuple[Host, ...]:
    """Hosts that ``patterns`` select and whose main process runs.

    A pattern for several hosts may include some without a process (clients); a host that is named must have
    one. Raises InvalidRunError otherwise.
    """
    found: list[Host] = []
    for pattern in patterns:
        chosen = topology.select(pattern)
        alive = [host for host in chosen if lab.alive(host.name)]
        if not alive or (len(chosen) == 1 and alive != list(chosen)):
            raise InvalidRunError(
                f"{pattern!r} cannot be killed, stopped or paused: no process runs there now; has an "
                f"earlier fault ended it?"
            )
        found += [host for host in alive if host not in found]
    return tuple(found)


class ProcessEnd:
    """Main processes that are ended by SIGKILL or SIGTERM, all at once."""

    kind: Kind = "process"
    ends_processes = True

    def __init__(
        self,
        lab: Lab,
        journal: Journal,
        hosts: Sequence[Host],
        ending: Ending,
        *,
        expect_end: Callable[[str], None],
        restart: Restart | None = None,
        within_s: float = 30.0,
        paused: Set[str] = frozenset(),
    ) -> None:
        """``expect_end`` is called first with each host, so that its end is not reported as a failure.

        ``paused`` has the hosts that do not act on SIGTERM at the moment.
        """
        self.mechanism: str = ending
        self.name = f"{ending} {', '.join(host.name for host in hosts)}"
        self._lab, self._journal, self._ending = lab, journal, ending
        self.hosts = tuple(host.name for host in hosts)
        self._expect_end, self._restart, self._within_s = expect_end, restart, within_s
        self._status: dict[str, int] = {}
        self._paused = paused

    @property
    def undoable(self) -> bool:
        """Whether there is a way to start them, or they run already."""
        return self._restart is not None or all(self._lab.alive(host) for host in self.hosts)

    def targets(self) -> Targets:
        """The hosts, and the signal."""
        return {"hosts": list(self.hosts), "signal": _SIGNALS[self._ending].name}

    def inject(self) -> None:
        """Signal all, then wait for all."""
        self.send_signals()
        self.wait_for_exit()

    def send_signals(self) -> None:
        """Signal all. Raises InvalidRunError for a paused process that would end only once it is resumed."""
        deaf = [host for host in self.hosts if host in self._paused] if self._ending == "stop" else []
        if deaf:
            raise InvalidRunError(
                f"{', '.join(deaf)} cannot be stopped while paused: SIGTERM has no effect until the process "
                f"is resumed. End the pause first, or kill it."
            )
        for host in self.hosts:
            self._expect_end(host)
        for host in self.hosts:
            self._lab.signal(host, _SIGNALS[self._ending])

    def wait_for_exit(self) -> None:
        """Wait until all have ended, and record their exit status."""
        for host in self.hosts:
            status = self._lab.wait_exit(host, self._within_s)
            self._status[host] = status
            event = _EVENTS[self._ending]
            self._journal.write("processes", ns=now_ns(), host=host, event=event, status=status)

    def verify(self) -> Evidence:
        """Check that none of them runs, and that those killed died of the signal."""
        for host, status in self._status.items():
            if self._lab.alive(host):
                raise InvalidRunError(f"{host} still runs after {self.name!r}.")
            if self._ending == "kill" and status not in _KILLED:
                raise InvalidRunError(
                    f"{host} ended with status {status} before SIGKILL reached it: it ended by itself."
                )
        return {"exit_status": dict(self._status)}

    def heal(self) -> None:
        """Start those that do not run, if a way to start them was given."""
        if self._restart is not None:
            for host in self.hosts:
                if not self._lab.alive(host):
                    self._restart(host)

    def verify_healed(self) -> Evidence:
        """Check that all of them run again."""
        dead = [host for host in self.hosts if not self._lab.alive(host)]
        if dead:
            raise InvalidRunError(f"{', '.join(dead)} did not come back after {self.name!r}.")
        return {"pids": {host: self._lab.pid(host) for host in self.hosts}}


class RollingRestart:
    """Hosts that are stopped and started again one after the other."""

    kind: Kind = "process"
    mechanism = "restart"
    undoable = False
    ends_processes = False

    def __init__(self, steps: Sequence[ProcessEnd]) -> None:
        """One `ProcessEnd` per host, each with a ``restart``."""
        self.name = f"rolling restart ({'; '.join(fault.name for fault in steps)})"
        self._steps = tuple(steps)
        self._evidence: list[Evidence] = []

    def targets(self) -> Targets:
        """The hosts, in order."""
        return {"hosts": [host for fault in self._steps for host in fault.hosts]}

    def inject(self) -> None:
        """Stop, verify, start, verify, host by host."""
        for fault in self._steps:
            fault.inject()
            evidence = dict(fault.verify())
            fault.heal()
            self._evidence.append({**evidence, **fault.verify_healed()})

    def verify(self) -> Evidence:
        """The evidence of each step."""
        return {"steps": self._evidence}

    def heal(self) -> None:
        """Start a host that an interrupted restart left down."""
        for fault in self._steps:
            fault.heal()

    def verify_healed(self) -> Evidence:
        """Nothing lasts."""
        return {}
