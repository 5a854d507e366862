"""The coordinator reaches every broker but one leader: a commit is reported as committed, and only half of it can be read."""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders import (
    both,
    decided,
    messages,
    noted,
    partition,
    readers_are_served,
    readers_wait,
    transactions,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Generation, Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import pins, require, stand
from scenarios.transactions.steps import SECTION, wait_complete, wait_logged, wait_markers

NEAR, FAR = "near", "far"
"""Topics whose leaders the coordinator reaches, and does not reach."""
ID = "orders"
COORDINATOR = "broker1"
TIMEOUT_S, CLEANUP_S = 5.0, 1.0


def body(protocol: Generation) -> Callable[[Stage], None]:
    """The body for producers of one generation."""

    def run(stage: Stage) -> None:
        """Commit over two partitions while the coordinator cannot reach the leader of one; go on; heal."""
        orders = stage.transactional("az2", ID, protocol=protocol, timeout_s=TIMEOUT_S).prepare()
        require(orders.coordinator == COORDINATOR, f"{COORDINATOR} coordinates ({orders.coordinator} does)")
        plain = stage.producer("az2", "az2-plain", "broker3", acks=-1)
        plain.must_send(FAR, "before")
        orders.begin()
        orders.must_send(NEAR, "first near")
        orders.must_send(FAR, "first far")
        stage.wait_replicated(FAR)
        with stage.nemesis.cut(f"{COORDINATOR} <-> broker3"):
            stage.mark("cut", f"{COORDINATOR}, the coordinator, does not reach broker3, which leads {FAR}")
            orders.must_end(commit=True)
            reported = stage.mark("told", "the producer is told that its transaction is committed")
            wait_markers(stage, "broker2", NEAR)
            plain.must_send(FAR, "behind")
            orders.begin()
            next_one = orders.send(NEAR, "next")
            stage.mark("refused", f"a message of the next transaction: error {next_one.error}")
            anew = stage.transactional("az2", ID, name="orders-anew", protocol=protocol, timeout_s=TIMEOUT_S)
            error = anew.initialise(within_s=2.0)
            stage.mark("anew", f"a new producer with this transactional id: error {error}", error=error)
            # Longer than a coordinator needs to abort a transaction that nobody has ended.
            stand(stage, reported, TIMEOUT_S + CLEANUP_S + 2.0)
            for topic in (NEAR, FAR):
                stage.read("az2", topic)
            stage.mark("waited", "a consumer with read_committed has read both topics as far as it gets")
        wait_markers(stage, "broker3", FAR)
        wait_complete(stage, ID, COORDINATOR)
        orders.must_send(NEAR, "after the heal")
        orders.must_end(commit=True)
        wait_logged(stage, ID, "CompleteCommit", coordinator=COORDINATOR)
        wait_markers(stage, "broker2", NEAR, 2)
        for topic in (NEAR, FAR):
            stage.wait_converged(topic)
            stage.read("az2", topic)
        stage.mark("read", "after the heal it has read both again")

    return run


CLAIMS = (
    Claim(
        name="half-is-read",
        section=SECTION,
        says="A transaction is reported as committed; one half of it is read at once.",
        holds=both(
            transactions(ID, number=0).reported("committed"),
            messages(ID, label="first near").consumed(until="waited"),
        ),
    ),
    Claim(
        name="half-is-not",
        section=SECTION,
        says="The other half is not read while one link is down, for longer than transaction.timeout.ms, although every client reaches every broker. What others write after it is not read either.",
        holds=both(
            readers_wait(partition(FAR), 3, since="told", until="waited"),
            messages("az2-plain", label="behind").acknowledged(),
            partition(FAR).consumers_see_nothing_from(1, until="waited"),
        ),
    ),
    Claim(
        name="nobody-goes-on",
        section=SECTION,
        says="The producer cannot write in a next transaction (error 51), and a new one with its transactional id "
        "does not get a producer id either.",
        holds=both(
            messages(ID, label="next").refused_with(51),
            messages(ID, label="next").in_final_log(copies=0),
            noted("anew", error=51),
        ),
    ),
    Claim(
        name="healed-is-read",
        section=SECTION,
        says="After the heal the other half is read, and the producer goes on.",
        holds=both(
            decided(messages(ID, label=("first near", "first far")), "commit", at_least=2),
            messages(ID, label="first far").consumed(since="waited", until="read"),
            messages(ID, label="after the heal").consumed(until="read"),
            transactions(ID, number=1).reported("committed"),
            readers_are_served(partition(FAR), 3, at="read"),
        ),
    ),
    Claim(
        name="acks-all-safe",
        section=SECTION,
        says="Nothing that was acknowledged with acks=all is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=2),
    ),
)
SETUP = Setup(
    topics=(Topic(NEAR, (2, 3)), Topic(FAR, (3, 2))),
    broker_config={
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CLEANUP_S * 1000)),
    },
    controller="broker2",
    zookeeper_leader="zookeeper2",
    zookeeper_pins=pins(2, 3, to=(2, 3)),
    transaction_log=(1, 2),
    stream_rate=0,
)
SCENARIOS = (
    Scenario(
        name="coordinator-cut-from-one-leader",
        title="The transaction coordinator is cut from one leader alone",
        article="transactions",
        section="coordinator cut",
        body=body("v1"),
        setup=SETUP,
        claims=CLAIMS,
        faults=(f"cut {COORDINATOR} <-> broker3",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="reported as committed, half of it unreadable as long as the link is down; nobody with that id goes on",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="coordinator-cut-from-one-leader-v2",
        title="The same with a producer that speaks version 2 of the protocol",
        article="transactions",
        section="coordinator cut",
        body=body("v2"),
        setup=SETUP,
        claims=CLAIMS,
        faults=(f"cut {COORDINATOR} <-> broker3",),
        kafka="4.3.1",
        mode="kraft-combined",
        outcome="reported as committed, half of it unreadable as long as the link is down; nobody with that id goes on",
    ),
)
