"""Beyond the articles: an operator restarts brokers one by one while a link is cut."""

from __future__ import annotations

from checkers.claims.builders import both, messages, partition
from harness.cluster.setup import Setup
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import one_or_two_in_sync, seed, settle, stand, wait_isr_committed

ONE, TWO = "t", "m"
"""Topics with min.insync.replicas 1 and 2."""
TOPICS = (ONE, TWO)


def body(stage: Stage) -> None:
    """Cut leader and follower apart; restart the other follower, the cut one, and the leader; then heal."""
    seed(stage, *TOPICS)
    writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1)
    with stage.nemesis.cut("broker1 <-> broker2"):
        stage.mark("cut", "leader and one follower do not see each other")
        stage.producer("az1", "az1-waiting", "broker1", acks=1).must_send(ONE, "w")
        stage.producer("az1", "az1-waiting-2", "broker1", acks=1).must_send(TWO, "w")
        for topic in TOPICS:
            stage.wait_for_isr(topic, 1, 3, within_s=stage.timings.shrink_s)
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
        stage.producer("az1", "az1-alone", "broker1", acks=-1).send(ONE, "x")
        stage.producer("az1", "az1-refused", "broker1", acks=-1).send(TWO, "x")
        stage.mark("alone", "the leader is alone")
        stage.restart("broker3")
        for topic in TOPICS:
            stage.wait_for_isr(topic, 1, 3, within_s=stage.timings.shrink_s)
            wait_isr_committed(stage, "broker1", topic, (1, 3))
        stage.mark("back", "it is back in the ISR")
        stage.nemesis.stop("broker2")
        stage.mark("cut-one-stopped", "next is the follower that is cut off")
        stage.restart("broker2")
        restarted = stage.mark("cut-one-restarted", "it runs again")
        for topic in TOPICS:
            writer.must_send(topic, "m2")
        # Longer than a request, and than a restarted broker that reaches the leader needs to join the ISR.
        stand(stage, restarted, stage.timings.request_s + 3.0)
        stage.mark("cut-one-back", "it is as cut off as before")
        stage.nemesis.stop("broker1")
        stage.mark("leader-stopped", "last is the leader, which is the controller")
        for topic in TOPICS:
            # The cut does not affect its successor: both followers fetch from it.
            stage.wait_for_leader(topic, on="broker3")
            stage.wait_for_isr(topic, 2, 3, within_s=stage.timings.shrink_s)
        stage.mark("handed-over", "the other follower leads, and the one that was cut off is in sync")
        successor = stage.producer("az3", "az3-acks-all", "broker3", acks=-1)
        for topic in TOPICS:
            stage.wait_until_serving(topic, "broker3", az="az3")
            successor.must_send(topic, "m3")
        stage.restart("broker1")
        stage.mark("before-heal", "every broker was restarted once")

    stage.mark("healed", "the link is back")
    settle(stage)


T = partition(ONE)
CLAIMS = (
    Claim(
        name="redundancy-gone",
        section="beyond the articles",
        says="A restart during a cut takes the last redundancy away: the ISR is the leader alone.",
        holds=T.is_led_by(1, isr=(1,), at="alone"),
    ),
    Claim(
        name="accepts-alone",
        section="beyond the articles",
        says="With min.insync.replicas=1 acks=all is acknowledged by one replica.",
        holds=messages("az1-alone").acknowledged(),
    ),
    Claim(
        name="min-insync-refuses",
        section="beyond the articles",
        says="With min.insync.replicas=2 it is refused.",
        holds=messages("az1-refused").failed(),
    ),
    Claim(
        name="comes-back",
        section="beyond the articles",
        says="The restarted broker joins the ISR while the cut lasts.",
        holds=T.is_led_by(1, isr=(1, 3), at="back"),
    ),
    Claim(
        name="restart-mends-no-cut",
        section="beyond the articles",
        says="Restarting the follower that is cut off changes nothing: it stays outside of the ISR.",
        holds=both(
            T.is_led_by(1, isr=(1, 3), at="cut-one-back"),
            T.stays(since="cut-one-restarted", until="cut-one-back"),
        ),
    ),
    Claim(
        name="moving-the-leader-does",
        section="beyond the articles",
        says="Stopping the leader moves the leadership to a broker that the cut does not affect: the follower that was cut off is in sync again, though the link is still cut.",
        holds=T.is_led_by(3, isr=(2, 3), at="handed-over"),
    ),
    Claim(
        name="serves-throughout",
        section="beyond the articles",
        says="Between the restarts acks=all is acknowledged, with min.insync.replicas=2 too.",
        holds=messages(("az1-acks-all", "az3-acks-all"), topic=TWO).acknowledged(at_least=3),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost: each leader was stopped in an orderly way.",
        holds=messages().none_lost(at_risk_after="cut", at_least=8),
        given=messages(("az1-acks-all", "az3-acks-all")).acknowledged(at_least=6),
    ),
)

SCENARIO = Scenario(
    name="rolling-restart-during-cut",
    title="Every broker is restarted in turn while a link is cut",
    article="beyond",
    section="restart",
    body=body,
    setup=Setup(
        topics=one_or_two_in_sync(ONE, TWO),
        controller="broker1",
        zookeeper_leader="zookeeper1",
        quorum="one node",
    ),
    claims=CLAIMS,
    faults=("cut broker1 <-> broker2", "stop broker3", "stop broker2", "stop broker1"),
    outcome="nothing lost; for a moment one replica alone acknowledges; moving the leader ends the effect of the cut",
)
