"""Article 001, conclusion: does min.insync.replicas=2 prevent the loss that an unclean election causes?

Two topics with min.insync.replicas=2 suffer the same faults in one cluster: one allows unclean elections.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, messages_where, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, wait_elected, wait_unregistered

CLEAN, UNCLEAN = "c", "u"
TOPICS = (CLEAN, UNCLEAN)


def body(stage: Stage) -> None:
    """Kill a follower, write to the other two, kill those, and start the follower first."""
    seed(stage, *TOPICS)
    stage.kill("broker2")
    stage.mark("killed", "a follower is dead")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1, 3)
    stage.mark("two", "two replicas are in sync, as many as min.insync.replicas demands")
    pair = stage.producer("az1", "az1-pair", "broker1", acks=-1)
    for topic in TOPICS:
        for label in ("m1", "m2", "m3"):
            pair.send(topic, label)
        stage.wait_replicated(topic)
    stage.mark("written", "three messages are acknowledged by broker1 and broker3")
    stage.kill("broker1", "broker3")
    wait_unregistered(stage, "broker1", "broker3")
    stage.mark("dead", "both in-sync replicas are dead")
    stage.restart("broker2")
    if wait_elected(stage, UNCLEAN, "broker2"):
        stage.wait_until_serving(UNCLEAN, "broker2")
        stage.mark("elected", "broker2 leads the unclean topic")
    else:
        stage.mark("elected", "broker2 leads nothing")
    late = stage.producer("az2", "az2-late", "broker2", acks=-1)
    for topic in TOPICS:
        late.send(topic, "n")
    stage.mark("before-return", "broker1 and broker3 are still dead")
    stage.restart("broker3")
    stage.restart("broker1")
    settle(stage)


C, U = partition(CLEAN), partition(UNCLEAN)
_LOST, _KEPT = messages("az1-pair", topic=UNCLEAN), messages("az1-pair", topic=CLEAN)
_OTHERS = messages_where(f"NOT ({_LOST.where})", of=_LOST)
CLAIMS = (
    Claim(
        name="two-acknowledge",
        section="beyond 001 conclusion",
        says="With two replicas in sync, min.insync.replicas=2 lets acks=all writes pass; both replicas hold them.",
        holds=both(
            *(one.is_led_by(1, isr=(1, 3), at="two") for one in (C, U)),
            messages("az1-pair").acknowledged(at_least=6),
            messages("az1-pair").seen_on(1, 3, until="written", at_least=6),
        ),
    ),
    Claim(
        name="unclean-election",
        section="beyond 001 conclusion",
        says="min.insync.replicas=2 does not prevent an unclean election: the replica out of sync leads.",
        holds=both(
            U.is_led_by(2, isr=(2,), at="elected"), broker(2).logged("became_leader", of=U, after="dead")
        ),
    ),
    Claim(
        name="min-insync-in-force",
        section="beyond 001 conclusion",
        says="min.insync.replicas=2 is in force: the new leader, alone in its ISR, refuses acks=all (error 19).",
        holds=messages("az2-late", topic=UNCLEAN).refused_with(19),
    ),
    Claim(
        name="min-insync-avoids-it",
        section="001 conclusion",
        quote="或者是通过设置min.insync.replicas大于等于2确保数据冗余度至少是2来避免",
        says="An unclean failover's loss can be avoided by min.insync.replicas ≥ 2.",
        holds=_LOST.none_lost(at_risk_after="two", at_least=3),
        erratum=Erratum(
            says="All that two replicas had acknowledged is lost, with acks=all and min.insync.replicas=2.",
            because="min.insync.replicas only sets how many replicas must be in sync when a write is accepted; an unclean election chooses a leader that was not among them",
            holds=_LOST.acknowledged_then_lost(at_least=3),
        ),
    ),
    Claim(
        name="truncate",
        section="beyond 001 conclusion",
        says="The two replicas that had acknowledged truncate when they return.",
        holds=both(*(broker(number).truncated(U, to=2, after="elected") for number in (1, 3))),
    ),
    Claim(
        name="clean-avoids-it",
        section="001 conclusion",
        quote="Unclean的故障切换可以通过设置unclean.leader.election.enable=false来避免",
        says="unclean.leader.election.enable=false avoids it: nothing is lost, and nobody truncates.",
        holds=both(
            _KEPT.kept(at_least=3),
            *(
                broker(number).never_logged(
                    "truncated", of=C, after="elected", before="converged", where="offset < 5"
                )
                for number in (1, 3)
            ),
        ),
        given=U.is_led_by(2, at="before-return"),
    ),
    Claim(
        name="clean-waits",
        section="001 conclusion",
        quote="由于不能切换到unclean的节点,因此如果leader出现故障无法修复,即使有其他节点拥有部分数据,仍然不可用,可用性降低",
        says="Its price: nobody leads and writes are refused, although a follower is alive and has a part of the data.",
        holds=both(
            C.has_no_leader(at="before-return"),
            messages("az2-late", topic=CLEAN).refused_with(3, 5, 6),
        ),
        given=U.is_led_by(2, at="before-return"),
    ),
    Claim(
        name="nothing-else-lost",
        section="beyond 001 conclusion",
        says="Nothing else is lost.",
        holds=_OTHERS.none_lost(at_risk_after="two", at_least=3),
    ),
)

SCENARIO = Scenario(
    name="unclean-defeats-min-insync",
    title="An unclean election after two replicas acknowledged: min.insync.replicas=2 does not help",
    article="001",
    section="conclusion",
    body=body,
    setup=Setup(
        topics=tuple(
            Topic(
                name,
                (1, 2, 3),
                config={"min.insync.replicas": "2", "unclean.leader.election.enable": unclean},
            )
            for name, unclean in ((CLEAN, "false"), (UNCLEAN, "true"))
        ),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=(
        Expected("lost", _LOST.where, "acknowledged by both in-sync replicas; one out of sync was elected"),
    ),
    faults=("kill broker2", "kill broker1, broker3"),
    outcome="with unclean elections acks=all writes are lost in spite of min.insync.replicas=2",
)
