"""`schedule.json` at the edge: what is refused, and with which sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.cluster.timings import BASE
from harness.errors import BadDataError, UsageError
from harness.lab.layout import THREE_AZS, AvailabilityZone, Layout
from harness.search.grammar import fresh, kind_of, mutated, space_of
from harness.search.scenario import setup_of
from harness.search.schedule import (
    Moment,
    Producer,
    Schedule,
    Step,
    TopicPlan,
    decode,
    described,
    read,
    require_hosts,
    topics_of,
)

TOPOLOGY = THREE_AZS.topology("kraft")
SPACE = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE)
SCHEDULE = Schedule(
    kafka="3.6.2",
    mode="kraft",
    controller="controller2",
    made_by="a test",
    topics=(TopicPlan(name="t1", partitions=3),),
    producers=(Producer(az="az1", acks=1, idempotent=False, in_flight=7), Producer(az="az2", starts=2)),
    steps=(
        Step(
            fault="power-cut",
            targets=("broker3", "follower"),
            partition=1,
            when=Moment(event="isr-shrunk", after_s=12.0),
            until=Moment(after_s=2.0),
        ),
        Step(fault="cut", targets=("controller",), toward=("other-azs",), arrow="->"),
        Step(fault="flap", targets=("az1",), toward=("others",), value=2.0, when=Moment(after_s=0.5)),
        Step(fault="elect-unclean", partition=2, until=Moment()),
    ),
)
LINES = [
    "isr-shrunk (12 s at most): power-cut broker3 + follower, until after 2 s",
    "at once: cut controller -> other-azs, until after 5 s",
    "after 0.5 s: flap az1 <-> others 2 s, until after 5 s",
    "at once: elect-unclean partition 2",
]


def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    data = json.loads(SCHEDULE.encode())
    change(data)
    return json.dumps(data).encode()


def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


def test_the_seed_still_makes_the_same_schedule() -> None:
    """A change of the grammar is a change of the format's version: stored seeds mean something."""
    assert fresh(SPACE, 1, 7).digest == "3abb2aa7e9d4"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (SCHEDULE.encode()[:200], "not a whole JSON document"),
        (b"", "not a whole JSON document"),
        (b"\xff\xfe", "not a whole JSON document"),
        (b"[]", "holds no schedule"),
        (b"{}", "no key 'acked_schedule'"),
        (changed(put("acked_schedule", value=9)), "version 9, and this acked reads the versions 1 and 2"),
        (changed(put("steps", 0, "fault", value="meteor")), "step 1: there is no fault 'meteor'; use cut,"),
        (changed(put("steps", 0, "colour", value=1)), "unknown field `colour`"),
        (changed(put("steps", 0, "until", "after_s", value=-1)), ">= 0.0"),
        (changed(put("steps", 0, "when", "event", value="full-moon")), "full-moon"),
        (changed(put("steps", value="cut")), "Expected `array`"),
        (changed(put("producers", value=[])), "length >= 1"),
        (changed(put("steps", 0, "partition", value=9)), "is about partition 9 of 3"),
        (changed(put("steps", 0, "targets", value=[])), "step 1 (power-cut) names no targets"),
        (changed(put("steps", 0, "toward", value=["az1"])), "takes no other side"),
        (changed(put("producers", 0, "idempotent", value=True)), "producer 1 is idempotent with acks=1"),
        (changed(put("producers", 0, "transactional", value=True)), "is transactional and not idempotent"),
        (changed(put("producers", 1, "starts", value=40)), "a step after the last of 4"),
        (changed(put("producers", 0, "starts", value=1)), "no producer starts before the first step"),
        (changed(put("topics", 0, "min_insync", value=4)), "above its 3 replicas"),
        (changed(put("topics", 0, "name", value="a b")), "'a b' is not possible"),
    ],
)
def test_a_bad_file_gets_one_sentence(data: bytes, said: str) -> None:
    with pytest.raises(BadDataError) as raised:
        decode(data, "my.json")
    message = raised.value.message
    assert message.startswith("my.json")
    assert said in message
    assert "\n" not in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match=r"nothing.json cannot be read \(No such file"):
        read(tmp_path / "nothing.json")


def test_a_host_that_the_cluster_lacks() -> None:
    schedule = decode(changed(put("steps", 0, "targets", value=["broker9"])), "my.json")
    with pytest.raises(UsageError, match="my.json: step 1: 'broker9' names no host"):
        require_hosts(schedule, TOPOLOGY, "my.json")


