"""The registry of a run's faults: it numbers them, heals them, and tells them that a process was started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import AckedError, UsageError
from harness.history.journal import Journal
from harness.lab import host_names
from harness.lab.model import Lab, Topology
from nemesis.context import FaultContext
from nemesis.fault import Fault, Injection
from nemesis.network.rules import chain_name
from nemesis.storage.disks import Disks


@dataclass(kw_only=True)
class FaultRegistry:
    """The faults of one run in order of number; shared by the groups of faults that `Nemesis` offers."""

    context: FaultContext
    journal: Journal
    run: str
    expect_end: Callable[[str], None]
    disks: Disks | None
    """Disks that were created before the cluster booted."""
    flush_intervals: Mapping[str, int]
    """`flush.messages` of the topics that set it."""
    injections: list[Injection] = field(default_factory=list)
    deleted_topics: set[str] = field(default_factory=set)
    """Topics that an operator action has deleted, and none has created again."""
    _starting: threading.RLock = field(default_factory=threading.RLock)

    @property
    def lab(self) -> Lab:
        """The lab."""
        return self.context.lab

    @property
    def topology(self) -> Topology:
        """Hosts of the lab."""
        return self.context.lab.topology

    def next_number(self) -> int:
        """Number of the fault that is added next."""
        return len(self.injections) + 1

    def next_chain(self) -> str:
        """Name of the iptables chain of the fault that is added next."""
        return chain_name(self.run, self.next_number())

    def data_folder(self, host: str) -> Path:
        """Where a broker keeps its replicas."""
        return self.lab.data_dir(host) / "data"

    def add(self, fault: Fault) -> Injection:
        """Number a fault. Raises UsageError for one that would miss addresses that names mean."""
        if fault.kind in ("link", "degrade") and (hosts := host_names.named(self.lab)):
            raise UsageError(
                f"{fault.name!r} acts on the addresses by which the harness reaches hosts, and others reach "
                f"{', '.join(hosts)} by name; leave out `named` in the set-up, or this fault."
            )
        injection = Injection(self.next_number(), fault, self.journal)
        self.injections.append(injection)
        return injection

    def heal_all(self) -> None:
        """Heal all faults, the newest first, even if some cannot be healed; then raise the first error."""
        failed: AckedError | None = None
        for injection in reversed(self.injections):
            try:
                injection.heal()
            except AckedError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def process_started(self, host: str) -> None:
        """Apply the cuts in force to a process that was started, and heal the faults that had ended it.

        Hosts that a fault had ended together may be started by several threads.
        """
        self.context.reapply(host)
        with self._starting:
            for injection in self.injections:
                if injection.fault.ends_processes:
                    injection.heal()
