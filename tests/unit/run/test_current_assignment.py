"""Convergence is that of the current assignment, not of the replicas that a topic was created with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import run.watch
from harness.cluster import model
from harness.cluster.timings import BASE
from harness.errors import WaitTimeoutError
from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.tables import read_table
from harness.host_files import Folder
from harness.kafka.model import PartitionState, Topic, TopicPartition
from harness.kafka.wire.logs import FetchResult
from harness.lab.layout import THREE_AZS
from harness.observer.replica_log import ReplicaLog
from harness.observer.targets import Targets
from harness.zookeeper.znodes import assigned_state
from run.runner import unread
from run.stage import Stage
from run.watch import Watch
from workloads.protocol.results import PartitionRead, ReadResult

KEY = TopicPartition("t", 0)
CREATED = Topic("t", (1, 2))
MOVED = PartitionState(leader=2, leader_epoch=3, isr=(2, 3), replicas=(2, 3))
PENDING = PartitionState(leader=1, leader_epoch=2, isr=(1,), replicas=(1, 3, 2))


def answering(state: PartitionState | None) -> dict[str, Any]:
    """What a metadata store says of every partition."""
    return {
        "partition": lambda *_: state,
        "partitions": lambda keys: {} if state is None else dict.fromkeys(keys, state),
    }


def stage_in(state: PartitionState | None, *, dead: tuple[str, ...] = ()) -> Stage:
    """A stage whose only partition was created on brokers 1 and 2, and is in this state now."""
    cluster: Any = SimpleNamespace(mode="kraft", poll_s=0.01, check_alive=lambda: None, **answering(state))
    views = SimpleNamespace(
        of=lambda _: SimpleNamespace(partition=lambda *_: state, reachable=lambda: True),
        select=lambda *_: [],
    )
    return Stage(
        setup=Mock(),
        lab=Mock(alive=lambda host: host not in dead),
        cluster=cluster,
        processes=Mock(),
        observer=Mock(views=views, recorded_end=lambda *_: None),
        nemesis=Mock(deleted_topics=set()),
        clients={},
        journal=Mock(),
        progress=Mock(),
        dialect=Mock(),
        topics=(CREATED,),
        timings=BASE,
    )


def empty_logs(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> list[str]:
    """Give every replica an empty log; returns the brokers whose log is read."""
    asked: list[str] = []

    def own_log(broker: str, *_: object) -> FetchResult:
        asked.append(broker)
        return FetchResult(log_start=0, high_watermark=0)

    monkeypatch.setattr(stage, "own_log", own_log)
    return asked


def test_a_partition_that_has_moved_converges_on_its_new_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_in(MOVED)
    asked = empty_logs(monkeypatch, stage)
    stage.wait_converged("t", within_s=1.0)
    assert set(asked) == {"broker2", "broker3"}
    assert stage.incomplete_isrs() == []
    assert list(stage.unhealthy([KEY])) == []


def test_a_reassignment_under_way_has_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_in(PENDING)
    empty_logs(monkeypatch, stage)
    with pytest.raises(WaitTimeoutError, match=r"ISR \(1,\) of \(1, 3, 2\)"):
        stage.wait_converged("t", within_s=0.2)
    assert stage.incomplete_isrs() == [KEY]
    assert list(stage.unhealthy([KEY])) == [(KEY, PENDING)]


def test_a_new_replica_that_does_not_run_is_none_that_lags() -> None:
    assert stage_in(PENDING, dead=("broker3",)).incomplete_isrs() == []


def test_the_replicas_that_must_answer_are_the_current_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_in(MOVED)

    def own_log(broker: str, *_: object) -> FetchResult:
        if broker == "broker3":
            raise ConnectionRefusedError("refused")
        return FetchResult(error=3 if broker == "broker1" else 0)

    monkeypatch.setattr(stage, "own_log", own_log)
    assert list(stage.silent_replicas([KEY])) == ["broker3 does not answer (refused)"]


@pytest.mark.parametrize(("state", "replicas"), [(MOVED, (2, 3)), (PENDING, (1, 3, 2)), (None, (1, 2))])
def test_the_final_logs_are_those_of_the_current_replicas(
    state: PartitionState | None,
    replicas: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Of a partition about which the metadata store says nothing, the replicas that it was created with."""
    read: list[Mapping[TopicPartition, tuple[int, ...]]] = []

    def final_dump(
        _run: Path, _brokers: object, assignment: Any, *_: object, **__: object
    ) -> tuple[ReplicaLog, ...]:
        read.append(assignment)
        return ()

    monkeypatch.setattr(run.watch, "final_dump", final_dump)
    monkeypatch.setattr(model, "first_answer", lambda ask, _what: ask())
    targets = Targets.of(THREE_AZS.topology("zookeeper"), (1, 2, 3), lambda _: Folder(tmp_path))
    cluster: Any = SimpleNamespace(**answering(state))
    Watch(targets, cluster, (CREATED,), Mock(), Mock(describe_transactions=None)).dump(tmp_path)
    assert read == [{KEY: replicas}]


