"""Article 000, section 5.2: a replica outside of the ISR is elected. With the same topic kept clean beside it."""

from __future__ import annotations

from checkers.claims.former import (
    after,
    by,
    errors,
    fates,
    logged,
    mark,
    none_lost,
    outcomes,
    state,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
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
    alone = stage.writer("az1", "az1-alone", "broker1", acks=-1)
    for topic in (CLEAN, UNCLEAN):
        alone.send(topic, "c")
    stage.kill("broker1")
    for topic in (CLEAN, UNCLEAN):
        stage.wait_for_no_leader(topic)
    stage.mark("dead", "nobody leads; the ISR names the dead leader alone")
    stage.restart("broker2")
    late = stage.writer("az2", "az2-late", "broker2", acks=-1)
    if wait_elected(stage, UNCLEAN, "broker2"):
        stage.wait_until_serving(UNCLEAN, "broker2")
        stage.mark("elected", "broker2 leads the unclean topic")
    else:
        stage.mark("elected", "broker2 leads nothing")
    late.send(UNCLEAN, "d")
    late.send(CLEAN, "d")
    stage.mark("before-return")
    stage.restart("broker1")
    stage.wait_for_leader(CLEAN, on="broker1")
    settle(stage)


CLAIMS = (
    Claim(
        name="isr-shrinks",
        section="000 §5.2",
        says="broker-1 is down: ISR [0].",
        holds=state(UNCLEAN, leader=1, isr=(1,), epoch=1, until=mark("alone")),
    ),
    Claim(
        name="acks-all-acknowledged",
        section="000 §5.2",
        says="Even with acks=-1 message c is acknowledged, since broker-1 is not in the ISR.",
        holds=outcomes(by("az1-alone"), "ok", at_least=2),
    ),
    Claim(
        name="no-leader",
        section="000 §5.2",
        says="When broker-0 is down too: leader -1, ISR [0].",
        holds=state(UNCLEAN, leader=-1, isr=(1,), until=mark("dead")),
    ),
    Claim(
        name="unclean-election",
        section="000 §5.2",
        says="With unclean.leader.election.enable=true broker-1 is elected although it is not in the ISR.",
        holds=state(UNCLEAN, leader=2, isr=(2,), until=mark("elected")),
    ),
    Claim(
        name="epoch",
        section="000 §5.2",
        says="The leader epoch becomes 2.",
        holds=state(UNCLEAN, epoch=2, until=mark("elected")),
        erratum=Erratum(
            says="It becomes 3.",
            because="1 when broker-1 left the ISR, 2 when broker-0 went offline, 3 with the election",
            holds=state(UNCLEAN, epoch=3, until=mark("elected")),
        ),
    ),
    Claim(
        name="truncates",
        section="000 §5.2",
        says="broker-0 asks broker-1 for the epoch's end offset and truncates.",
        holds=logged("broker1", "truncated", topic=UNCLEAN, where=f"offset = 2 AND ns > {mark('elected')}"),
    ),
    Claim(
        name="acks-all-lost",
        section="000 §5.2",
        says="Message c is lost.",
        holds=fates(by("az1-alone", topic=UNCLEAN), "lost", "lost_after_read"),
    ),
    Claim(
        name="clean-waits",
        section="beyond 000 §5.2",
        says="With unclean.leader.election.enable=false nobody leads until broker-0 is back; writes are refused.",
        holds=errors(by("az2-late", topic=CLEAN), 3, 5, 6),
    ),
    Claim(
        name="clean-keeps",
        section="beyond 000 §5.2",
        says="With unclean.leader.election.enable=false message c is kept.",
        holds=fates(by("az1-alone", topic=CLEAN), "kept"),
    ),
    Claim(
        name="nothing-else-lost",
        section="beyond 000 §5.2",
        says="Nothing else is lost.",
        holds=none_lost(f"outcome = 'ok' AND NOT ({by('az1-alone', topic=UNCLEAN)})", at_least=4),
    ),
)

SCENARIO = Scenario(
    name="unclean-election",
    title="The last in-sync replica dies and one outside of the ISR is elected",
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
            f"{by('az1-alone', topic=UNCLEAN)} AND {after('alone')}",
            "acknowledged by the only in-sync replica; another one was elected",
        ),
    ),
    faults=("kill broker2", "kill broker1"),
    outcome="the unclean topic loses an acks=all write, the clean one nothing",
)
