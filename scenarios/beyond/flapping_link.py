"""Beyond the articles: the link between the leader's AZ and a follower's comes and goes."""

from __future__ import annotations

from checkers.claims.former import by, condition, fates, mark, none_lost, state, truth, unchanged
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario
from scenarios.steps import pins, seed, settle

TOPIC = "t"


def body(stage: Stage) -> None:
    """Flap the link every second while an idempotent producer writes with acks=all."""
    seed(stage, TOPIC)
    writer = stage.writer(
        "az1",
        "az1-idempotent",
        via="librdkafka",
        idempotent=True,
        retries=1000,
        delivery_timeout_s=30,
        config={"max.in.flight.requests.per.connection": 1},
    ).prepare(TOPIC)
    with stage.nemesis.flapping("az1 <-> az2", period_s=2.0):
        stage.mark("cut", "the link between az1 and az2 flaps")
        waiting = [writer.send_later(TOPIC, f"m{number}") for number in range(5)]
        for sent in waiting:
            sent.result(timeout=40)
        for number in range(5):
            writer.send(TOPIC, f"n{number}")
        stage.mark("before-heal")

    stage.mark("healed", "the link stays up")
    settle(stage)


CLAIMS = (
    Claim(
        name="leader-stays",
        section="beyond the articles",
        says="A link that flaps faster than sessions end moves no leader.",
        holds=unchanged(TOPIC, since=mark("seeded"), until=mark("converged"), columns="leader, epoch"),
    ),
    Claim(
        name="all-acknowledged",
        section="beyond the articles",
        says="An idempotent producer that may retry gets everything through, once, in the end.",
        holds=fates(by("az1-idempotent"), "kept", at_least=10),
    ),
    Claim(
        name="recovers",
        section="beyond the articles",
        says="Afterwards the ISR is full.",
        holds=state(TOPIC, isr=(1, 2, 3), until=mark("converged")),
    ),
    Claim(
        name="flapped",
        section="beyond the articles",
        says="The whole took longer than one period, so that the link did flap.",
        holds=condition(
            f"{mark('before-heal')} - {mark('cut')} > 1000000000",
            f"concat(round(({mark('before-heal')} - {mark('cut')}) / 1e9, 1), ' s, leader broker', "
            f"{truth('leader', TOPIC)})",
        ),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost.",
        holds=none_lost("outcome = 'ok'", at_least=10),
    ),
)

SCENARIO = Scenario(
    name="flapping-link",
    title="The link between two AZs comes and goes every second",
    article="beyond",
    section="flapping",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        zookeeper_pins=pins(1, 2, 3, to=(3,)),
    ),
    claims=CLAIMS,
    faults=("flap az1 <-> az2",),
    outcome="nothing lost, nothing doubled by an idempotent producer",
)
