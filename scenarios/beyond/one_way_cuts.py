"""Beyond the articles: packets are lost in one direction only."""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.former import by, copies_in, errors, mark, none_lost, outcomes, state
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario
from scenarios.steps import SHRINK_S, pins, seed, settle, wait_isr_committed

TOPIC = "t"


def _body(cut: str) -> Callable[[Stage], None]:
    def body(stage: Stage) -> None:
        """Cut one direction between the leader and a follower; write; heal."""
        seed(stage, TOPIC)
        with stage.nemesis.cut(cut):
            stage.mark("cut", f"{cut} is cut, the other way is open")
            stage.writer("az1", "az1-waiting", "broker1", acks=-1).send(TOPIC, "m1")
            stage.wait_for_isr(TOPIC, 1, 3, within_s=SHRINK_S)
            wait_isr_committed(stage, "broker1", TOPIC, (1, 3))
            stage.mark("shrunk", "the follower has left the ISR")
            stage.writer("az1", "az1-after", "broker1", acks=-1).must_send(TOPIC, "m2")
            stage.mark("before-heal")

        stage.mark("healed", "both directions are open")
        settle(stage)

    return body


CLAIMS = (
    Claim(
        name="waiting-write-fails",
        section="beyond the articles",
        says="An acks=all write fails with error 7 until the follower has left the ISR.",
        holds=errors(by("az1-waiting"), 7),
    ),
    Claim(
        name="isr-shrinks",
        section="beyond the articles",
        says="One direction is enough: the follower leaves the ISR, the leader stays.",
        holds=state(TOPIC, leader=1, isr=(1, 3), epoch=0, until=mark("shrunk")),
    ),
    Claim(
        name="available",
        section="beyond the articles",
        says="Then acks=all works again.",
        holds=outcomes(by("az1-after"), "ok"),
    ),
    Claim(
        name="failed-write-kept",
        section="beyond the articles",
        says="The 'failed' write is in the log, once.",
        holds=copies_in("copies", by("az1-waiting"), 1),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost.",
        holds=none_lost("outcome = 'ok'", at_least=3),
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
            zookeeper_pins=pins(1, 2, 3, to=(3,)),
        ),
        claims=CLAIMS,
        faults=(f"cut {cut}",),
        outcome="nothing lost; one deaf direction has the effect of a whole cut",
    )


SCENARIOS = (
    _scenario(
        "one-way-leader-to-follower",
        "Packets from the leader to a follower are lost, not those back",
        "broker1 -> broker2",
    ),
    _scenario(
        "one-way-follower-to-leader",
        "Packets from a follower to the leader are lost, not those back",
        "broker2 -> broker1",
    ),
)
