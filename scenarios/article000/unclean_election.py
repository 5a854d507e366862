"""Article 000, section 5.2: a replica outside of the ISR is elected. A second topic allows only clean elections."""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, messages_where, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, wait_elected

CLEAN, UNCLEAN = "t", "u"


def body(stage: Stage) -> None:
    """The follower dies, the leader writes on alone and dies, the follower comes back first."""
    seed(stage, CLEAN, UNCLEAN)
    stage.kill("broker2")
    stage.mark("killed", "the follower is dead")
    for topic in (CLEAN, UNCLEAN):
        stage.wait_for_isr(topic, 1)
    stage.mark("alone", "the leader is alone in the ISR")
    alone = stage.producer("az1", "az1-alone", "broker1", acks=-1)
    for topic in (CLEAN, UNCLEAN):
        alone.send(topic, "c")
    stage.kill("broker1")
    for topic in (CLEAN, UNCLEAN):
        stage.wait_for_no_leader(topic)
    stage.mark("dead", "nobody leads; the ISR names the dead leader alone")
    stage.restart("broker2")
    late = stage.producer("az2", "az2-late", "broker2", acks=-1, request_timeout_s=stage.timings.patience_s)
    if wait_elected(stage, UNCLEAN, "broker2"):
        stage.wait_until_serving(UNCLEAN, "broker2")
        stage.mark("elected", "broker2 leads the unclean topic")
    else:
        stage.mark("elected", "broker2 leads nothing")
    late.send(UNCLEAN, "d")
    for number in range(3):
        late.send(CLEAN, f"d{number}")
    stage.mark("before-return", "broker1 is still dead")
    stage.restart("broker1")
    stage.wait_for_leader(CLEAN, on="broker1")
    settle(stage)


T, U = partition(CLEAN), partition(UNCLEAN)
_LOST, _KEPT = messages("az1-alone", topic=UNCLEAN), messages("az1-alone", topic=CLEAN)
_OTHERS = messages_where(f"NOT ({_LOST.where})")
CLAIMS = (
    Claim(
        name="isr-shrinks",
        section="000 §5.2",
        quote="此时 broker-1 宕机，isr=[0]",
        says="broker-1 is down: ISR [0].",
        holds=U.is_led_by(1, isr=(1,), epoch=1, at="alone"),
    ),
    Claim(
        name="acks-all-acknowledged",
        section="000 §5.2",
        quote="因为 broker-1 已经不在 isr 中了，所以即使 acks=-1，也能生产成功",
        says="Even with acks=-1 message c is acknowledged, since broker-1 is not in the ISR.",
        holds=messages("az1-alone").acknowledged(at_least=2),
    ),
    Claim(
        name="no-leader",
        section="000 §5.2",
        quote="然后 broker-0 也宕机，leader=-1，isr=[0]",
        says="When broker-0 is down too: leader -1, ISR [0].",
        holds=U.has_no_leader(isr=(1,), at="dead"),
    ),
    Claim(
        name="unclean-election",
        section="000 §5.2",
        quote="此时 broker-1 先拉起，若 unclean.leader.election.enable=true，那么即使 broker-1 不在 isr 中…"
        "broker-1 会选举为 leader",
        says="With unclean.leader.election.enable=true broker-1 is elected although it is not in the ISR.",
        holds=U.is_led_by(2, isr=(2,), at="elected"),
    ),
    Claim(
        name="epoch",
        section="000 §5.2",
        quote="并更新 leaderEpoch 为 2",
        says="The leader epoch becomes 2.",
        holds=U.has_epoch(2, at="elected"),
        erratum=Erratum(
            says="It becomes 3.",
            because="1 when broker-1 left the ISR, 2 when broker-0 went offline, 3 with the election",
            holds=U.has_epoch(3, at="elected"),
        ),
    ),
    Claim(
        name="truncates",
        section="000 §5.2",
        quote="broker-0 再拉起，会先通过 OFFSET_FOR_LEADER_EPOCH，从 broker-1 获取 epoch 信息，并进行数据截断",
        says="broker-0 asks broker-1 for the epoch's end offset and truncates.",
        holds=broker(1).truncated(U, to=2, after="elected"),
    ),
    Claim(
        name="works-again",
        section="000 §5.2",
        quote="再进行生产消息和副本同步",
        says="Afterwards messages are produced and replicated again.",
        holds=both(
            messages("az2-late", topic=UNCLEAN).kept(),
            messages("az2-late", topic=UNCLEAN).held_by(1, 2),
            U.is_led_by(2, isr=(1, 2), at="converged"),
        ),
    ),
    Claim(
        name="acks-all-lost",
        section="000 §5.2",
        quote="消息 c 丢失",
        says="Message c is lost.",
        holds=_LOST.acknowledged_then_lost(),
    ),
    Claim(
        name="clean-waits",
        section="beyond 000 §5.2",
        says="With unclean.leader.election.enable=false nobody leads until broker-0 is back; writes are refused.",
        holds=both(
            T.has_no_leader(isr=(1,), at="before-return"),
            messages("az2-late", topic=CLEAN).refused_with(3, 5, 6, at_least=3),
        ),
        given=U.is_led_by(2, at="before-return"),
    ),
    Claim(
        name="clean-keeps",
        section="beyond 000 §5.2",
        says="With unclean.leader.election.enable=false message c is kept.",
        holds=_KEPT.kept(),
    ),
    Claim(
        name="nothing-else-lost",
        section="beyond 000 §5.2",
        says="Nothing else is lost.",
        holds=_OTHERS.none_lost(at_risk_after="killed", at_least=2),
    ),
)

SCENARIO = Scenario(
    name="unclean-election",
    title="The last in-sync replica dies, and a replica outside of the ISR is elected",
    article="000",
    section="5.2",
    body=body,
    setup=Setup(
        topics=(
            Topic(CLEAN, (1, 2), config={"unclean.leader.election.enable": "false"}),
            Topic(UNCLEAN, (1, 2), config={"unclean.leader.election.enable": "true"}),
        ),
        controller="broker3",
        zookeeper_leader="zookeeper3",
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost",
            messages("az1-alone", topic=UNCLEAN, after="alone").where,
            "acknowledged by the only in-sync replica; another one was elected",
        ),
    ),
    faults=("kill broker2", "kill broker1"),
    outcome="the unclean topic loses an acks=all write, the clean one nothing",
)