def test_a_file_of_the_version_before_is_the_same_schedule() -> None:
    def before(data: dict[str, Any]) -> None:
        data["acked_schedule"] = 1
        for producer in data["producers"]:
            del producer["transactional"]

    assert decode(changed(before), "my.json") == SCHEDULE


def test_transactions_need_three_brokers() -> None:
    schedule = replace(SCHEDULE, producers=(Producer(az="az1", transactional=True),), steps=())
    small = Layout(tuple(AvailabilityZone(name=f"az{n}", brokers=n < 3) for n in range(1, 4)))
    with pytest.raises(UsageError, match="my.json: a producer is transactional, which needs 3 brokers"):
        require_hosts(schedule, small.topology("kraft"), "my.json")
    few = space_of(kafka="3.6.2", mode="kraft", topology=small.topology("kraft"), timings=BASE)
    assert not any(one.transactional for one in few.producers)
    assert any(one.transactional for one in SPACE.producers)


def test_the_coordinator_is_named_where_there_is_one() -> None:
    schedules = [fresh(SPACE, 5, number) for number in range(300)]
    schedules += [mutated(SPACE, one, 6, number) for number, one in enumerate(schedules)]
    naming = [
        one
        for one in schedules
        for step in one.steps
        if {"coordinator", "az-of-coordinator"} & {*step.targets, *step.toward}
    ]
    assert len(naming) > 10
    fresh_ones = [one for one in naming if one in schedules[:300]]
    assert fresh_ones and all(one.transactional for one in fresh_ones)


def test_every_cluster_has_one_coordinator_for_all_transactions() -> None:
    """Schedules with and without transactions share a cluster, so they need the same brokers."""
    plain = replace(SCHEDULE, producers=(Producer(az="az1"),), steps=())
    transactional = replace(plain, producers=(Producer(az="az1", transactional=True),))
    one, other = (setup_of(schedule, TOPOLOGY) for schedule in (plain, transactional))
    assert dict(one.broker_config) == dict(other.broker_config) != {}
    assert (one.transaction_log, other.transaction_log) == ((), (2, 3, 1))


def test_every_partition_is_led_by_another_broker() -> None:
    schedule = next(
        one
        for one in (fresh(SPACE, 2, n) for n in range(200))
        if len(one.partitions) == 3 == len(one.topics) + 1
    )
    leaders = [replicas[0] for topic in topics_of(schedule, (1, 2, 3)) for replicas in topic.assignment]
    assert sorted(leaders) == [1, 2, 3]


def test_a_digest_is_that_of_what_happens() -> None:
    same = decode(changed(put("made_by", value="by hand")), "my.json")
    other = decode(changed(put("steps", 0, "partition", value=2)), "my.json")
    assert same.digest == SCHEDULE.digest != other.digest


def test_a_step_in_a_line() -> None:
    lines = [described(step) for step in SCHEDULE.steps]
    assert lines == LINES


def no_fault(number: int) -> Schedule:
    space = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, faults="no-fault")
    return fresh(space, 3, number)


def test_no_fault_has_no_steps() -> None:
    assert not any(no_fault(number).steps for number in range(50))


def test_only_the_faults_asked_for() -> None:
    space = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, faults="kill,power*")
    names = {step.fault for number in range(50) for step in fresh(space, 1, number).steps}
    assert names == {"kill", "power-cut"}
    with pytest.raises(UsageError, match="--faults 'meteor' matches no fault of mode kraft"):
        space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, faults="meteor")


def test_only_the_producers_asked_for() -> None:
    def kinds(producers: str, **more: Any) -> set[str]:
        space = space_of(
            kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, producers=producers, **more
        )
        return {kind_of(one) for number in range(50) for one in fresh(space, 1, number).producers}

    assert kinds("transactional") == {"transactional"}
    assert kinds("acks-*") == {"acks-all", "acks-1", "acks-0"}
    with pytest.raises(
        UsageError, match=r"--producers 'acks-1' matches .*; use idempotent, transactional\.$"
    ):
        kinds("acks-1", safe=True)
    with pytest.raises(UsageError, match="'transactional' matches no kind of producer"):
        kinds("transactional", lacks=("transactions",))
    with pytest.raises(UsageError, match="--safe needs idempotent producers"):
        kinds("*", safe=True, lacks=("transactions", "idempotence"))


def test_safe_settings_are_those_that_kafka_protects() -> None:
    space = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, safe=True)
    for number in range(100):
        schedule = fresh(space, 4, number)
        assert all(one.acks == -1 and one.idempotent for one in schedule.producers)
        assert all(topic.min_insync == 2 and not topic.unclean for topic in schedule.topics)
