"""Disks that answer late or not at all, while the processes that use them run, and answer everybody else."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from harness.errors import InvalidRunError, UnfitError
from harness.waiting import wait_until
from nemesis.fault import Evidence, Fault, Targets
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, Placement, ScheduledFault
from nemesis.storage.fuse import FuseDisk
from nemesis.storage.hold import OPERATIONS, Hold, Operation

_PROBE_S = 0.3
"""A disk is stalled if an operation on it has not ended after so long."""
_GRACE_S = 10.0


class HeldDisk(ScheduledFault, ABC):
    """A disk on which operations wait until healed, or each for some time."""

    undoable = True
    takes = "hosts"
    lasts = True
    one_host = True
    random_roles = ("broker",)
    processes = "running"
    preparation = "disks"
    on_request = True
    needs = "fuse"
    weight = 3

    def __init__(
        self,
        registry: FaultRegistry,
        host: str,
        operations: Sequence[Operation] = OPERATIONS,
        delay_s: float | None = None,
    ) -> None:
        """Without ``delay_s``, operations wait until healed.

        Raises UnfitError for a host without such a disk.
        """
        disk = registry.disks.get(host) if registry.disks is not None else None
        if not isinstance(disk, FuseDisk):
            had = f"it is {disk.kind}" if disk else "it is this machine's own"
            raise UnfitError(
                f"The disk of {host} cannot be slowed down: {had}; give it one of the kind fuse with "
                f"`Setup(volatile_disks=({host!r},))`."
            )
        delayed = "stall" if delay_s is None else f"delay by {delay_s * 1000:g} ms"
        self.name = f"{delayed} {', '.join(operations)} on the disk of {host}"
        self._host, self._disk = host, disk
        self._operations, self._delay_s = tuple(operations), delay_s
        self._number, self._ttl_s = registry.next_number(), registry.context.chains.ttl_s
        self._probe = disk.mount / "d" / f".probe-{self._number}"

    def targets(self) -> Targets:
        """The host, its kind of disk, and the operations."""
        return {
            "hosts": [self._host],
            "disks": {self._host: self._disk.kind},
            "operations": list(self._operations),
            **({} if self._delay_s is None else {"delay_ms": self._delay_s * 1000}),
        }

    def inject(self) -> None:
        """Hold the operations from now on, until healed or for the time-to-live of rules."""
        self._probe.write_bytes(b"!")
        until_ns = time.monotonic_ns() + int(self._ttl_s * 1e9)
        self._disk.hold(
            Hold(number=self._number, operations=self._operations, delay_s=self._delay_s, until_ns=until_ns)
        )

    def verify(self) -> Evidence:
        """Try each operation that is held: it must wait."""
        return {"probes": {operation: self._try(operation) for operation in self._operations}}

    def heal(self) -> None:
        """Let all operations go on."""
        self._disk.release()

    def verify_healed(self) -> Evidence:
        """Check that nothing waits any more; says how many operations waited, the probes among them."""
        held = wait_until(
            lambda: self._disk.held,
            within_s=_GRACE_S,
            awaiting=f"the operations on the disk of {self._host} to go on",
            accept=lambda held: held is not None and not held.waiting,
            poll_s=0.01,
        )
        self._probe.unlink(missing_ok=True)
        return {"held": dict(held.counts), "longest_s": round(held.longest_s, 3)}

    def _try(self, operation: Operation) -> float:
        """How long a probe took or, of a stalled disk, waited so far (seconds)."""
        since = time.monotonic()
        probe = threading.Thread(target=_PROBES[operation], args=(self._probe,), daemon=True)
        probe.start()
        probe.join(_PROBE_S if self._delay_s is None else self._delay_s + _GRACE_S)
        took_s = time.monotonic() - since
        if not probe.is_alive() if self._delay_s is None else took_s < self._delay_s:
            raise InvalidRunError(
                f"{self.name!r} had no effect: one of the {operation} ended after {took_s:.3f} s."
            )
        return round(took_s, 3)


def _read(probe: Path) -> None:
    probe.read_bytes()  # a file that was opened anew is not in the page cache


def _write(probe: Path) -> None:
    file = os.open(probe, os.O_WRONLY)
    try:
        os.pwrite(file, b"?", 0)
    finally:
        os.close(file)


def _fsync(probe: Path) -> None:
    file = os.open(probe, os.O_WRONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


_PROBES: Mapping[Operation, Callable[[Path], None]] = MappingProxyType(
    {"reads": _read, "writes": _write, "fsyncs": _fsync}
)


class StalledDisk(HeldDisk):
    """A disk that does not answer."""

    mechanism = "disk_stalled"
    placements = (
        Placement(at="node", rank=16, says="the disk of {} stalls", subject="A stalled disk of {}"),
    )

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the host."""
        return cls(registry, aim.hosts[0].name)


class SlowDisk(HeldDisk):
    """A disk on which each operation takes longer."""

    mechanism = "disk_slow"
    values = (20.0, 200.0)
    unit = "ms"
    placements = (
        Placement(
            at="node",
            rank=17,
            says="each operation on the disk of {} takes {value:g} ms more",
            subject="A slow disk of {}",
            value=200.0,
        ),
    )

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the host, by the strength."""
        return cls(registry, aim.hosts[0].name, delay_s=aim.value / 1000)
