"""An application reads, processes and writes in transactions, while its AZ or its coordinators fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from checkers.claims.builders import both, members, messages, opposite, output, partition, transactions
from harness.cluster.setup import Setup
from harness.kafka.model import OFFSETS_LOG, TRANSACTION_LOG, Topic, TopicPartition
from harness.waiting import wait_until
from run.scenario import Claim, Either, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, require
from scenarios.transactions.steps import (
    TAKEN_OVER_S,
    feed,
    held_back,
    uncommitted,
    wait_ended,
    wait_handed,
    wait_processed,
)
from workloads.client.client import BackgroundConsumer

SOURCE, TARGET, GROUP = "in", "out", "app"
PARTITIONS = 3
ZOMBIE, SURVIVORS = "broker1", (2, 3)
AZS = ("az1", "az2", "az3")
INSIDE, OUTSIDE = ("az1-processor",), ("az2-processor", "az3-processor")
RATE = 30.0
COMMIT_EVERY_S = 2.0
HALF_A_UNIT = RATE / PARTITIONS * COMMIT_EVERY_S / 2
"""Messages of one partition; if no more have been written since the last commit, the next is not due at once."""


def isolated(*, transactional: bool = True) -> Callable[[Stage], None]:
    """The body in which the AZ of one instance and of both coordinators is isolated."""

    def body(stage: Stage) -> None:
        """Run one instance in each AZ; isolate az1; wait for the takeover; heal; drain; read the output."""
        instances = _start(stage, transactional)
        with stage.nemesis.isolate("az1"):
            stage.mark("cut", "az1 is isolated, with one of three instances and both coordinators")
            leader = _coordinator_moves(stage)
            _wait_taken_over(stage, instances["az2"], instances["az3"])
            wait_processed(stage, GROUP, SOURCE, PARTITIONS, leader, not_on=ZOMBIE)
            stage.mark("taken-over", "the others have processed what was in the input at the takeover")
        stage.mark("healed", "az1 is back")
        wait_handed(stage, instances["az1"], "the instance in az1")
        _drain(stage, instances, leader)

    return body


def killed(*, transactional: bool = True) -> Callable[[Stage], None]:
    """The body in which the broker that has both coordinators is killed."""

    def body(stage: Stage) -> None:
        """Run one instance in each AZ; kill that in az1 and the coordinator; restart; drain; read."""
        instances = _start(stage, transactional)
        inside = stage.clients["az1"]
        stage.nemesis.kill_client(inside.host, inside.kill, lambda: inside.alive)
        stage.kill(ZOMBIE)
        instances.pop("az1")
        stage.mark("cut", f"the instance in az1 and {ZOMBIE}, which has both coordinators, are killed")
        leader = _coordinator_moves(stage)
        _wait_taken_over(stage, *instances.values())
        wait_processed(stage, GROUP, SOURCE, PARTITIONS, leader, not_on=ZOMBIE)
        stage.mark("taken-over", "what was in the input at the takeover is processed")
        stage.restart(ZOMBIE)
        stage.mark("healed", f"{ZOMBIE} is back")
        _drain(stage, instances, leader)

    return body


def _start(stage: Stage, transactional: bool) -> dict[str, BackgroundConsumer]:
    """Feed the input, and wait until every instance has received messages."""
    for log in (OFFSETS_LOG, TRANSACTION_LOG):
        require(stage.leader(log) == ZOMBIE, f"{ZOMBIE} leads {log}")
    feed(stage, SOURCE, PARTITIONS, RATE)
    instances = {
        az: stage.start_processor(
            az,
            GROUP,
            source=SOURCE,
            output=TARGET,
            partitions=PARTITIONS,
            transactional=transactional,
            every_s=COMMIT_EVERY_S,
        )
        for az in AZS
    }
    wait_until(
        lambda: min(instance.progress().count for instance in instances.values()) > 0,
        within_s=TAKEN_OVER_S,
        awaiting="every instance to be handed messages",
        abort=stage.cluster.check_alive,
    )
    wait_processed(stage, GROUP, SOURCE, PARTITIONS, ZOMBIE)
    stage.mark("running", "every instance has committed")
    if transactional:
        inside = instances["az1"]
        before = _received(inside)
        own = wait_until(
            lambda: [number for number, count in _received(inside).items() if count > before.get(number, 0)],
            within_s=TAKEN_OVER_S,
            awaiting="the instance in az1 to be handed messages",
            abort=stage.cluster.check_alive,
        )
        wait_until(
            lambda: any(_in_the_middle(stage, number) for number in own),
            within_s=TAKEN_OVER_S,
            awaiting="the instance in az1 to be in the middle of a transaction",
            poll_s=0.02,
            abort=stage.cluster.check_alive,
        )
    else:
        offsets = stage.group_offsets("az2", GROUP)
        wait_until(
            lambda: any(
                2 < uncommitted(stage, offsets, SOURCE, TARGET, number, at=ZOMBIE) < HALF_A_UNIT
                for number in range(PARTITIONS)
            ),
            within_s=TAKEN_OVER_S,
            awaiting="an instance to have written output and not yet committed its input",
            poll_s=0.02,
            abort=stage.cluster.check_alive,
        )
    return instances


def _in_the_middle(stage: Stage, number: int) -> bool:
    """Whether a transaction has written to a partition of the output, and is not about to end."""
    return 0 < held_back(stage, TARGET, number) < HALF_A_UNIT


def _coordinator_moves(stage: Stage) -> str:
    """Wait until another broker has loaded the group's offsets; returns its host."""
    stage.wait_for_leader(TRANSACTION_LOG, not_on=ZOMBIE)
    leader = f"broker{stage.wait_for_leader(OFFSETS_LOG, not_on=ZOMBIE).leader}"
    stage.group_offsets("az2", GROUP).wait_answered(SOURCE, at=leader, within_s=30.0)
    stage.mark("moved", f"{leader} coordinates")
    return leader


