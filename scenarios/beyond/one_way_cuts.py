"""Beyond the articles: packets are lost in one direction only."""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders import both, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, wait_isr_committed

TOPIC = "t"


def _body(cut: str) -> Callable[[Stage], None]:
    def body(stage: Stage) -> None:
        """Cut one direction between the leader and a follower; write; heal."""
        seed(stage, TOPIC)
        with stage.nemesis.cut(cut):
            stage.mark("cut", f"{cut} is cut, the other way is open")
            stage.producer("az1", "az1-waiting", "broker1", acks=-1).send(TOPIC, "m1")
            stage.wait_for_isr(TOPIC, 1, 3, within_s=stage.timings.shrink_s)
            wait_isr_committed(stage, "broker1", TOPIC, (1, 3))
            stage.mark("shrunk", "the follower has left the ISR")
            stage.producer("az1", "az1-after", "broker1", acks=-1).must_send(TOPIC, "m2")
            stage.mark("before-heal")

        stage.mark("healed", "both directions are open")
        settle(stage)

    return body


T = partition(TOPIC)
CLAIMS = (
    Claim(
        name="waiting-write-fails",
        section="beyond the articles",
        says="An acks=all write fails with error 7 until the follower has left the ISR.",
        holds=messages("az1-waiting").refused_with(7),
    ),
    Claim(
        name="isr-shrinks",
        section="beyond the articles",
        says="One direction is enough: the follower leaves the ISR, the leader stays.",
        holds=both(
            T.is_led_by(1, isr=(1, 3), epoch=0, at="shrunk"),
            T.stays(since="seeded", until="converged", what="leader, epoch"),
        ),
    ),
    Claim(
        name="available",
        section="beyond the articles",
        says="Then acks=all works again.",
        holds=messages("az1-after").kept(),
    ),
    Claim(
        name="failed-write-kept",
        section="beyond the articles",
        says="The 'failed' write is in the log, once.",
        holds=messages("az1-waiting").in_final_log(copies=1),
    ),
    Claim(
        name="rejoins",
        section="beyond the articles",
        says="After the heal the follower joins the ISR again.",
        holds=T.has_isr(1, 2, 3, at="converged"),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=1),
        given=messages("az1-after").acknowledged(),
    ),
)


def _scenario(name: str, title: str, cut: str) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        article="beyond",
        section="one way",
        body=_body(cut),
        setup=Setup(
            topics=(Topic(TOPIC, (1, 2, 3)),),
            controller="broker3",
            zookeeper_leader="zookeeper3",
            quorum="one node",
        ),
        claims=CLAIMS,
        faults=(f"cut {cut}",),
        outcome="nothing lost; a cut in one direction has the effect of a cut in both",
    )


SCENARIOS = (
    _scenario(
        "one-way-leader-to-follower",
        "Packets from the leader to a follower are lost, packets back are not",
        "broker1 -> broker2",
    ),
    _scenario(
        "one-way-follower-to-leader",
        "Packets from a follower to the leader are lost, packets back are not",
        "broker2 -> broker1",
    ),
)
