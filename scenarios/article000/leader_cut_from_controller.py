"""Article 000, section 2, continued: the broker that is cut from the controller is itself a leader."""

from __future__ import annotations

from checkers.claims.builders import broker, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, wait_log

TOPIC = "t"


def body(stage: Stage) -> None:
    """Cut the leader broker2 from broker3, its follower and the controller; write; heal."""
    seed(stage, TOPIC, leader="broker2")
    with stage.nemesis.cut("broker2 <-> broker3"):
        stage.mark("cut", "the leader no longer sees the controller")
        stage.producer("az2", "az2-short", "broker2", acks=-1, request_timeout_s=2).send(TOPIC, "s1")
        wait_log(stage, "broker2", f"[Partition {TOPIC}-0 ", "Shrinking ISR")
        stage.mark("wanted", "broker2 wants broker3 out of the ISR, but cannot ask for it")
        long = stage.producer("az2", "az2-long", "broker2", acks=-1, request_timeout_s=6)
        waiting = long.send_later(TOPIC, "l1")
        stage.producer("az2", "az2-short-2", "broker2", acks=-1, request_timeout_s=2).send(TOPIC, "s2")
        stage.producer("az2", "az2-acks-1", "broker2", acks=1).must_send(TOPIC, "k1")
        waiting.result(timeout=20)
        stage.read("az2", TOPIC, "broker2")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the link is back")
    wait_log(
        stage, "broker2", f"[Partition {TOPIC}-0 ", "ISR updated", within_s=30 + stage.timings.recovery_s
    )
    settle(stage)


T = partition(TOPIC)
_FAILED = messages(("az2-short", "az2-short-2", "az2-long"))
CLAIMS = (
    Claim(
        name="harmless",
        section="000 §2",
        quote="broker 和 controller 断连，不影响生产消费",
        says="A broker and the controller losing each other does not affect producing and consuming.",
        holds=_FAILED.acknowledged(at_least=3),
        erratum=Erratum(
            says="If that broker leads and a follower stops fetching, every acks=all write fails with error 7, "
            "however long it waits.",
            because="KIP-497: from 2.7 on an ISR change needs the controller's answer",
            holds=_FAILED.refused_with(7, at_least=3),
        ),
    ),
    Claim(
        name="no-failover",
        section="beyond 000 §2",
        says="Nobody replaces the leader, because its ZooKeeper session lives. The ISR stays, though the leader wants to shrink it.",
        holds=T.stays(since="seeded", until="before-heal"),
        given=broker(2).logged("isr_shrinking", of=T, after="cut", before="before-heal"),
    ),
    Claim(
        name="acks-1-accepted",
        section="beyond 000 §2",
        says="acks=1 is acknowledged, and kept.",
        holds=messages("az2-acks-1").kept(),
    ),
    Claim(
        name="consumers-stall",
        section="beyond 000 §2",
        says="Consumers see nothing of what was written after the cut.",
        holds=T.consumers_see_nothing_from(2, until="before-heal"),
    ),
    Claim(
        name="failed-writes-kept",
        section="beyond 000 §2",
        says="After the heal all 'failed' writes are in the log, once each.",
        holds=_FAILED.in_final_log(copies=1, at_least=3),
    ),
    Claim(
        name="recovers",
        section="beyond 000 §2",
        says="After the heal the ISR is full under the same leader and epoch.",
        holds=T.is_led_by(2, isr=(1, 2, 3), epoch=0, at="converged"),
        given=_FAILED.not_seen_on(3, until="before-heal", at_least=3),
    ),
    Claim(
        name="replicas-agree",
        section="000 §2",
        quote="也不会出现数据不一致的情况",
        says="Data do not become inconsistent either: all replicas hold the same messages in the end.",
        holds=T.logs_agree(replicas=3, at_least=6),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 000 §2",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut"),
    ),
)

SCENARIO = Scenario(
    name="leader-cut-from-controller",
    title="The broker that is cut from the controller leads a partition",
    article="000",
    section="2b",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (2, 1, 3)),),
        controller="broker3",
        zookeeper_leader="zookeeper1",
    ),
    claims=CLAIMS,
    faults=("cut broker2 <-> broker3",),
    outcome="nothing lost, but acks=all is impossible until the link is back",
)
