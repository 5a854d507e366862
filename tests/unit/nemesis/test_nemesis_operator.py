"""What an operator action makes of Kafka's answers: a refusal ends the run, a time-out does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nemesis.operator
from harness.clock import now_ns
from harness.errors import InvalidRunError, UsageError
from harness.kafka.model import (
    ELECTION_NOT_NEEDED,
    REQUEST_TIMED_OUT,
    PartitionState,
    Topic,
    TopicPartition,
)
from harness.kafka.wire.admin import Reassignment, RequestResult
from harness.kafka.wire.metadata import BrokerMetadata
from harness.kafka.wire.offsets import Offset
from nemesis.fault import Injection
from nemesis.operator import Operator, OperatorAction
from tests.unit.nemesis.nemesis_fakes import TOPOLOGY, Rows

NOT_IN_SYNC = 80
Elect = Callable[..., Injection]


@pytest.fixture
def elect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Elect:
    """Elect a leader, by default broker1: the controller answers with an error, and ``leader`` leads."""

    def act(error: int, leader: int, leader_name: str = "broker1") -> Injection:
        def answer(_to: object, keys: Iterable[TopicPartition], *_: object, **__: object) -> dict[Any, Any]:
            return {key: RequestResult(error) for key in keys}

        journal = Rows(tmp_path).journal
        lab = SimpleNamespace(alive=lambda _host: True)
        registry: Any = SimpleNamespace(
            topology=TOPOLOGY, lab=lab, add=lambda fault: Injection(1, fault, journal)
        )
        cluster: Any = SimpleNamespace(
            mode="zookeeper",
            partition=lambda *_: PartitionState(leader=leader, leader_epoch=0, isr=(1, 2)),
            controller=lambda: 1,
        )
        monkeypatch.setattr(nemesis.operator, "elect_leaders", answer)
        defaults = {**(OperatorAction.__init__.__kwdefaults__ or {}), "within_s": 0.2}
        monkeypatch.setattr(OperatorAction.__init__, "__kwdefaults__", defaults)
        return Operator(registry, cluster).elect("t", leader=leader_name)

    return act


@pytest.mark.parametrize("error", [0, ELECTION_NOT_NEEDED, REQUEST_TIMED_OUT])
def test_an_election_counts_if_its_effect_is_seen(error: int, elect: Elect) -> None:
    assert elect(error, 1).evidence


@pytest.mark.parametrize("error", [0, ELECTION_NOT_NEEDED, REQUEST_TIMED_OUT])
def test_an_election_without_its_effect_makes_the_run_invalid(error: int, elect: Elect) -> None:
    with pytest.raises(InvalidRunError, match="'elect preferred leader of t/0' had no effect"):
        elect(error, 2)


def test_a_refused_election_makes_the_run_invalid_even_if_the_leader_is_the_wanted_one(elect: Elect) -> None:
    with pytest.raises(InvalidRunError, match="refused with Kafka's error 80"):
        elect(NOT_IN_SYNC, 1)


def test_a_time_out_is_no_success_if_any_leader_will_do_and_there_was_one_before(elect: Elect) -> None:
    assert elect(0, 2, leader_name="").evidence
    with pytest.raises(InvalidRunError, match="refused with Kafka's error 7"):
        elect(REQUEST_TIMED_OUT, 2, leader_name="")


BEFORE = PartitionState(leader=1, leader_epoch=0, isr=(1, 2), replicas=(1, 2))
MOVED = PartitionState(leader=1, leader_epoch=2, isr=(1, 3), replicas=(1, 3))
HALF = PartitionState(leader=1, leader_epoch=1, isr=(1, 2), replicas=(1, 3, 2), moving=(3, 2))
UNDER_WAY = Reassignment((1, 3, 2), (3,), (2,))
OF_OTHERS = Reassignment((2, 3, 1), (3,), (1,))
Act = Callable[[Operator], Injection]


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Injection]:
    """Act on a partition that has a state before and another after; the controller lists ``under_way``."""

    def perform(
        action: Act, after: PartitionState, under_way: Reassignment | None = None, error: int = 0
    ) -> Injection:
        states: Iterator[PartitionState] = chain([BEFORE], repeat(after))
        journal = Rows(tmp_path).journal
        registry: Any = SimpleNamespace(
            topology=TOPOLOGY,
            lab=SimpleNamespace(alive=lambda _host: True),
            add=lambda fault: Injection(1, fault, journal),
        )
        cluster: Any = SimpleNamespace(
            mode="zookeeper", partition=lambda *_: next(states), controller=lambda: 1
        )

        def answer(_to: object, wishes: dict[TopicPartition, object], **_: object) -> dict[Any, Any]:
            return {key: RequestResult(error) for key in wishes}

        def listed(*_: object, **__: object) -> dict[TopicPartition, Reassignment]:
            return {} if under_way is None else {TopicPartition("t", 0): under_way}

        monkeypatch.setattr(nemesis.operator, "alter_partition_reassignments", answer)
        monkeypatch.setattr(nemesis.operator, "list_partition_reassignments", listed)
        return action(Operator(registry, cluster))

    return perform


def reassigned(operator: Operator) -> Injection:
    return operator.reassign("t", (1, 3), within_s=0.2)


def cancelled(operator: Operator) -> Injection:
    return operator.cancel_reassignment("t", within_s=0.2)


def test_a_reassignment_that_the_controller_lists_has_taken_effect(act: Callable[..., Injection]) -> None:
    """Its new replica may be down: the controller has accepted it all the same."""
    assert act(reassigned, HALF, UNDER_WAY).evidence


def test_a_reassignment_that_is_over_has_taken_effect(act: Callable[..., Injection]) -> None:
    assert act(reassigned, MOVED).evidence


@pytest.mark.parametrize(("after", "under_way"), [(BEFORE, None), (HALF, None), (HALF, OF_OTHERS)])
def test_a_reassignment_that_nobody_knows_has_had_no_effect(
    after: PartitionState, under_way: Reassignment | None, act: Callable[..., Injection]
) -> None:
    with pytest.raises(InvalidRunError, match=r"reassign t/0 to \[1, 3\]' had no effect"):
        act(reassigned, after, under_way)


def test_a_cancelled_reassignment_is_listed_no_longer(act: Callable[..., Injection]) -> None:
    assert act(cancelled, BEFORE).evidence
    with pytest.raises(InvalidRunError, match="had no effect"):
        act(cancelled, HALF, UNDER_WAY)


def test_there_must_be_a_reassignment_to_cancel(act: Callable[..., Injection]) -> None:
    with pytest.raises(InvalidRunError, match="cancel the reassignment of t/0 was refused with .* 85"):
        act(cancelled, BEFORE, error=85)


def test_the_target_of_a_reassignment_leaves_out_what_it_removes() -> None:
    assert UNDER_WAY.target == (1, 3)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operator:
    """An operator whose cluster answers every deletion without an error; tests say what brokers state."""
    registry: Any = SimpleNamespace(
        topology=TOPOLOGY,
        lab=SimpleNamespace(alive=lambda host: host == "broker1"),
        add=lambda fault: Injection(1, fault, Rows(tmp_path).journal),
        deleted_topics=set(),
    )
    led = PartitionState(leader=1, leader_epoch=0, isr=(1, 2))
    cluster: Any = SimpleNamespace(mode="zookeeper", partition=lambda *_: led, controller=lambda: 1)
    for name in ("delete_records", "delete_topic"):
        monkeypatch.setattr(nemesis.operator, name, lambda *_, **__: RequestResult(0))
    monkeypatch.setattr(nemesis.operator, "create_topics", lambda *_, **__: {"t": RequestResult(0)})
    return Operator(registry, cluster)


def test_a_new_topic_is_one_whose_replicas_kafka_chooses(operator: Operator) -> None:
    assert operator.create_topic(Topic("t", (), partitions=2)).evidence
    with pytest.raises(UsageError, match="'t' was not deleted"):
        operator.create_topic(Topic("t", (1,), partitions=2))


def test_records_are_deleted_when_the_log_begins_later(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = iter((0, 19, 20))
    monkeypatch.setattr(
        nemesis.operator, "end_offsets", lambda *_, **__: {TopicPartition("t", 0): Offset(next(starts), 0)}
    )
    assert operator.delete_records("t", 20).evidence == {"seen": 20}


def test_a_deletion_of_records_without_effect_makes_the_run_invalid(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        nemesis.operator, "end_offsets", lambda *_, **__: {TopicPartition("t", 0): Offset(19, 0)}
    )
    with pytest.raises(InvalidRunError, match="'delete records of t/0 before 20' had no effect"):
        operator.delete_records("t", 20, within_s=0.2)


def test_a_topic_is_deleted_when_no_running_broker_leads_it(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And may be created again then, but no other topic."""
    stated = iter((1, -1))

    def state(*_: object, **__: object) -> BrokerMetadata:
        left = PartitionState(leader=next(stated), leader_epoch=0, isr=(1, 2))
        return BrokerMetadata(1, (1, 2), {TopicPartition("t", 0): left})

    monkeypatch.setattr(nemesis.operator, "metadata", state)
    with pytest.raises(UsageError, match="'t' was not deleted"):
        operator.create_topic(Topic("t", (1, 2)))
    assert operator.delete_topic("t").evidence == {"seen": {"broker1": []}}
    assert operator._requests.registry.deleted_topics == {"t"}
    assert operator.create_topic(Topic("t", (1, 2))).evidence
    assert operator._requests.registry.deleted_topics == set()


