"""Power cuts of brokers, and full disks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.errors import InvalidRunError, UnfitError
from harness.kafka.model import TopicPartition
from harness.lab.model import DATA, Host
from nemesis.fault import Evidence, Fault, Targets
from nemesis.processes.killing import Kill, Restart
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, Placement, ScheduledFault
from nemesis.storage import logs
from nemesis.storage.disk import Disk

How = Literal["best", "real", "emulated"]


class PowerCut(ScheduledFault):
    """Brokers that lose power: all processes are killed and all disks cut before anything else happens."""

    mechanism = "power_cut"
    ends_processes = True
    takes = "hosts"
    lasts = True
    roles = ("broker",)
    others = "kill"
    processes = "running"
    preparation = "disks"
    weight = 4
    placements = (
        Placement(
            name="power-all",
            at="all AZs",
            rank=2,
            says="all AZs lose power",
            subject="A power cut in all AZs",
        ),
        Placement(
            name="power-az",
            at="AZ",
            rank=6,
            says="{} loses power",
            subject="A power cut in {}",
            roles=("broker",),
        ),
    )

    def __init__(
        self,
        registry: FaultRegistry,
        hosts: Sequence[Host],
        restart: Restart | None = None,
        *,
        how: How = "best",
        flushed: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """A host's power is really cut if it has a disk of its own; else the cut is emulated.

        An emulation truncates the logs to ``flushed``, else to the recovery points, except where every
        message is flushed: by the topic's `flush.messages`, else by the broker's. Raises UnfitError if the
        cut must be real and cannot be.
        """
        self._kill = Kill(registry, hosts, restart)
        self._plan = {
            host.name: (registry.data_folder(host.name), _disk(registry, host.name, how)) for host in hosts
        }
        self._flushed, self._flush_intervals = flushed, registry.flush_intervals
        emulated = any(disk is None for _, disk in self._plan.values())
        self.name = f"power cut {', '.join(self._plan)}" + (" (emulated)" if emulated else "")
        self._found: dict[str, dict[str, object]] = {}

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the hosts, which somebody starts again later."""
        return cls(registry, aim.hosts)

    @property
    def undoable(self) -> bool:
        """As for a kill."""
        return self._kill.undoable

    def targets(self) -> Targets:
        """The hosts, and how each one's power is cut."""
        disks = {host: disk.kind if disk else "emulation" for host, (_, disk) in self._plan.items()}
        return {"hosts": list(disks), "disks": disks}

    def inject(self) -> None:
        """SIGKILL all, cut all disks, wait for all; then restore the power and mount what has survived."""
        before = {host: logs.log_bytes(data) for host, (data, _) in self._plan.items()}
        self._kill.send_signals()
        for _, disk in self._plan.values():
            if disk is not None:
                disk.cut()
        self._kill.wait_for_exit()
        for host, (data, disk) in self._plan.items():
            if disk is None:
                self._emulate(data)
            else:
                self._check_dead(host, disk)
                disk.reattach()
            after = logs.log_bytes(data)
            self._found[host] = {
                "how": disk.kind if disk else "emulation",
                "log_bytes_before": before[host],
                "log_bytes_after": {name: after.get(name, 0) for name in before[host]},
            }

    def verify(self) -> Evidence:
        """Check that the processes died of SIGKILL, and that each disk was unusable in between."""
        return {**self._kill.verify(), "disks": self._found}

    def heal(self) -> None:
        """Start the processes again, if a way was given."""
        self._kill.heal()

    def verify_healed(self) -> Evidence:
        """Check that all of them run again."""
        return self._kill.verify_healed()

    def _emulate(self, data: Path) -> None:
        if self._flushed is not None:
            logs.truncate_to_flushed(data, self._flushed)
            return
        own = self._flush_intervals
        every = logs.flushes_every_message(data.parent / "server.properties")
        logs.truncate_to_flushed(data, flushes=lambda topic: own[topic] == 1 if topic in own else every)

    def _check_dead(self, host: str, disk: Disk) -> None:
        try:
            (disk.mount / "after-the-power-cut").write_bytes(b"!")
        except OSError:
            return
        raise InvalidRunError(f"{self.name!r} had no effect: the disk of {host} can still be written to.")


def _disk(registry: FaultRegistry, host: str, how: How) -> Disk | None:
    disk = registry.disks.get(host) if registry.disks is not None and how != "emulated" else None
    if disk is None and how == "real":
        raise UnfitError(
            f"The power of {host} cannot be cut: it has no disk of its own; make one with "
            f"`Disks.make` before the boot, or let it be emulated."
        )
    return disk


class FullDisk(ScheduledFault):
    """A disk on which no file can grow."""

    mechanism = "disk_full"
    undoable = True
    takes = "hosts"
    lasts = True
    roles = ("broker",)
    one_host = True
    preparation = "disks"
    on_request = True
    weight = 1
    placements = (
        Placement(
            at="node", rank=9, says="{} has a full disk", subject="A full disk of {}", roles=("broker",)
        ),
    )

    def __init__(self, registry: FaultRegistry, host: str, folder: str = DATA) -> None:
        """Raises UnfitError for a host without a disk of its own."""
        disk = registry.disks.get(host, folder) if registry.disks is not None else None
        if disk is None:
            raise UnfitError(
                f"The disk of {host} cannot be filled: it is this machine's own; make it one with "
                f"`Disks.make` before the boot."
            )
        self.name = f"fill the disk of {host}" + ("" if folder == DATA else f" with {folder}")
        self._host, self._folder, self._disk = host, folder, disk
        self._expect_end = registry.expect_end

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the host."""
        return cls(registry, aim.hosts[0].name)

    def targets(self) -> Targets:
        """The host, and its kind of disk."""
        return {"hosts": [self._host], "disks": {self._host: self._disk.kind}, "folder": self._folder}

    def inject(self) -> None:
        """Fill the disk. Kafka stops when its only log directory fails, or that of its metadata."""
        if self._folder == DATA:
            self._expect_end(self._host)
        self._disk.fill()

    def verify(self) -> Evidence:
        """Check that writing fails."""
        problem = self._try()
        if not problem:
            raise InvalidRunError(f"{self.name!r} had no effect: a file can still be written there.")
        return {"write": problem}

    def heal(self) -> None:
        """Free the space."""
        self._disk.free()

    def verify_healed(self) -> Evidence:
        """Check that writing works."""
        problem = self._try()
        if problem:
            raise InvalidRunError(f"The disk of {self._host} still cannot be written to: {problem}.")
        return {"write": "ok"}

    def _try(self) -> str:
        probe = self._disk.mount / "d" / ".room"
        try:
            probe.write_bytes(b"\0" * 8192)
        except OSError as error:
            return str(error.strerror)
        finally:
            probe.unlink(missing_ok=True)
        return ""
