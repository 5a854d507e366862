"""A recording while it is under way, as OpenMetrics: what producers have achieved, and what brokers state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.kafka.model import TopicPartition
from harness.lab.model import Topology
from harness.observer.views import Views
from workloads.protocol.results import StreamCounts

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Sample = tuple[Mapping[str, object], int]


@dataclass(frozen=True)
class _Family:
    name: str
    kind: str
    says: str


_MESSAGES = _Family("acked_messages", "counter", "Messages by producer and outcome.")
_THROTTLED = _Family("acked_throttled_ms", "counter", "By how much quotas delayed answers to a producer.")
_ANSWERS = _Family("acked_broker_answers", "gauge", "Whether the broker answered when it was asked last.")
_LEADER = _Family("acked_partition_leader", "gauge", "Id of the leader; -1: none.")
_IN_SYNC = _Family("acked_partition_in_sync_replicas", "gauge", "Replicas in the ISR.")
_REPLICAS = _Family("acked_partition_replicas", "gauge", "Assigned replicas.")


def openmetrics(
    counts: Mapping[str, StreamCounts], views: Views, partitions: Sequence[TopicPartition], topology: Topology
) -> str:
    """The metrics of now; ``counts`` are those of each producer, by its name."""
    states = {key: views.of("broker").partition(*key) for key in partitions}
    stated = [({"topic": key.topic, "partition": key.partition}, state) for key, state in states.items()]
    text = [
        _lines(
            _MESSAGES,
            (
                ({"producer": name, "outcome": outcome}, getattr(one, outcome))
                for name, one in counts.items()
                for outcome in ("ok", "fail", "info")
            ),
        ),
        _lines(_THROTTLED, (({"producer": name}, one.throttled_ms) for name, one in counts.items())),
        _lines(
            _ANSWERS,
            (
                (
                    {"broker": host.node_id, "az": topology.az_name(host.az)},
                    int(views.answers(host.name)),
                )
                for host in topology.role("broker")
            ),
        ),
        _lines(_LEADER, ((labels, state.leader) for labels, state in stated if state)),
        _lines(_IN_SYNC, ((labels, len(state.isr)) for labels, state in stated if state)),
        _lines(_REPLICAS, ((labels, len(state.replicas or ())) for labels, state in stated if state)),
        "# EOF\n",
    ]
    return "".join(text)


def _lines(family: _Family, samples: Iterable[Sample]) -> str:
    suffix = "_total" if family.kind == "counter" else ""
    lines = [f"# TYPE {family.name} {family.kind}", f"# HELP {family.name} {family.says}"]
    for labels, value in samples:
        shown = ",".join(f'{name}="{_escaped(str(label))}"' for name, label in labels.items())
        lines.append(f"{family.name}{suffix}{{{shown}}} {value}")
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
