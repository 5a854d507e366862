"""Article 001, scenario 7: the controller reaches ZooKeeper, but no other broker.

At first nothing happens. Then a leader dies, and its successor never learns that it leads. The worst case
comes last: a leader loses ZooKeeper as well, and the controller makes itself leader but cannot tell the old
leader.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, controller_stays, messages, opposite, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import awaited, seed, settle, stand, wait_log, wait_unregistered, wait_view

PAIR, THIRD, SPLIT = "p", "t", "w"
"""Replicas (1,2), (1,2,3) and (2,3)."""


def body(stage: Stage) -> None:
    """Cut the controller broker3 off and wait; kill broker1; cut broker2 from ZooKeeper; heal."""
    seed(stage, PAIR, THIRD)
    seed(stage, SPLIT, leader="broker2")
    apart = stage.nemesis.cut("broker3 <-> broker1", "broker3 <-> broker2").inject()
    cut = stage.mark("cut", "the controller reaches ZooKeeper, but no other broker")
    early = {
        topic: stage.producer("az1", f"az1-early-{topic}", "broker1", acks=-1) for topic in (PAIR, THIRD)
    }
    for topic, writer in early.items():
        writer.send(topic, "e1")
    stand(stage, cut, stage.timings.harmless_s)
    wait_log(stage, "broker1", f"[Partition {THIRD}-0 ", "Shrinking ISR")
    for topic, writer in early.items():
        writer.send(topic, "e2")
    stage.mark("harmless", "every leader is still in place")
    stage.kill("broker1")
    stage.wait_for_leader(PAIR, on="broker2")
    stage.mark("elected", "broker1 is dead; the controller elected broker2, but cannot tell it")
    to_pair = stage.producer("az2", "az2-to-pair", "broker2", acks=1)
    to_pair.send(PAIR, "n1")
    stage.mark("not-told", "broker2 does not know that it leads")
    with stage.nemesis.without_zookeeper("broker2"):
        stage.mark("blind", "broker2 has lost ZooKeeper as well; it leads a partition with the controller")
        wait_unregistered(stage, "broker2")
        if awaited(lambda: stage.wait_for_leader(SPLIT, on="broker3")):
            stage.wait_until_serving(SPLIT, "broker3", az="az3")
        stage.mark("split", "broker3 made itself leader; broker2 has not heard of it")
        stage.producer("az2", "az2-old-side", "broker2", acks=1).send(SPLIT, "old")
        stage.producer("az3", "az3-new-side", "broker3", acks=-1).send(SPLIT, "new")
        wait_view(stage, "broker2", SPLIT, leader=2)
        to_pair.send(PAIR, "n2")
        stage.mark("orphaned", "nobody leads the pair in fact")
    apart.heal()
    stage.mark("healed", "all links are back")
    stage.restart("broker1")
    settle(stage)


P, T, W = partition(PAIR), partition(THIRD), partition(SPLIT)
_EARLY = messages("az1-early-p", after="cut", before="harmless")
_OLD_SIDE, _NEW_SIDE = messages("az2-old-side", after="split"), messages("az3-new-side", after="split")
CLAIMS = (
    Claim(
        name="harmless-at-first",
        section="beyond 001 scenario 7",
        says="As long as no leader has to change, partitions without a replica on the controller continue to work.",
        holds=_EARLY.acknowledged(at_least=2),
    ),
    Claim(
        name="no-early-change",
        section="beyond 001 scenario 7",
        says="No leader and no ISR changes as long as every broker sees ZooKeeper.",
        holds=both(*(one.stays(since="seeded", until="harmless") for one in (P, T, W))),
    ),
    Claim(
        name="isr-frozen",
        section="beyond 001 scenario 7",
        says="From 2.7 on no ISR can shrink either: acks=all fails (error 7) where the controller is a replica.",
        holds=both(messages("az1-early-t").refused_with(7, at_least=2), T.has_isr(1, 2, 3, at="harmless")),
        given=broker(1).logged("isr_shrinking", of=T, after="cut", before="harmless"),
    ),
    Claim(
        name="controller-stays",
        section="beyond 001 scenario 7",
        says="The controller stays controller, because it still sees ZooKeeper.",
        holds=controller_stays(since="seeded", until="orphaned"),
    ),
    Claim(
        name="changes-not-passed-on",
        section="001 scenario 7",
        quote="如果控制节点发生网络隔离不能与其他的kafka节点进行通讯的结果是,就不能将leader的变化情况传达到各个节点",
        says="The controller cannot pass changes of leaders on to the brokers, until the links are back.",
        holds=both(
            broker(2).believes(P, leader=1, at="not-told"),
            broker(2).never_logged("became_leader", of=P, after="cut", before="orphaned"),
            broker(2).logged("became_leader", of=P, after="orphaned"),
        ),
        given=P.is_led_by(2, isr=(2,), epoch=1, at="not-told"),
    ),
    Claim(
        name="no-successor",
        section="001 scenario 7",
        quote="更多的情况是,在发生故障切换时将导致一个broker不能成为leader的候选者",
        says="More often one broker cannot be a candidate for leader in a failover.",
        holds=opposite(P.is_led_by(2, at="not-told")),
        erratum=Erratum(
            says="It is elected, never learns of it, and refuses writes (error 6): nobody leads.",
            because="it is still registered in ZooKeeper, which is all that the controller asks for",
            holds=both(P.is_led_by(2, at="not-told"), messages("az2-to-pair").refused_with(6, at_least=2)),
        ),
    ),
    Claim(
        name="split-brain",
        section="001 scenario 7",
        quote="最坏的情况下,与场景六类似将出现短时间的脑裂",
        says="In the worst case there is a short split brain as in scenario 6: two leaders take writes.",
        holds=both(
            W.is_led_by(3, isr=(3,), epoch=1, at="split"), _OLD_SIDE.acknowledged(), _NEW_SIDE.acknowledged()
        ),
    ),
    Claim(
        name="old-side-unaware",
        section="beyond 001 scenario 7",
        says="The old leader still believes that it leads.",
        holds=broker(2).believes(W, leader=2, isr=(2, 3), at="orphaned"),
    ),
    Claim(
        name="old-side-lost",
        section="beyond 001 scenario 7",
        says="What the old leader acknowledges with acks=1 is lost.",
        holds=_OLD_SIDE.acknowledged_then_lost(),
    ),
    Claim(
        name="new-side-kept",
        section="beyond 001 scenario 7",
        says="What the new leader acknowledges is kept.",
        holds=_NEW_SIDE.kept(),
    ),
    Claim(
        name="acks-all-safe",
        section="beyond 001 scenario 7",
        says="Nothing that was acknowledged with acks=all is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=3),
    ),
)

SCENARIO = Scenario(
    name="controller-cut-from-brokers",
    title="The controller is cut from all other brokers; then a leader dies, and one loses ZooKeeper",
    article="001",
    section="7",
    body=body,
    setup=Setup(
        topics=(Topic(PAIR, (1, 2)), Topic(THIRD, (1, 2, 3)), Topic(SPLIT, (2, 3))),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        quorum="one node",
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost", _OLD_SIDE.where, "acknowledged by a leader that had been replaced without hearing of it"
        ),
    ),
    faults=("cut broker3 <-> broker1, broker3 <-> broker2", "kill broker1", "broker2 without zookeeper"),
    outcome="the acks=1 write of the replaced leader is lost; no acks=all write is",
)