def _wait_taken_over(stage: Stage, *instances: BackgroundConsumer) -> None:
    """Wait until these instances have received more messages of every partition of the input.

    That all input is committed does not suffice: a partition whose new leader got no message yet has nothing
    to take over.
    """
    before = [_received(instance) for instance in instances]

    def received() -> set[int]:
        return {
            number
            for instance, counts in zip(instances, before, strict=True)
            for number, count in _received(instance).items()
            if count > counts.get(number, 0)
        }

    wait_until(
        received,
        accept=lambda numbers: len(numbers) == PARTITIONS,
        within_s=TAKEN_OVER_S + stage.timings.recovery_s,
        awaiting=f"the other instances to be handed messages of all {PARTITIONS} partitions",
        abort=stage.cluster.check_alive,
    )


def _received(instance: BackgroundConsumer) -> dict[int, int]:
    """How many messages an instance has received of each partition."""
    return {one.partition.partition: one.count for one in instance.progress().partitions}


def _drain(stage: Stage, instances: dict[str, BackgroundConsumer], coordinator: str) -> None:
    """Stop the input, wait until all of it is processed, stop the instances, and read the output."""
    stage.stop_streams(30.0)
    wait_processed(stage, GROUP, SOURCE, PARTITIONS, coordinator)
    for instance in instances.values():
        instance.stop(30.0)
    wait_ended(stage, TARGET, PARTITIONS)
    stage.mark("drained", "the whole input is processed")
    places = [TopicPartition(TARGET, number) for number in range(PARTITIONS)]
    for topic in (SOURCE, TARGET):
        for number in range(PARTITIONS):
            stage.wait_converged(topic, number)
    stage.read_all("az2", places, within_s=30.0)
    stage.read_all("az2", places, within_s=30.0, isolation="read_uncommitted")
    stage.mark("read", "two consumers have read the output: committed messages, and all")


SECTION = "beyond the articles: exactly once"
_OUT = output(SOURCE, TARGET)
_INSIDE, _OTHERS = members(GROUP, *INSIDE), members(GROUP, *OUTSIDE)