def test_what_the_observer_has_not_seen_of_the_final_logs_is_a_fact(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a replica that it does not follow (broker 3), nothing was to be seen."""
    logs = [ReplicaLog(topic_partition=KEY, broker=broker, leo=10, ns=5) for broker in (1, 2, 3)]
    logs.append(ReplicaLog(topic_partition=KEY, broker=4, leo=None))
    monkeypatch.setattr(run.watch, "final_dump", lambda *_, **__: tuple(logs))
    monkeypatch.setattr(run.watch, "_CATCH_UP_S", 0.2)
    monkeypatch.setattr(model, "first_answer", lambda ask, _what: ask())
    targets = Targets.of(THREE_AZS.topology("zookeeper"), (1, 2, 3), lambda _: Folder(tmp_path))
    cluster: Any = SimpleNamespace(**answering(MOVED))
    with Journal(tmp_path / "journal" / "harness.jsonl") as journal:
        watch = Watch(targets, cluster, (CREATED,), journal, Mock(describe_transactions=None))
        ends = {1: 10, 2: 7, 3: None, 4: 0}
        monkeypatch.setattr(watch.observer, "recorded_end", lambda broker, _key: ends[broker])
        assert watch.dump(tmp_path, watched={KEY: range(5, 7)}) == 0
        assert watch.dump(tmp_path) == 3
    assemble(tmp_path)
    (row,) = read_table(tmp_path, "unobserved").to_pylist()
    assert (row["source"], row["broker"], row["from_offset"], row["to_offset"]) == ("tail", 2, 7, 10)


def test_what_the_final_reader_has_not_read_is_a_fact() -> None:
    def part(number: int, position: int | None, complete: bool) -> PartitionRead:
        key = TopicPartition("t", number)
        return PartitionRead(partition=key, start=2, end=9, position=position, count=0, complete=complete)

    result = ReadResult(
        partitions=(part(0, 9, True), part(1, 5, False), part(2, None, False)), count=7, errors=()
    )
    rows = [(row["partition"], row["from_offset"], row["to_offset"], row["error"]) for row in unread(result)]
    assert rows == [(1, 5, 9, None), (2, 2, 9, None)]
    failed = ReadResult(partitions=(part(1, 5, False),), count=7, errors=((6, "not leader"),))
    assert [row["error"] for row in unread(failed)] == [6]


def test_zookeeper_states_which_replicas_move() -> None:
    """From Kafka 2.4 the topic's znode has them; older brokers write no such keys (KIP-455)."""
    value = {"leader": 1, "leader_epoch": 2, "isr": [1, 2, 3]}
    topic: dict[str, Any] = {"partitions": {"0": [1, 3, 2]}}
    assert assigned_state(value, topic, 0) == PartitionState(
        leader=1, leader_epoch=2, isr=(1, 2, 3), replicas=(1, 3, 2)
    )
    assert assigned_state(value, topic, 0).isr_is_full
    moving = {**topic, "adding_replicas": {"0": [3]}, "removing_replicas": {"0": [2]}}
    assert assigned_state(value, moving, 0).moving == (3, 2)
    assert not assigned_state(value, moving, 0).isr_is_full


def test_hundreds_of_partitions_take_one_question() -> None:
    """And one more for those that the metadata store did not name at first."""
    asked: list[list[TopicPartition]] = []
    keys = [TopicPartition("t", number) for number in range(300)]

    def partitions(wanted: list[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        asked.append(wanted)
        return {key: MOVED for key in wanted if key.partition < 299 or len(asked) > 1}

    cluster: Any = SimpleNamespace(partitions=partitions)
    assert model.known_states(cluster, keys) == dict.fromkeys(keys, MOVED)
    assert asked == [keys, keys[299:]]
