"""Article 000, section 1, and a case that it leaves out: some brokers' ZooKeeper node becomes unavailable.

ZooKeeper leads in az2, so that zk-0 loses its leader when az1 is cut from az2. The partition's leader and the
controller are connected to zk-0 and must find another node before their sessions end. Whether they do is a
race.
"""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    broker,
    controller_changes,
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
from scenarios.steps import durable_producer, move_sessions, require_controller, seed, settle, stand

TOPIC, APART = "t", "a"
"""Replicas (1,2,3), and (3,2), which the cut does not concern."""
LAG_S = 3.0


def body(stage: Stage) -> None:
    """Connect leader and controller to zk-0, cut az1 from az2, write until all has settled, heal."""
    seed(stage, TOPIC)
    seed(stage, APART, leader="broker3")
    move_sessions(stage, "zookeeper1", "broker1", "broker3")
    require_controller(stage, "broker3")
    retrying = durable_producer(
        stage, "az3", "az3-retry", delivery_timeout_s=3 * stage.timings.harmless_s
    ).prepare(TOPIC)
    with stage.nemesis.cut("az1 <-> az2"):
        cut = stage.mark("cut", "az1 and az2 no longer see each other; zookeeper1 has lost its leader")
        waiting = [retrying.send_later(TOPIC, f"m{number}") for number in range(4)]
        stand(stage, cut, stage.timings.harmless_s)
        for sent in waiting:
            sent.result(timeout=3 * stage.timings.harmless_s + 10)
        stage.mark("before-heal", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    retrying.send(TOPIC, "after")
    settle(stage)


T, A = partition(TOPIC), partition(APART)
_LEFT_ASIDE = (
    "过程中可能会引起原本连在 zk-0 上的 broker 节点会先和 zk 断开，再重新连接其他 zk 节点，"
    "进而引起 controller 切换、leader 选举等"
)
CLAIMS = (
    Claim(
        name="connected-to-zk-0",
        section="000 §1",
        quote=_LEFT_ASIDE,
        says="The partition's leader and the controller are connected to zk-0 at first.",
        holds=noted("moved", connected_to="zookeeper1"),
        precondition=True,
    ),
    Claim(
        name="zk-0-falls-out",
        section="000 §1",
        quote="zk-1 为 leader，zk-0 和 zk-2 为 follower，zk-0 会不可用",
        says="zk-1 leads ZooKeeper: zk-0, a follower, becomes unavailable.",
        holds=does_not_answer("zookeeper1", at="before-heal"),
    ),
    Claim(
        name="zookeeper-available",
        section="000 §1",
        quote="但 zk 集群可用",
        says="The ZooKeeper cluster stays available: zk-1 and zk-2 answer, and take the changes that follow.",
        holds=both(
            opposite(does_not_answer("zookeeper2", at="before-heal")),
            opposite(does_not_answer("zookeeper3", at="before-heal")),
            opposite(T.stays(since="seeded", until="before-heal")),
        ),
    ),
    Claim(
        name="reconnect",
        section="000 §1",
        quote=_LEFT_ASIDE,
        says="The brokers that were connected to zk-0 are disconnected and connect to another node.",
        holds=both(
            *(broker(number).logged("session_connected", after="cut", before="healed") for number in (1, 3)),
            *(broker(number).is_registered(at="before-heal") for number in (1, 3)),
        ),
    ),
    Claim(
        name="controller",
        section="000 §1",
        quote="leader、isr、controller 都不变",
        says="The controller does not change.",
        holds=controller_stays(since="seeded", until="before-heal"),
        either=Either(
            says="Another broker becomes controller, as the session of the old one has ended.",
            because="a broker needs up to 4 s to notice, wait and connect elsewhere, about as long as its session lasts",
            holds=both(
                controller_changes(since="seeded", until="before-heal"),
                broker(3).logged("session_expired", after="cut", before="before-heal"),
            ),
        ),
    ),
    Claim(
        name="leader",
        section="000 §1",
        quote="leader、isr、controller 都不变",
        says="The leader does not change.",
        holds=T.stays(since="seeded", until="before-heal", what="leader"),
        either=Either(
            says="Another leader is elected, as the session of the old one has ended.",
            because="a broker needs up to 4 s to notice, wait and connect elsewhere, about as long as its session lasts",
            holds=both(
                T.epoch_rises(since="seeded", until="before-heal"),
                broker(1).logged("session_expired", after="cut", before="before-heal"),
            ),
        ),
    ),
    Claim(
        name="acks-all-goes-through",
        section="000 §1",
        quote="az1/3 内的客户端可以生产消费",
        says="A client in az3 that retries gets everything acknowledged, whichever broker leads at the end.",
        holds=messages("az3-retry", after="cut", before="before-heal").kept(at_least=4),
    ),
    Claim(
        name="recovers",
        section="000 §1",
        quote="网络恢复后，数据同步，更新 isr",
        says="After the network recovers data is replicated and the ISR updated.",
        holds=both(T.has_isr(1, 2, 3, at="converged"), messages("az3-retry", after="healed").kept()),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 000 §1",
        says="Nothing that was acknowledged with acks=all is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=4),
    ),
)

SCENARIO = Scenario(
    name="unpinned-zookeeper-leader-isolated",
    title="A follower's AZ, where ZooKeeper leads, is cut from the leader's; sessions have to move",
    article="000",
    section="1 unpinned",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)), Topic(APART, (3, 2))),
        controller="broker3",
        zookeeper_leader="zookeeper2",
        broker_config={"replica.lag.time.max.ms": f"{LAG_S * 1000:.0f}"},
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    faults=("cut broker1, broker3 -> zookeeper2, zookeeper3 for a moment", "cut az1 <-> az2"),
    outcome="nothing lost; sessions move in time, or end, and then others are elected",
)
