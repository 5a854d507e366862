"""Replicas that are wiped or damaged for good."""

from __future__ import annotations

from harness.errors import InvalidRunError, UsageError
from harness.history.mechanisms import MECHANISMS, Kind
from harness.kafka.model import TopicPartition
from nemesis.fault import Evidence, Fault, Targets
from nemesis.registry import FaultRegistry
from nemesis.scheduled import Aim, ScheduledFault
from nemesis.storage import logs


class Wipe(ScheduledFault):
    """A replica that is removed for good, folder and all; its broker must not run."""

    mechanism = "wipe"
    undoable = False
    ends_processes = False
    takes = "hosts"
    lasts = True
    roles = ("broker",)
    processes = "ended"
    one_host = True
    about_partition = True
    weight = 2

    def __init__(self, registry: FaultRegistry, host: str, key: TopicPartition) -> None:
        """Raises UsageError if the broker runs, or has no such replica."""
        self.name = f"wipe {key} on {host}"
        if registry.lab.alive(host):
            raise UsageError(
                f"{self.name!r}: kill or stop {host} first, because a running broker keeps its files open."
            )
        self._host, self._key = host, key
        self._folder = logs.replica_folder(registry.data_folder(host), *key)
        self._lost_bytes = 0

    @classmethod
    def at(cls, registry: FaultRegistry, aim: Aim) -> Fault:
        """Of the partition's replica on the host."""
        return cls(registry, aim.hosts[0].name, aim.partition)

    def targets(self) -> Targets:
        """The host and the partition."""
        return {"hosts": [self._host], "partitions": [str(self._key)]}

    def inject(self) -> None:
        """Remove the folder."""
        self._lost_bytes = logs.wipe(self._folder)

    def verify(self) -> Evidence:
        """Check that it is gone."""
        if self._folder.exists():
            raise InvalidRunError(f"{self._folder} still exists after {self.name!r}.")
        return {"log_bytes": self._lost_bytes}

    def heal(self) -> None:
        """Nothing."""

    def verify_healed(self) -> Evidence:
        """Nothing."""
        return {}


class FlippedByte:
    """A byte of a replica's log that is flipped, in the batch that holds an offset; the broker may run."""

    mechanism = "damage"
    kind: Kind = MECHANISMS[mechanism].kind
    undoable = False
    ends_processes = False

    def __init__(self, registry: FaultRegistry, host: str, key: TopicPartition, offset: int) -> None:
        """Raises UsageError if the host has no such replica."""
        self.name = f"corrupt offset {offset} of {key} on {host}"
        self._host, self._key, self._offset = host, key, offset
        self._folder = logs.replica_folder(registry.data_folder(host), *key)
        self._batch: dict[str, object] = {}

    def targets(self) -> Targets:
        """The host, the partition and the offset."""
        return {"hosts": [self._host], "partitions": [str(self._key)], "offset": self._offset}

    def inject(self) -> None:
        """Flip the byte."""
        file, position, first_offset = logs.corrupt(self._folder, self._offset)
        self._batch = {"where": [f"{file.name}@{position}"], "first_offset": first_offset}

    def verify(self) -> Evidence:
        """Check that the batch's checksum is wrong."""
        if logs.intact(self._folder, self._offset):
            raise InvalidRunError(f"The checksum at offset {self._offset} in {self._folder} still holds.")
        return self._batch

    def heal(self) -> None:
        """Nothing."""

    def verify_healed(self) -> Evidence:
        """Nothing."""
        return {}
