"""Article 000, section 2: a broker is cut from the controller. Harmless, until a leader dies."""

from __future__ import annotations

from checkers.claims.former import (
    between,
    by,
    condition,
    controller,
    equals,
    errors,
    fates,
    mark,
    none_lost,
    outcomes,
    seen_by,
    state,
    unchanged,
    view,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario
from scenarios.steps import seed, settle, wait_view

TOPIC = "t"


def body(stage: Stage) -> None:
    """Cut broker2 from the controller broker3; kill the leader broker1; heal."""
    seed(stage, TOPIC)
    before = stage.writer("az1", "az1-before", "broker1", acks=-1)
    with stage.nemesis.cut("broker2 <-> broker3"):
        stage.mark("cut", "broker2 and the controller no longer see each other")
        for number in range(20):
            before.send(TOPIC, f"h{number}")
        stage.read("az3", TOPIC, "broker1")
        stage.mark("harmless", "nothing has happened so far")
        stage.kill("broker1")
        stage.mark("killed", "the leader is dead")
        stage.wait_for_leader(TOPIC, on="broker2")
        wait_view(stage, "broker3", TOPIC, leader=2)
        stage.mark("elected", "the controller made broker2 leader, but cannot tell it")
        for az in ("az2", "az3"):
            stage.writer(az, f"{az}-to-new", "broker2", acks=-1).send(TOPIC, "x")
            stage.writer(az, f"{az}-to-old", "broker1", acks=1).send(TOPIC, "y")
        stage.writer(
            "az3", "az3-bootstrapped", "broker2", "broker3", via="librdkafka", retries=2, delivery_timeout_s=5
        ).send(TOPIC, "z")
        stage.mark("unavailable", "nobody could write")

    stage.mark("healed", "the link is back")
    stage.wait_until_serving(TOPIC, "broker2")
    stage.mark("serving", "broker2 knows that it leads")
    stage.writer("az2", "az2-after", "broker2", acks=-1).must_send(TOPIC, "n")
    stage.restart("broker1")
    settle(stage)


CLAIMS = (
    Claim(
        name="harmless",
        section="000 §2",
        says="A broker and the controller losing each other does not affect producing and consuming.",
        holds=outcomes(f"{by('az1-before')} AND {between('cut', 'harmless')}", "ok", at_least=20),
    ),
    Claim(
        name="no-change",
        section="000 §2",
        says="It causes no inconsistency: leader and ISR stay.",
        holds=unchanged(TOPIC, since=mark("seeded"), until=mark("harmless"), columns="leader, epoch, isr"),
    ),
    Claim(
        name="elects-broker-1",
        section="000 §2",
        says="When broker-0 fails, the controller notices and elects broker-1.",
        holds=state(TOPIC, leader=2, isr=(2, 3), epoch=1, until=mark("elected")),
    ),
    Claim(
        name="not-told",
        section="000 §2",
        says="Because of the cut it cannot tell broker-1, which still names broker-0 as leader, ISR [1,2,0].",
        holds=seen_by(2, TOPIC, until=mark("unavailable"), leader=1, isr=(1, 2, 3)),
    ),
    Claim(
        name="metadata-inconsistent",
        section="000 §2",
        says="The metadata are inconsistent: from broker-2 a client learns that broker-1 leads.",
        holds=condition(
            f"{view('leader', 'broker3', TOPIC, until=mark('unavailable'))} = 2 AND "
            f"{view('leader', 'broker2', TOPIC, until=mark('unavailable'))} = 1",
            f"concat('broker3 names ', {view('leader', 'broker3', TOPIC, until=mark('unavailable'))}, "
            f"', broker2 names ', {view('leader', 'broker2', TOPIC, until=mark('unavailable'))})",
        ),
    ),
    Claim(
        name="new-leader-refuses",
        section="000 §2",
        says="Who asks broker-1 gets NOT_LEADER_OR_FOLLOWER.",
        holds=errors("writer_name IN ('az2-to-new', 'az3-to-new')", 6, at_least=2),
    ),
    Claim(
        name="old-leader-unreachable",
        section="000 §2",
        says="Who learns from broker-1 that broker-0 leads cannot reach it; producing fails.",
        holds=fates(
            "writer_name IN ('az2-to-old', 'az3-to-old', 'az3-bootstrapped')",
            "failed",
            "unknown_dropped",
            at_least=3,
        ),
    ),
    Claim(
        name="controller-stays",
        section="000 §2",
        says="The controller stays where it was.",
        holds=equals(controller(until=mark("serving")), "3", "controller is broker"),
    ),
    Claim(
        name="heals",
        section="beyond 000 §2",
        says="After the heal the request is delivered, and broker-1 leads.",
        holds=outcomes(by("az2-after"), "ok"),
    ),
    Claim(
        name="nothing-lost",
        section="000 §2",
        says="No inconsistency of data: nothing that was acknowledged is lost.",
        holds=none_lost("outcome = 'ok'", at_least=20),
    ),
)

SCENARIO = Scenario(
    name="broker-cut-from-controller",
    title="A broker is cut from the controller; then the leader dies",
    article="000",
    section="2",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker3",
        zookeeper_leader="zookeeper1",
    ),
    claims=CLAIMS,
    faults=("cut broker2 <-> broker3", "kill broker1"),
    outcome="nothing lost; after the leader's death nobody can write until the link is back",
)
