"""Beyond the articles: an application of Kafka Streams under faults, and without.

It counts the words of each partition of a topic. Its stores have changelogs, and it writes each message to an
output. At the end, an instance with an empty state directory restores the stores from their changelogs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from checkers.claims.builders import both, messages, opposite, partition
from checkers.claims.builders.applications import application
from harness.cluster.setup import Setup
from harness.kafka.model import OFFSETS_LOG, TRANSACTION_LOG, Topic, TopicPartition
from harness.waiting import wait_until
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.transactions.steps import (
    TAKEN_OVER_S,
    feed,
    held_back,
    uncommitted,
    wait_ended,
    wait_processed,
)
from workloads.client.client import ApplicationInstance
from workloads.protocol.spec import Guarantee

APP, SOURCE, TARGET, CHANGELOG = "app", "in", "out", "app-counts-changelog"
PARTITIONS = 3
RATE = 30.0
SHARED_S = 150.0
"""An instance that has written to leaders in an isolated AZ may take 30 s to give partitions up, as `request.timeout.ms`
has it, and as long again until they are processed."""
COMMIT_EVERY_S = 2.0
COORDINATOR = "broker2"
"""Coordinates groups and transactions at first."""
RESTORED = "restored"
COUNTS = application(APP, SOURCE)


def _start_instance(
    stage: Stage,
    az: str,
    guarantee: Guarantee = "exactly_once_v2",
    *,
    name: str = "",
    standbys: int = 0,
) -> ApplicationInstance:
    return stage.start_application(
        az,
        APP,
        source=SOURCE,
        output=TARGET,
        guarantee=guarantee,
        standbys=standbys,
        commit_every_s=COMMIT_EVERY_S,
        name=name,
    )


def _wait_shared(stage: Stage, *instances: ApplicationInstance) -> None:
    """Wait until these instances run, and process all partitions, at least one each."""

    def left() -> list[str]:
        states = [instance.progress() for instance in instances]
        parts = sorted(number for state in states for number in state.partitions)
        idle = [
            state.state or "no state" for state in states if state.state != "RUNNING" or not state.partitions
        ]
        return [*idle, *([] if parts == [*range(PARTITIONS)] else [f"partitions {parts}"])]

    names = ", ".join(instance.spec.name for instance in instances)
    wait_until(
        left,
        accept=lambda reasons: not reasons,
        within_s=SHARED_S,
        awaiting=f"{names} to process all {PARTITIONS} partitions",
        abort=stage.cluster.check_alive,
    )


def _start(
    stage: Stage, *azs: str, guarantee: Guarantee = "exactly_once_v2", standbys: int = 0
) -> list[ApplicationInstance]:
    """Feed the source, and wait until all instances process it."""
    feed(stage, SOURCE, PARTITIONS, RATE)
    instances = [_start_instance(stage, az, guarantee, standbys=standbys) for az in azs]
    _wait_shared(stage, *instances)
    _wait_processed(stage, COORDINATOR)
    stage.mark("running", "all instances run, and what was in the source is processed")
    return instances


def _wait_processed(stage: Stage, coordinator: str, *, not_on: str = "") -> None:
    wait_processed(stage, APP, SOURCE, PARTITIONS, coordinator, not_on=not_on)


def _wait_amid(stage: Stage) -> None:
    """Wait until the application has written output that it has not committed."""
    wait_until(
        lambda: any(2 < held_back(stage, TARGET, number) < RATE / 2 for number in range(PARTITIONS)),
        within_s=TAKEN_OVER_S,
        awaiting="the application to be in the middle of a transaction",
        poll_s=0.02,
        abort=stage.cluster.check_alive,
    )


def _end(stage: Stage, *instances: ApplicationInstance, guarantee: Guarantee = "exactly_once_v2") -> None:
    """Stop the source, let all of it be processed, and restore the stores in an instance that has none."""
    stage.stop_streams(30.0)
    _wait_processed(stage, stage.group_coordinator(APP))
    for instance in instances:
        instance.dump_store()
    stage.mark("dumped", "the whole source is processed, and each instance has said what its store holds")
    for instance in instances:
        instance.stop(30.0)
    restored = _start_instance(stage, "az3", guarantee, name=RESTORED)
    _wait_shared(stage, restored)
    restored.dump_store()
    stage.mark("restored", "an instance without state has restored the stores, and said what they hold")
    restored.stop(30.0)
    for topic in (TARGET, CHANGELOG):
        wait_ended(stage, topic, PARTITIONS)
    stage.mark("drained", "no transaction is open")
    for topic in (SOURCE, TARGET, CHANGELOG):
        for number in range(PARTITIONS):
            stage.wait_converged(topic, number)
    places = [TopicPartition(topic, number) for topic in (TARGET, CHANGELOG) for number in range(PARTITIONS)]
    stage.read_all("az2", places, within_s=30.0)
    stage.mark("read", "a consumer has read output and changelogs: what is committed")


def _no_fault(stage: Stage) -> None:
    """Two instances, each with stand-by replicas of the other's stores."""
    instances = _start(stage, "az1", "az2", standbys=1)
    _wait_processed(stage, COORDINATOR)
    _wait_processed(stage, COORDINATOR)
    _end(stage, *instances)


