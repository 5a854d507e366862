"""Faults of storage, as a scenario asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.errors import InvalidRunError, UnfitError, UsageError
from harness.kafka.model import TopicPartition
from harness.lab.model import Host
from nemesis.fault import Action, Evidence, Injection
from nemesis.processes.killing import Restart
from nemesis.registry import FaultRegistry
from nemesis.storage import logs
from nemesis.storage.disk import Disk
from nemesis.storage.disks import Disks
from nemesis.storage.power import FullDisk, PowerCut

How = Literal["best", "real", "emulated"]


class Storage:
    """Power cuts, wiped and damaged replicas, full disks."""

    def __init__(
        self, registry: FaultRegistry, disks: Disks | None, flush_intervals: Mapping[str, int]
    ) -> None:
        """Reached as `Nemesis.storage`; ``disks`` are those that were created before the cluster booted.

        ``flush_intervals`` has `flush.messages` of the topics that set it.
        """
        self._registry = registry
        self._flush_intervals = flush_intervals
        self._disks = disks

    def power_cut(
        self,
        *patterns: str,
        restart: Restart | None = None,
        how: How = "best",
        flushed: Mapping[TopicPartition, int] | None = None,
    ) -> Injection:
        """Cut the power of brokers now, all at the same moment: they are killed, and un-fsynced data is lost.

        `real` needs a disk that was created before the boot (`Disks.make`). `emulated` truncates the logs to
        what the brokers had flushed (or to ``flushed``), and the fault's name says so: topics that flush each
        message lose nothing, and others lose what lies above their recovery points. `best` is `real` if there
        is a disk. Healed as `Nemesis.kill` is.
        """
        hosts = self._registry.running(patterns)
        ended = self._registry.process_end(hosts, "kill", restart)
        fault = PowerCut(ended, self._plan(hosts, how), flushed, self._flush_intervals)
        return self._registry.add(fault).inject()

    def wipe(self, host: str, topic: str, partition: int = 0) -> Injection:
        """Remove the folder of one replica now, for good; its broker must not run."""
        name = f"wipe {topic}/{partition} on {host}"
        if self._registry.lab.alive(host):
            raise UsageError(
                f"{name!r}: kill or stop {host} first, because a running broker keeps its files open."
            )
        folder = logs.replica_folder(self._data(host), topic, partition)
        lost: list[int] = []

        def verify() -> Evidence:
            if folder.exists():
                raise InvalidRunError(f"{folder} still exists after {name!r}.")
            return {"log_bytes": sum(lost)}

        def act() -> None:
            lost.append(logs.wipe(folder))

        fault = Action(
            name,
            kind="storage",
            mechanism="wipe",
            targets={"hosts": [host], "partitions": [f"{topic}/{partition}"]},
            act=act,
            verify=verify,
        )
        return self._registry.add(fault).inject()

    def corrupt(self, host: str, topic: str, offset: int, partition: int = 0) -> Injection:
        """Flip a byte in the batch that holds ``offset`` now; the broker may run."""
        name = f"corrupt offset {offset} of {topic}/{partition} on {host}"
        folder = logs.replica_folder(self._data(host), topic, partition)
        found: dict[str, object] = {}

        def act() -> None:
            file, position, first_offset = logs.corrupt(folder, offset)
            found.update(where=[f"{file.name}@{position}"], first_offset=first_offset)

        def verify() -> Evidence:
            if logs.intact(folder, offset):
                raise InvalidRunError(f"The checksum at offset {offset} in {folder} still holds.")
            return found

        fault = Action(
            name,
            kind="storage",
            mechanism="damage",
            targets={"hosts": [host], "partitions": [f"{topic}/{partition}"], "offset": offset},
            act=act,
            verify=verify,
        )
        return self._registry.add(fault).inject()

    def fill_disk(self, host: str) -> Injection:
        """Fill the host's disk until healed; the host must have a disk of its own."""
        disk = self._disk(host)
        if disk is None:
            raise UnfitError(
                f"The disk of {host} cannot be filled: it is this machine's own; make it one with "
                f"`Disks.make` before the boot."
            )
        return self._registry.add(FullDisk(host, disk))

    def _plan(self, hosts: Sequence[Host], how: How) -> dict[str, tuple[Path, Disk | None]]:
        plan = {}
        for host in hosts:
            disk = None if how == "emulated" else self._disk(host.name)
            if disk is None and how == "real":
                raise UnfitError(
                    f"The power of {host.name} cannot be cut: it has no disk of its own; make one with "
                    f"`Disks.make` before the boot, or let it be emulated."
                )
            plan[host.name] = (self._data(host.name), disk)
        return plan

    def _disk(self, host: str) -> Disk | None:
        return self._disks.get(host) if self._disks is not None else None

    def _data(self, host: str) -> Path:
        return self._registry.lab.data_dir(host) / "data"
