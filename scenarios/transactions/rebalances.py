"""The AZ of a group member is isolated: static membership, and rebalances that keep partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from checkers.claims.builders import both, members, messages
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, stand
from scenarios.transactions.steps import GROUPS_SECTION as SECTION
from scenarios.transactions.steps import HANDED_S, feed, wait_handed
from workloads.client.client import BackgroundConsumer
from workloads.protocol.spec import ConfigValue

SOURCE, GROUP = "in", "g"
PARTITIONS = 6
RATE = 30.0
STATIC_SESSION_S = 30.0
STAND_S = 10.0
"""More than a session of 6 s, and less than that of static members."""
INSIDE, OUTSIDE, REPLACEMENT = "az1-member", ("az2-member", "az3-member"), "az2-replacement"
ConsumerConfig = Mapping[str, ConfigValue]


def _start(stage: Stage, config: Callable[[str], ConsumerConfig]) -> dict[str, BackgroundConsumer]:
    """Feed the input, and start a member in each AZ; wait until all of them receive messages."""
    feed(stage, SOURCE, PARTITIONS, RATE)
    started = {
        az: stage.start_member(az, GROUP, SOURCE, partitions=PARTITIONS, config=config(az))
        for az in ("az1", "az2", "az3")
    }
    for az, one in started.items():
        wait_handed(stage, one, f"the member in {az}")
    stage.mark("running", "every member is handed messages")
    return started


def _wait_all_read(stage: Stage, readers: Mapping[str, BackgroundConsumer]) -> None:
    """Wait until the members have received all present input."""

    def behind() -> list[int]:
        reached: dict[int, int] = {}
        for one in readers.values():
            for part in one.progress().partitions:
                number, position = part.partition.partition, part.position or 0
                reached[number] = max(position, reached.get(number, 0))
        return [number for number in range(PARTITIONS) if reached.get(number, 0) < ends[number]]

    ends = {
        number: stage.own_log(stage.leader(SOURCE, number), SOURCE, number).high_watermark
        for number in range(PARTITIONS)
    }
    wait_until(
        lambda: not behind(),
        within_s=HANDED_S,
        awaiting="the group to be handed the whole input",
        abort=stage.cluster.check_alive,
    )


def _stop(stage: Stage, readers: Mapping[str, BackgroundConsumer]) -> None:
    stage.stop_streams(30.0)
    _wait_all_read(stage, readers)
    stage.mark("drained", "the group has been handed the whole input")
    for one in readers.values():
        one.stop(20.0)


def rebalance(config: ConsumerConfig) -> Callable[[Stage], None]:
    """The body in which members with this configuration take over from one that is isolated."""

    def body(stage: Stage) -> None:
        """Isolate az1; wait until the others read all partitions; heal; wait until az1 reads again."""
        readers = _start(stage, lambda az: config)
        outside = {az: one for az, one in readers.items() if az != "az1"}
        with stage.nemesis.isolate("az1"):
            cut = stage.mark("cut", "az1 is isolated, with one of three members")
            stand(stage, cut, STAND_S)
            _wait_all_read(stage, outside)
            stage.mark("taken-over", "the others are handed all partitions")
        stage.mark("healed", "az1 is back")
        wait_handed(stage, readers["az1"], "the member in az1")
        _stop(stage, readers)

    return body


def replace_static(stage: Stage) -> None:
    """Isolate a static member; wait longer than a session of 6 s; start its replacement; heal."""

    def config(az: str) -> ConsumerConfig:
        return {"group.instance.id": az, "session.timeout.ms": int(STATIC_SESSION_S * 1000)}

    readers = _start(stage, config)
    with stage.nemesis.isolate("az1"):
        cut = stage.mark("cut", "az1 is isolated, with one of three static members")
        stand(stage, cut, STAND_S)
        stage.mark("stood", f"{STAND_S:.0f} s have passed")
        replacement = stage.start_member(
            "az2", GROUP, SOURCE, partitions=PARTITIONS, name=REPLACEMENT, config=config("az1")
        )
        wait_handed(stage, replacement, "the replacement")
        stage.mark("replaced", "a member with the same group.instance.id runs in az2")
    stage.mark("healed", "az1 is back")
    old = readers.pop("az1")
    wait_until(
        lambda: old.progress().errors,
        within_s=HANDED_S,
        awaiting="the old member to learn that it was replaced",
        abort=stage.cluster.check_alive,
    )
    stage.mark("fenced", f"the old member gets the errors {old.progress().errors}")
    _stop(stage, {**readers, "replacement": replacement})


_INSIDE, _OTHERS = members(GROUP, INSIDE), members(GROUP, *OUTSIDE)
_NOTHING_LOST = Claim(
    name="input-kept",
    section=SECTION,
    says="Nothing that was acknowledged in the input is lost.",
    holds=messages("feed").none_lost(at_risk_after="cut", at_least=20),
)
_CONTINUES = Claim(
    name="continues",
    section=SECTION,
    says="The group skips nothing, and receives nothing again that it had committed.",
    holds=_INSIDE.continue_at_commits(SOURCE, after="taken-over", before="drained", at_least=20),
)
_TAKEN_OVER = (
    Claim(
        name="taken-over",
        section=SECTION,
        says="The members outside take over the two partitions of the member inside after its session.",
        holds=_OTHERS.take_over(SOURCE, 2, after="cut", before="taken-over", not_within_s=4.0),
    ),
    Claim(
        name="others-keep",
        section=SECTION,
        says="Meanwhile they keep the partitions that they had.",
        holds=_OTHERS.keep(SOURCE, since="cut", until="taken-over", at_least=4),
    ),
)
REBALANCE_CLAIMS = (
    *_TAKEN_OVER,
    Claim(
        name="notices",
        section=SECTION,
        says="The member inside, which hears nothing from its coordinator, learns by itself that it has lost its "
        "partitions.",
        holds=_INSIDE.lose(SOURCE, after="cut", before="taken-over", at_least=2),
    ),
    _CONTINUES,
    _NOTHING_LOST,
)
SERVER_SIDE_CLAIMS = (
    *_TAKEN_OVER,
    Claim(
        name="unaware",
        section=SECTION,
        says="The member inside does not learn that it has lost its partitions while it hears nothing from its "
        "coordinator: two members own them.",
        holds=_INSIDE.keep(SOURCE, since="cut", until="taken-over", at_least=2),
    ),
    _NOTHING_LOST,
)
STATIC_CLAIMS = (
    Claim(
        name="nobody-takes-over",
        section=SECTION,
        says="As long as session.timeout.ms has not passed, nobody takes over the partitions of the static member: "
        "they are not read.",
        holds=both(
            _OTHERS.take_over(SOURCE, 0, after="cut", before="stood"),
            _OTHERS.keep(SOURCE, since="cut", until="replaced", at_least=4),
        ),
    ),
    Claim(
        name="replacement-takes-over",
        section=SECTION,
        says="A new member with the same group.instance.id gets its partitions at once, without a rebalance of the others. The old one still believes that it owns them.",
        holds=both(
            members(GROUP, REPLACEMENT).take_over(SOURCE, 2, after="stood", before="replaced"),
            _INSIDE.keep(SOURCE, since="cut", until="replaced", at_least=2),
        ),
    ),
    Claim(
        name="fenced",
        section=SECTION,
        says="No commit that the old member sends after its isolation is acknowledged: after the heal its commit gets error 82, and then librdkafka sends none (error -150).",
        holds=_INSIDE.are_refused(SOURCE, 82, -150, after="cut", before="fenced"),
    ),
    _NOTHING_LOST,
)


UNAFFECTED = (2, 3)
"""Replicas of the offsets topic outside az1: a commit waits for all in-sync replicas, and on the same connection
the next heartbeat waits behind it. With a replica in az1, members outside would lose their sessions of 6 s too."""


def _setup(config: Mapping[str, str] | None = None, offsets_log: tuple[int, ...] = (2, 3, 1)) -> Setup:
    return Setup(
        topics=(Topic(SOURCE, (2, 3), partitions=PARTITIONS, spread=True),),
        broker_config=dict(config or {}),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        offsets_log=offsets_log,
        stream_rate=0,
    )


_SERVER_SIDE = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
"""With KIP-848 the brokers set the times of a group; these are about those of the other scenarios."""
_TWICE = Expected(
    "replay",
    f"topic = '{SOURCE}'",
    "a member may be handed messages until it learns that its partitions are another one's",
)
_LATE = Expected("double_ownership", f"topic = '{SOURCE}'", "the member inside cannot know of its successor")
SCENARIOS = (
    Scenario(
        name="static-member-az-isolated",
        title="A static member is isolated, and replaced by one with the same group.instance.id",
        article="transactions",
        section="groups",
        body=replace_static,
        setup=_setup(),
        claims=STATIC_CLAIMS,
        expected=(_LATE, _TWICE),
        faults=("isolate az1",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="its partitions are not read until its replacement runs or its session ends",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="cooperative-rebalance-during-cut",
        title="A member of a group with cooperative rebalances is isolated",
        article="transactions",
        section="groups",
        body=rebalance({"partition.assignment.strategy": "cooperative-sticky"}),
        setup=_setup(offsets_log=UNAFFECTED),
        claims=REBALANCE_CLAIMS,
        expected=(_LATE,),
        faults=("isolate az1",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="the others take over its partitions and keep their own",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="server-side-rebalance-during-cut",
        title="The same with the group protocol of KIP-848",
        article="transactions",
        section="groups",
        body=rebalance({"group.protocol": "consumer"}),
        setup=_setup(_SERVER_SIDE, UNAFFECTED),
        claims=SERVER_SIDE_CLAIMS,
        expected=(_LATE, _TWICE),
        faults=("isolate az1",),
        kafka="4.3.1",
        mode="kraft-combined",
        modes=("kraft-combined",),
        outcome="the others take over its partitions; it believes that it owns them until the heal",
        versions=("4.3.1",),
    ),
)
