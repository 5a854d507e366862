"""Power cuts of brokers, and full disks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.errors import InvalidRunError
from harness.kafka.model import TopicPartition
from nemesis.fault import Evidence, Kind, Targets
from nemesis.processes.killing import ProcessEnd
from nemesis.storage import logs
from nemesis.storage.disk import Disk


class PowerCut:
    """Brokers that lose power: all processes are killed and all disks cut before anything else happens."""

    kind: Kind = "storage"
    mechanism = "power_cut"
    ends_processes = True

    def __init__(
        self,
        process_end: ProcessEnd,
        plan: Mapping[str, tuple[Path, Disk | None]],
        flushed: Mapping[TopicPartition, int] | None,
        flush_intervals: Mapping[str, int],
    ) -> None:
        """``plan`` maps each host to its data folder and its disk; without a disk, the cut is emulated.

        An emulation truncates the logs to ``flushed``, else to the recovery points, except where every
        message is flushed: by the topic's `flush.messages` in ``flush_intervals``, else by the broker's.
        """
        hosts = ", ".join(plan)
        emulated = any(disk is None for _, disk in plan.values())
        self.name = f"power cut {hosts}" + (" (emulated)" if emulated else "")
        self._process_end, self._plan, self._flushed = process_end, plan, flushed
        self._flush_intervals = flush_intervals
        self._found: dict[str, dict[str, object]] = {}

    @property
    def undoable(self) -> bool:
        """As for a kill."""
        return self._process_end.undoable

    def targets(self) -> Targets:
        """The hosts, and how each one's power is cut."""
        disks = {host: disk.kind if disk else "emulation" for host, (_, disk) in self._plan.items()}
        return {"hosts": list(disks), "disks": disks}

    def inject(self) -> None:
        """SIGKILL all, cut all disks, wait for all; then restore the power and mount what has survived."""
        before = {host: logs.log_bytes(data) for host, (data, _) in self._plan.items()}
        self._process_end.send_signals()
        for _, disk in self._plan.values():
            if disk is not None:
                disk.cut()
        self._process_end.wait_for_exit()
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
        return {**self._process_end.verify(), "disks": self._found}

    def heal(self) -> None:
        """Start the processes again, if a way was given."""
        self._process_end.heal()

    def verify_healed(self) -> Evidence:
        """Check that all of them run again."""
        return self._process_end.verify_healed()

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


class FullDisk:
    """A disk on which no file can grow."""

    kind: Kind = "storage"
    mechanism = "disk_full"
    undoable = True
    ends_processes = False

    def __init__(self, host: str, disk: Disk) -> None:
        """``disk`` belongs to ``host`` alone."""
        self.name = f"fill the disk of {host}"
        self._host, self._disk = host, disk

    def targets(self) -> Targets:
        """The host, and its kind of disk."""
        return {"hosts": [self._host], "disks": {self._host: self._disk.kind}}

    def inject(self) -> None:
        """Fill the disk."""
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
