"""Article 000, section 4.2: controller and leader are the same broker, and its AZ is isolated."""

from __future__ import annotations

from checkers.claims.builders import both, broker, controller_changes, controller_is, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Either, Expected, Scenario
from run.stage import Stage
from scenarios.article000.controller_az_isolated import FIRST_COMES
from scenarios.steps import elect_preferred, pins, seed, settle, wait_for_controller

TOPIC = "t"


def body(stage: Stage) -> None:
    """Isolate az1, write on both sides, heal, and give the old leader its role back."""
    seed(stage, TOPIC)
    old_side = stage.producer("az1", "az1-acks1", "broker1", acks=1)
    retrying = stage.producer("az1", "az1-retry", "broker1", via="librdkafka", retries=1).prepare(TOPIC)
    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1, with the controller and the leader in it, is alone")
        failing = retrying.send_later(TOPIC, "all")
        for label in ("c", "d", "e"):
            old_side.send(TOPIC, label)
        going_on = old_side.keep_writing(TOPIC, every_s=0.2)
        wait_for_controller(stage, not_on="broker1")
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.mark("failover", "a new controller elected a new leader")
        stage.wait_until_serving(TOPIC, "broker3", az="az3")
        new_side = stage.producer("az3", "az3-acks-all", "broker3", acks=-1)
        for label in ("f", "g"):
            new_side.must_send(TOPIC, label)
        failing.result(timeout=20)
        stage.mark("split", "two controllers, two leaders")

    stage.mark("healed", "the links are back")
    going_on.wait_refused(within_s=20 + stage.timings.recovery_s)
    settle(stage)
    elect_preferred(stage, TOPIC, "broker1")
    stage.mark("preferred", "the preferred leader leads again")


T = partition(TOPIC)
_OLD_SIDE = messages("az1-acks1", after="cut")


def _two_controllers(new: int) -> str:
    return both(
        controller_changes(since="seeded", until="split"),
        controller_is(new, at="split"),
        broker(1).names_controller(1, at="split"),
        broker(3).names_controller(new, at="split"),
    )


CLAIMS = (
    Claim(
        name="two-controllers",
        section="000 §4.2",
        quote="broker-2 竞选为 controller，出现 controller 双主",
        says="broker-2 becomes controller, and broker-0 still believes that it is the controller.",
        holds=_two_controllers(3),
        either=Either(
            says="broker-1 becomes controller, and broker-0 still believes that it is the controller.",
            because=FIRST_COMES,
            holds=_two_controllers(2),
        ),
    ),
    Claim(
        name="new-leader",
        section="000 §4.2",
        quote="同时 replica-2 成为 leader",
        says="replica-2 becomes leader.",
        holds=T.is_led_by(3, isr=(2, 3), at="split"),
    ),
    Claim(
        name="two-leaders",
        section="000 §4.2",
        quote="分区也出现双主",
        says="The partition has two leaders: broker-0 has not heard of the election.",
        holds=both(broker(1).believes(T, leader=1, isr=(1, 2, 3), at="split"), T.is_led_by(3, at="split")),
    ),
    Claim(
        name="epoch-rises-by-2",
        section="000 §3.2",
        quote="这里 leaderEpoch 增加 2，是因为有两次增加 leaderEpoch 的操作",
        says="The leader epoch rises by 2: one for the replica that went offline, one for the election.",
        holds=T.epoch_rises(by=2, since="seeded", until="split"),
    ),
    Claim(
        name="zombie-accepts",
        section="000 §4.2",
        quote="此时的场景和 3.2 类似，此时生产消息，可能出现数据不一致",
        says="Clients in az1 can go on producing to broker-0 (acks=1), even after it has a successor.",
        holds=both(
            messages("az1-acks1", after="cut", before="split").acknowledged(at_least=4),
            messages("az1-acks1", after="failover", before="healed").acknowledged(),
        ),
    ),
    Claim(
        name="data-inconsistent",
        section="000 §4.2",
        quote="此时生产消息，可能出现数据不一致",
        says="The situation is that of 3.2: data become inconsistent, and what az1 wrote is lost.",
        holds=_OLD_SIDE.acknowledged_then_lost(at_least=3),
    ),
    Claim(
        name="acks-all-fails-inside",
        section="000 §3.2",
        quote="若 az1 内的客户端 acks=-1，retries=3，会发现生产消息失败",
        says="In az1 producing with acks=-1 fails.",
        holds=messages("az1-retry").refused_with(7),
    ),
    Claim(
        name="acks-all-safe",
        section="000 §3.2",
        quote="因此，考虑此种情况，建议客户端 acks=-1",
        says="acks=-1 loses nothing that was acknowledged.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=2),
    ),
    Claim(
        name="truncates",
        section="000 §4.2",
        quote="broker-0 根据 leaderEpoch 进行 truncate，从 broker-2 同步数据",
        says="broker-0 truncates by leader epoch and replicates from broker-2.",
        holds=both(
            broker(1).truncated(T, to=2, after="cut"),
            broker(1).never_logged("truncated_to_hw", of=T, after="cut", before="converged"),
        ),
    ),
    Claim(
        name="resigns",
        section="000 §4.2",
        quote="网络恢复后的情况，也和 3.2 类似，broker-2 为 controller 和 leader",
        says="broker-0 gives up the controller's role after the heal.",
        holds=both(broker(1).resigned(after="split"), broker(1).names_controller(2, 3, at="converged")),
    ),
    Claim(
        name="rejoins",
        section="000 §4.2",
        quote="加入 isr",
        says="It joins the ISR.",
        holds=T.is_led_by(3, isr=(1, 2, 3), epoch=2, at="converged"),
    ),
    Claim(
        name="preferred-epoch",
        section="000 §4.2",
        quote="然后通过 preferredLeaderElection 再次成为 leader，leaderEpoch 加 1",
        says="A preferred leader election makes it leader again; the leader epoch rises by 1.",
        holds=both(T.is_led_by(1, at="preferred"), T.epoch_rises(by=1, since="converged", until="preferred")),
    ),
)

SCENARIO = Scenario(
    name="controller-and-leader-isolated",
    title="Controller and leader are one broker, and its AZ is isolated",
    article="000",
    section="4.2",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 3, 2)),),
        controller="broker1",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        exactly=("broker",),
    ),
    claims=CLAIMS,
    expected=(
        Expected("lost", _OLD_SIDE.where, "acknowledged by the old leader alone, truncated when it rejoins"),
    ),
    faults=("isolate az1",),
    outcome="every acks=1 write acknowledged in az1 after the cut is lost, nothing else",
)
