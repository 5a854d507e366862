"""Faults of storage, as a scenario calls for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from harness.errors import InvalidRunError, UnfitError, UsageError
from harness.lab.model import Host
from nemesis.fault import Action, Evidence, Injection
from nemesis.processes.killing import Restart
from nemesis.registry import FaultRegistry
from nemesis.storage import logs
from nemesis.storage.disk import Disk
from nemesis.storage.disks import Disks
from nemesis.storage.logs import TopicPartition
from nemesis.storage.power import FullDisk, PowerCut

How = Literal["best", "real", "emulated"]


class Storage:
    """Power cuts, wiped and damaged replicas, full disks."""

    def __init__(self, registry: FaultRegistry, disks: Disks | None) -> None:
        """Reached as `Nemesis.storage`; ``disks`` are those that were made before the cluster booted."""
        self._registry = registry
        self._disks = disks

    def power_cut(
        self,
        *patterns: str,
        restart: Restart | None = None,
        how: How = "best",
        flushed: Mapping[TopicPartition, int] | None = None,
    ) -> Injection:
        """Brokers lose their power at the same moment, at once: killed, and un-fsynced data is lost.

        `real` needs a disk made before the boot (`Disks.make`). `emulated` cuts the logs back to what the
        brokers had flushed (or to ``flushed``), and the fault is named an emulation: all of it where they
        flush each message, else what their recovery points say. `best` is `real` where there is a disk.
        Healed as `Nemesis.kill` is.
        """
        hosts = self._registry.running(patterns)
        ended = self._registry.process_end(hosts, "kill", restart)
        fault = PowerCut(ended, self._plan(hosts, how), flushed)
        return self._registry.add(fault).inject()

    def wipe(self, host: str, topic: str, partition: int = 0) -> Injection:
        """Remove one replica's folder of a broker that does not run, at once and for good."""
        name = f"wipe {topic}/{partition} on {host}"
        if self._registry.lab.alive(host):
            raise UsageError(f"{name!r}: kill or stop {host} first; a running broker keeps its files open.")
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
        """Flip a byte in the batch that holds ``offset``, at once; the broker may run."""
        name = f"corrupt offset {offset} of {topic}/{partition} on {host}"
        folder = logs.replica_folder(self._data(host), topic, partition)
        where: list[str] = []

        def act() -> None:
            file, position = logs.corrupt(folder, offset)
            where.append(f"{file.name}@{position}")

        def verify() -> Evidence:
            if logs.intact(folder, offset):
                raise InvalidRunError(f"The checksum at offset {offset} in {folder} still holds.")
            return {"where": where}

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
        """No byte can be added to the host's disk until healed; it must have a disk of its own."""
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
