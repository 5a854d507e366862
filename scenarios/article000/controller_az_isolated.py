"""Article 000, section 4.1: the controller's AZ is isolated; the partition's leader is elsewhere."""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    broker,
    controller_changes,
    controller_is,
    controller_stays,
    does_not_answer,
    messages,
    noted,
    opposite,
    partition,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Either, Scenario
from run.stage import Stage
from scenarios.steps import pins, read_in_vain, seed, settle, try_create_topic, wait_for_controller

TOPIC = "t"
BY_OLD, BY_NEW = "made-by-old", "made-by-new"


def body(stage: Stage) -> None:
    """Isolate az3 with the controller in it; write, read and create topics on both sides; heal."""
    seed(stage, TOPIC)
    patient = stage.producer(
        "az1", "az1-patient", "broker1", acks=-1, request_timeout_s=stage.timings.patience_s
    )
    cut_off = stage.producer(
        "az3", "az3-cut-off", "broker3", via="librdkafka", retries=1, delivery_timeout_s=4
    ).prepare(TOPIC)
    with stage.nemesis.isolate("az3"):
        stage.mark("cut", "az3, where the controller is, can no longer reach az1 and az2")
        waiting = [patient.send_later(TOPIC, "m"), cut_off.send_later(TOPIC, "n")]
        new = wait_for_controller(stage, not_on="broker3")
        stage.mark("succession", "one of the others is controller; broker3 has not heard of it")
        stage.wait_for_isr(TOPIC, 1, 2)
        for sent in waiting:
            sent.result(timeout=stage.timings.patience_s + 10)
        stage.producer("az2", "az2-later", "broker1", acks=-1).must_send(TOPIC, "p")
        stage.read("az2", TOPIC, "broker1")
        read_in_vain(stage, "az3", TOPIC, mark="read-in-az3")
        try_create_topic(stage, "broker3", BY_OLD, (1, 2), "create-by-old")
        try_create_topic(stage, f"broker{new}", BY_NEW, (1, 2), "create-by-new")
        stage.wait_for_leader(BY_NEW, not_on="broker3")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    settle(stage)


T, MADE_BY_OLD, MADE_BY_NEW = partition(TOPIC), partition(BY_OLD), partition(BY_NEW)
_OTHERS = messages(("az1-patient", "az2-later"))
FIRST_COMES = "whoever is first to create /controller in ZooKeeper, when it has vanished, becomes controller"


def _elected(number: int) -> str:
    return both(
        controller_changes(since="seeded", until="succession"), controller_is(number, at="succession")
    )


