"""The faults of one run, numbered, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.errors import AckedError
from harness.history.journal import Journal
from harness.lab.model import Host, Lab, Topology
from nemesis.fault import Fault, Injection
from nemesis.ground import Ground
from nemesis.network.rules import chain_name
from nemesis.processes.killing import Ended, Ending, Restart, running


@dataclass
class Roster:
    """Shared by the groups of faults that `Nemesis` offers."""

    ground: Ground
    journal: Journal
    run: str
    expect_end: Callable[[str], None]
    injections: list[Injection] = field(default_factory=list)

    @property
    def lab(self) -> Lab:
        """The lab."""
        return self.ground.lab

    @property
    def topology(self) -> Topology:
        """Hosts of the lab."""
        return self.ground.lab.topology

    def next(self) -> int:
        """Number of the fault that is added next."""
        return len(self.injections) + 1

    def chain(self) -> str:
        """Name of the chain of the fault that is added next."""
        return chain_name(self.run, self.next())

    def add(self, fault: Fault) -> Injection:
        """Number a fault."""
        injection = Injection(self.next(), fault, self.journal)
        self.injections.append(injection)
        return injection

    def running(self, patterns: Sequence[str]) -> tuple[Host, ...]:
        """Hosts meant by ``patterns`` whose process runs; see `nemesis.processes.killing.running`."""
        return running(self.lab, self.topology, patterns)

    def ended(self, hosts: Sequence[Host], ending: Ending, restart: Restart | None) -> Ended:
        """A fault that ends processes."""
        return Ended(self.lab, self.journal, hosts, ending, expect_end=self.expect_end, restart=restart)

    def heal_all(self) -> None:
        """Heal everything, newest first, even if one of them cannot be healed; then raise for that one."""
        failed: AckedError | None = None
        for injection in reversed(self.injections):
            try:
                injection.heal()
            except AckedError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def process_started(self, host: str) -> None:
        """Cuts in force apply to a process that was started; faults that had ended it are over."""
        self.ground.reapply(host)
        for injection in self.injections:
            if injection.fault.ends_processes:
                injection.heal()
