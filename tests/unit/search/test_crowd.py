"""The clients of a schedule: who starts, stops, joins, leaves and is fenced after which step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import WaitTimeoutError
from harness.kafka.model import Endpoint, Topic
from run.clients import NO_CLIENTS
from studies.search import crowd as crowds
from studies.search.crowd import Crowd
from studies.search.schedule import Group, Member, Producer
from workloads.protocol.spec import ProducerSpec

TOPICS = (Topic("t1-4", (1, 2), partitions=2, spread=True), Topic("t2-4", (1, 2)))


class StageLog:
    """Everything that is asked of the stage and of its clients."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.read: dict[str, int] = {}

    def start_member(self, az: str, group: str, topic: str, *, partitions: int, name: str, **_: Any) -> Any:
        self.said.append(f"{name} in {az} joins {group} for {topic} ({partitions})")
        return SimpleNamespace(
            stop=lambda: self.said.append(f"{name} leaves"),
            progress=lambda: SimpleNamespace(count=self.read.get(name, 0)),
        )

    def start_share_member(
        self, az: str, group: str, topic: str, *, partitions: int, name: str, answers: tuple[str, ...]
    ) -> Any:
        self.said.append(f"{name} in {az} joins {group} and answers {', '.join(answers)}")
        return self.start_member(az, group, topic, partitions=partitions, name=name)

    def load(self, stage: Any, az: str, name: str, *_: Any, succeeds: str) -> Any:
        self.said.append(f"{name} writes as {succeeds}")
        return Load(self, name)


class Load:
    def __init__(self, log: StageLog, name: str) -> None:
        self.log, self.name = log, name

    def concede(self) -> None:
        self.log.said.append(f"{self.name} concedes")

    def abandon(self) -> None:
        self.log.said.append(f"{self.name} ends")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> StageLog:
    made = StageLog()

    class Transactions(Load):
        def __new__(cls, *args: Any, **more: Any) -> Any:
            made.said.append(f"{args[2]} writes as {more['succeeds']}")
            return super().__new__(cls)

        def __init__(self, stage: Any, az: str, name: str, *_: Any, **__: Any) -> None:
            super().__init__(made, name)

    monkeypatch.setattr(crowds, "TransactionLoad", Transactions)
    return made


def crowd_of(log: StageLog, producers: tuple[Producer, ...], groups: tuple[Group, ...] = ()) -> Crowd:
    stage: Any = SimpleNamespace(
        setup=SimpleNamespace(topics=TOPICS),
        start_member=log.start_member,
        start_share_member=log.start_share_member,
        streams={},
        mark=lambda *_: 0,
    )
    keys = [key for topic in TOPICS for key in topic.topic_partitions]
    return Crowd(rate=7.0, stage=stage, plans=producers, partitions=keys, groups=groups)


def test_members_join_and_leave_after_their_steps(log: StageLog) -> None:
    group = Group(topic=0, members=(Member(az="az1"), Member(az="az2", starts=1, stops=3)))
    crowd = crowd_of(log, (), (group,))
    crowd.change(0)
    assert log.said == ["group-1-member-1 in az1 joins t1-4-group-1 for t1-4 (2)"]
    crowd.change(1)
    assert log.said[1:] == ["group-1-member-2 in az2 joins t1-4-group-1 for t1-4 (2)"]
    crowd.change(2)
    assert len(log.said) == 2
    crowd.change(3)
    assert log.said[2:] == ["group-1-member-2 leaves"]
    assert list(crowd.members) == [(1, 1)]