def _az_isolated(stage: Stage) -> None:
    """The AZ of one of two instances is cut off; the coordinators are outside."""
    inside, outside = _start(stage, "az1", "az2", standbys=1)
    _wait_amid(stage)
    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 is isolated, with one of two instances")
        _wait_shared(stage, outside)
        _wait_processed(stage, COORDINATOR, not_on="broker1")
        stage.mark("taken-over", "the other instance processes all partitions")
    stage.mark("healed", "the links are back")
    _wait_shared(stage, inside, outside)
    stage.mark("rejoined", "both instances process the source again")
    _end(stage, inside, outside)


def _coordinator_killed(stage: Stage) -> None:
    """The broker that coordinates group and transactions dies."""
    instances = _start(stage, "az1", "az2", standbys=1)
    _wait_amid(stage)
    stage.kill(COORDINATOR)
    stage.mark("killed", "the coordinator of the group and of the transactions is dead")
    stage.wait_for_leader(TRANSACTION_LOG, not_on=COORDINATOR)
    stage.wait_for_leader(OFFSETS_LOG, not_on=COORDINATOR)
    stage.mark("moved", "another broker coordinates")
    _wait_processed(stage, stage.group_coordinator(APP, not_on=COORDINATOR), not_on=COORDINATOR)
    stage.mark("processed", "what was in the source at the failover is processed")
    stage.restart(COORDINATOR)
    stage.mark("back", "the old coordinator is back")
    _wait_shared(stage, *instances)
    _end(stage, *instances)


def _instance_killed(guarantee: Guarantee) -> Callable[[Stage], None]:
    def body(stage: Stage) -> None:
        """The only instance dies with its state directory; another one begins with an empty one."""
        _start(stage, "az1", guarantee=guarantee)
        inside = stage.clients["az1"]
        if guarantee == "exactly_once_v2":
            _wait_amid(stage)
        else:
            _wait_uncommitted(stage)
        stage.nemesis.kill_client(inside.host, inside.kill, lambda: inside.alive)
        stage.mark("killed", "the only instance is dead")
        heir = _start_instance(stage, "az2", guarantee)
        _wait_shared(stage, heir)
        _wait_processed(stage, COORDINATOR)
        stage.mark("taken-over", "an instance with an empty state directory has taken over")
        _end(stage, heir, guarantee=guarantee)

    return body


def _wait_uncommitted(stage: Stage) -> None:
    """Wait until the application has written more output than it has committed of its source."""
    offsets = stage.group_offsets("az2", APP)
    wait_until(
        lambda: sum(
            uncommitted(stage, offsets, SOURCE, TARGET, number, at=COORDINATOR)
            for number in range(PARTITIONS)
        ),
        accept=lambda count: count > RATE / 3,
        within_s=TAKEN_OVER_S,
        awaiting="the application to have written output whose input it has not committed",
        poll_s=0.02,
        abort=stage.cluster.check_alive,
    )


def _instance_joins(stage: Stage) -> None:
    """An instance joins while an AZ without instances is cut off."""
    (first,) = _start(stage, "az2")
    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 is isolated, and no instance is there")
        second = _start_instance(stage, "az3")
        _wait_shared(stage, first, second)
        stage.mark("joined", "two instances share the partitions")
        _wait_processed(stage, COORDINATOR, not_on="broker1")
        stage.mark("processed", "what was in the source when the instance had joined is processed")
    stage.mark("healed", "the links are back")
    _end(stage, first, second)


def _claim(name: str, says: str, holds: str) -> Claim:
    return Claim(name=name, section="beyond the articles", says=says, holds=holds)


def _once(at_least: int) -> tuple[Claim, ...]:
    return (
        _claim(
            "output-once",
            "Readers of committed records get each message of the source once from the output.",
            COUNTS.counts(TARGET, after="drained", before="read", at_least=at_least),
        ),
        _claim(
            "changelog-once",
            "They get each message once from the changelogs, too: it was counted once.",
            COUNTS.counts(CHANGELOG, after="drained", before="read", at_least=at_least),
        ),
        _claim(
            "restored-store",
            "An instance with an empty state directory restores stores that count every message once.",
            COUNTS.store_counts(RESTORED, after="dumped", before="restored", at_least=15),
        ),
    )


def _again(says: str) -> Claim:
    return _claim("aborted-attempt", says, COUNTS.is_written_again(TARGET))


def _kept(since: str) -> Claim:
    return _claim(
        "input-kept",
        "Nothing that was acknowledged in the source is lost.",
        messages("feed").none_lost(at_risk_after=since, at_least=20),
    )


def _topics() -> tuple[Topic, ...]:
    config = {"min.insync.replicas": "2"}
    compacted = {**config, "cleanup.policy": "compact"}
    return tuple(
        Topic(name, (1, 2, 3), partitions=PARTITIONS, spread=True, config=values)
        for name, values in ((SOURCE, config), (TARGET, config), (CHANGELOG, compacted))
    )


