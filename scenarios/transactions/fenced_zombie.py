"""A transactional producer is cut off, and its successor takes its id: no message of the old one is ever read."""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders import (
    both,
    decided,
    markers_are,
    messages,
    partition,
    readers_wait,
    transactions,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Generation, Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import pins, require
from scenarios.transactions.steps import SECTION

TOPIC, ID = "t", "orders"
OLD, NEW = "old", "new"
"""Names of the two producers with this id."""
ZOMBIE, COORDINATOR = "broker1", "broker2"


def body(protocol: Generation) -> Callable[[Stage], None]:
    """The body for producers of one generation."""

    def run(stage: Stage) -> None:
        """Isolate a producer with the leader that it writes to; let a successor work outside; heal."""
        old = stage.transactional("az1", ID, name=OLD, protocol=protocol).prepare()
        require(old.coordinator == COORDINATOR, f"{COORDINATOR} coordinates ({old.coordinator} does)")
        old.begin()
        old.must_send(TOPIC, "w1", to=ZOMBIE)
        stage.wait_replicated(TOPIC)
        with stage.nemesis.isolate("az1"):
            stage.mark("cut", "az1 is isolated: the producer, and the leader with its open transaction")
            inside = old.send(TOPIC, "w2", to=ZOMBIE)
            stage.mark("written", f"the producer writes on to the leader beside it: error {inside.error}")
            end = old.commit(within_s=3.0)
            stage.mark("ended", f"its commit: {end.outcome}, error {end.error}")
            state = stage.wait_for_leader(TOPIC, not_on=ZOMBIE)
            leader = f"broker{state.leader}"
            new = stage.transactional("az2", ID, name=NEW, protocol=protocol, coordinator=COORDINATOR)
            new.prepare(30.0)
            stage.mark("fenced", "the successor has a producer id; the old transaction is aborted")
            stage.wait_until_serving(TOPIC, leader)
            new.begin()
            new.must_send(TOPIC, "n1", to=leader)
            new.must_end(commit=True)
            stage.mark("committed", "the successor has committed a transaction")
            stage.read("az1", TOPIC, ZOMBIE)
            stage.mark("read-inside", "a consumer inside with read_committed has read from the old leader")
        stage.wait_converged(TOPIC)
        after = old.send(TOPIC, "w3", to=stage.leader(TOPIC))
        end = old.commit(within_s=5.0)
        stage.mark("refused", f"the old producer: message {after.error}, commit {end.outcome} {end.error}")
        stage.read("az2", TOPIC)
        stage.mark("read", "a consumer with read_committed has read the topic")

    return run


_OLD = messages(OLD)


def _claims(ended: int) -> tuple[Claim, ...]:
    """``ended`` is the error that the old producer's commit gets after the heal."""
    return (
        Claim(
            name="zombie-not-acknowledged",
            section=SECTION,
            says="What the old producer writes to the isolated leader is appended, not acknowledged, and gone "
            "after the heal.",
            holds=both(
                messages(OLD, label="w2").not_acknowledged(),
                messages(OLD, label="w2").seen_on(1, until="ended"),
                messages(OLD, label="w2").in_final_log(copies=0),
            ),
        ),
        Claim(
            name="zombie-cannot-commit",
            section=SECTION,
            says="It cannot commit: it does not reach the coordinator.",
            holds=transactions(OLD).was_reported("unknown", errors=(-187,), after="cut", before="ended"),
        ),
        Claim(
            name="nothing-inside",
            section=SECTION,
            says="At the isolated leader, too, nothing of its transaction can be read.",
            holds=readers_wait(partition(TOPIC), 1, since="cut", until="read-inside"),
        ),
        Claim(
            name="successor-works",
            section=SECTION,
            says="The successor fences it, and commits while the cut lasts.",
            holds=both(
                transactions(NEW).was_reported("committed", after="fenced", before="committed"),
                decided(messages(NEW, label="n1"), "commit"),
                messages(NEW, label="n1").consumed(until="read"),
            ),
        ),
        Claim(
            name="fenced",
            section=SECTION,
            says=f"After the heal the old producer's message is refused with error 47, its commit with {ended}.",
            holds=both(
                messages(OLD, label="w3").refused_with(47),
                messages(OLD, label="w3").in_final_log(copies=0),
                transactions(OLD).reported("unknown", errors=(ended,)),
            ),
        ),
        Claim(
            name="nothing-read",
            section=SECTION,
            says="Nothing of the old producer is ever read: its transaction is aborted, before the successor's.",
            holds=both(
                decided(messages(OLD, label="w1"), "abort"),
                markers_are(partition(TOPIC), "abort", "commit", retried=True),
                _OLD.not_consumed(beside=messages(NEW), until="read"),
            ),
        ),
    )


SETUP = Setup(
    topics=(Topic(TOPIC, (1, 2, 3)),),
    controller="broker2",
    zookeeper_leader="zookeeper2",
    zookeeper_pins=pins(2, 3, to=(2, 3)),
    transaction_log=(2, 3, 1),
    stream_rate=0,
)
OUTCOME = "nothing of the old producer is read; its successor works as soon as the partition has a new leader"
SCENARIOS = (
    Scenario(
        name="fenced-zombie-producer",
        title="A transactional producer is cut off with its leader, and a successor takes over",
        article="transactions",
        section="fenced producer",
        body=body("v1"),
        setup=SETUP,
        claims=_claims(47),
        faults=("isolate az1",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome=OUTCOME,
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="fenced-zombie-producer-v2",
        title="The same with producers that speak version 2 of the protocol",
        article="transactions",
        section="fenced producer",
        body=body("v2"),
        setup=SETUP,
        claims=_claims(90),
        faults=("isolate az1",),
        kafka="4.3.1",
        mode="kraft-combined",
        outcome=OUTCOME,
    ),
)
