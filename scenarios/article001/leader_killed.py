"""Article 001, first cause of loss: a leader fails over before what it acknowledged is replicated."""

from __future__ import annotations

from checkers.claims.former import after, by, fates, logged, mark, none_lost, rise, state
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import seed, settle

TOPIC = "t"


def body(stage: Stage) -> None:
    """Keep the followers from fetching for a moment, write, kill the leader."""
    seed(stage, TOPIC)
    one = stage.writer("az1", "az1-acks1", "broker1", acks=1)
    all_ = stage.writer("az1", "az1-acks-all", "broker1", acks=-1, request_timeout_s=0.5)
    with stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3"):
        stage.mark("cut", "the followers cannot fetch for a moment")
        for label in ("c", "d"):
            one.must_send(TOPIC, label)
        all_.send(TOPIC, "e")
        stage.kill("broker1")
        stage.mark("killed", "the leader is dead")
    stage.wait_for_leader(TOPIC, not_on="broker1")
    stage.wait_until_serving(TOPIC, "broker2")
    stage.mark("failover", "a follower leads")
    stage.writer("az2", "az2-after", "broker2", acks=-1).must_send(TOPIC, "f")
    stage.restart("broker1")
    settle(stage)


CLAIMS = (
    Claim(
        name="failover",
        section="001 loss cause 1",
        says="The leader fails over to a follower, which was in the ISR.",
        holds=state(TOPIC, leader=2, isr=(2, 3), epoch=1, until=mark("failover")),
    ),
    Claim(
        name="epoch-rises",
        section="001 loss cause 1",
        says="The leader epoch rises by 1.",
        holds=rise(TOPIC, mark("cut"), mark("failover"), 1),
    ),
    Claim(
        name="acks-1-lost",
        section="001 loss cause 1",
        says="With acks=1 data are lost when the leader fails over.",
        holds=fates(f"{by('az1-acks1')} AND outcome = 'ok'", "lost", "lost_after_read", at_least=2),
    ),
    Claim(
        name="truncates",
        section="001, rejoining",
        says="The old leader truncates its log when it comes back.",
        holds=logged("broker1", "truncated", topic=TOPIC, where=f"offset = 2 AND ns > {mark('failover')}"),
    ),
    Claim(
        name="acks-all-safe",
        section="001 conclusion",
        says="acks=all is safe: what was not replicated was never acknowledged.",
        holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=3),
        given=fates(by("az1-acks-all"), "unknown_dropped"),
    ),
)

SCENARIO = Scenario(
    name="leader-killed",
    title="The leader dies before its acks=1 writes are replicated",
    article="001",
    section="cause 1",
    body=body,
    setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), controller="broker2", zookeeper_leader="zookeeper2"),
    claims=CLAIMS,
    expected=(Expected("lost", f"{by('az1-acks1')} AND {after('cut')}", "only the dead leader had them"),),
    faults=("cut broker1 <-> broker2, broker1 <-> broker3", "kill broker1"),
    outcome="the acks=1 writes are lost, no acks=all write is",
)
