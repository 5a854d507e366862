"""Article 001, fifth cause of loss: all replicas lose their power at once; none, all, or one of them has flushed."""

from __future__ import annotations

from collections.abc import Mapping

from checkers.claims.builders import both, broker, does_not_answer, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, wait_unregistered

TOPIC = "t"
BROKERS = ("broker1", "broker2", "broker3")


def body(stage: Stage) -> None:
    """Kill all brokers, which loses nothing; then write, and cut the power of all brokers."""
    seed(stage, TOPIC, labels=("m1", "m2", "m3"))
    stage.kill(*BROKERS)
    stage.mark("killed", "all brokers were killed; the kernel still has what they wrote")
    wait_unregistered(stage, *BROKERS)
    stage.mark("gone", "no broker is registered any more")
    for host in BROKERS:
        stage.restart(host)
    stage.wait_for_leader(TOPIC, on="broker1")
    settle(stage, TOPIC, mark="back")
    writer = stage.producer("az1", "az1-late", "broker1", acks=-1)
    for label in ("m4", "m5", "m6"):
        writer.send(TOPIC, label)
    stage.mark("written", "three more messages are acknowledged by three replicas")
    stage.nemesis.storage.power_cut(*BROKERS)
    stage.mark("dark", "all brokers have lost their power")
    wait_unregistered(stage, *BROKERS)
    for host in BROKERS:
        stage.restart(host)
    settle(stage, TOPIC)


def uneven(stage: Stage) -> None:
    """Stop one broker in order, which flushes its log; cut the power of all; start that one last."""
    seed(stage, TOPIC, labels=("m1", "m2", "m3"))
    stage.nemesis.stop("broker3")
    stage.restart("broker3")
    stage.wait_for_isr(TOPIC, 1, 2, 3)
    stage.mark("flushed", "broker3 was stopped in order, which flushes its log, and is in sync again")
    stage.nemesis.storage.power_cut(*BROKERS)
    stage.mark("dark", "all brokers have lost their power")
    wait_unregistered(stage, *BROKERS)
    stage.restart("broker1")
    stage.wait_for_leader(TOPIC, on="broker1")
    stage.mark("elected", "broker1 is back first, and leads")
    stage.restart("broker3")
    stage.wait_for_isr(TOPIC, 1, 3, within_s=stage.timings.converge_s)
    stage.mark("back", "broker3 is back, and in sync")
    stage.restart("broker2")
    settle(stage, TOPIC)


T = partition(TOPIC)
_SEED, _LATE = messages("az1-seed"), messages("az1-late", after="back")
_KILL_SAFE = Claim(
    name="kill-loses-nothing",
    section="beyond 001 loss cause 5",
    says="Killing all brokers at once loses nothing: what they wrote is not flushed, but the kernel has it.",
    holds=both(
        _SEED.still_on(1, 2, 3, at="back", at_least=3),
        *(does_not_answer(host, at="gone") for host in BROKERS),
    ),
)
_ACKED = Claim(
    name="acknowledged-from-memory",
    section="001 loss cause 5",
    quote="由于数据仅仅在内存中写入即被确认",
    says="Data counts as written once it is in memory: acks=all is answered with success.",
    holds=_LATE.acknowledged(at_least=3),
)
_WHOLE = Claim(
    name="isr-complete",
    section="beyond 001 loss cause 5",
    says="Afterwards all replicas are in sync, and no log reports that anything is missing.",
    holds=both(
        T.has_isr(1, 2, 3, at="converged"),
        *(broker(number).never_logged("error", after="dark", before="converged") for number in (1, 2, 3)),
        broker(1).logged("became_leader", of=T, after="dark", before="converged"),
    ),
)


def _setup(broker_config: Mapping[str, str]) -> Setup:
    return Setup(
        topics=(Topic(TOPIC, (1, 2, 3), config={"min.insync.replicas": "2"}),),
        controller="broker1",
        zookeeper_leader="zookeeper3",
        quorum="one node",
        broker_config=broker_config,
        stream_rate=0.0,
        volatile_disks=BROKERS,
    )


