"""Beyond the articles: an operator restarts brokers one by one while a link is cut."""

from __future__ import annotations

from harness.claims import by, mark, none_of, outcomes, state
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario, Setup, Topic
from scenarios.steps import SHRINK_S, pins, seed, settle, wait_isr_committed

ONE, TWO = "t", "m"
"""Topics with min.insync.replicas 1 and 2."""
TOPICS = (ONE, TWO)


def body(stage: Stage) -> None:
    """Cut leader and follower apart, wait for the ISR to follow, restart the other follower, then heal."""
    seed(stage, *TOPICS)
    writer = stage.writer("az1", "az1-acks-all", "broker1", acks=-1)
    with stage.nemesis.cut("broker1 <-> broker2"):
        stage.mark("cut", "leader and one follower do not see each other")
        stage.writer("az1", "az1-waiting", "broker1", acks=1).must_send(ONE, "w")
        stage.writer("az1", "az1-waiting-2", "broker1", acks=1).must_send(TWO, "w")
        for topic in TOPICS:
            stage.wait_for_isr(topic, 1, 3, within_s=SHRINK_S)
            wait_isr_committed(stage, "broker1", topic, (1, 3))
        stage.mark("shrunk", "the ISR is leader and the other follower")
        for topic in TOPICS:
            writer.must_send(topic, "m1")
        stage.nemesis.stop("broker3")
        stage.mark("stopped", "the operator stops that one")
        for topic in TOPICS:
            stage.wait_for_isr(topic, 1)
        # The controller tells it by a LeaderAndIsr request.
        stage.wait_until_serving(ONE, "broker1", az="az1")
        stage.writer("az1", "az1-alone", "broker1", acks=-1).send(ONE, "x")
        stage.writer("az1", "az1-refused", "broker1", acks=-1).send(TWO, "x")
        stage.mark("alone", "the leader is alone")
        stage.restart("broker3")
        for topic in TOPICS:
            stage.wait_for_isr(topic, 1, 3, within_s=SHRINK_S)
        stage.mark("before-heal")

    stage.mark("healed", "the link is back")
    settle(stage)


CLAIMS = (
    Claim(
        name="redundancy-gone",
        section="beyond the articles",
        says="A restart during a cut takes the last redundancy away: the ISR is the leader alone.",
        holds=state(ONE, leader=1, isr=(1,), until=mark("alone")),
    ),
    Claim(
        name="accepts-alone",
        section="beyond the articles",
        says="With min.insync.replicas=1 acks=all is acknowledged by one replica.",
        holds=outcomes(by("az1-alone"), "ok"),
    ),
    Claim(
        name="min-insync-refuses",
        section="beyond the articles",
        says="With min.insync.replicas=2 it is refused.",
        holds=outcomes(by("az1-refused"), "fail"),
    ),
    Claim(
        name="comes-back",
        section="beyond the articles",
        says="The restarted broker joins the ISR while the cut lasts.",
        holds=state(ONE, leader=1, isr=(1, 3), until=mark("before-heal")),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost, as long as the leader lives.",
        holds=none_of("outcome = 'ok'", "lost", "lost_after_read", "overwritten", at_least=6),
    ),
)

SCENARIO = Scenario(
    name="rolling-restart-during-cut",
    title="A broker is restarted while a link is cut",
    article="beyond",
    section="restart",
    body=body,
    setup=Setup(
        topics=(
            Topic(ONE, (1, 2, 3), config={"min.insync.replicas": "1"}),
            Topic(TWO, (1, 2, 3), config={"min.insync.replicas": "2"}),
        ),
        controller="broker1",
        zookeeper_leader="zookeeper1",
        zookeeper_pins=pins(1, 2, 3, to=(1,)),
    ),
    claims=CLAIMS,
    faults=("cut broker1 <-> broker2", "stop broker3"),
    outcome="nothing lost; for a moment one replica alone answers for acks=all",
)
