"""Beyond the articles: the leader pauses for longer than its session, as in a long garbage collection, and resumes."""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Either, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle

TOPIC = "t"
OPEN = "open-before"


def body(stage: Stage) -> None:
    """Pause broker1 past its session while a request waits in its socket; then let it continue."""
    seed(stage, TOPIC)
    into_the_pause = stage.producer(
        "az1", "az1-acks1", "broker1", acks=1, request_timeout_s=2 * stage.timings.session_end_s
    )
    into_the_pause.connection(OPEN)  # with TLS or SASL, a paused broker lets nobody connect
    paused = stage.nemesis.pause("broker1").inject()
    stage.mark("cut", "the leader is paused; its connections stay open")
    waiting = into_the_pause.send_later(TOPIC, "sleeper", connection=OPEN)
    stage.wait_for_leader(TOPIC, not_on="broker1")
    stage.wait_until_serving(TOPIC, "broker2")
    stage.mark("failover", "a follower leads")
    stage.producer("az2", "az2-after", "broker2", acks=-1).must_send(TOPIC, "f")
    paused.heal()
    stage.mark("resumed", "the old leader resumes")
    waiting.result(timeout=2 * stage.timings.session_end_s + 10)
    settle(stage)


T = partition(TOPIC)
SLEEPER = messages("az1-acks1", after="cut")
CLAIMS = (
    Claim(
        name="failover",
        section="beyond the articles",
        says="A leader that is silent longer than its session is replaced.",
        holds=T.is_led_by(2, isr=(2, 3), epoch=1, at="failover"),
    ),
    Claim(
        name="sleeper-not-kept",
        section="beyond the articles",
        says="The write that waited in its socket is acknowledged when it resumes, and lost.",
        holds=both(SLEEPER.acknowledged(), SLEEPER.acknowledged_then_lost()),
        either=Either(
            says="It is refused (NOT_LEADER_OR_FOLLOWER), and not in the log.",
            because="the broker handles the waiting request and the news of its successor in either order",
            holds=both(SLEEPER.refused_with(6), SLEEPER.in_final_log(copies=0)),
        ),
    ),
    Claim(
        name="expires",
        section="beyond the articles",
        says="It finds that its session has ended, and follows.",
        holds=both(
            broker(1).logged("session_expired", after="failover"),
            T.is_led_by(2, isr=(1, 2, 3), at="converged"),
            broker(1).believes(T, leader=2, at="converged"),
        ),
    ),
    Claim(
        name="new-side-kept",
        section="beyond the articles",
        says="What the new leader acknowledged is kept.",
        holds=messages("az2-after").kept(),
    ),
    Claim(
        name="acks-all-safe",
        section="beyond the articles",
        says="Nothing acknowledged with acks=all is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=1),
    ),
)

SCENARIO = Scenario(
    name="leader-paused",
    title="The leader pauses for longer than its session, and resumes",
    article="beyond",
    section="pause",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        quorum="one node",
    ),
    claims=CLAIMS,
    expected=(Expected("lost", SLEEPER.where, "acknowledged by a leader that had been replaced"),),
    faults=("pause broker1",),
    outcome="an acks=1 write that waited in the paused leader's socket is acknowledged and lost",
)
