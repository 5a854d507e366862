"""Article 001, fourth cause of loss: the last in-sync replica comes back with an empty disk."""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import one_or_two_in_sync, seed, settle, wait_unregistered

ONE, TWO = "t", "m"
"""Topics with min.insync.replicas 1 and 2."""
TOPICS = (ONE, TWO)


def body(stage: Stage) -> None:
    """Kill the followers, then the leader; wipe the leader's log; start it first."""
    seed(stage, *TOPICS)
    stage.producer("az1", "az1-three", "broker1", acks=-1).send(TWO, "c")
    stage.kill("broker2", "broker3")
    stage.mark("killed", "the followers are dead")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1)
    stage.mark("alone", "the leader is alone in the ISR")
    stage.producer("az1", "az1-alone", "broker1", acks=-1).send(ONE, "e")
    stage.kill("broker1")
    for topic in TOPICS:
        stage.nemesis.storage.wipe("broker1", topic)
    stage.mark("wiped", "the leader is dead too, and its disk is replaced")
    wait_unregistered(stage, "broker1", "broker2", "broker3")
    stage.restart("broker1")
    for topic in TOPICS:
        stage.wait_for_leader(topic, on="broker1")
    stage.wait_until_serving(ONE, "broker1", az="az1")
    stage.mark("empty", "it leads again, with nothing")
    stage.producer("az1", "az1-after", "broker1", acks=-1).send(ONE, "f")
    stage.restart("broker2")
    stage.restart("broker3")
    settle(stage)


T, M = partition(ONE), partition(TWO)
_WRITERS = ("az1-seed", "az1-three", "az1-alone")
CLAIMS = (
    Claim(
        name="isr-is-the-leader",
        section="001 loss cause 4",
        quote="在ISR已经缩减到leader自身的情况下",
        says="The ISR has shrunk to the leader itself.",
        holds=both(*(one.is_led_by(1, isr=(1,), at="alone") for one in (T, M))),
    ),
    Claim(
        name="accepted-alone",
        section="001 loss cause 4",
        quote="即使将acks设置为all,原leader也会接收写入请求,导致数据丢失。特别是当min.insync.replicas=1的时候",
        says="Even with acks=all the leader takes writes, if min.insync.replicas=1.",
        holds=messages("az1-alone", topic=ONE, after="alone").acknowledged(),
    ),
    Claim(
        name="leads-empty",
        section="001 loss cause 4",
        quote="leader发生了不可修复的磁盘故障导致,leader上的数据丢失,在空数据恢复leader",
        says="Its disk is broken beyond repair; the leader comes back with an empty log, and leads.",
        holds=both(
            T.is_led_by(1, isr=(1,), at="empty"),
            broker(1).logged("became_leader", of=T, after="wiped", where="offset = 0"),
        ),
    ),
    Claim(
        name="followers-truncate",
        section="beyond 001 loss cause 4",
        says="The followers, which still had the data, truncate it all.",
        holds=both(*(broker(number).truncated(T, to=0, after="empty") for number in (2, 3))),
    ),
    Claim(
        name="whole-topic-lost",
        section="001 loss cause 4",
        quote="在空数据恢复leader后会最终导致整个topic的数据丢失",
        says="At the end the whole topic is lost.",
        holds=both(
            messages(_WRITERS, topic=ONE).acknowledged_then_lost(at_least=3),
            messages("az1-after", topic=ONE).kept(),
        ),
    ),
    Claim(
        name="min-insync-does-not-help",
        section="beyond 001 loss cause 4",
        says="min.insync.replicas=2 does not help what was written before: that topic is lost as well.",
        holds=both(
            messages(_WRITERS, topic=TWO).acknowledged_then_lost(at_least=3),
            *(broker(number).truncated(M, to=0, after="empty") for number in (2, 3)),
        ),
    ),
)

SCENARIO = Scenario(
    name="last-replica-wiped",
    title="The last in-sync replica comes back with an empty disk",
    article="001",
    section="cause 4",
    body=body,
    setup=Setup(
        topics=one_or_two_in_sync(ONE, TWO),
        controller="broker1",
        zookeeper_leader="zookeeper3",
        quorum="one node",
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=tuple(
        Expected(
            finding, messages(_WRITERS).where, "the only replica that may lead came back without its data"
        )
        for finding in ("lost", "lost_after_read", "overwritten")
    ),
    faults=("kill broker2, broker3", "kill broker1", "wipe t/0 and m/0 on broker1"),
    outcome="everything acknowledged before is lost, with acks=all and min.insync.replicas=2 too",
)