UNFLUSHED = Scenario(
    name="power-cut",
    title="All replicas lose their power at once",
    article="001",
    section="cause 5",
    body=body,
    setup=_setup({}),
    claims=(
        _KILL_SAFE,
        _ACKED,
        Claim(
            name="lost",
            section="001 loss cause 5",
            quote="数据分区的所有节点同时出现故障。由于数据仅仅在内存中写入即被确认,这些数据很有可能没有被写入到磁盘中。当数据节点恢复的时候将导致数据的丢失",
            says="When all replicas fail at the same time, what was not on disk is lost.",
            holds=_LATE.acknowledged_then_lost(at_least=3),
        ),
        _WHOLE,
    ),
    expected=tuple(
        Expected(finding, messages(("az1-seed", "az1-late")).where, "it was in memory only, on all replicas")
        for finding in ("lost", "lost_after_read", "overwritten")
    ),
    faults=("kill all brokers", "power cut of all brokers"),
    outcome="what was acknowledged by three replicas is lost: none of them had flushed it",
)

FLUSHED = Scenario(
    name="power-cut-flushed",
    title="All replicas lose their power at once, with log.flush.interval.messages=1",
    article="001",
    section="cause 5 flushed",
    body=body,
    setup=_setup({"log.flush.interval.messages": "1"}),
    claims=(
        _KILL_SAFE,
        Claim(
            name="kept",
            section="beyond 001 loss cause 5",
            says="A broker that flushes before it answers keeps everything.",
            holds=messages(("az1-seed", "az1-late")).kept(at_least=6),
        ),
        _WHOLE,
    ),
    faults=("kill all brokers", "power cut of all brokers"),
    outcome="nothing is lost: every message was flushed before it was acknowledged",
)

UNEVEN = Scenario(
    name="power-cut-uneven",
    title="All replicas lose their power at once, and one of them had flushed its log",
    article="001",
    section="cause 5 uneven",
    body=uneven,
    setup=_setup({}),
    claims=(
        Claim(
            name="one-replica-has-more",
            section="001 failover",
            quote="由于数据是周期性写入磁盘的。如果集群所有节点在同一时刻失效,那么对于不同的数据副本来说持久化到磁盘的数据也是不一致的",
            says="The replicas have different data on disk: broker3 has the messages and removes them, because its leader "
            "does not have them.",
            holds=both(
                _SEED.still_on(1, 2, 3, at="flushed", at_least=3),
                broker(3).truncated(T, to=0, after="elected"),
                broker(2).never_logged("truncated", after="dark", before="converged"),
            ),
        ),
        Claim(
            name="leader-is-behind",
            section="001 failover",
            quote="当这些节点再重新恢复的时候,极有可能出现新选举出来的leader,它的数据是落后于它follower的",
            says="The elected leader is behind its follower.",
            holds=both(
                T.is_led_by(1, at="elected"),
                broker(1).never_logged("truncated", after="dark", before="converged"),
                broker(3).truncated(T, to=0, after="elected"),
            ),
        ),
        Claim(
            name="lost",
            section="beyond 001 loss cause 5",
            says="What was acknowledged by three replicas is lost, although one of them had it on disk.",
            holds=_SEED.acknowledged_then_lost(at_least=3),
        ),
        Claim(
            name="isr-complete",
            section="beyond 001 loss cause 5",
            says="Afterwards all replicas are in sync.",
            holds=T.has_isr(1, 2, 3, at="converged"),
        ),
    ),
    expected=tuple(
        Expected(finding, _SEED.where, "two replicas had it in memory only, and one of these leads")
        for finding in ("lost", "lost_after_read", "overwritten")
    ),
    faults=("stop broker3 in order", "power cut of all brokers"),
    outcome="what was acknowledged by three replicas is lost, although one of them had flushed it",
)

SCENARIOS = (UNFLUSHED, FLUSHED, UNEVEN)
