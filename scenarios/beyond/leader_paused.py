"""Beyond the articles: the leader stops for longer than its session, as in a long collection, and goes on."""

from __future__ import annotations

from checkers.claims.former import after, by, fates, logged, mark, none_lost, outcomes, state
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import seed, settle

TOPIC = "t"


def body(stage: Stage) -> None:
    """Pause broker1 past its session; a request waits in its socket; let it go on."""
    seed(stage, TOPIC)
    into_the_pause = stage.writer("az1", "az1-acks1", "broker1", acks=1, request_timeout_s=30)
    paused = stage.nemesis.pause("broker1").inject()
    stage.mark("cut", "the leader has stopped; its connections stay open")
    waiting = into_the_pause.send_later(TOPIC, "sleeper")
    stage.wait_for_leader(TOPIC, not_on="broker1")
    stage.wait_until_serving(TOPIC, "broker2")
    stage.mark("failover", "a follower leads")
    stage.writer("az2", "az2-after", "broker2", acks=-1).must_send(TOPIC, "f")
    paused.heal()
    stage.mark("resumed", "the old leader goes on as if nothing had happened")
    waiting.result(timeout=40)
    settle(stage)


CLAIMS = (
    Claim(
        name="failover",
        section="beyond the articles",
        says="A leader that is silent longer than its session is replaced.",
        holds=state(TOPIC, leader=2, isr=(2, 3), epoch=1, until=mark("failover")),
    ),
    Claim(
        name="sleeper-not-kept",
        section="beyond the articles",
        says="What waited in its socket is served when it wakes: either acknowledged and lost, or refused; it "
        "is never kept.",
        holds=fates(by("az1-acks1"), "lost", "lost_after_read", "failed", "unknown_dropped"),
    ),
    Claim(
        name="expires",
        section="beyond the articles",
        says="It finds its session gone, and follows.",
        holds=logged("broker1", "session_expired", where=f"ns > {mark('failover')}"),
    ),
    Claim(
        name="new-side-kept",
        section="beyond the articles",
        says="What the new leader took is kept.",
        holds=outcomes(by("az2-after"), "ok"),
        given=fates(by("az2-after"), "kept"),
    ),
    Claim(
        name="acks-all-safe",
        section="beyond the articles",
        says="Nothing acknowledged with acks=all is lost.",
        holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=3),
    ),
)

SCENARIO = Scenario(
    name="leader-paused",
    title="The leader stops for longer than its session, and goes on",
    article="beyond",
    section="pause",
    body=body,
    setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), controller="broker2", zookeeper_leader="zookeeper2"),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost", f"{by('az1-acks1')} AND {after('cut')}", "served by a leader that had been replaced"
        ),
    ),
    faults=("pause broker1",),
    outcome="an acks=1 write that waited in the sleeping leader's socket may be acknowledged and lost",
)
