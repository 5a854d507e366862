"""What a recording leaves in its manifest, so that another process can go on or clean up."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from harness.cluster.attached import PREFIX, AttachedCluster
from harness.errors import AckedError, BadDataError, UsageError
from harness.kafka.wire.metadata import AdvertisedBroker
from harness.plain_files import folders_with
from run.folder import MANIFEST, RunFolder
from run.recording.plan import RecordingPlan

KEY = "recording"
"""The part of the manifest that only recordings have."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class StoredRecording:
    """A recording as its manifest describes it."""

    plan: RecordingPlan
    bootstrap: str
    cluster_id: str
    began_ns: int
    """Of the monotonic clock, which begins anew with each boot of the machine."""
    boot: str = ""
    """The boot of the machine."""
    attempt: int = 1
    """How many processes have worked on it."""
    made: bool = False
    """The cluster was asked to create the topics, which did not exist before."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the topics that exist; none before Kafka 2.8."""
    listeners: tuple[AdvertisedBroker, ...] = ()
    """The brokers that the cluster had at the beginning. One that is down later is named by no other."""
    read: bool = False
    """The final logs have been read: what is left is to delete the topics, and to judge."""
    deleted: bool = False
    """The topics have been deleted."""

    def as_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            **self.__dict__,
            "topic_ids": dict(self.topic_ids),
            "plan": self.plan.as_json(),
            "listeners": [asdict(one) for one in self.listeners],
        }

    @classmethod
    def of(cls, folder: RunFolder) -> StoredRecording:
        """Of a run folder, which may come from anybody. Raises BadDataError."""
        stored = folder.manifest().get(KEY)
        if not isinstance(stored, Mapping) or not isinstance(stored.get("plan"), Mapping):
            raise BadDataError(f"{folder.path} is not the folder of a recording; name one of acked record.")
        try:
            return cls(
                plan=RecordingPlan.from_json(stored["plan"]),
                bootstrap=str(stored["bootstrap"]),
                cluster_id=str(stored["cluster_id"]),
                began_ns=int(stored["began_ns"]),
                boot=str(stored.get("boot") or ""),
                attempt=int(stored.get("attempt") or 1),
                made=stored.get("made") is True,
                topic_ids={
                    str(name): str(UUID(topic_id))
                    for name, topic_id in (stored.get("topic_ids") or {}).items()
                },
                read=stored.get("read") is True,
                deleted=stored.get("deleted") is True,
                listeners=tuple(
                    AdvertisedBroker(
                        node_id=int(one["node_id"]),
                        host=str(one["host"]),
                        port=int(one["port"]),
                        rack=str(one["rack"]),
                    )
                    for one in stored.get("listeners") or ()
                ),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadDataError(
                f"{folder.path / MANIFEST} does not describe a recording ({type(error).__name__}: {error})."
            ) from None

    @property
    def end_ns(self) -> int:
        """Its planned end, of the monotonic clock."""
        return self.began_ns + round(self.plan.for_s * 1e9)

    @property
    def names(self) -> list[str]:
        """The topics."""
        return [topic.name for topic in self.plan.topics]

    def uuid(self, topic: str) -> UUID | None:
        """The id of a topic, where it is known."""
        return UUID(self.topic_ids[topic]) if topic in self.topic_ids else None

    def require_same_boot(self, folder: Path) -> None:
        """Raise UsageError if the machine has started anew since: its clock has, too."""
        if self.boot != boot():
            raise UsageError(
                f"{folder} was recorded before this machine started anew, and its clock began anew as well; "
                "remove its topic with acked record --clean."
            )


def boot() -> str:
    """Which start of the machine this is."""
    return _BOOT.read_text().strip() if _BOOT.exists() else ""


def keep(folder: RunFolder, stored: StoredRecording) -> None:
    """Write it into the manifest."""
    note(folder, **stored.as_json())


def note(folder: RunFolder, **facts: object) -> None:
    """Write facts of the recording into the manifest, beside those that are there."""
    folder.update(**{KEY: {**(folder.manifest().get(KEY) or {}), **facts}})


@contextmanager
def working_on(folder: RunFolder) -> Iterator[None]:
    """Hold the recording's folder, until this process ends. Raises UsageError if another process does."""
    descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{folder.path} is being recorded by another process; wait until it ends.") from None
    else:
        yield
    finally:
        os.close(descriptor)


def delete_topics(cluster: AttachedCluster, folder: RunFolder) -> None:
    """Delete the topics that the recording has made, if any, and note it. Raises as `AttachedCluster.delete`.

    Its group goes first, if the user may delete it; else brokers remove it with the topics' offsets. The
    manifest lacks a topic's id if the process was killed before it could ask for it.
    """
    stored = StoredRecording.of(folder)
    if stored.deleted or not stored.made:
        return
    if stored.plan.transactions:
        cluster.delete_group(stored.plan.topic)
    there = cluster.topic_ids(stored.names)
    for name in stored.names:
        cluster.delete(name, stored.uuid(name) or there.get(name))
    keep(folder, replace(stored, deleted=True))


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """What `clean` did."""

    deleted: tuple[str, ...]
    """Topics of recordings that were killed."""
    failed: tuple[str, ...]
    """Why others were not deleted, a sentence each."""
    strangers: tuple[str, ...]
    """Topics with the prefix that no run folder here knows, and which therefore stay."""


def clean(cluster: AttachedCluster, runs: Path) -> Cleaned:
    """Delete the topics that recordings below ``runs`` have made on this cluster and left behind."""
    deleted, failed, known = list[str](), list[str](), set[str]()
    for path in folders_with(MANIFEST, runs):
        try:
            folder = RunFolder.open(path)
            stored = StoredRecording.of(folder)
        except BadDataError:
            continue  # not a recording
        if stored.cluster_id != cluster.cluster_id:
            continue
        known |= set(stored.names)
        if stored.deleted or not stored.made:
            continue
        try:
            with working_on(folder):
                delete_topics(cluster, folder)
        except (AckedError, OSError) as error:
            failed.append(f"{stored.plan.topic}: {error}")
        else:
            deleted += stored.names
    there = [name for name in cluster.topic_ids() if name.startswith(PREFIX)]
    return Cleaned(
        deleted=tuple(deleted),
        failed=tuple(failed),
        strangers=tuple(sorted(set(there) - known)),
    )
