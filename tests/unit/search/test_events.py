"""Events that steps wait for."""

from __future__ import annotations

from harness.kafka.model import TopicPartition
from studies.steps.events import ClusterState, happened
from studies.steps.step import EVENTS
from workloads.protocol.results import StreamCounts

KEY = TopicPartition("t1", 0)


def seen(
    leader: int = 1, in_sync: int = 3, controller: int = 2, ok: int = 5, fail: int = 0, markers: int = 4
) -> ClusterState:
    return ClusterState(
        leaders={KEY: leader},
        in_sync={KEY: in_sync},
        replicas={KEY: 3},
        controller=controller,
        counts={"producer-1a": StreamCounts(sent=9, ok=ok, fail=fail, info=0, running=True)},
        markers=markers,
    )


CHANGES = {
    "leader-elected": {"leader": 2},
    "no-leader": {"leader": -1},
    "isr-shrunk": {"in_sync": 2},
    "controller-elected": {"controller": 3},
    "acknowledged": {"ok": 6},
    "refused": {"fail": 1},
    "marker-written": {"markers": 5},
}


def test_each_event_is_the_one_change() -> None:
    assert {*CHANGES, "isr-full"} == set(EVENTS)
    for change, values in CHANGES.items():
        for event in CHANGES:
            assert happened(event, seen(), seen(**values)) == (event == change), (event, change)


def test_an_isr_is_full_or_not() -> None:
    assert happened("isr-full", seen(in_sync=2), seen())
    assert not happened("isr-full", seen(), seen(in_sync=2))


def test_markers_do_not_vanish() -> None:
    assert not happened("marker-written", seen(), seen(markers=4))
