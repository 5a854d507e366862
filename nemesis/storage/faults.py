"""Faults of storage, as a scenario asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import InvalidRunError
from harness.kafka.model import TopicPartition
from nemesis.fault import Action, Evidence, Injection
from nemesis.processes.killing import Restart, running
from nemesis.registry import FaultRegistry
from nemesis.storage import logs
from nemesis.storage.power import FullDisk, How, PowerCut, Wipe


class Storage:
    """Power cuts, wiped and damaged replicas, full disks."""

    def __init__(self, registry: FaultRegistry) -> None:
        """Reached as `Nemesis.storage`."""
        self._registry = registry

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
        registry = self._registry
        hosts = running(registry.lab, registry.topology, patterns)
        return registry.add(PowerCut(registry, hosts, restart, how=how, flushed=flushed)).inject()

    def wipe(self, host: str, topic: str, partition: int = 0) -> Injection:
        """Remove the folder of one replica now, for good; its broker must not run."""
        registry = self._registry
        return registry.add(Wipe(registry, host, TopicPartition(topic, partition))).inject()

    def corrupt(self, host: str, topic: str, offset: int, partition: int = 0) -> Injection:
        """Flip a byte in the batch that holds ``offset`` now; the broker may run."""
        name = f"corrupt offset {offset} of {topic}/{partition} on {host}"
        folder = logs.replica_folder(self._registry.lab.data_dir(host) / "data", topic, partition)
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
        return self._registry.add(FullDisk(self._registry, host))
