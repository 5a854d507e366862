"""Article 001, scenario 8: the controller is cut from ZooKeeper only."""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    broker,
    controller_changes,
    controller_is,
    controller_stays,
    messages,
    noted,
    opposite,
    partition,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, try_create_topic, wait_for_controller

FOLLOWS, LEADS = "t", "q"
"""Of the first the controller is a follower, of the second the leader."""
BY_OLD, BY_NEW = "made-by-old", "made-by-new"


def body(stage: Stage) -> None:
    """Cut broker3 from ZooKeeper; see it replaced as controller, as leader and as follower; heal."""
    seed(stage, FOLLOWS)
    seed(stage, LEADS, leader="broker3")
    with stage.nemesis.without_zookeeper("broker3"):
        stage.mark("cut", "the controller has lost ZooKeeper; it still reaches all brokers")
        new = wait_for_controller(stage, not_on="broker3")
        stage.wait_for_leader(LEADS, not_on="broker3")
        stage.wait_for_isr(FOLLOWS, 1, 2)
        stage.wait_until_serving(LEADS, "broker1", az="az1")
        stage.mark("succession", "there is another controller, and another leader for what broker3 led")
        stage.producer("az3", "az3-acks1", "broker3", acks=1).send(LEADS, "z")
        stage.producer("az3", "az3-acks-all", "broker3", acks=-1).send(LEADS, "y")
        stage.producer("az1", "az1-new-side", "broker1", acks=-1).send(LEADS, "n")
        try_create_topic(stage, "broker3", BY_OLD, (1, 2), "create-by-old")
        try_create_topic(stage, f"broker{new}", BY_NEW, (1, 2), "create-by-new")
        stage.wait_for_leader(BY_NEW, not_on="broker3")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "broker3 reaches ZooKeeper again")
    settle(stage)


T, Q, MADE_BY_OLD, MADE_BY_NEW = map(partition, (FOLLOWS, LEADS, BY_OLD, BY_NEW))
_ZOMBIE = messages("az3-acks1", after="cut")
CLAIMS = (
    Claim(
        name="new-controller",
        section="001 scenario 8",
        quote="zookeeper将会把这个控制节点标记为失效,同时选举出新的控制节点",
        says="ZooKeeper marks the controller as failed, and another one is elected.",
        holds=both(
            opposite(broker(3).is_registered(at="succession")),
            controller_is(1, 2, at="succession"),
            controller_changes(since="seeded", until="succession"),
        ),
    ),
    Claim(
        name="old-controller-thinks-so",
        section="001 scenario 8",
        quote="原控制节点会继续认为自己是控制节点",
        says="The old controller still believes that it is the controller.",
        holds=both(
            broker(3).names_controller(3, at="before-heal"),
            broker(1).names_controller(1, 2, at="before-heal"),
        ),
    ),
    Claim(
        name="old-controller-idle",
        section="001 scenario 8",
        quote="由于不能从zookeeper接收到任何新的指令,因此不会进行进一步的操作",
        says="It has no effect: a request for a topic is not refused (error 41), as by a broker that is no controller, "
        "but not answered, and the topic is never created, while its successor creates one.",
        holds=both(
            opposite(MADE_BY_OLD.exists(at="before-heal")),
            opposite(MADE_BY_OLD.exists(at="converged")),
            MADE_BY_NEW.is_led_by((1, 2), at="before-heal"),
            noted("create-by-old", answered=0, exists=0),
        ),
        given=broker(3).names_controller(3, at="create-by-old"),
    ),
    Claim(
        name="leads-no-more",
        section="beyond 001 scenario 8",
        says="The partition that it led gets another leader two epochs later, and it leaves every ISR.",
        holds=both(
            Q.is_led_by(1, isr=(1, 2), epoch=2, at="before-heal"),
            T.is_led_by(1, isr=(1, 2), epoch=1, at="before-heal"),
        ),
    ),
    Claim(
        name="zombie-leader",
        section="beyond 001 scenario 8",
        says="As the old leader it takes acks=1 writes, which are lost; acks=all fails with error 7.",
        holds=both(_ZOMBIE.acknowledged_then_lost(), messages("az3-acks-all").refused_with(7)),
    ),
    Claim(
        name="becomes-ordinary",
        section="001 scenario 8",
        quote="一旦网络分区问题解决它将不再成为一个控制节点,而转变为普通节点",
        says="Once the partition is over it is no longer the controller, but an ordinary broker.",
        holds=both(
            broker(3).resigned(after="before-heal"),
            broker(3).names_controller(1, 2, at="converged"),
            broker(3).is_registered(at="converged"),
            T.has_isr(1, 2, 3, at="converged"),
        ),
    ),
    Claim(
        name="successor-stays",
        section="001 scenario 8",
        quote="一旦网络分区问题解决它将不再成为一个控制节点",
        says="Once the partition is over it is no longer the controller, not even in its own view: its successor stays.",
        holds=both(
            controller_is(1, 2, at="converged"),
            opposite(broker(3).names_controller(3, at="converged")),
            controller_stays(since="succession", until="converged"),
        ),
        given=broker(3).names_controller(3, at="before-heal"),
    ),
    Claim(
        name="acks-all-safe",
        section="beyond 001 scenario 8",
        says="Nothing that was acknowledged with acks=all is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=2),
    ),
)

SCENARIO = Scenario(
    name="controller-without-zookeeper",
    title="The controller is cut from ZooKeeper only",
    article="001",
    section="8",
    body=body,
    setup=Setup(
        topics=(Topic(FOLLOWS, (1, 2, 3)), Topic(LEADS, (3, 1, 2))),
        controller="broker3",
        zookeeper_leader="zookeeper1",
        quorum="one node",
        exactly=("broker",),
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost", _ZOMBIE.where, "acknowledged by a leader that had been replaced without hearing of it"
        ),
    ),
    faults=("broker3 without zookeeper",),
    outcome="the acks=1 write to the replaced leader is lost, nothing else",
)
