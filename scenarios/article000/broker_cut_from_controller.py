"""Article 000, section 2: a broker is cut from the controller. This is harmless until a leader dies."""

from __future__ import annotations

from checkers.claims.builders import both, broker, controller_stays, messages, noted, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import read_in_vain, seed, settle, stand, wait_view

TOPIC = "t"


def body(stage: Stage) -> None:
    """Cut broker2 from the controller broker3 and wait; then kill the leader broker1; heal."""
    seed(stage, TOPIC)
    before = stage.producer("az1", "az1-before", "broker1", acks=-1)
    with stage.nemesis.cut("broker2 <-> broker3"):
        cut = stage.mark("cut", "broker2 and the controller no longer see each other")
        for number in range(10):
            before.send(TOPIC, f"h{number}")
        stand(stage, cut, stage.timings.harmless_s)
        for number in range(10, 20):
            before.send(TOPIC, f"h{number}")
        stage.read("az3", TOPIC, "broker1")
        stage.mark("harmless", "nothing has happened so far")
        stage.kill("broker1")
        stage.mark("killed", "the leader is dead")
        stage.wait_for_leader(TOPIC, on="broker2")
        wait_view(stage, "broker3", TOPIC, leader=2)
        stage.mark("elected", "the controller made broker2 leader, but cannot tell it")
        for az in ("az2", "az3"):
            stage.producer(az, f"{az}-to-new", "broker2", acks=-1).send(TOPIC, "x")
            stage.producer(az, f"{az}-to-old", "broker1", acks=1).send(TOPIC, "y")
        stage.producer(
            "az3", "az3-bootstrapped", "broker2", "broker3", via="librdkafka", retries=2, delivery_timeout_s=5
        ).send(TOPIC, "z")
        read_in_vain(stage, "az3", TOPIC, "broker2", "broker3", mark="read-in-az3")
        stage.mark("unavailable", "nobody could write or read")

    stage.mark("healed", "the link is back")
    stage.wait_until_serving(TOPIC, "broker2")
    stage.mark("serving", "broker2 knows that it leads")
    stage.producer("az2", "az2-after", "broker2", acks=-1).must_send(TOPIC, "n")
    stage.restart("broker1")
    settle(stage)


T = partition(TOPIC)
_BEFORE = messages("az1-before", after="cut", before="harmless")
CLAIMS = (
    Claim(
        name="harmless",
        section="000 §2",
        quote="broker 和 controller 断连，不影响生产消费",
        says="A broker and the controller losing each other does not affect producing and consuming.",
        holds=both(
            _BEFORE.acknowledged(at_least=20), _BEFORE.consumed(since="cut", until="harmless", at_least=20)
        ),
    ),
    Claim(
        name="no-change",
        section="000 §2",
        quote="也不会出现数据不一致的情况",
        says="Data do not become inconsistent either: leader and ISR stay.",
        holds=T.stays(since="seeded", until="harmless"),
    ),
    Claim(
        name="elects-broker-1",
        section="000 §2",
        quote="broker-0 故障时，controller（broker-2）感知，并根据 replicas 选举新的 leader 为 broker-1",
        says="When broker-0 fails, the controller notices and elects broker-1.",
        holds=T.is_led_by(2, isr=(2, 3), epoch=1, at="elected"),
    ),
    Claim(
        name="not-told",
        section="000 §2",
        quote="无法同步给 broker-1，broker-1 缓存的 leader 依然是 broker-0，isr 为 [1,2,0]",
        says="Because of the cut it cannot tell broker-1, which still names broker-0 as leader, ISR [1,2,0].",
        holds=broker(2).believes(T, leader=1, isr=(1, 2, 3), at="unavailable"),
    ),
    Claim(
        name="zookeeper-first",
        section="001, consensus",
        quote="控制节点会首先更新zookeeper上的信息,然后通知所有分区副本节点当前leader已经发生改变",
        says="The controller first updates ZooKeeper, then tells the replicas: ZooKeeper names broker-1 as leader while "
        "the controller cannot tell it, and broker-1 takes over after that.",
        holds=both(
            T.is_led_by(2, epoch=1, at="elected"),
            broker(2).believes(T, leader=1, epoch=0, at="unavailable"),
            broker(2).never_logged("became_leader", of=T, after="cut", before="unavailable"),
            broker(2).logged("became_leader", of=T, after="unavailable", where="epoch = 1"),
            broker(3).believes(T, leader=2, epoch=1, at="unavailable"),
        ),
    ),
    Claim(
        name="metadata-inconsistent",
        section="000 §2",
        quote="controller 无法将 leader 和 isr 的变化更新给 broker，导致元数据不一致",
        says="The metadata are inconsistent: from broker-2 a client learns that broker-1 leads.",
        holds=both(
            broker(3).believes(T, leader=2, isr=(2, 3), at="unavailable"),
            broker(2).believes(T, leader=1, at="unavailable"),
        ),
    ),
    Claim(
        name="new-leader-refuses",
        section="000 §2",
        quote="如果从 broker-2 拿到 metadata，认为 leader 为 1，访问 broker-1 会返回 NOT_LEADER_OR_FOLLOWER",
        says="A client that asks broker-1 gets NOT_LEADER_OR_FOLLOWER.",
        holds=messages(("az2-to-new", "az3-to-new")).refused_with(6, at_least=2),
    ),
    Claim(
        name="old-leader-unreachable",
        section="000 §2",
        quote="如果从 broker-1 拿到 metadata，认为 leader 为 0，访问 broker-0 失败，都会导致生产消费失败",
        says="A client that learns from broker-1 that broker-0 leads cannot reach it; producing and consuming fail.",
        holds=both(
            messages(("az2-to-old", "az3-to-old", "az3-bootstrapped")).became(
                "failed", "unknown_dropped", at_least=3
            ),
            noted("read-in-az3", records=0),
        ),
    ),
    Claim(
        name="controller-stays",
        section="beyond 000 §2",
        says="The controller stays the same all the time.",
        holds=controller_stays(since="seeded", until="serving"),
    ),
    Claim(
        name="heals",
        section="beyond 000 §2",
        says="After the heal the request is delivered, and broker-1 leads.",
        holds=messages("az2-after").kept(),
    ),
    Claim(
        name="replicas-agree",
        section="000 §2",
        quote="也不会出现数据不一致的情况",
        says="Data do not become inconsistent either: all replicas hold the same messages in the end.",
        holds=T.logs_agree(replicas=3, at_least=23),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 000 §2",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=20),
    ),
)

SCENARIO = Scenario(
    name="broker-cut-from-controller",
    title="A broker is cut from the controller; then the leader dies",
    article="000",
    section="2",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker3",
        zookeeper_leader="zookeeper1",
    ),
    claims=CLAIMS,
    faults=("cut broker2 <-> broker3", "kill broker1"),
    outcome="nothing lost; after the leader's death nobody can write until the link is back",
)
