"""Faults of storage, as a scenario asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.kafka.model import TopicPartition
from harness.lab.model import DATA
from nemesis.fault import Injection
from nemesis.processes.killing import Restart, running
from nemesis.registry import FaultRegistry
from nemesis.storage.hold import OPERATIONS, Operation
from nemesis.storage.power import FullDisk, How, PowerCut
from nemesis.storage.replicas import FlippedByte, Wipe
from nemesis.storage.slow import SlowDisk, StalledDisk


class Storage:
    """Power cuts, wiped and damaged replicas, full and slow disks."""

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
        fault = FlippedByte(self._registry, host, TopicPartition(topic, partition), offset)
        return self._registry.add(fault).inject()

    def fill_disk(self, host: str, *, folder: str = DATA) -> Injection:
        """Fill the host's disk until healed; the host must have a disk of its own.

        ``folder`` is `data`, or `data2` for the second directory of `log.dirs` (`Setup.second_log_dirs`).
        """
        return self._registry.add(FullDisk(self._registry, host, folder))

    def stall_disk(self, host: str, operations: Sequence[Operation] = OPERATIONS) -> Injection:
        """Let reads, writes or fsyncs on the host's disk wait until healed; all else of the host goes on.

        The host must have a disk of its own, of the kind `fuse`. A process that is killed while one of its
        operations waits ends when the fault is healed.
        """
        return self._registry.add(StalledDisk(self._registry, host, operations))

    def slow_disk(
        self, host: str, delay_ms: float, operations: Sequence[Operation] = OPERATIONS
    ) -> Injection:
        """Let each read, write or fsync on the host's disk take longer until healed. As `stall_disk`."""
        return self._registry.add(SlowDisk(self._registry, host, operations, delay_ms / 1000))
