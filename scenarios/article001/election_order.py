"""Article 001, failover: who wins an election, the first in the ISR or the first in the assignment?

Two partitions suffer the same faults and have the same ISR in the same order; only their assignments differ.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, controller_stays, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, updated_to, wait_isr_committed

STRAIGHT, CROSSED = "s", "c"
"""Replicas (1,2,3) and (1,3,2)."""
TOPICS = (STRAIGHT, CROSSED)


def body(stage: Stage) -> None:
    """Kill broker2 and start it again, so that it is the last in both ISRs; then kill the leader broker1."""
    seed(stage, *TOPICS)
    stage.kill("broker2")
    stage.mark("killed", "broker2 is dead")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1, 3)
    stage.mark("shrunk", "broker2 has left both ISRs")
    stage.restart("broker2")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1, 2, 3, within_s=stage.timings.converge_s)
        wait_isr_committed(stage, "broker1", topic, (1, 2, 3))
    stage.mark("reordered", "broker2 is back in both ISRs, as the last")
    writer = stage.producer("az1", "az1-before", "broker1", acks=-1)
    for topic in TOPICS:
        for label in ("m1", "m2"):
            writer.send(topic, label)
    stage.kill("broker1")
    stage.mark("failed", "the leader of both partitions is dead")
    for topic in TOPICS:
        stage.wait_for_leader(topic, not_on="broker1")
    stage.mark("elected", "both partitions have a new leader")
    stage.restart("broker1")
    settle(stage)


S, C = partition(STRAIGHT), partition(CROSSED)
CLAIMS = (
    Claim(
        name="same-isr",
        section="beyond 001, failover",
        says="The ISR of both partitions is [1,3,2] before the leader dies: a replica that returns joins as the last.",
        holds=both(
            *(one.has_isr(1, 3, at="shrunk") for one in (S, C)),
            *(
                broker(1).logged("isr_updated", of=one, before="failed", where=updated_to("1,3,2"))
                for one in (S, C)
            ),
        ),
        precondition=True,
    ),
    Claim(
        name="first-of-the-isr",
        section="001, failover",
        quote="当leader发生故障切换时,在ISR注册的第一个follower将会赢得选举,并成为新的leader",
        says="In a failover the first follower in the ISR wins the election: that would be broker3.",
        holds=S.is_led_by(3, at="elected"),
        erratum=Erratum(
            says="The first replica in the assignment that is in the ISR and alive wins: broker2.",
            because="the controller goes through the assigned replicas, and asks of each whether it is in the ISR",
            holds=S.is_led_by(2, isr=(2, 3), at="elected"),
        ),
    ),
    Claim(
        name="by-assignment",
        section="000 §2",
        quote="broker-0 故障时，controller（broker-2）感知，并根据 replicas 选举新的 leader 为 broker-1",
        says="The controller elects by the replicas' order: with another assignment and the same ISR another one wins.",
        holds=both(S.is_led_by(2, at="elected"), C.is_led_by(3, isr=(2, 3), at="elected")),
    ),
    Claim(
        name="one-controller",
        section="beyond 001, failover",
        says="One controller elected both.",
        holds=controller_stays(since="seeded", until="elected"),
        given=both(*(one.epoch_rises(since="reordered", until="elected") for one in (S, C))),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 001, failover",
        says="Nothing that was acknowledged by all is lost, whoever wins.",
        holds=messages("az1-before").none_lost(at_risk_after="reordered", at_least=4),
        given=both(*(one.is_led_by((2, 3), at="elected") for one in (S, C))),
    ),
)

SCENARIO = Scenario(
    name="election-order",
    title="The order of the ISR differs from that of the assignment when the leader dies",
    article="001",
    section="failover",
    body=body,
    setup=Setup(
        topics=(Topic(STRAIGHT, (1, 2, 3)), Topic(CROSSED, (1, 3, 2))),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    faults=("kill broker2", "kill broker1"),
    outcome="nothing lost; the assignment decides who leads, not the order of the ISR",
)
