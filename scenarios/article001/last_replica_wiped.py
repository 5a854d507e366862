"""Article 001, fourth cause of loss: the last in-sync replica comes back with an empty disk."""

from __future__ import annotations

from checkers.claims.former import by, fates, logged, mark, outcomes, state
from harness.cluster.setup import Setup
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import one_or_two_in_sync, seed, settle, wait_unregistered

ONE, TWO = "t", "m"
"""Topics with min.insync.replicas 1 and 2."""
TOPICS = (ONE, TWO)


def body(stage: Stage) -> None:
    """Kill the followers, then the leader; wipe the leader's log; start it first."""
    seed(stage, *TOPICS)
    stage.writer("az1", "az1-three", "broker1", acks=-1).must_send(TWO, "c")
    stage.kill("broker2", "broker3")
    stage.mark("killed", "the followers are dead")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1)
    stage.mark("alone", "the leader is alone in the ISR")
    stage.writer("az1", "az1-alone", "broker1", acks=-1).must_send(ONE, "e")
    stage.kill("broker1")
    for topic in TOPICS:
        stage.nemesis.storage.wipe("broker1", topic)
    stage.mark("wiped", "the leader is dead too, and its disk is replaced")
    wait_unregistered(stage, "broker1", "broker2", "broker3")
    stage.restart("broker1")
    for topic in TOPICS:
        stage.wait_for_leader(topic, on="broker1")
    stage.wait_until_serving(ONE, "broker1", az="az1")
    stage.mark("empty", "it leads again, with nothing")
    stage.writer("az1", "az1-after", "broker1", acks=-1).must_send(ONE, "f")
    stage.restart("broker2")
    stage.restart("broker3")
    settle(stage)


_BEFORE = "writer_name IN ('az1-seed', 'az1-three', 'az1-alone')"
CLAIMS = (
    Claim(
        name="isr-is-the-leader",
        section="001 loss cause 4",
        says="The ISR has shrunk to the leader itself.",
        holds=state(ONE, leader=1, isr=(1,), until=mark("alone")),
    ),
    Claim(
        name="accepted-alone",
        section="001 loss cause 4",
        says="Even with acks=all it takes writes, if min.insync.replicas=1.",
        holds=outcomes(by("az1-alone"), "ok"),
    ),
    Claim(
        name="leads-empty",
        section="001 loss cause 4",
        says="Its disk is broken beyond repair; the leader comes back with an empty log, and leads.",
        holds=state(ONE, leader=1, isr=(1,), until=mark("empty")),
    ),
    Claim(
        name="followers-truncate",
        section="001 loss cause 4",
        says="The followers, which still had the data, throw them away.",
        holds=logged("broker2", "truncated", topic=ONE, where=f"offset = 0 AND ns > {mark('empty')}"),
    ),
    Claim(
        name="whole-topic-lost",
        section="001 loss cause 4",
        says="In the end the whole topic is lost.",
        holds=fates(f"{_BEFORE} AND topic = '{ONE}'", "lost", "lost_after_read", "overwritten", at_least=3),
    ),
    Claim(
        name="min-insync-does-not-help",
        section="beyond 001 loss cause 4",
        says="min.insync.replicas=2 does not help what was written before: that topic is lost as well.",
        holds=fates(f"{_BEFORE} AND topic = '{TWO}'", "lost", "lost_after_read", "overwritten", at_least=3),
    ),
)

SCENARIO = Scenario(
    name="last-replica-wiped",
    title="The last in-sync replica comes back with an empty disk",
    article="001",
    section="cause 4",
    body=body,
    setup=Setup(
        topics=one_or_two_in_sync(ONE, TWO),
        controller="broker1",
        zookeeper_leader="zookeeper3",
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=tuple(
        Expected(finding, _BEFORE, "the only replica that may lead came back without its data")
        for finding in ("lost", "lost_after_read", "overwritten")
    ),
    faults=("kill broker2, broker3", "kill broker1", "wipe t/0 and m/0 on broker1"),
    outcome="everything acknowledged before is lost, with acks=all and min.insync.replicas=2 too",
)
