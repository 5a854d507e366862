"""Article 001, first cause of loss: a leader fails over before what it acknowledged is replicated."""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle

TOPIC = "t"


def body(stage: Stage) -> None:
    """Keep the followers from fetching, write, kill the leader.

    The cut outlives the leader: its kernel would still deliver a response to a waiting fetch.
    """
    seed(stage, TOPIC)
    one = stage.producer("az1", "az1-acks1", "broker1", acks=1)
    all_ = stage.producer("az1", "az1-acks-all", "broker1", acks=-1, request_timeout_s=0.5)
    with stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3"):
        stage.mark("cut", "the followers cannot fetch")
        for label in ("c", "d"):
            one.send(TOPIC, label)
        all_.send(TOPIC, "e")
        stage.kill("broker1")
        stage.mark("killed", "the leader is dead")
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.wait_until_serving(TOPIC, "broker2")
    stage.mark("failover", "a follower leads")
    stage.producer("az2", "az2-after", "broker2", acks=-1).send(TOPIC, "f")
    stage.restart("broker1")
    settle(stage)


T = partition(TOPIC)
_ACKS_1, _ACKS_ALL = messages("az1-acks1", after="cut"), messages("az1-acks-all", after="cut")
CLAIMS = (
    Claim(
        name="failover",
        section="001, failover",
        quote="当leader失效时,zookeeper会通知控制节点由其选出新的leader",
        says="The leader fails over to one of the followers, which are in the ISR.",
        holds=T.is_led_by(2, isr=(2, 3), at="failover"),
    ),
    Claim(
        name="followers-told",
        section="001, failover",
        quote="所有的follower也将被告知新leader的信息",
        says="All followers are told about the new leader.",
        holds=both(*(broker(number).believes(T, leader=2, epoch=1, at="converged") for number in (1, 3))),
    ),
    Claim(
        name="epoch-rises",
        section="beyond 001 loss cause 1",
        says="The leader epoch rises by 1.",
        holds=T.epoch_rises(by=1, since="cut", until="failover"),
    ),
    Claim(
        name="acks-1-lost",
        section="001 loss cause 1",
        quote="当acks=1时发生leader的故障切换",
        says="With acks=1 data is lost when the leader fails over.",
        holds=_ACKS_1.acknowledged_then_lost(at_least=2),
    ),
    Claim(
        name="truncates",
        section="001, rejoining",
        quote="数据副本节点在重新加入集群后会自动发现新的leader节点,同时将自己的本地日志截断到HW所指示的位置",
        says="When the old leader comes back, it truncates its log to the high watermark.",
        holds=broker(1).logged("truncated_to_hw", of=T, after="failover"),
        erratum=Erratum(
            says="It truncates to the end offset of its leader epoch, which the new leader tells it.",
            because="KIP-101: leader epochs replace the high watermark for truncation from 0.11 on",
            holds=both(
                broker(1).truncated_to_end_of(T, 0, after="failover"),
                broker(1).never_logged("truncated_to_hw", of=T, after="failover", before="converged"),
            ),
        ),
    ),
    Claim(
        name="acks-all-safe",
        section="001 conclusion",
        quote="我们可以通过设置acks=all来进行补救",
        says="acks=all is safe: what was not replicated was never acknowledged.",
        holds=both(messages(acks=-1).none_lost(at_risk_after="cut"), _ACKS_ALL.became("unknown_dropped")),
    ),
)

SCENARIO = Scenario(
    name="leader-killed",
    title="The leader dies before its acks=1 writes are replicated",
    article="001",
    section="cause 1",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        quorum="one node",
    ),
    claims=CLAIMS,
    expected=(Expected("lost", _ACKS_1.where, "only the dead leader had them"),),
    faults=("cut broker1 <-> broker2, broker1 <-> broker3", "kill broker1"),
    outcome="the acks=1 writes are lost, no acks=all write is",
)
