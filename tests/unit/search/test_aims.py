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
from studies.steps.aims import hosts_of, links_of
from studies.steps.step import Step

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


def stage_of(views: Views, mode: str) -> Any:
    return SimpleNamespace(
        lab=SimpleNamespace(topology=THREE_AZS.topology(mode)),
        cluster=SimpleNamespace(mode=mode),
        observer=SimpleNamespace(views=views),
    )


def names(views: Views, mode: str, *aims: str) -> list[str]:
    return [host.name for host in hosts_of(stage_of(views, mode), aims, KEY)]


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


@pytest.mark.parametrize("mode", CONTROLLERS)
@pytest.mark.parametrize(
    ("role", "log", "what"),
    [
        ("group-coordinator", "__consumer_offsets", "groups"),
        ("share-coordinator", "__share_group_state", "the states of share groups"),
    ],
)
def test_a_coordinator_leads_its_log(views: Views, mode: str, role: str, log: str, what: str) -> None:
    source = "zookeeper1" if mode == "zookeeper" else "broker1"
    with pytest.raises(InvalidRunError, match=f"no broker coordinates {what}"):
        names(views, mode, role)
    state = PartitionState(leader=2, leader_epoch=0, isr=(1, 2, 3), replicas=(1, 2, 3))
    key = TopicPartition(log, 0)
    views.record([View(source=source, subject="partition", topic_partition=key, state=state)])
    assert names(views, mode, role) == ["broker2"]


@pytest.mark.parametrize(
    ("mode", "others"),
    [("kraft", ("controller1", "controller3")), ("kraft-combined", ("broker1", "broker3"))],
)
def test_the_other_controllers_of_a_quorum(views: Views, mode: str, others: tuple[str, str]) -> None:
    source, node, host = CONTROLLERS[mode]
    views.record([View(source=source, subject="controller", controller=node)])
    cut = Step(fault="cut", targets=("controller",), toward=("other-controllers",), arrow="->")
    links = links_of(stage_of(views, mode), cut, KEY)
    assert {(link.source, link.destination) for link in links} == {(host, other) for other in others}


def test_the_other_side_may_be_several_things(views: Views) -> None:
    views.record([View(source="controller1", subject="controller", controller=12)])
    cut = Step(fault="cut", targets=("controller",), toward=("other-controllers", "broker1"), arrow="<-")
    links = links_of(stage_of(views, "kraft"), cut, KEY)
    assert {link.source for link in links} == {"controller1", "controller3", "broker1"}
    assert {link.destination for link in links} == {"controller2"}


def test_controllers_on_one_side_keep_their_links_to_each_other(views: Views) -> None:
    views.record([View(source="controller1", subject="controller", controller=12)])
    cut = Step(fault="cut", targets=("controller", "controller1"), toward=("other-controllers",), arrow="->")
    links = links_of(stage_of(views, "kraft"), cut, KEY)
    assert {(link.source, link.destination) for link in links} == {
        ("controller2", "controller3"),
        ("controller1", "controller3"),
    }
