"""`schedule.json` at the edge: what is refused, and with which sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace as changed_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.cluster.timings import BASE
from harness.errors import BadDataError, UsageError
from harness.lab.layout import THREE_AZS, AvailabilityZone, Layout
from nemesis.catalogue import FAULTS
from studies.search.grammar import fresh, mutated
from studies.search.rules import chosen_producers, decode, mended, problems, read, require_hosts
from studies.search.runs import SCHEDULES
from studies.search.scenario import setup_of
from studies.search.schedule import FILE, Group, Member, Producer, Schedule, TopicPlan, topics_of
from studies.search.space import Space, kind_of, space_of
from studies.series.job import Job
from studies.steps.step import EVENTS, Event, Moment, Step, described

TOPOLOGY = THREE_AZS.topology("kraft")
SPACE = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE)
SCHEDULE = Schedule(
    kafka="3.6.2",
    mode="kraft",
    controller="controller2",
    made_by="a test",
    topics=(TopicPlan(name="t1", partitions=3),),
    producers=(Producer(az="az1", acks=1, idempotent=False, in_flight=7), Producer(az="az2", starts=2)),
    groups=(Group(members=(Member(az="az1"), Member(az="az3", starts=1, stops=3))),),
    steps=(
        Step(
            fault="power_cut",
            targets=("broker3", "follower"),
            partition=1,
            when=Moment(event="isr-shrunk", after_s=12.0),
            until=Moment(after_s=2.0),
        ),
        Step(fault="cut", targets=("controller",), toward=("other-azs",), arrow="->"),
        Step(fault="flap", targets=("az1",), toward=("others",), value=2.0, when=Moment(after_s=0.5)),
        Step(fault="elect_unclean", partition=2, until=Moment()),
    ),
)
LINES = [
    "when an ISR has shrunk, after 12 s at the latest: cut the power of broker3 and a follower, for 2 s",
    "at once: cut the links from the controller to all other AZs, for 5 s",
    "after 0.5 s: cut and restore the links between az1 and all other hosts by turns, every 2 s, for 5 s",
    "at once: elect a leader of partition 2, in sync or not",
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
    assert fresh(SPACE, 1, 7).digest == "41a16fe18386"
    together = sha256()
    for mode in ("zookeeper", "kraft", "kraft-combined"):
        space = space_of(kafka="3.6.2", mode=mode, topology=THREE_AZS.topology(mode), timings=BASE)
        for number in range(100):
            schedule = fresh(space, 1, number)
            together.update(schedule.encode())
            together.update(mutated(space, schedule, 2, number).encode())
    assert together.hexdigest()[:12] == "0a32acde842a"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (SCHEDULE.encode()[:200], "not a whole JSON document"),
        (b"", "not a whole JSON document"),
        (b"\xff\xfe", "not a whole JSON document"),
        (b"[" * 9**5, "not a whole JSON document"),
        (b"[]", "holds no schedule"),
        (b"{}", "no key 'acked_schedule'"),
        (changed(put("acked_schedule", value=9)), "version 9, and this acked reads version 3"),
        (changed(put("steps", 0, "fault", value="meteor")), "step 1: there is no fault 'meteor'; use cut,"),
        (changed(put("steps", 0, "colour", value=1)), "unknown field `colour`"),
        (changed(put("steps", 0, "until", "after_s", value=-1)), ">= 0.0"),
        (changed(put("steps", 0, "when", "event", value="full-moon")), "full-moon"),
        (changed(put("steps", value="cut")), "Expected `array`"),
        (changed(put("producers", value=[])), "length >= 1"),
        (changed(put("steps", 0, "partition", value=9)), "is about partition 9 of 3"),
        (changed(put("steps", 0, "targets", value=[])), "step 1 (power_cut) names no targets"),
        (changed(put("steps", 0, "toward", value=["az1"])), "takes no other side"),
        (changed(put("producers", 0, "idempotent", value=True)), "producer 1 is idempotent with acks=1"),
        (changed(put("producers", 0, "transactional", value=True)), "is transactional and not idempotent"),
        (changed(put("producers", 1, "starts", value=40)), "a step after the last of 4"),
        (changed(put("producers", 0, "starts", value=1)), "no producer starts before the first step"),
        (changed(put("producers", 1, "succeeds", value=1)), "producer 2 cannot succeed producer 1"),
        (changed(put("groups", 0, "topic", value=1)), "group 1 reads topic 1 of 1, counted from 0"),
        (changed(put("groups", 0, "members", value=[])), "length >= 1"),
        (
            changed(put("groups", 0, "members", 0, "starts", value=1)),
            "the first member of group 1 has starts",
        ),
        (changed(put("groups", 0, "members", 1, "stops", value=9)), "a member of group 1 names a step after"),
        (
            changed(put("groups", 0, "members", 1, "starts", value=3)),
            "a member of group 1 stops after step 3",
        ),
        (changed(put("groups", 0, "members", 1, "acks", value=1)), "unknown field `acks`"),
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


@pytest.mark.parametrize("end", range(1, len(SCHEDULE.encode()) - 2, 40))
def test_a_file_that_was_cut_short_gets_one_sentence(end: int) -> None:
    with pytest.raises(BadDataError, match="it may be cut short") as raised:
        decode(SCHEDULE.encode()[:end], "my.json")
    assert "\n" not in raised.value.message


FENCED = replace(
    SCHEDULE,
    producers=(
        Producer(az="az1", transactional=True),
        Producer(az="az2", transactional=True, starts=1, succeeds=1),
    ),
)


def test_a_producer_may_succeed_one_that_starts_before_it() -> None:
    assert decode(FENCED.encode(), "my.json") == FENCED
    first, second = FENCED.producers
    for wrong in (
        (first, replace(second, starts=0)),
        (first, replace(second, succeeds=2)),
        (first, replace(second, succeeds=3)),
        (first, replace(second, transactional=False)),
        (replace(first, transactional=False), second),
        (first, second, second),
    ):
        assert "cannot succeed producer" in next(problems(replace(FENCED, producers=wrong)))
        mended_ones = mended(wrong)
        assert not list(problems(replace(FENCED, producers=mended_ones)))


def test_a_successor_keeps_its_predecessor_when_others_are_left_out() -> None:
    other = Producer(az="az3")
    first, second = FENCED.producers
    three = (other, first, replace(second, succeeds=2))
    assert chosen_producers(three, [1, 2]) == (first, second)
    assert chosen_producers(three, [0, 2]) == (other, replace(second, succeeds=0))


def test_the_other_controllers_are_those_of_a_quorum() -> None:
    cut = Step(fault="cut", targets=("controller",), toward=("other-controllers",))
    schedule = replace(SCHEDULE, steps=(*SCHEDULE.steps, cut))
    require_hosts(schedule, TOPOLOGY, "my.json")
    with pytest.raises(UsageError, match="my.json: step 5: other-controllers needs KRaft"):
        require_hosts(schedule, THREE_AZS.topology("zookeeper"), "my.json")
    zookeeper = space_of(
        kafka="2.7.1", mode="zookeeper", topology=THREE_AZS.topology("zookeeper"), timings=BASE
    )
    for space, has in ((SPACE, True), (zookeeper, False)):
        steps = [step for number in range(100) for step in fresh(space, 1, number).steps]
        assert any("other-controllers" in step.toward for step in steps) == has


def test_a_group_needs_three_brokers_and_clients() -> None:
    small = Layout(tuple(AvailabilityZone(name=f"az{n}", brokers=n < 3) for n in range(1, 4)))
    two = replace(
        SCHEDULE, topics=(TopicPlan(name="t1", replicas=2),), steps=(), producers=SCHEDULE.producers[:1]
    )
    two = replace(two, groups=(Group(members=(Member(az="az1"),)),))
    with pytest.raises(UsageError, match="my.json: a consumer group needs 3 brokers, and the cluster has 2"):
        require_hosts(two, small.topology("kraft"), "my.json")
    nowhere = replace(two, groups=(Group(members=(Member(az="az9"),)),))
    with pytest.raises(UsageError, match="a member of a group is in az9, which has no client"):
        require_hosts(nowhere, TOPOLOGY, "my.json")


def test_clients_that_lack_groups_get_none() -> None:
    def groups(**more: Any) -> int:
        space = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, **more)
        schedules = [fresh(space, 1, number) for number in range(60)]
        schedules += [mutated(space, one, 2, number) for number, one in enumerate(schedules)]
        return sum(bool(one.groups) for one in schedules)

    assert groups(lacks=("groups",)) == 0
    assert groups() > 20


SHARED = replace(
    SCHEDULE,
    kafka="4.4.0",
    groups=(*SCHEDULE.groups, Group(members=(Member(az="az2"),), answers=("accept", "release"))),
)


def test_a_share_group_is_stored_and_a_consumer_group_as_before() -> None:
    """Schedules that were stored before there were share groups keep their bytes and digests."""
    assert decode(SHARED.encode(), "my.json") == SHARED
    assert SHARED.shared and not SCHEDULE.shared
    consumers, shares = json.loads(SHARED.encode())["groups"]
    assert (set(consumers), shares["answers"]) == ({"topic", "members"}, ["accept", "release"])
    assert SCHEDULE.digest == "e5b3a172502b"
    with pytest.raises(BadDataError, match="Invalid enum value 'forget'"):
        decode(changed(put("groups", 0, "answers", value=["forget"])), "my.json")


def share_space(kafka: str = "4.4.0", **more: Any) -> Space:
    return space_of(kafka=kafka, mode="kraft", topology=TOPOLOGY, timings=BASE, **more)


def test_schedules_have_share_groups_where_brokers_and_clients_do() -> None:
    def shared(space: Space) -> int:
        schedules = [fresh(space, 1, number) for number in range(60)]
        schedules += [mutated(space, one, 2, number) for number, one in enumerate(schedules)]
        return sum(one.shared for one in schedules)

    assert shared(share_space()) > 30
    assert shared(share_space("4.0.1")) == 0
    assert shared(share_space(lacks=("shares",))) == shared(share_space(lacks=("groups",))) == 0


def test_a_share_group_changes_nothing_else_in_a_schedule_without_one() -> None:
    plain, space = share_space(lacks=("shares",)), share_space()
    pairs = [(fresh(plain, 1, number), fresh(space, 1, number)) for number in range(60)]
    same = [one == other for one, other in pairs if not other.shared]
    assert len(same) > 20 and all(same)
    assert all(other.topics == one.topics and other.producers == one.producers for one, other in pairs)


def test_steps_are_about_the_share_coordinator_where_there_is_a_share_group() -> None:
    schedules = [fresh(share_space(), 1, number) for number in range(200)]
    naming = [
        one
        for one in schedules
        for step in one.steps
        if {"share-coordinator", "az-of-share-coordinator"} & {*step.targets, *step.toward}
    ]
    assert len(naming) > 10
    assert all(one.shared for one in naming)


def test_only_the_groups_asked_for_in_every_schedule() -> None:
    def kinds(groups: str) -> set[tuple[bool, ...]]:
        space = share_space(groups=groups)
        schedules = [fresh(space, 1, number) for number in range(30)]
        schedules += [mutated(space, one, 2, number) for number, one in enumerate(schedules)]
        return {tuple(bool(group.answers) for group in one.groups) for one in schedules}

    assert kinds("share") == {(True,)}
    assert kinds("consumer") == {(False,)}
    assert kinds("*") == {(False, True)}
    with pytest.raises(UsageError, match=r"--groups 'share' matches no kind of group .*; use consumer\.$"):
        share_space("3.9.1", groups="share")
    with pytest.raises(UsageError, match=r"--groups 'share' matches .*; use none: it has none\.$"):
        share_space(groups="share", lacks=("groups",))


def test_brokers_have_what_share_groups_need_where_some_may_come() -> None:
    """All schedules of a cluster find the same brokers; only those with a share group need its log."""
    one, other = (setup_of(schedule, TOPOLOGY, share_groups=True) for schedule in (SCHEDULE, SHARED))
    assert (dict(one.broker_config), one.controller_config) == (
        dict(other.broker_config),
        other.controller_config,
    )
    assert "group.share.min.record.lock.duration.ms" in other.controller_config
    assert (one.share_log, other.share_log) == ((), (3, 1, 2))
    assert setup_of(SHARED, TOPOLOGY) == other
    assert not any("share" in key for key in setup_of(SCHEDULE, TOPOLOGY).broker_config)


def test_disks_are_slowed_down_only_if_that_is_asked_for() -> None:
    def faults(asked: str | None) -> list[Schedule]:
        space = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, faults=asked)
        return [fresh(space, 1, number) for number in range(60)]

    def about_disks(schedule: Schedule) -> bool:
        return any(step.fault.startswith("disk_") for step in schedule.steps)

    assert not any(map(about_disks, faults(None)))
    schedules = faults("disk_*,kill")
    assert {step.fault for one in schedules for step in one.steps} == {
        *("disk_stalled", "disk_slow", "disk_full", "kill")
    }
    assert {about_disks(one) for one in schedules} == {True, False}
    for one in schedules:
        disks = ("broker1", "broker2", "broker3") if about_disks(one) else ()
        assert setup_of(one, TOPOLOGY).volatile_disks == disks
        assert SCHEDULES.needs(plain_job(one)) == (frozenset({"disks"}) if disks else frozenset())
    power = replace(SCHEDULE, steps=SCHEDULE.steps[:1])
    assert setup_of(power, TOPOLOGY).volatile_disks == (), "a power cut is emulated, as before"


@pytest.mark.parametrize(
    ("fault", "changed_setup"),
    [
        ("clock_shift", {"own_clocks": ("broker1", "broker2", "broker3")}),
        ("move_replica", {"second_log_dirs": ("broker1", "broker2", "broker3")}),
        ("remove_voter", {"dynamic_quorum": True}),
        ("reassign_to_others", {}),
    ],
)
def test_a_cluster_has_what_the_faults_of_its_schedule_need(
    fault: str, changed_setup: Mapping[str, object]
) -> None:
    space = space_of(kafka="4.4.0", mode="kraft", topology=TOPOLOGY, timings=BASE, faults=fault)
    schedule = next(one for number in range(20) if (one := fresh(space, 3, number)).steps)
    without = setup_of(replace(schedule, steps=()), TOPOLOGY)
    assert setup_of(schedule, TOPOLOGY) == changed_dataclass(without, **changed_setup)
    targets = {target for step in schedule.steps for target in step.targets}
    roles = {"clock_shift": "broker", "move_replica": "broker", "remove_voter": "controller"}
    for target in targets & {host.name for host in TOPOLOGY.hosts}:
        assert TOPOLOGY.host(target).role == roles[fault]


def plain_job(schedule: Schedule) -> Job:
    return Job(scenario="schedule", version="3.6.2", mode="kraft", files={FILE: schedule.encode()})


def test_replication_settings_differ_unless_they_must_be_safe() -> None:
    def topics(safe: bool) -> list[TopicPlan]:
        space = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, safe=safe)
        return [topic for number in range(100) for topic in fresh(space, 1, number).topics]

    assert {topic.replicas for topic in topics(safe=True)} == {3}
    assert {(topic.replicas, topic.min_insync) for topic in topics(safe=False)} == {(3, 2), (3, 1), (2, 1)}


def test_transactions_need_three_brokers() -> None:
    schedule = replace(SCHEDULE, producers=(Producer(az="az1", transactional=True),), steps=())
    small = Layout(tuple(AvailabilityZone(name=f"az{n}", brokers=n < 3) for n in range(1, 4)))
    with pytest.raises(UsageError, match="my.json: a producer is transactional, which needs 3 brokers"):
        require_hosts(schedule, small.topology("kraft"), "my.json")
    few = space_of(kafka="3.6.2", mode="kraft", topology=small.topology("kraft"), timings=BASE)
    assert not any(producer.transactional for producer in few.producers)
    assert any(producer.transactional for producer in SPACE.producers)


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


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("event", EVENTS)
def test_every_step_can_be_described(fault: str, event: Event) -> None:
    """Without the names by which schedules call events and what they act on."""
    moment = Moment(event=event, after_s=3)
    step = Step(fault=fault, targets=("az-of-leader",), toward=("other-azs",), when=moment, until=moment)
    words = described(step)
    assert not any(sign in words for sign in ("_", "az-of", "other-azs", "<", event if "-" in event else "_"))


def no_fault(number: int) -> Schedule:
    space = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, faults="no-fault")
    return fresh(space, 3, number)


def test_no_fault_has_no_steps() -> None:
    assert not any(no_fault(number).steps for number in range(50))


def test_only_the_faults_asked_for() -> None:
    space = space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, faults="kill,power*")
    names = {step.fault for number in range(50) for step in fresh(space, 1, number).steps}
    assert names == {"kill", "power_cut"}
    with pytest.raises(UsageError, match="--faults 'meteor' matches no fault of Kafka 3.6.2 in mode kraft"):
        space_of(kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, faults="meteor")


def test_only_the_producers_asked_for() -> None:
    def kinds(producers: str, **more: Any) -> set[str]:
        space = space_of(
            kafka="3.6.2", mode="kraft", topology=TOPOLOGY, timings=BASE, producers=producers, **more
        )
        return {kind_of(producer) for number in range(50) for producer in fresh(space, 1, number).producers}

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
        assert all(producer.acks == -1 and producer.idempotent for producer in schedule.producers)
        assert all(topic.min_insync == 2 and not topic.unclean for topic in schedule.topics)
