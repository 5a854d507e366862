"""Beyond the articles: two AZs do not see each other, and a third, with the leader in it, sees both."""

from __future__ import annotations

from checkers.claims.former import by, mark, none_lost, outcomes, state, unchanged
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario
from scenarios.steps import pins, seed, settle

TOPIC = "t"


def body(stage: Stage) -> None:
    """The bridge leads: nobody notices. Everybody can write through it."""
    seed(stage, TOPIC, leader="broker2")
    with stage.nemesis.bridge("az2", "az1", "az3"):
        stage.mark("cut", "az1 and az3 see only az2")
        for az in ("az1", "az2", "az3"):
            writer = stage.writer(az, f"{az}-through", "broker2", acks=-1)
            for number in range(5):
                writer.send(TOPIC, f"{az}-{number}")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    settle(stage)


CLAIMS = (
    Claim(
        name="unharmed",
        section="beyond the articles",
        says="Followers need the leader alone: leader, epoch and ISR stay.",
        holds=unchanged(TOPIC, since=mark("seeded"), until=mark("converged"), columns="leader, epoch, isr"),
    ),
    Claim(
        name="all-write",
        section="beyond the articles",
        says="Clients of all AZs write through the bridge with acks=all.",
        holds=outcomes("writer_name LIKE '%-through'", "ok", at_least=15),
    ),
    Claim(
        name="full-isr",
        section="beyond the articles",
        says="The ISR is full all the time.",
        holds=state(TOPIC, leader=2, isr=(1, 2, 3), epoch=0, until=mark("before-heal")),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost.",
        holds=none_lost("outcome = 'ok'", at_least=15),
        given=outcomes(by("az1-through"), "ok"),
    ),
)

SCENARIO = Scenario(
    name="bridge",
    title="Two AZs see each other only by way of a third, where the leader is",
    article="beyond",
    section="bridge",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (2, 1, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(1, 2, 3, to=(2,)),
    ),
    claims=CLAIMS,
    faults=("bridge az1 | az2 | az3",),
    outcome="nothing happens: who sees the leader has all that is needed",
)
