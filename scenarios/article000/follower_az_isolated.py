"""Article 000, section 3.1: the AZ of a follower is isolated; leader and controller are elsewhere."""

from __future__ import annotations

from checkers.claims.builders import (
    answers_until_silent,
    both,
    broker,
    controller_stays,
    does_not_answer,
    messages,
    noted,
    opposite,
    partition,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, read_in_vain, seed, settle

RETRIED, PATIENT, IDEMPOTENT = "t", "u", "v"
TOPICS = (RETRIED, PATIENT, IDEMPOTENT)
ALONE_S = 0.5
"""Longer than a ZooKeeper node takes to answer, and less than syncLimit (2 s), after which it serves nobody."""


def body(stage: Stage) -> None:
    """Isolate az1, produce on both sides, wait for the ISR to follow, heal."""
    seed(stage, *TOPICS, leader="broker2")
    # Attempts of a second each until the session has ended, and time for one more.
    attempts, longer_s = round(stage.timings.session_s) - 1, 2.5 * stage.timings.session_s
    retrying = stage.producer(
        "az2",
        "az2-retry",
        via="librdkafka",
        retries=attempts,
        request_timeout_s=1,
        delivery_timeout_s=longer_s,
    ).prepare(RETRIED)
    idempotent = stage.producer(
        "az2",
        "az2-idempotent",
        via="librdkafka",
        retries=attempts,
        idempotent=True,
        request_timeout_s=1,
        delivery_timeout_s=longer_s,
    ).prepare(IDEMPOTENT)
    patient = stage.producer("az2", "az2-patient", "broker2", acks=-1, request_timeout_s=longer_s)
    cut_off = stage.producer(
        "az1", "az1-cut-off", "broker1", via="librdkafka", retries=1, delivery_timeout_s=4
    ).prepare(RETRIED)

    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 can no longer reach az2 and az3")
        waiting = [
            retrying.send_later(RETRIED, "m"),
            patient.send_later(PATIENT, "m"),
            idempotent.send_later(IDEMPOTENT, "m"),
            cut_off.send_later(RETRIED, "n"),
        ]
        for topic in TOPICS:
            stage.wait_for_isr(topic, 2, 3, within_s=stage.timings.session_end_s)
        stage.mark("shrunk", "broker1's session has ended")
        for sent in waiting:
            sent.result(timeout=longer_s + 15)
        later = stage.producer("az3", "az3-later", "broker2", acks=-1)
        later.must_send(RETRIED, "p")
        for az in ("az2", "az3"):
            stage.read(az, RETRIED, "broker2")
        read_in_vain(stage, "az1", RETRIED, mark="read-in-az1")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    settle(stage)


T = partition(RETRIED)
_RETRIED, _LATER = messages("az2-retry"), messages("az3-later")
_OTHERS = messages(("az2-retry", "az2-patient", "az2-idempotent", "az3-later"))
CLAIMS = (
    Claim(
        name="controller-stays",
        section="000 §3",
        quote="不会发生 controller 选举，controller 还是在 broker-1",
        says="No controller election happens; the controller stays where it was.",
        holds=controller_stays(since="seeded", until="before-heal"),
    ),
    Claim(
        name="loses-zookeeper",
        section="000 §3",
        quote="broker-0 无法访问 zk",
        says="broker-0 cannot reach ZooKeeper: its registration there ends.",
        holds=opposite(broker(1).is_registered(at="before-heal")),
    ),
    Claim(
        name="zookeeper-in-az1-down",
        section="000 §3",
        quote="zk-0 和 zk-1、zk-2 不通，少于半数，az1 内 zk 不可用",
        says="zk-0 has lost the majority: ZooKeeper in az1 is not available.",
        holds=does_not_answer("zookeeper1", at="before-heal"),
    ),
    Claim(
        name="zookeeper-in-az1-reads-on",
        section="beyond 000 §3",
        says="At first zk-0 answers reads from its own copy, although it reaches no other ZooKeeper node.",
        holds=answers_until_silent("zookeeper1", after="cut", at_least_s=ALONE_S),
    ),
    Claim(
        name="stale-metadata",
        section="000 §3.1",
        quote="感知不到节点变化，metadata 不更新（leader：1，isr：[1,0,2]），依然认为自己是 follower，leader 在 1",
        says="broker-0's metadata are not updated: leader 1, ISR [1,0,2].",
        holds=broker(1).believes(T, leader=2, isr=(1, 2, 3), at="before-heal"),
    ),
    Claim(
        name="az1-cannot-produce",
        section="000 §3.1",
        quote="az1 内的客户端无法生产消费",
        says="Clients in az1 cannot produce.",
        holds=messages("az1-cut-off").not_acknowledged(),
    ),
    Claim(
        name="az1-cannot-consume",
        section="000 §3.1",
        quote="az1 内的客户端无法生产消费",
        says="Clients in az1 cannot consume, while those elsewhere can.",
        holds=both(noted("read-in-az1", records=0), _LATER.consumed(since="cut", until="before-heal")),
    ),
    Claim(
        name="isr-follows",
        section="000 §3.1",
        quote="感知到 broker-0 下线，metadata 更新，且不发生 leader 切换（isr：[1,0,2] -> [1,2]，leader：1）",
        says="The cluster notices that broker-0 is gone: the ISR [1,0,2] becomes [1,2], and the leader stays.",
        holds=T.is_led_by(2, isr=(2, 3), at="shrunk"),
    ),
    Claim(
        name="epoch-rises",
        section="beyond 000 §3.1",
        says="The leader epoch rises by 1 although the leader stays.",
        holds=T.epoch_rises(by=1, since="cut", until="shrunk"),
    ),
    Claim(
        name="others-produce",
        section="000 §3.1",
        quote="az2 和 az3 内的客户端可正常生产消费",
        says="Clients in az2 and az3 can produce and consume normally.",
        holds=both(
            _OTHERS.acknowledged(at_least=4),
            messages(("az2-retry", "az3-later")).consumed(
                since="cut", until="before-heal", at_least=2, readers=2
            ),
        ),
    ),
    Claim(
        name="retries-duplicate",
        section="beyond 000 §3.1",
        says="The acknowledged write of the retrying producer is in the log more than once.",
        holds=both(_RETRIED.acknowledged(), opposite(_RETRIED.in_final_log(copies=1))),
    ),
    Claim(
        name="patient-once",
        section="beyond 000 §3.1",
        says="A producer that waits longer than the session gets an acknowledgement, and the log has one copy.",
        holds=both(messages("az2-patient").acknowledged(), messages("az2-patient").in_final_log(copies=1)),
    ),
    Claim(
        name="idempotent-once",
        section="beyond 000 §3.1",
        says="With enable.idempotence there is one copy.",
        holds=messages("az2-idempotent").in_final_log(copies=1),
    ),
    Claim(
        name="rejoins",
        section="000 §3",
        quote="网络恢复后，broker-0 加入集群，并同步数据",
        says="After the network recovers broker-0 joins the cluster and replicates.",
        holds=T.has_isr(1, 2, 3, at="converged"),
        given=opposite(T.has_isr(1, 2, 3, at="before-heal")),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 000 §3.1",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=4),
    ),
)

SCENARIO = Scenario(
    name="follower-az-isolated",
    title="A follower's AZ is isolated; leader and controller are elsewhere",
    article="000",
    section="3.1",
    body=body,
    setup=Setup(
        topics=tuple(Topic(name, (2, 1, 3)) for name in TOPICS),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        # Long enough for a second attempt before the session ends, also on a busy machine.
        broker_config={"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "12000"},
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "duplicated",
            _RETRIED.where,
            "its first attempts time out after they were appended, and all of them survive",
        ),
    ),
    faults=("isolate az1",),
    outcome="nothing lost; the retried write is there several times",
)
