"""Beyond the articles: an application of Kafka Streams without faults.

It counts the words of each partition of a topic. Its stores have changelogs, and it writes each message to an
output. At the end, an instance with an empty state directory restores the stores from their changelogs.
"""

from __future__ import annotations

from checkers.claims.builders.applications import application
from harness.cluster.setup import Setup
from harness.kafka.model import Topic, TopicPartition
from harness.waiting import wait_until
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.transactions.steps import TAKEN_OVER_S, feed, wait_ended, wait_processed
from workloads.client.client import ApplicationInstance

APP, SOURCE, TARGET, CHANGELOG = "app", "in", "out", "app-counts-changelog"
PARTITIONS = 3
RATE = 30.0
COMMIT_EVERY_S = 2.0
COORDINATOR = "broker2"
"""Coordinates groups and transactions."""
RESTORED = "restored"
COUNTS = application(APP, SOURCE)


def _start_instance(stage: Stage, az: str, *, name: str = "", standbys: int = 0) -> ApplicationInstance:
    return stage.start_application(
        az,
        APP,
        source=SOURCE,
        output=TARGET,
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
        within_s=TAKEN_OVER_S,
        awaiting=f"{names} to process all {PARTITIONS} partitions",
        abort=stage.cluster.check_alive,
    )


def _wait_processed(stage: Stage) -> None:
    wait_processed(stage, APP, SOURCE, PARTITIONS, COORDINATOR)


def _end(stage: Stage, *instances: ApplicationInstance) -> None:
    """Stop the source, let all of it be processed, and restore the stores in an instance that has none."""
    stage.stop_streams(30.0)
    _wait_processed(stage)
    for instance in instances:
        instance.dump_store()
    stage.mark("dumped", "the whole source is processed, and each instance has said what its store holds")
    for instance in instances:
        instance.stop(30.0)
    restored = _start_instance(stage, "az3", name=RESTORED)
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
    feed(stage, SOURCE, PARTITIONS, RATE)
    instances = [_start_instance(stage, az, standbys=1) for az in ("az1", "az2")]
    _wait_shared(stage, *instances)
    _wait_processed(stage)
    stage.mark("running", "all instances run, and what was in the source is processed")
    _wait_processed(stage)
    _wait_processed(stage)
    _end(stage, *instances)


def _claim(name: str, says: str, holds: str) -> Claim:
    return Claim(name=name, section="beyond the articles", says=says, holds=holds)


def _topics() -> tuple[Topic, ...]:
    config = {"min.insync.replicas": "2"}
    compacted = {**config, "cleanup.policy": "compact"}
    return tuple(
        Topic(name, (1, 2, 3), partitions=PARTITIONS, spread=True, config=values)
        for name, values in ((SOURCE, config), (TARGET, config), (CHANGELOG, compacted))
    )


SCENARIO = Scenario(
    name="streams-no-fault",
    title="An application of Kafka Streams counts words, and no fault comes (control)",
    article="beyond",
    section="Kafka Streams",
    body=_no_fault,
    setup=Setup(
        topics=_topics(),
        controller="broker3",
        exactly=("broker",),
        transaction_log=(2, 3, 1),
        offsets_log=(2, 3, 1),
        offsets_log_config={"min.insync.replicas": "2"},
        applications=(APP,),
        stream_rate=0,
    ),
    claims=(
        _claim(
            "output-once",
            "Readers of committed records get each message of the source once from the output.",
            COUNTS.counts(TARGET, after="drained", before="read", at_least=100),
        ),
        _claim(
            "changelog-once",
            "They get each message once from the changelogs, too: it was counted once.",
            COUNTS.counts(CHANGELOG, after="drained", before="read", at_least=100),
        ),
        _claim(
            "restored-store",
            "An instance with an empty state directory restores stores that count every message once.",
            COUNTS.store_counts(RESTORED, after="dumped", before="restored", at_least=15),
        ),
        _claim(
            "stores-count-once",
            "Before that, the stores of the two instances count every message once.",
            COUNTS.store_counts("az1-instance", "az2-instance", after="running", before="dumped"),
        ),
    ),
    kafka="3.9.1",
    mode="kraft-combined",
    modes=("kraft-combined",),
    outcome="output, changelogs and the restored stores count each message once",
)