def test_a_deletion_is_in_force_when_no_broker_leads_any_more(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On KRaft a leader acknowledges messages until it learns of the deletion: they were deleted, too."""
    last_led: list[int] = []

    def state(*_: object, **__: object) -> BrokerMetadata:
        leader = 1 if len(last_led) < 3 else -1
        if leader == 1:
            last_led.append(now_ns())
        left = PartitionState(leader=leader, leader_epoch=0, isr=(1, 2))
        return BrokerMetadata(1, (1, 2), {TopicPartition("t", 0): left})

    monkeypatch.setattr(nemesis.operator, "metadata", state)
    assert operator.delete_topic("t").evidence == {"seen": {"broker1": []}}
    (injected,) = Rows(tmp_path).all(lambda row: row["moment"] == "injected")
    assert injected["ns"] > last_led[-1]


GROWN = Topic("t", (1, 2), partitions=3, later=2)


def stated(*leaders: int) -> BrokerMetadata:
    """What a broker states about the first partitions of a topic."""
    states = {
        TopicPartition("t", number): PartitionState(leader=leader, leader_epoch=0, isr=(1, 2))
        for number, leader in enumerate(leaders)
    }
    return BrokerMetadata(1, (1, 2), states)


def test_partitions_are_added_when_every_broker_knows_their_leaders(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Topic] = []

    def create(_target: object, topic: Topic, **_: object) -> RequestResult:
        asked.append(topic)
        return RequestResult(0)

    answers = iter((stated(1), stated(1, 2), stated(1, 2, -1), stated(1, 2, 1)))
    monkeypatch.setattr(nemesis.operator, "create_partitions", create)
    monkeypatch.setattr(nemesis.operator, "metadata", lambda *_, **__: next(answers))
    assert operator.add_partitions(GROWN).evidence == {"seen": {"broker1": [2, 1]}}
    assert asked == [GROWN]
    assert list(answers) == []


def test_partitions_that_no_broker_knows_make_the_run_invalid(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nemesis.operator, "create_partitions", lambda *_, **__: RequestResult(0))
    monkeypatch.setattr(nemesis.operator, "metadata", lambda *_, **__: stated(1))
    with pytest.raises(InvalidRunError, match="'add partitions to t' had no effect"):
        operator.add_partitions(GROWN, within_s=0.2)


@pytest.mark.parametrize(
    ("seen", "moved"),
    [
        ({"/host/data": False, "/host/data2": True}, False),
        ({"/host/data2": True}, False),
        ({}, False),
        ({"/host/data2": False}, True),
    ],
)
def test_a_replica_has_moved_when_it_is_in_the_other_directory_alone(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, seen: dict[str, bool], moved: bool
) -> None:
    asked: list[tuple[TopicPartition, str]] = []

    def alter(_target: object, key: TopicPartition, path: str, **_: object) -> RequestResult:
        asked.append((key, path))
        return RequestResult(0)

    operator._requests.registry.lab.inside = lambda _host, folder: f"/host/{folder}"  # type: ignore[method-assign]
    monkeypatch.setattr(nemesis.operator, "alter_replica_log_dir", alter)
    monkeypatch.setattr(nemesis.operator, "describe_log_dirs", lambda *_, **__: seen)
    if moved:
        assert operator.move_replica("t", "broker1", "data2").evidence == {"seen": {"data2": False}}
    else:
        with pytest.raises(InvalidRunError, match="'move t/0 on broker1 to data2' had no effect"):
            operator.move_replica("t", "broker1", "data2", within_s=0.1)
    assert asked == [(TopicPartition("t", 0), "/host/data2")]
    if "/host/data2" in seen:
        begun = operator.move_replica("t", "broker1", "data2", finished=False).evidence
        assert begun == {"seen": operator.replica_folders("t", "broker1")}


def test_a_topic_with_all_its_partitions_gets_no_more(operator: Operator) -> None:
    with pytest.raises(UsageError, match="'t' was created with all its partitions; set `later`"):
        operator.add_partitions(Topic("t", (1, 2)))


@pytest.mark.parametrize(
    ("message", "sentence"),
    [("Replication factor: 3 larger.", "38 Replication factor: 3 larger."), ("", "38.")],
)
def test_a_refusal_is_one_sentence(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, message: str, sentence: str
) -> None:
    operator._requests.registry.deleted_topics.add("t")
    refusal = {"t": RequestResult(38, message)}
    monkeypatch.setattr(nemesis.operator, "create_topics", lambda *_, **__: refusal)
    with pytest.raises(InvalidRunError) as raised:
        operator.create_topic(Topic("t", (1, 2)))
    assert raised.value.message == f"The creation of t was refused with Kafka's error {sentence}"


def test_a_topic_is_created_again_when_its_deletion_has_ended(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ZooKeeper mode a deleted topic exists until the controller has deleted its znode."""
    operator._requests.registry.deleted_topics.add("t")
    errors = [36, 36, 38]
    monkeypatch.setattr(
        nemesis.operator, "create_topics", lambda *_, **__: {"t": RequestResult(errors.pop(0))}
    )
    with pytest.raises(InvalidRunError, match=r"refused with Kafka's error 38\."):
        operator.create_topic(Topic("t", (1, 2)))
    assert errors == []


def test_a_deletion_that_does_not_end(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while one of its brokers is down, in ZooKeeper mode."""
    operator._requests.registry.deleted_topics.add("t")
    monkeypatch.setattr(nemesis.operator, "create_topics", lambda *_, **__: {"t": RequestResult(36)})
    with pytest.raises(InvalidRunError, match=r"t could not be created again: .* the deletion of t"):
        operator.create_topic(Topic("t", (1, 2)), within_s=0.3)
