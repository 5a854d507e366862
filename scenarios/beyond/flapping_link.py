"""Beyond the articles: the link between the leader's AZ and a follower's comes and goes."""

from __future__ import annotations

from checkers.claims.builders import both, controller_stays, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario
from scenarios.steps import pins, seed, settle, stand

TOPIC = "t"


def body(stage: Stage) -> None:
    """Flap the link every second while an idempotent producer writes with acks=all."""
    seed(stage, TOPIC)
    writer = stage.producer(
        "az1",
        "az1-idempotent",
        via="librdkafka",
        idempotent=True,
        retries=1000,
        delivery_timeout_s=30,
        config={"max.in.flight.requests.per.connection": 1},
    ).prepare(TOPIC)
    with stage.nemesis.flapping("az1 <-> az2", period_s=2.0):
        cut = stage.mark("cut", "the link between az1 and az2 flaps")
        waiting = [writer.send_later(TOPIC, f"m{number}") for number in range(5)]
        for sent in waiting:
            sent.result(timeout=40)
        for number in range(5):
            writer.send(TOPIC, f"n{number}")
        stand(stage, cut, stage.timings.lagged_s)  # a plain cut would have shrunk the ISR
        writer.send(TOPIC, "last")
        stage.mark("before-heal", "the last moment of the flapping")

    stage.mark("healed", "the link stays up")
    settle(stage)


T = partition(TOPIC)
_FLIPS = "size(from_json(evidence, 'flips array<struct<up_ns: bigint, down_ns: bigint>>').flips)"
CLAIMS = (
    Claim(
        name="flapped",
        section="beyond the articles",
        says="The link came back at least twice and was cut again, and each change was verified.",
        precondition=True,
        holds=f"SELECT max({_FLIPS}) >= 4 AS holds, concat(max({_FLIPS}), ' changes') AS observed "
        "FROM faults WHERE moment = 'healed'",
    ),
    Claim(
        name="leader-stays",
        section="beyond the articles",
        says="A link that flaps between leader and follower changes neither leader nor ISR nor controller, "
        "for longer than a cut link leaves the follower in the ISR. (The brokers' sessions cross another link.)",
        holds=both(
            T.stays(since="cut", until="converged"),
            controller_stays(since="cut", until="converged"),
        ),
    ),
    Claim(
        name="all-acknowledged",
        section="beyond the articles",
        says="An idempotent producer that may retry gets every message written, exactly once.",
        holds=both(
            messages("az1-idempotent").kept(at_least=11),
            messages("az1-idempotent").in_final_log(copies=1, at_least=11),
        ),
    ),
    Claim(
        name="recovers",
        section="beyond the articles",
        says="Afterwards the ISR is full.",
        holds=T.has_isr(1, 2, 3, at="converged"),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=11),
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
    outcome="nothing lost, nothing duplicated by an idempotent producer",
)
