"""Article 001, scenario 7 with one fault only: the controller reaches ZooKeeper, but no other broker.

All other brokers reach ZooKeeper, too. Then a broker dies that leads two partitions. The successor in one is
the controller itself, which learns of it. The successor in the other is a broker that the controller cannot
reach. The two partitions differ in nothing else.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, controller_stays, messages, opposite, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.steps import awaited, require_controller, seed, settle, stand, wait_view

FAR, NEAR = "f", "n"
"""Replicas (1,2), where the controller cannot reach the successor, and (1,3), where it is the successor."""


def body(stage: Stage) -> None:
    """Cut the controller broker3 from the brokers, kill the leader broker1, write to both successors, heal."""
    seed(stage, FAR, NEAR)
    require_controller(stage, "broker3")
    far = stage.producer("az2", "az2-far", "broker2", acks=1)
    near = stage.producer("az3", "az3-near", "broker3", acks=-1)
    with stage.nemesis.cut("broker3 <-> broker1", "broker3 <-> broker2"):
        stage.mark("cut", "the controller broker3 reaches no other broker; all of them reach ZooKeeper")
        stage.kill("broker1")
        stage.mark("killed", "the leader of both partitions is dead")
        awaited(lambda: stage.wait_for_leader(FAR, on="broker2"))
        if awaited(lambda: stage.wait_for_leader(NEAR, on="broker3")):
            stage.wait_until_serving(NEAR, "broker3", az="az3")
        elected = stage.mark(
            "elected", "the controller elected broker2 for one partition, itself for the other"
        )
        for number in range(3):
            far.send(FAR, f"early{number}")
            near.send(NEAR, f"early{number}")
        # Longer than the controller needs to notice a dead connection and to try again twice.
        stand(stage, elected, 2 * stage.timings.request_s + 2.0)
        for number in range(3):
            far.send(FAR, f"late{number}")
            near.send(NEAR, f"late{number}")
        stage.mark("before-heal", "the last moment of the cut")
    stage.mark("healed", "the links are back; broker1 is still dead")
    stage.wait_until_serving(FAR, "broker2")
    wait_view(stage, "broker2", FAR, leader=2)
    stage.mark("told", "broker2 knows that it leads")
    stage.producer("az2", "az2-after", "broker2", acks=-1).send(FAR, "m")
    stage.restart("broker1")
    settle(stage)


F, N = partition(FAR), partition(NEAR)
CLAIMS = (
    Claim(
        name="only-one-cause",
        section="beyond 001 scenario 7",
        says="Controller and successor keep their sessions: both stay registered, and no controller is elected.",
        holds=both(
            broker(2).is_registered(at="before-heal"),
            broker(3).is_registered(at="before-heal"),
            *(broker(number).never_logged("session_expired", before="before-heal") for number in (2, 3)),
            controller_stays(since="seeded", until="before-heal"),
        ),
        precondition=True,
    ),
    Claim(
        name="elects-both",
        section="beyond 001 scenario 7",
        says="The controller notices the death by ZooKeeper and elects a successor for both partitions.",
        holds=both(
            F.is_led_by(2, isr=(2,), epoch=1, at="before-heal"),
            N.is_led_by(3, isr=(3,), epoch=1, at="before-heal"),
        ),
    ),
    Claim(
        name="reachable-successor-leads",
        section="beyond 001 scenario 7",
        says="The successor that the controller reaches, itself, leads: it takes writes.",
        holds=both(
            broker(3).logged("became_leader", of=N, after="cut", before="before-heal"),
            messages("az3-near", after="elected").acknowledged(at_least=6),
        ),
    ),
    Claim(
        name="changes-not-passed-on",
        section="001 scenario 7",
        quote="如果控制节点发生网络隔离不能与其他的kafka节点进行通讯的结果是,就不能将leader的变化情况传达到各个节点",
        says="The controller cannot pass changes of leaders on to the brokers that it does not reach.",
        holds=both(
            broker(2).believes(F, leader=1, isr=(1, 2), epoch=0, at="before-heal"),
            broker(2).never_logged("became_leader", of=F, after="cut", before="before-heal"),
        ),
        given=F.is_led_by(2, at="before-heal"),
    ),
    Claim(
        name="no-candidate",
        section="001 scenario 7",
        quote="更多的情况是,在发生故障切换时将导致一个broker不能成为leader的候选者",
        says="In a failover one broker cannot be a candidate for leader.",
        holds=opposite(F.is_led_by(2, at="before-heal")),
        erratum=Erratum(
            says="It is elected, never learns of it, and refuses writes (error 6): nobody leads.",
            because="it is registered in ZooKeeper, which is all that the controller asks for",
            holds=both(
                F.is_led_by(2, at="before-heal"),
                messages("az2-far", after="elected").refused_with(6, at_least=6),
            ),
        ),
    ),
    Claim(
        name="told-after-the-heal",
        section="beyond 001 scenario 7",
        says="The cut is what kept it from leading: once it is healed, with the old leader still dead, it leads.",
        holds=both(
            broker(2).logged("became_leader", of=F, after="before-heal"),
            broker(2).believes(F, leader=2, at="told"),
            messages("az2-after", after="told").kept(),
        ),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 001 scenario 7",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="killed", at_least=7),
    ),
)

SCENARIO = Scenario(
    name="controller-cut-no-zk-cut",
    title="The controller is cut from all other brokers, nobody from ZooKeeper; a leader dies",
    article="001",
    section="7 alone",
    body=body,
    setup=Setup(
        topics=(Topic(FAR, (1, 2)), Topic(NEAR, (1, 3))),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    faults=("cut broker3 <-> broker1, broker3 <-> broker2", "kill broker1"),
    outcome="nothing lost; the successor that the controller cannot reach does not lead until the heal",
)
