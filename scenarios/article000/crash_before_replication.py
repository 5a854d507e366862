"""Article 000, section 5.1: both replicas crash just before a message is replicated."""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, wait_log_end_offset, wait_unregistered

ONE, ALL = "t", "u"


def body(stage: Stage) -> None:
    """Keep the follower from fetching, write, kill both, start the follower first, then the leader."""
    seed(stage, ONE, ALL)
    one = stage.producer("az1", "az1-acks1", "broker1", acks=1)
    all_ = stage.producer("az1", "az1-acks-all", "broker1", acks=-1, request_timeout_s=0.5)
    zero = stage.producer("az1", "az1-acks0", "broker1", acks=0)
    paused = stage.nemesis.pause("broker2").inject()
    stage.mark("paused", "broker2 fetches nothing any more")
    one.must_send(ONE, "c")
    zero.send(ONE, "c0")
    wait_log_end_offset(stage, ONE, 4, "broker1")
    all_.send(ALL, "c")
    stage.mark("written", "the leader alone has the message")
    stage.kill("broker1", "broker2")
    paused.heal()
    stage.mark("killed", "both brokers are dead")
    wait_unregistered(stage, "broker1", "broker2")
    stage.mark("forgotten", "ZooKeeper has forgotten both; the ISR still names both")
    stage.restart("broker2")
    for topic in (ONE, ALL):
        stage.wait_for_leader(topic, on="broker2")
        stage.wait_until_serving(topic, "broker2")
    stage.mark("elected", "broker2 leads")
    after_crash = stage.producer("az2", "az2-after", "broker2", acks=-1)
    for topic in (ONE, ALL):
        after_crash.must_send(topic, "d")
    stage.restart("broker1")
    settle(stage)


T, U = partition(ONE), partition(ALL)
_ACKS_1, _ACKS_ALL = messages("az1-acks1", after="paused"), messages("az1-acks-all", after="paused")
_ACKS_0 = messages("az1-acks0", after="paused")
CLAIMS = (
    Claim(
        name="isr-unchanged",
        section="000 §5.1",
        quote="0 和 1 都在 isr 中",
        says="Replicas 0 and 1 are both in the ISR when they fail.",
        holds=T.is_led_by(1, isr=(1, 2), epoch=0, at="forgotten"),
        precondition=True,
    ),
    Claim(
        name="follower-leads",
        section="000 §5.1",
        quote="之后 broker-1 先启动，成为 leader…无论 unclean.leader.election.enable 是否为 true，都能升主",
        says="broker-1 starts first and becomes leader, also with unclean.leader.election.enable=false.",
        holds=both(T.is_led_by(2, isr=(2,), at="elected"), U.is_led_by(2, isr=(2,), at="elected")),
    ),
    Claim(
        name="epoch-rises",
        section="000 §5.1",
        quote="并递增 leaderEpoch",
        says="The leader epoch rises.",
        holds=T.epoch_rises(since="killed", until="elected"),
    ),
    Claim(
        name="epoch-rises-by-2",
        section="beyond 000 §5.1",
        says="It rises by 2: a controller that starts up marks the partition of the dead leader as offline "
        "(+1), then elects (+1).",
        holds=T.epoch_rises(by=2, since="killed", until="elected"),
    ),
    Claim(
        name="truncates",
        section="000 §5.1",
        quote="通过 OFFSET_FOR_LEADER_EPOCH 从 broker-1 获取 leaderEpoch=0 的 endOffset…"
        "broker-0 根据 leader epoch endOffset 进行 truncate",
        says="broker-0 asks broker-1 for the end offset of leader epoch 0 and truncates to it.",
        holds=both(
            *(broker(1).truncated(one, to=2, after="elected") for one in (T, U)),
            *(
                broker(1).never_logged("truncated_to_hw", of=one, after="elected", before="converged")
                for one in (T, U)
            ),
        ),
    ),
    Claim(
        name="acks-1-lost",
        section="000 §5.1",
        quote="如果 acks=0 或 1，则消息 c 丢失",
        says="With acks=1 message c is lost.",
        holds=_ACKS_1.acknowledged_then_lost(),
    ),
    Claim(
        name="acks-0-lost",
        section="000 §5.1",
        quote="如果 acks=0 或 1，则消息 c 丢失",
        says="With acks=0 message c is lost without an error.",
        holds=both(_ACKS_0.seen_on(1, until="written"), _ACKS_0.acknowledged_then_lost()),
    ),
    Claim(
        name="acks-all-told",
        section="000 §5.1",
        quote="如果 acks=-1，则生产消息 c 时，返回客户端的是生产失败，不算消息丢失",
        says="With acks=-1 the client learns that producing c failed (error 7), which is not a loss.",
        holds=both(_ACKS_ALL.refused_with(7), _ACKS_ALL.became("unknown_dropped")),
    ),
    Claim(
        name="works-again",
        section="000 §5.1",
        quote="之后正常生产消息和副本同步",
        says="Afterwards messages are produced and replicated normally.",
        holds=both(
            messages("az2-after").kept(at_least=2),
            T.is_led_by(2, isr=(1, 2), at="converged"),
            U.is_led_by(2, isr=(1, 2), at="converged"),
        ),
    ),
    Claim(
        name="nothing-else-lost",
        section="000 §5.1",
        quote="如果 acks=-1，则生产消息 c 时，返回客户端的是生产失败，不算消息丢失",
        says="Nothing acknowledged with acks=-1 is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="paused", at_least=2),
    ),
)

SCENARIO = Scenario(
    name="crash-before-replication",
    title="Both replicas crash before a message is replicated",
    article="000",
    section="5.1",
    body=body,
    setup=Setup(
        topics=(Topic(ONE, (1, 2)), Topic(ALL, (1, 2))),
        controller="broker1",
        zookeeper_leader="zookeeper3",
        brokers=(1, 2),
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost",
            messages(("az1-acks0", "az1-acks1"), after="paused").where,
            "only the leader had it, and it started last",
        ),
    ),
    faults=("pause broker2", "kill broker1, broker2"),
    outcome="the writes with acks=0 and acks=1 are lost; the acks=all write was never acknowledged",
)