def test_a_group_that_reads_nothing_is_named(log: StageLog, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = tuple(Group(topic=number, members=(Member(az="az1"),)) for number in (0, 1))
    crowd = crowd_of(log, (), groups)
    crowd.change(0)
    log.read = {"group-1-member-1": 3, "group-2-member-1": 3}
    before = crowd.read_by_groups()
    assert before == {1: 3, 2: 3}

    def read() -> dict[int, int]:
        return {1: 3 + (len(asked) > 1), 2: 3} if asked.append(0) is None else {}

    asked: list[int] = []
    monkeypatch.setattr(crowd, "read_by_groups", read)
    assert crowd.wait_groups(0.3) == [2]


SHARE_GROUP = Group(
    topic=1, members=(Member(az="az1"), Member(az="az2", starts=1)), answers=("accept", "release")
)


def test_a_share_group_is_configured_before_its_first_member_joins(
    log: StageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def configure(_stage: Any, group: str, **properties: str) -> None:
        log.said.append(f"{group}: {properties}")

    monkeypatch.setattr(crowds, "configure_share_group", configure)
    crowd = crowd_of(log, (), (SHARE_GROUP,))
    crowd.change(0)
    crowd.change(1)
    begins = "{'share_auto_offset_reset': 'earliest', 'share_record_lock_duration_ms': '5000'}"
    assert log.said[::2] == [
        f"t2-4-group-1: {begins}",
        "group-1-member-1 in az1 joins t2-4-group-1 for t2-4 (1)",
        "group-1-member-2 in az2 joins t2-4-group-1 for t2-4 (1)",
    ]
    assert log.said[1::2] == [
        "group-1-member-1 in az1 joins t2-4-group-1 and answers accept, release",
        "group-1-member-2 in az2 joins t2-4-group-1 and answers accept, release",
    ]


def test_share_groups_may_finish_before_their_members_leave(
    log: StageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not is left to the checker, which has had the time to call a record not delivered."""
    waited: list[tuple[str, str, float]] = []

    def wait(_stage: Any, group: str, topic: str, *, within_s: float) -> None:
        waited.append((group, topic, within_s))
        raise WaitTimeoutError("it is at 3 of 7")

    monkeypatch.setattr(crowds, "wait_until_done", wait)
    consumers = Group(topic=0, members=(Member(az="az1"),))
    crowd = crowd_of(log, (), (consumers, SHARE_GROUP))
    notes: list[str] = []
    crowd.stage.mark = lambda name, text: notes.append(f"{name}: {text}")  # type: ignore[method-assign, assignment]
    crowd.finish_share_groups()
    assert waited == [("t2-4-group-2", "t2-4", 40.0)]
    assert notes == ["note: it is at 3 of 7"]


def test_a_successor_fences_its_predecessor(log: StageLog) -> None:
    """The fenced producer is not expected to be acknowledged any more, and ends with the run."""
    first = Producer(az="az1", transactional=True)
    crowd = crowd_of(log, (first, Producer(az="az2", transactional=True, starts=2, succeeds=1)))
    crowd.change(0)
    crowd.change(1)
    assert log.said == ["producer-1 writes as producer-1"]
    crowd.change(2)
    assert log.said[1:] == ["producer-1 concedes", "producer-2 writes as producer-1"]
    assert list(crowd.producers) == ["producer-2"]
    crowd.abandon()
    assert log.said[3:] == ["producer-2 ends", "producer-1 ends"]


def test_every_producer_writes_at_the_rate_to_each_partition(log: StageLog) -> None:
    loads: list[Any] = []

    def start_stream(_spec: object, load: Any) -> None:
        loads.append(load)

    spec = ProducerSpec(writer=1, name="p", brokers=(Endpoint("b", 1),), via="librdkafka", idempotent=False)
    stage: Any = SimpleNamespace(
        setup=SimpleNamespace(topics=TOPICS),
        stream_spec=lambda *_: spec,
        user=NO_CLIENTS,
        clients={"az1": SimpleNamespace(start_stream=start_stream)},
        streams={},
    )
    plan = Producer(az="az1", acks=-1, idempotent=False, in_flight=1)
    Crowd(rate=7.0, stage=stage, plans=(plan,), partitions=()).change(0)
    assert [(load.topic, load.rate) for load in loads] == [("t1-4", 14.0), ("t2-4", 7.0)]
