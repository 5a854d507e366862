"""What every cluster offers to a run, whatever keeps its metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from harness.errors import WaitTimeoutError
from harness.scenario import Topic
from harness.waiting import wait_until

T = TypeVar("T")
_ANSWER_S = 5.0


@dataclass(frozen=True)
class PartitionState:
    """What the metadata store says about one partition; ``leader`` is -1 when there is none."""

    leader: int
    epoch: int
    isr: tuple[int, ...]


def told(ask: Callable[[], T | None], what: str) -> T | None:
    """Ask the metadata store until it answers; None if it has not within some seconds.

    On KRaft a question is a probe of one second, which a busy machine may miss once or twice.
    """
    try:
        return wait_until(
            ask,
            accept=lambda said: said is not None,
            within_s=_ANSWER_S,
            awaiting=f"the metadata store to name {what}",
        )
    except WaitTimeoutError:
        return None


class Distribution(Protocol):
    """A resolved Kafka version: its jars and class-data archives (see `harness.artifacts`)."""

    @property
    def version(self) -> str:
        """Kafka version."""

    def class_path(self) -> str:
        """Class path, identical for every process and for the archives."""

    def archive(self, main_class: str) -> Path | None:
        """Class-data archive for a main class, where there is one."""


class Cluster(Protocol):
    """A Kafka cluster in a lab."""

    mode: str
    look_s: float
    """How long to wait between two questions to the metadata store: on KRaft each opens new connections."""

    def boot(self) -> None:
        """Start everything with the roles that the set-up asks for; returns when all is registered."""

    def create_topics(self, topics: tuple[Topic, ...]) -> None:
        """Create topics with explicit assignments and wait until every broker knows their leaders."""

    def start(self, host: str) -> None:
        """Start a host's process again and wait until the cluster knows it."""

    def registered(self) -> frozenset[int]:
        """Node ids of the brokers that are registered (and not fenced)."""

    def controller(self) -> int | None:
        """Node id of the active controller, as the metadata store says."""

    def operator_host(self) -> str:
        """A broker that takes operator requests now: the controller, or with KRaft one that reaches it."""

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """What the metadata store (not a broker) says about a partition; None where it is unknown."""

    @property
    def asked_config(self) -> Mapping[str, Mapping[str, str]]:
        """Broker properties by host as they were written, for comparison with what took effect."""

    def roles(self) -> Mapping[str, str]:
        """Who plays which role right now, for the manifest."""

    def check_alive(self) -> None:
        """Raise ProcessDiedError when a process ended that no fault ended."""

    def server_log(self, host: str) -> Path:
        """The host's own log file."""

    def close(self) -> None:
        """Close connections; processes are the lab's business."""