CLAIMS = (
    Claim(
        name="zookeeper-in-az3-down",
        section="000 §4.1",
        quote="az3 的 zk 不可用",
        says="ZooKeeper is not available in az3.",
        holds=does_not_answer("zookeeper3", at="before-heal"),
    ),
    Claim(
        name="new-controller",
        section="000 §4.1",
        quote="broker-2（原 controller）从 zk 集群断开，broker-0 和 broker-1 重新竞选 controller",
        says="broker-2 is disconnected from ZooKeeper; broker-0 and broker-1 compete to be controller.",
        holds=both(
            controller_changes(since="seeded", until="succession"), controller_is(1, 2, at="succession")
        ),
    ),
    Claim(
        name="broker-0-elected",
        section="000 §4.1",
        quote="最终 broker-0 选举为 controller",
        says="In the end broker-0 is elected controller.",
        holds=_elected(1),
        either=Either(says="broker-1 is elected controller.", because=FIRST_COMES, holds=_elected(2)),
    ),
    Claim(
        name="two-controllers",
        section="000 §4.1",
        quote="而 broker-2 也认为自己是 controller，出现 controller 双主",
        says="broker-2 also believes that it is the controller: there are two.",
        holds=both(
            broker(3).names_controller(3, at="before-heal"),
            broker(1).names_controller(1, 2, at="before-heal"),
        ),
    ),
    Claim(
        name="az3-metadata-stale",
        section="000 §4.1",
        quote="因连不上 zk，metadata 无法更新",
        says="As it cannot reach ZooKeeper, the metadata in az3 are not updated.",
        holds=broker(3).believes(T, leader=1, isr=(1, 2, 3), at="before-heal"),
    ),
    Claim(
        name="az3-cannot-produce",
        section="000 §4.1",
        quote="az3 内的客户端无法生产消费",
        says="Clients in az3 cannot produce.",
        holds=messages("az3-cut-off").not_acknowledged(),
    ),
    Claim(
        name="az3-cannot-consume",
        section="000 §4.1",
        quote="az3 内的客户端无法生产消费",
        says="Clients in az3 cannot consume, while those elsewhere can.",
        holds=both(
            noted("read-in-az3", records=0), _OTHERS.consumed(since="cut", until="before-heal", at_least=2)
        ),
    ),
    Claim(
        name="others-produce",
        section="000 §4.1",
        quote="az1/2 内的客户端可以正常生产消费",
        says="Clients in az1 and az2 can produce normally, and those in az2 can consume what both wrote.",
        holds=both(
            _OTHERS.acknowledged(at_least=2), _OTHERS.consumed(since="cut", until="before-heal", at_least=2)
        ),
    ),
    Claim(
        name="isr-follows",
        section="beyond 000 §4.1",
        says="broker-2 leaves the ISR. The leader stays, and the leader epoch rises by 1.",
        holds=T.is_led_by(1, isr=(1, 2), epoch=1, at="before-heal"),
    ),
    Claim(
        name="new-controller-acts",
        section="beyond 000 §4.1",
        says="The new controller acts: it creates a topic on request.",
        holds=MADE_BY_NEW.is_led_by((1, 2), at="before-heal"),
    ),
    Claim(
        name="old-controller-powerless",
        section="beyond 000 §4.1",
        says="The old controller cannot act. It does not refuse a request for a topic, as a broker that is no controller "
        "does (error 41), but does not answer, and the topic is never created, not even after the heal.",
        holds=both(
            MADE_BY_NEW.exists(at="converged"),
            opposite(MADE_BY_OLD.exists(at="before-heal")),
            opposite(MADE_BY_OLD.exists(at="converged")),
            noted("create-by-old", answered=0, exists=0),
        ),
        given=broker(3).names_controller(3, at="create-by-old"),
    ),
    Claim(
        name="resigns",
        section="000 §4.1",
        quote="故障恢复后，broker-2 感知到 zk 连接状态发生变化，会先 resign",
        says="After the heal broker-2 notices its new session and resigns.",
        holds=broker(3).resigned(after="before-heal"),
    ),
    Claim(
        name="successor-stays",
        section="000 §4.1",
        quote="再尝试竞选 controller，发现 broker-0 已经是 controller 了，放弃竞选 controller",
        says="It finds that it has a successor and gives up competing: the successor stays controller.",
        holds=both(
            controller_stays(since="succession", until="converged"),
            broker(3).names_controller(1, 2, at="converged"),
        ),
    ),
    Claim(
        name="told-after-heal",
        section="000 §4.1",
        quote="broker-0 会感知到 broker-2 上线，会同步 LeaderAndIsr 和 metadata 到 broker-2",
        says="The new controller notices that broker-2 is back, and brings its metadata up to date.",
        holds=both(
            broker(3).is_registered(at="converged"),
            broker(3).believes(T, leader=1, isr=(1, 2, 3), epoch=1, at="converged"),
        ),
        given=broker(3).believes(T, leader=1, epoch=0, at="before-heal"),
    ),
    Claim(
        name="rejoins",
        section="000 §4.1",
        quote="在 broker-2 同步数据后加入 isr",
        says="broker-2 replicates and joins the ISR again.",
        holds=T.is_led_by(1, isr=(1, 2, 3), at="converged"),
    ),
    Claim(
        name="one-epoch",
        section="beyond 000 §4.1",
        says="The heal raises no leader epoch.",
        holds=T.stays(since="before-heal", until="converged", what="leader, epoch"),
        given=T.epoch_rises(by=1, since="cut", until="before-heal"),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 000 §4.1",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=2),
    ),
)

SCENARIO = Scenario(
    name="controller-az-isolated",
    title="The controller's AZ is isolated; the leader is elsewhere",
    article="000",
    section="4.1",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker3",
        zookeeper_leader="zookeeper1",
        zookeeper_pins=pins(1, 2, to=(1, 2)),
        exactly=("broker",),
    ),
    claims=CLAIMS,
    faults=("isolate az3",),
    outcome="two controllers for a while; nothing lost",
)