_AGAIN = "what the dead instance had not committed is processed again"
_SETUP = Setup(
    topics=_topics(),
    controller="broker3",
    exactly=("broker",),
    transaction_log=(2, 3, 1),
    offsets_log=(2, 3, 1),
    offsets_log_config={"min.insync.replicas": "2"},
    applications=(APP,),
    stream_rate=0,
)
_scenario = partial(
    Scenario,
    article="beyond",
    section="Kafka Streams",
    setup=_SETUP,
    kafka="3.9.1",
    mode="kraft-combined",
    modes=("kraft-combined",),
)
_OUT_OF_ORDER = Expected(
    "server_error",
    "detail LIKE '%Error processing append operation on partition %'",
    "a transaction's first batch is refused while the last transaction ends, and the next batch is out of order "
    "until it is sent again (KIP-890)",
    since="4.0.0",
)
SCENARIOS = (
    _scenario(
        name="streams-no-fault",
        title="An application of Kafka Streams counts words, and no fault comes (control)",
        body=_no_fault,
        claims=(
            *_once(at_least=100),
            _claim(
                "stores-count-once",
                "Before that, the stores of the two instances count every message once.",
                COUNTS.store_counts("az1-instance", "az2-instance", after="running", before="dumped"),
            ),
        ),
        expected=(_OUT_OF_ORDER,),
        outcome="output, changelogs and the restored stores count each message once",
    ),
    _scenario(
        name="streams-az-isolated",
        title="The AZ of one of two instances of an application of Kafka Streams is isolated",
        body=_az_isolated,
        claims=(
            *_once(at_least=200),
            _claim(
                "taken-over",
                "The other instance processes all partitions while the cut lasts.",
                COUNTS.is_processed_by("az2-instance", partitions=PARTITIONS, at="taken-over"),
            ),
            _again(
                "What was open at the cut was aborted, and processed again: the output's log holds it twice."
            ),
            _kept("cut"),
        ),
        expected=(_OUT_OF_ORDER,),
        faults=("isolate az1",),
        outcome="the other instance takes over; output, changelogs and restored stores count each message once",
    ),
    _scenario(
        name="streams-coordinator-killed",
        title="The coordinator of the group and the transactions of an application of Kafka Streams dies",
        body=_coordinator_killed,
        claims=(
            *_once(at_least=200),
            _claim(
                "coordinators-move",
                "Another broker coordinates.",
                both(
                    partition(OFFSETS_LOG).is_led_by((1, 3), at="moved"),
                    partition(TRANSACTION_LOG).is_led_by((1, 3), at="moved"),
                ),
            ),
            _kept("killed"),
        ),
        expected=(_OUT_OF_ORDER,),
        faults=("kill broker2",),
        outcome="the application goes on; output, changelogs and restored stores count each message once",
    ),
    _scenario(
        name="streams-instance-killed",
        title="The only instance of an application of Kafka Streams dies, and its state directory is lost",
        body=_instance_killed("exactly_once_v2"),
        claims=(
            *_once(at_least=200),
            _again(
                "What the dead instance had not committed was processed again: the output's log holds it twice."
            ),
            _kept("killed"),
        ),
        expected=(_OUT_OF_ORDER,),
        faults=("kill client client1",),
        outcome="output, changelogs and restored stores count each message once",
    ),
    _scenario(
        name="streams-instance-joins",
        title="An instance of an application of Kafka Streams joins while an AZ is cut off",
        body=_instance_joins,
        claims=(
            *_once(at_least=200),
            _claim(
                "joined",
                "Both instances process partitions while the cut lasts.",
                COUNTS.is_processed_by("az2-instance", "az3-instance", partitions=PARTITIONS, at="joined"),
            ),
            _kept("cut"),
        ),
        expected=(_OUT_OF_ORDER,),
        faults=("isolate az1",),
        outcome="the instances share the partitions in the cut; each message is counted once",
    ),
    _scenario(
        name="streams-at-least-once",
        title="The only instance of an application without exactly-once dies: some messages count twice",
        body=_instance_killed("at_least_once"),
        claims=(
            _claim(
                "output-complete",
                "Readers of committed records get each message of the source from the output, some of them twice.",
                both(
                    COUNTS.counts(TARGET, after="drained", before="read", at_least=200, once=False),
                    opposite(COUNTS.counts(TARGET, after="drained", before="read", at_least=200)),
                ),
            ),
            _claim(
                "store-complete",
                "An instance with an empty state directory restores stores that count every message, some of them "
                "twice.",
                both(
                    COUNTS.store_counts(
                        RESTORED, after="dumped", before="restored", exactly=False, at_least=15
                    ),
                    opposite(COUNTS.store_counts(RESTORED, after="dumped", before="restored", at_least=15)),
                ),
            ),
            _kept("killed"),
        ),
        expected=(
            Expected("counted_twice", f"topic = '{SOURCE}'", _AGAIN),
            Expected("store_differs", f"topic = '{SOURCE}'", _AGAIN),
        ),
        faults=("kill client client1",),
        outcome="no message is missing, and some are counted twice",
    ),
)
