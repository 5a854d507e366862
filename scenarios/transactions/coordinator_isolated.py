"""The transaction coordinator's AZ is isolated during a commit: silence there, and everybody's readers wait."""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders import (
    both,
    decided,
    messages,
    partition,
    readers_are_served,
    readers_wait,
    transactions,
)
from harness.cluster.setup import Setup
from harness.kafka.model import TRANSACTION_LOG, Generation, Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import pins, require
from scenarios.transactions.steps import SECTION, wait_logged, wait_markers

NEAR, FAR = "p", "q"
INSIDE, OUTSIDE = "inside", "outside"
"""Transactional ids of the producers inside and outside of the AZ that is isolated."""
ZOMBIE = "broker1"
SILENCE_S = 6.0


def body(protocol: Generation) -> Callable[[Stage], None]:
    """The body for producers of one generation."""

    def run(stage: Stage) -> None:
        """Isolate the coordinator with two transactions open; commit inside and outside; heal, commit again."""
        inside = stage.transactional("az1", INSIDE, protocol=protocol).prepare()
        outside = stage.transactional("az2", OUTSIDE, protocol=protocol).prepare()
        for producer in (inside, outside):
            require(producer.coordinator == ZOMBIE, f"{ZOMBIE} coordinates ({producer.coordinator} does)")
            producer.begin()
            producer.must_send(NEAR, "p")
            producer.must_send(FAR, "q")
        for topic in (NEAR, FAR):
            stage.wait_replicated(topic)
        with stage.nemesis.isolate("az1"):
            stage.mark("cut", "az1 is isolated, with the coordinator and one of two producers")
            waiting = inside.end_later(commit=True, within_s=SILENCE_S)
            stage.wait_for_leader(TRANSACTION_LOG, not_on=ZOMBIE)
            outside.coordinator = stage.coordinator(OUTSIDE, not_on=ZOMBIE)
            stage.mark("moved", f"{outside.coordinator} coordinates for the others")
            outside.must_end(commit=True, within_s=20.0)
            stage.mark("outside-told", "the producer outside is told that its transaction is committed")
            first = waiting.result(timeout=SILENCE_S + 10.0)
            stage.mark("inside-silent", f"the producer inside gets no answer: {first.outcome} {first.error}")
            again = inside.commit(within_s=2.0)
            stage.mark("inside-again", f"it asks again: {again.outcome}, error {again.error}")
            wait_markers(stage, "broker2", NEAR)
            wait_markers(stage, "broker3", FAR)
            for topic in (NEAR, FAR):
                stage.read("az2", topic)
            stage.mark("blocked", "a consumer outside with read_committed has read as far as it gets")
        stage.mark("healed", "az1 is back")
        inside.coordinator = outside.coordinator
        inside.must_end(commit=True, within_s=20.0)
        wait_logged(stage, INSIDE, "CompleteCommit", coordinator=outside.coordinator)
        wait_markers(stage, "broker2", NEAR, 2)
        wait_markers(stage, "broker3", FAR, 2)
        for topic in (NEAR, FAR):
            stage.wait_converged(topic)
            stage.read("az2", topic)
        stage.mark("read", "after the heal it has read again")

    return run


CLAIMS = (
    Claim(
        name="coordinator-moves",
        section=SECTION,
        says="Another broker coordinates as soon as it leads the transaction log.",
        holds=partition(TRANSACTION_LOG).is_led_by((2, 3), at="moved"),
    ),
    Claim(
        name="silence-inside",
        section=SECTION,
        says="The isolated coordinator does not answer a commit: it waits for its replicas as long as the "
        "transaction may take.",
        holds=transactions(INSIDE).was_reported(
            "unknown", errors=(-185,), after="cut", before="inside-silent"
        ),
    ),
    Claim(
        name="then-51",
        section=SECTION,
        says="Asked again, it answers with error 51: the transaction is about to end.",
        holds=transactions(INSIDE).was_reported(
            "unknown", errors=(51,), after="inside-silent", before="inside-again"
        ),
    ),
    Claim(
        name="outside-commits",
        section=SECTION,
        says="The new coordinator reports the transaction of the producer outside as committed, and its messages get their marker.",
        holds=both(
            transactions(OUTSIDE).was_reported("committed", after="moved", before="outside-told"),
            decided(messages(OUTSIDE), "commit", at_least=2),
        ),
    ),
    Claim(
        name="readers-wait",
        section=SECTION,
        says="Nobody reads these messages yet: the open transaction of the producer inside, which began one message "
        "earlier, holds the last stable offset of both partitions.",
        holds=both(
            readers_wait(partition(NEAR), 2, since="outside-told", until="blocked"),
            readers_wait(partition(FAR), 3, since="outside-told", until="blocked"),
        ),
    ),
    Claim(
        name="unknown-is-committed-later",
        section=SECTION,
        says="After the heal the producer inside asks the new coordinator, which reports its transaction as committed, and everything is read: what the old coordinator had prepared does not matter.",
        holds=both(
            transactions(INSIDE).reported("committed"),
            decided(messages(INSIDE), "commit", at_least=2),
            messages((INSIDE, OUTSIDE)).consumed(since="healed", until="read", at_least=4),
            readers_are_served(partition(NEAR), 2, at="read"),
            readers_are_served(partition(FAR), 3, at="read"),
        ),
    ),
)
SETUP = Setup(
    topics=(Topic(NEAR, (2, 3)), Topic(FAR, (3, 2))),
    controller="broker2",
    zookeeper_leader="zookeeper2",
    zookeeper_pins=pins(2, 3, to=(2, 3)),
    transaction_log=(1, 2, 3),
    stream_rate=0,
)
OUTCOME = "no answer inside, a new coordinator outside; one client that is cut off stops all readers"
SCENARIOS = (
    Scenario(
        name="transaction-coordinator-isolated",
        title="The AZ of the transaction coordinator is isolated during a commit",
        article="transactions",
        section="coordinator isolated",
        body=body("v1"),
        setup=SETUP,
        claims=CLAIMS,
        faults=("isolate az1",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome=OUTCOME,
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
)
