"""Article 000, section 5.1: both replicas crash in the moment before a message is replicated."""

from __future__ import annotations

from checkers.claims.former import after, by, fates, logged, mark, none_lost, outcomes, rise, state
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from scenarios.steps import seed, settle, wait_unregistered

ONE, ALL = "t", "u"


def body(stage: Stage) -> None:
    """Keep the follower from fetching, write, kill both, start the follower first, then the leader."""
    seed(stage, ONE, ALL)
    one = stage.writer("az1", "az1-acks1", "broker1", acks=1)
    all_ = stage.writer("az1", "az1-acks-all", "broker1", acks=-1, request_timeout_s=0.5)
    paused = stage.nemesis.pause("broker2").inject()
    stage.mark("paused", "broker2 fetches nothing any more")
    one.must_send(ONE, "c")
    all_.send(ALL, "c")
    stage.mark("written", "the leader alone has the message")
    stage.kill("broker1", "broker2")
    paused.heal()
    stage.mark("killed", "both brokers are dead")
    wait_unregistered(stage, "broker1", "broker2")
    stage.mark("forgotten", "ZooKeeper has forgotten both; the ISR still names both")
    stage.restart("broker2")
    for topic in (ONE, ALL):
        stage.wait_for_leader(topic, on="broker2")
        stage.wait_until_serving(topic, "broker2")
    stage.mark("elected", "broker2 leads")
    after_crash = stage.writer("az2", "az2-after", "broker2", acks=-1)
    for topic in (ONE, ALL):
        after_crash.must_send(topic, "d")
    stage.restart("broker1")
    settle(stage)


CLAIMS = (
    Claim(
        name="isr-unchanged",
        section="000 §5.1",
        says="Replicas 0 and 1 are both in the ISR when they fail.",
        holds=state(ONE, leader=1, isr=(1, 2), epoch=0, until=mark("forgotten")),
    ),
    Claim(
        name="follower-leads",
        section="000 §5.1",
        says="broker-1 starts first and becomes leader, whatever unclean.leader.election.enable says.",
        holds=state(ONE, leader=2, isr=(2,), until=mark("elected")),
    ),
    Claim(
        name="epoch-rises",
        section="000 §5.1",
        says="The leader epoch rises by 1 (the figure shows 1).",
        holds=rise(ONE, mark("killed"), mark("elected"), 1),
        erratum=Erratum(
            says="It rises by 2.",
            because="a controller that starts up first marks the dead leader's partition as offline (+1), "
            "then elects (+1)",
            holds=rise(ONE, mark("killed"), mark("elected"), 2),
        ),
    ),
    Claim(
        name="truncates",
        section="000 §5.1",
        says="broker-0 asks broker-1 for the end offset of leader epoch 0 and truncates to it.",
        holds=logged("broker1", "truncated", topic=ONE, where=f"offset = 2 AND ns > {mark('elected')}"),
    ),
    Claim(
        name="acks-1-lost",
        section="000 §5.1",
        says="With acks=0 or 1 message c is lost.",
        holds=fates(f"{by('az1-acks1')} AND outcome = 'ok'", "lost", "lost_after_read"),
    ),
    Claim(
        name="acks-all-told",
        section="000 §5.1",
        says="With acks=-1 the client is told that producing c failed, which is no loss.",
        holds=fates(by("az1-acks-all"), "unknown_dropped"),
    ),
    Claim(
        name="works-again",
        section="000 §5.1",
        says="Afterwards messages are produced and replicated normally.",
        holds=outcomes(by("az2-after"), "ok", at_least=2),
    ),
    Claim(
        name="nothing-else-lost",
        section="000 §5.1",
        says="Nothing acknowledged with acks=-1 is lost.",
        holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=4),
    ),
)

SCENARIO = Scenario(
    name="crash-before-replication",
    title="Both replicas crash before a message is replicated",
    article="000",
    section="5.1",
    body=body,
    setup=Setup(
        topics=(Topic(ONE, (1, 2)), Topic(ALL, (1, 2))),
        controller="broker1",
        zookeeper_leader="zookeeper3",
        brokers=(1, 2),
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost", f"{by('az1-acks1')} AND {after('paused')}", "only the leader had it, and it started last"
        ),
    ),
    faults=("pause broker2", "kill broker1, broker2"),
    outcome="the acks=1 write is lost; the acks=all write was never acknowledged",
)
