"""The observer's threads: silence is a view, a failure is reported, and stopping is quick."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from harness.errors import LabError
from harness.history.journal import Journal
from harness.kafka.model import Endpoint, PartitionState, TopicPartition
from harness.observer import pollers
from harness.observer.observer import Observer
from harness.observer.targets import Node, Targets
from harness.waiting import wait_until
from harness.zookeeper.znodes import PartitionZnode, Znodes


@pytest.fixture
def nobody() -> Endpoint:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Endpoint(*listener.getsockname()[:2])


def test_silent_nodes_are_views_too(tmp_path: Path, nobody: Endpoint) -> None:
    targets = Targets((Node("broker1", 1, nobody),), (Node("zookeeper1", 1, nobody),))
    before = set(threading.enumerate())
    with Journal(tmp_path / "j.jsonl") as journal, Observer(targets, journal) as observer:
        for source in ("broker1", "zookeeper1"):
            wait_until(
                lambda source=source: observer.views.latest(source, "reachable") is not None,
                within_s=5,
                awaiting=f"a view of {source}",
            )
        assert not observer.view("broker").reachable()
        threads = set(threading.enumerate()) - before
        assert threads
        observer.stop()
        assert not [thread.name for thread in threads if thread.is_alive()]
    rows = [json.loads(line) for line in (tmp_path / "j.jsonl").read_text().splitlines()]
    views = [row for row in rows if row["table"] == "views"]
    assert {row["source"]: bool(row["error"]) for row in views} == {"broker1": True, "zookeeper1": True}


def test_an_observer_that_fails_is_not_silent(
    tmp_path: Path, nobody: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_options: object) -> None:
        raise ValueError("not what Kafka says")

    monkeypatch.setattr(pollers, "metadata", broken)
    with Journal(tmp_path / "j.jsonl") as journal:
        observer = Observer(Targets((Node("broker1", 1, nobody),)), journal)
        observer.start()
        with pytest.raises(LabError, match="observer of broker1 failed: ValueError: not what Kafka says"):
            observer.stop()


def test_znodes_as_views() -> None:
    state = PartitionState(leader=2, leader_epoch=3, isr=(3, 2), replicas=(2, 3))
    znodes = Znodes(
        controller=1,
        controller_epoch=5,
        controller_zxid=30,
        brokers=(1, 2, 3),
        brokers_zxid=20,
        partitions={TopicPartition("t", 0): PartitionZnode(state, zxid=40)},
    )
    controller, brokers, partition = pollers.znode_views("zookeeper1", znodes)
    assert (controller.controller, controller.controller_epoch, controller.order) == (1, 5, 30)
    assert (brokers.brokers, brokers.order) == ((1, 2, 3), 20)
    assert partition.state == PartitionState(leader=2, leader_epoch=3, isr=(2, 3), replicas=(2, 3))
    assert partition.order == 40