_MOVES = Claim(
    name="coordinators-move",
    section=SECTION,
    says="Another broker coordinates the group, and another one the transactions, as soon as they lead these logs.",
    holds=both(
        partition(OFFSETS_LOG).is_led_by(SURVIVORS, at="moved"),
        partition(TRANSACTION_LOG).is_led_by(SURVIVORS, at="moved"),
    ),
)
_ONE_TO_ONE = Claim(
    name="one-to-one",
    section=SECTION,
    says="Consumers with read_committed get exactly one output message for each input message: none is missing, "
    "none comes twice.",
    holds=_OUT.is_one_to_one(after="drained", before="read", at_least=200),
)
_TWICE_UNCOMMITTED = Claim(
    name="twice-uncommitted",
    section=SECTION,
    says="Consumers with read_uncommitted get some of them twice: another instance wrote again what an instance had written in an aborted transaction.",
    holds=_OUT.is_repeated(isolation="read_uncommitted", after="drained", before="read"),
)
_NOTHING_LOST = Claim(
    name="input-kept",
    section=SECTION,
    says="Nothing that was acknowledged in the input is lost.",
    holds=messages("feed").none_lost(at_risk_after="cut", at_least=20),
)
_TAKEN_OVER = Claim(
    name="taken-over",
    section=SECTION,
    says="The instances outside take over all partitions, not before session.timeout.ms has passed.",
    holds=_OTHERS.take_over(SOURCE, PARTITIONS, after="cut", before="taken-over", not_within_s=6.0),
)
_TWO_OWNERS = Claim(
    name="two-owners",
    section=SECTION,
    says="The instance inside still owns its partition when another instance is assigned it, because the old coordinator still answers its heartbeats: two instances own it.",
    holds=_INSIDE.share(SOURCE, _OTHERS, since="cut", until="taken-over"),
)
_TWICE = Claim(
    name="twice",
    section=SECTION,
    says="Consumers with read_committed get output for each input message, for some of them twice: the output was written, but the failover came before the commit of the offsets.",
    holds=both(
        _OUT.is_complete(after="drained", before="read", at_least=200),
        _OUT.is_repeated(isolation="read_committed", after="drained", before="read"),
    ),
)
ISOLATED_CLAIMS = (
    _MOVES,
    _TAKEN_OVER,
    _TWO_OWNERS,
    Claim(
        name="silence-inside",
        section=SECTION,
        says="No transaction of the instance inside is reported as committed while its AZ is isolated.",
        holds=transactions(INSIDE[0]).never_reported("committed", after="cut", before="taken-over"),
    ),
    _ONE_TO_ONE,
    _TWICE_UNCOMMITTED,
    _NOTHING_LOST,
)
KILLED_CLAIMS = (
    _MOVES,
    replace(
        _TAKEN_OVER,
        says="The other instances take over its partition, not before session.timeout.ms has passed.",
    ),
    _ONE_TO_ONE,
    _TWICE_UNCOMMITTED,
    _NOTHING_LOST,
)
CONTROL_CLAIMS = (
    _MOVES,
    _TAKEN_OVER,
    replace(
        _TWO_OWNERS,
        either=Either(
            says="The instance inside has given its partition up before, because the old coordinator told it to "
            "rejoin.",
            because="the old coordinator no longer hears the others, removes them after session.timeout.ms, and "
            "starts a rebalance; a commit that is under way delays what the instance inside does then",
            holds=opposite(_INSIDE.keep(SOURCE, since="cut", until="taken-over")),
        ),
    ),
    _TWICE,
    _NOTHING_LOST,
)
_SHARED = Expected(
    "double_ownership",
    f"topic = '{SOURCE}'",
    "the instance inside is still a member for the coordinator inside",
)


def _setup() -> Setup:
    config = {"min.insync.replicas": "2"}
    return Setup(
        topics=tuple(
            Topic(name, (1, 2, 3), partitions=PARTITIONS, spread=True, config=config)
            for name in (SOURCE, TARGET)
        ),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        transaction_log=(1, 2, 3),
        offsets_log=(1, 2, 3),
        offsets_log_config=config,
        stream_rate=0,
    )


SCENARIOS = (
    Scenario(
        name="exactly-once-az-isolated",
        title="The AZ of an instance that reads, processes and writes is isolated, with both coordinators",
        article="transactions",
        section="exactly once",
        body=isolated(),
        setup=_setup(),
        claims=ISOLATED_CLAIMS,
        expected=(_SHARED,),
        faults=("isolate az1",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="by read_committed the output is one to one with the input; by read_uncommitted some comes twice",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="at-least-once-az-isolated",
        title="The same without transactions: some output comes twice",
        article="transactions",
        section="exactly once",
        body=isolated(transactional=False),
        setup=_setup(),
        claims=CONTROL_CLAIMS,
        expected=(_SHARED,),
        faults=("isolate az1",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="no output is missing, and some comes twice",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="exactly-once-coordinator-killed",
        title="An instance and the broker that coordinates group and transactions are killed",
        article="transactions",
        section="exactly once",
        body=killed(),
        setup=_setup(),
        claims=KILLED_CLAIMS,
        faults=("kill client client1", "kill broker1"),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="by read_committed the output is one to one with the input; by read_uncommitted some comes twice",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
)
