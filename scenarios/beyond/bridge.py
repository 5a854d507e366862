"""Beyond the articles: two AZs do not see each other, and a third sees both."""

from __future__ import annotations

from checkers.claims.builders import both, broker, controller_stays, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import pins, seed, settle, stand

TOPIC, AT_THE_END = "t", "led-at-the-end"
"""One partition is led in the middle, the other at one end of the bridge."""


def body(stage: Stage) -> None:
    """Write to both partitions, from everywhere; a partition led in the middle does not notice the cut."""
    seed(stage, TOPIC, leader="broker2")
    seed(stage, AT_THE_END)
    with stage.nemesis.bridge("az2", "az1", "az3"):
        cut = stage.mark("cut", "az1 and az3 see only az2")
        at_the_end = stage.producer("az1", "az1-at-the-end", "broker1", acks=1)
        at_the_end.send(AT_THE_END, "e")
        writers = [stage.producer(az, f"{az}-through", "broker2", acks=-1) for az in ("az1", "az2", "az3")]
        for writer in writers:
            for number in range(5):
                writer.send(TOPIC, f"m{number}")
        stand(stage, cut, stage.timings.cut_s)
        stage.producer("az3", "az3-at-the-end", "broker1", acks=1).send(AT_THE_END, "f")
        for writer in writers:
            writer.send(TOPIC, "last")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    settle(stage)


T, END = partition(TOPIC), partition(AT_THE_END)
CLAIMS = (
    Claim(
        name="unharmed",
        section="beyond the articles",
        says="Followers need only the leader: if it is in the middle, leader, epoch and ISR stay.",
        holds=both(
            T.stays(since="cut", until="converged"), controller_stays(since="cut", until="before-heal")
        ),
    ),
    Claim(
        name="end-loses-follower",
        section="beyond the articles",
        says="If the leader is at one end, the follower at the other leaves the ISR.",
        holds=END.is_led_by(1, isr=(1, 2), at="before-heal"),
    ),
    Claim(
        name="all-write",
        section="beyond the articles",
        says="Clients of all AZs can always write to the leader in the middle with acks=all.",
        holds=messages("%-through").acknowledged(at_least=18),
    ),
    Claim(
        name="not-to-the-end",
        section="beyond the articles",
        says="Clients at one end cannot write to a leader at the other; those in its own AZ can.",
        holds=both(messages("az3-at-the-end").not_acknowledged(), messages("az1-at-the-end").acknowledged()),
    ),
    Claim(
        name="full-isr",
        section="beyond the articles",
        says="The ISR of the partition led in the middle is full, and its brokers agree on that.",
        holds=both(
            T.is_led_by(2, isr=(1, 2, 3), epoch=0, at="before-heal"),
            *(broker(n).believes(T, leader=2, isr=(1, 2, 3), at="before-heal") for n in (1, 2, 3)),
        ),
    ),
    Claim(
        name="nothing-lost",
        section="beyond the articles",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=18),
        given=messages("az1-through").acknowledged(at_least=6),
    ),
)

SCENARIO = Scenario(
    name="bridge",
    title="Two AZs do not see each other, and a third sees both",
    article="beyond",
    section="bridge",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (2, 1, 3)), Topic(AT_THE_END, (1, 2, 3))),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(1, 2, 3, to=(2,)),
    ),
    claims=CLAIMS,
    faults=("bridge az1 | az2 | az3",),
    outcome="nothing lost; a partition led in the middle does not notice, one led at an end loses a follower",
)
