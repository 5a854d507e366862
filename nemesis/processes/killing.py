"""Processes that are killed or stopped, and started again; healed when they run, whoever starts them."""

from __future__ import annotations

import signal
from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from harness.clock import now_ns
from harness.errors import InvalidRunError
from harness.lab.model import Host, Lab, Topology
from nemesis.fault import Evidence, Fault, Targets
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, Placement, ScheduledFault

_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)

Ending = Literal["kill", "stop"]
Restart = Callable[[str], None]
"""Starts a host's process again and returns when the cluster knows it again."""


def running(lab: Lab, topology: Topology, patterns: Sequence[str]) -> tuple[Host, ...]:
    """Hosts that ``patterns`` select and whose main process runs.

    A pattern for several hosts may include some without a process (clients); a host that is named must have
    one. Raises InvalidRunError otherwise.
    """
    hosts: list[Host] = []
    for pattern in patterns:
        chosen = topology.select(pattern)
        alive = [host for host in chosen if lab.alive(host.name)]
        if not alive or (len(chosen) == 1 and alive != list(chosen)):
            raise InvalidRunError(
                f"{pattern!r} cannot be killed, stopped or paused: no process runs there now; has an "
                f"earlier fault ended it?"
            )
        hosts += [host for host in alive if host not in hosts]
    return tuple(hosts)


class ProcessEnd(ScheduledFault, ABC):
    """Main processes that are ended by a signal, all at once."""

    ends_processes = True
    takes = "hosts"
    lasts = True
    processes = "running"

    signal_sent: signal.Signals
    """It ends them."""
    event: str
    """What the table `processes` says of them."""

    def __init__(
        self,
        registry: FaultRegistry,
        hosts: Iterable[Host],
        restart: Restart | None = None,
        *,
        within_s: float = 30.0,
    ) -> None:
        """``restart`` starts the processes again when it is healed; without it, somebody else must."""
        self.hosts = tuple(host.name for host in hosts)
        self.name = f"{self.mechanism} {', '.join(self.hosts)}"
        self._lab, self._journal = registry.lab, registry.journal
        self._expect_end, self._restart, self._within_s = registry.expect_end, restart, within_s
        self._status: dict[str, int] = {}
        self._paused = registry.context.paused

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the hosts, which somebody starts again later."""
        return cls(registry, aim.hosts)

    @property
    def undoable(self) -> bool:
        """Whether there is a way to start them, or they run already."""
        return self._restart is not None or all(self._lab.alive(host) for host in self.hosts)

    def targets(self) -> Targets:
        """The hosts, and the signal."""
        return {"hosts": list(self.hosts), "signal": self.signal_sent.name}

    def inject(self) -> None:
        """Signal all, then wait for all."""
        self.send_signals()
        self.wait_for_exit()

    def send_signals(self) -> None:
        """Signal all. Each end is expected before, so that it is not reported as a failure."""
        for host in self.hosts:
            self._expect_end(host)
        for host in self.hosts:
            self._lab.signal(host, self.signal_sent)

    def wait_for_exit(self) -> None:
        """Wait until all have ended, and record their exit status."""
        for host in self.hosts:
            status = self._lab.wait_exit(host, self._within_s)
            self._status[host] = status
            self._journal.write("processes", ns=now_ns(), host=host, event=self.event, status=status)

    def verify(self) -> Evidence:
        """Check that none of them runs."""
        for host in self._status:
            if self._lab.alive(host):
                raise InvalidRunError(f"{host} still runs after {self.name!r}.")
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


class Kill(ProcessEnd):
    """Processes that are killed."""

    mechanism = "kill"
    signal_sent = signal.SIGKILL
    event = "killed"
    weight = 8
    placements = (
        Placement(name="kill-az", at="AZ", rank=3, says="{} killed", subject="Killing {}"),
        Placement(
            name="no-quorum",
            at="half of the quorum",
            rank=5,
            says="metadata quorum lost ({} of {} nodes killed)",
            subject="Losing the metadata quorum ({} of {} nodes killed)",
        ),
        Placement(at="node", rank=7, says="{} killed", subject="Killing {}"),
        Placement(
            name="kill-roles",
            at="both leaders",
            rank=14,
            says="controller and ZooKeeper leader killed at once",
            subject="Killing the controller and the ZooKeeper leader at once",
        ),
    )

    def verify(self) -> Evidence:
        """Check that none of them runs, and that each died of the signal."""
        evidence = super().verify()
        for host, status in self._status.items():
            if status not in _KILLED:
                raise InvalidRunError(
                    f"{host} ended with status {status} before SIGKILL reached it: it ended by itself."
                )
        return evidence


class Stop(ProcessEnd):
    """Processes that are asked to end."""

    mechanism = "stop"
    signal_sent = signal.SIGTERM
    event = "stopped"
    orderly = True
    weight = 4

    def send_signals(self) -> None:
        """Signal all. Raises InvalidRunError for a paused process: it would end only once it is resumed."""
        deaf = [host for host in self.hosts if host in self._paused]
        if deaf:
            raise InvalidRunError(
                f"{', '.join(deaf)} cannot be stopped while paused: SIGTERM has no effect until the process "
                f"is resumed. End the pause first, or kill it."
            )
        super().send_signals()


class RollingRestart(ScheduledFault):
    """Hosts that are stopped and started again one after the other."""

    mechanism = "restart"
    undoable = False
    takes = "cluster"
    orderly = True
    weight = 1
    placements = (
        Placement(
            at="cluster",
            rank=11,
            says="rolling restart{}",
            subject="A rolling restart{}",
            roles=("broker",),
            varies="how long each broker takes to stop and to start",
        ),
    )

    def __init__(self, steps: Sequence[ProcessEnd]) -> None:
        """One `ProcessEnd` per host, each with a ``restart``."""
        self.name = f"rolling restart ({'; '.join(fault.name for fault in steps)})"
        self._steps = tuple(steps)
        self._evidence: list[Evidence] = []

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of all brokers."""
        brokers = registry.topology.role("broker")
        if not all(registry.lab.alive(broker.name) for broker in brokers):
            raise InvalidRunError("not every broker runs")
        return cls([Stop(registry, [broker], aim.cluster.start) for broker in brokers])

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
