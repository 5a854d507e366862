"""Events that steps wait for, by comparing what is seen with what was seen before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.kafka.model import TopicPartition
from workloads.protocol.results import StreamCounts


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """What is seen of a cluster at one moment."""

    leaders: Mapping[TopicPartition, int]
    """-1 stands for none. A partition of which nothing is known is left out."""
    in_sync: Mapping[TopicPartition, int]
    """How many replicas are in sync."""
    replicas: Mapping[TopicPartition, int]
    controller: int | None
    counts: Mapping[str, StreamCounts]
    """Messages of the producers that run, by name."""
    markers: int = 0
    """Transaction markers that have been seen on all replicas together, since the run began."""


def happened(event: str, before: ClusterState, now: ClusterState) -> bool:
    """Whether an event of `studies.steps.step.Event` happened between two moments."""
    return _CHECKS[event](before, now)


def _elected(before: ClusterState, now: ClusterState) -> bool:
    return any(
        leader >= 0 and before.leaders.get(key, leader) != leader for key, leader in now.leaders.items()
    )


def _leaderless(before: ClusterState, now: ClusterState) -> bool:
    return any(leader < 0 for leader in now.leaders.values())


def _shrunk(before: ClusterState, now: ClusterState) -> bool:
    return any(count < before.in_sync.get(key, count) for key, count in now.in_sync.items())


def _full(before: ClusterState, now: ClusterState) -> bool:
    return all(now.in_sync.get(key) == count for key, count in now.replicas.items())


def _controller(before: ClusterState, now: ClusterState) -> bool:
    return now.controller is not None and now.controller >= 0 and now.controller != before.controller


def _acknowledged(before: ClusterState, now: ClusterState) -> bool:
    return bool(now.counts) and all(
        counts.ok > (before.counts[name].ok if name in before.counts else 0)
        for name, counts in now.counts.items()
    )


def _refused(before: ClusterState, now: ClusterState) -> bool:
    return any(_bad(counts) > _bad(before.counts.get(name)) for name, counts in now.counts.items())


def _marked(before: ClusterState, now: ClusterState) -> bool:
    return now.markers > before.markers


def _bad(counts: StreamCounts | None) -> int:
    return 0 if counts is None else counts.fail + counts.info


_CHECKS = {
    "leader-elected": _elected,
    "no-leader": _leaderless,
    "isr-shrunk": _shrunk,
    "isr-full": _full,
    "controller-elected": _controller,
    "acknowledged": _acknowledged,
    "refused": _refused,
    "marker-written": _marked,
}


def stuck(before: Mapping[str, StreamCounts], now: Mapping[str, StreamCounts]) -> Sequence[str]:
    """Names of the producers that got no acknowledgement between two moments."""
    return [name for name, counts in now.items() if counts.ok <= before[name].ok]
