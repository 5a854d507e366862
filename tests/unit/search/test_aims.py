"""The hosts that a step means, by what the observer has seen last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import InvalidRunError
from harness.history.journal import Journal
from harness.kafka.model import PartitionState, TopicPartition
from harness.lab.layout import THREE_AZS
from harness.observer.views import View, Views
from harness.search.aims import hosts_of

KEY = TopicPartition("t1", 0)
CONTROLLERS = {
    "zookeeper": ("zookeeper1", 2, "broker2"),
    "kraft": ("controller1", 12, "controller2"),
    "kraft-combined": ("controller1", 2, "broker2"),
}
"""By mode: who states the controller, the node id that is stated, and the host that has it."""


@pytest.fixture
def views(tmp_path: Path) -> Iterator[Views]:
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield Views(journal)


def names(views: Views, mode: str, *aims: str) -> list[str]:
    stage: Any = SimpleNamespace(
        lab=SimpleNamespace(topology=THREE_AZS.topology(mode)),
        cluster=SimpleNamespace(mode=mode),
        observer=SimpleNamespace(views=views),
    )
    return [host.name for host in hosts_of(stage, aims, KEY)]


@pytest.mark.parametrize("mode", CONTROLLERS)
def test_the_controller_is_the_one_that_was_seen(views: Views, mode: str) -> None:
    source, node, host = CONTROLLERS[mode]
    with pytest.raises(InvalidRunError, match="no controller is active"):
        names(views, mode, "controller")
    views.record([View(source=source, subject="controller", controller=node)])
    assert names(views, mode, "controller") == [host]


@pytest.mark.parametrize("mode", CONTROLLERS)
def test_the_coordinator_leads_the_log_of_transactions(views: Views, mode: str) -> None:
    source = "zookeeper1" if mode == "zookeeper" else "broker1"
    with pytest.raises(InvalidRunError, match="no broker coordinates transactions"):
        names(views, mode, "coordinator")
    for topic, leader in (("__transaction_state", 3), ("t1", 1)):
        state = PartitionState(leader=leader, leader_epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3))
        key = TopicPartition(topic, 0)
        views.record([View(source=source, subject="partition", topic_partition=key, state=state)])
    assert names(views, mode, "coordinator", "leader") == ["broker3", "broker1"]
    assert {host[-1] for host in names(views, mode, "az-of-coordinator")} == {"3"}
