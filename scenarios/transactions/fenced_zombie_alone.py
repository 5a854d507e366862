"""A transactional producer is cut off with a leader that is alone in the ISR: what it writes is kept, and never read."""

from __future__ import annotations

from checkers.claims.builders import (
    both,
    decided,
    markers_are,
    messages,
    noted,
    partition,
    readers_wait,
    transactions,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, require, wait_answered
from scenarios.transactions.steps import SECTION

TOPIC, ID = "t", "orders"
OLD, NEW = "old", "new"
"""Names of the two producers with this id."""
ZOMBIE, COORDINATOR, FOLLOWER = "broker1", "broker2", "broker3"


def body(stage: Stage) -> None:
    """Shrink the ISR to the leader, isolate it with its producer; a successor comes; heal."""
    old = stage.transactional("az1", ID, name=OLD).prepare()
    require(old.coordinator == COORDINATOR, f"{COORDINATOR} coordinates ({old.coordinator} does)")
    old.begin()
    old.must_send(TOPIC, "w1", to=ZOMBIE)
    stage.wait_replicated(TOPIC)
    new = stage.transactional("az2", ID, name=NEW, coordinator=COORDINATOR)
    with stage.nemesis.cut(f"{ZOMBIE} <-> {FOLLOWER}"):
        old.send(TOPIC, "w2", to=ZOMBIE)
        stage.wait_for_isr(TOPIC, 1, within_s=stage.timings.shrink_s)
        wait_answered(stage, stage.producer("az1", "probe", ZOMBIE), TOPIC, 0)
        stage.mark("alone", f"{ZOMBIE} is alone in the ISR; min.insync.replicas is 1")
        with stage.nemesis.isolate("az1"):
            stage.mark("cut", "az1 is isolated: the producer, and the leader with its open transaction")
            inside = old.send(TOPIC, "w3", to=ZOMBIE)
            stage.mark("written", f"the producer writes on to the leader beside it: error {inside.error}")
            stage.wait_for_no_leader(TOPIC)
            error = new.initialise(within_s=5.0)
            stage.mark("fencing", f"a successor asks for the transactional id: error {error}", error=error)
            after = old.send(TOPIC, "w4", to=ZOMBIE)
            stage.mark("written-on", f"the old producer writes on: error {after.error}")
            stage.read("az1", TOPIC, ZOMBIE)
            stage.mark("read-inside", "a consumer inside with read_committed has read from the old leader")
    stage.mark("healed", "az1 is back")
    stage.wait_for_leader(TOPIC, on=ZOMBIE)
    wait_answered(stage, stage.producer("az1", "probe-healed", ZOMBIE), TOPIC, 0)
    new.prepare(60.0)
    stage.mark("fenced", "the successor has a producer id; the old transaction is aborted")
    late = old.send(TOPIC, "w5", to=stage.leader(TOPIC))
    end = old.commit(within_s=5.0)
    stage.mark("refused", f"the old producer: message {late.error}, commit {end.outcome} {end.error}")
    new.begin()
    new.must_send(TOPIC, "n1")
    new.must_end(commit=True)
    stage.wait_converged(TOPIC)
    stage.read("az2", TOPIC)
    stage.mark("read", "a consumer with read_committed has read the topic")


_KEPT = messages(OLD, label=("w1", "w2", "w3", "w4"))
CLAIMS = (
    Claim(
        name="acknowledged-inside",
        section=SECTION,
        says="The isolated leader acknowledges what the producer beside it writes with acks=all, also after a "
        "successor has asked for its transactional id: an ISR of one is enough.",
        holds=both(
            partition(TOPIC).has_isr(1, at="alone"),
            messages(OLD, label=("w3", "w4")).became("kept", at_least=2),
        ),
    ),
    Claim(
        name="successor-waits",
        section=SECTION,
        says="The successor gets no producer id (error 51) while the partition has no leader that its coordinator "
        "reaches.",
        holds=both(partition(TOPIC).has_no_leader(at="fencing"), noted("fencing", error=51)),
        before="4.3.0",
    ),
    Claim(
        name="marker-skipped",
        section=SECTION,
        says="The successor gets a producer id at once: the coordinator regards a partition without a leader as deleted, and ends the old transaction without its marker (KAFKA-20734).",
        holds=both(
            partition(TOPIC).has_no_leader(at="fencing"),
            noted("fencing", error=0),
            markers_are(partition(TOPIC), "commit"),
        ),
        since="4.3.0",
    ),
    Claim(
        name="nothing-inside",
        section=SECTION,
        says="At the isolated leader nothing of the transaction can be read, although all of it is committed to "
        "the log.",
        holds=readers_wait(partition(TOPIC), 1, since="cut", until="read-inside"),
    ),
    Claim(
        name="fenced",
        section=SECTION,
        says="After the heal the old producer's message and its commit are refused with error 47.",
        holds=both(
            messages(OLD, label="w5").refused_with(47),
            messages(OLD, label="w5").in_final_log(copies=0),
            transactions(OLD).reported("unknown", errors=(47,)),
        ),
        before="4.3.0",
    ),
    Claim(
        name="leader-does-not-know",
        section=SECTION,
        says="After the heal the leader still accepts the old producer's messages: without the marker it does not know that this producer is fenced. Only the commit is refused, with error 47.",
        holds=both(
            messages(OLD, label="w5").kept(),
            transactions(OLD).reported("unknown", errors=(47,)),
        ),
        since="4.3.0",
    ),
    Claim(
        name="successor-works",
        section=SECTION,
        says="After the heal the successor gets its producer id, and commits.",
        holds=both(
            transactions(NEW).was_reported("committed", after="healed", before="read"),
            messages(NEW, label="n1").consumed(since="healed", until="read"),
        ),
    ),
    Claim(
        name="kept-and-aborted",
        section=SECTION,
        says="Every acknowledged message of the old producer is in the log, aborted, and never read by consumers of committed messages.",
        holds=both(
            decided(_KEPT, "abort", at_least=4),
            markers_are(partition(TOPIC), "abort", "commit", retried=True),
            _KEPT.not_consumed(beside=messages(NEW), until="read", at_least=4),
        ),
        before="4.3.0",
    ),
    Claim(
        name="fenced-is-read",
        section=SECTION,
        says="The successor's commit commits what the fenced producer wrote as well, also after it was fenced, and "
        "consumers of committed messages read it.",
        holds=both(
            decided(messages(OLD), "commit", at_least=5), messages(OLD).consumed(until="read", at_least=5)
        ),
        since="4.3.0",
    ),
)
SCENARIO = Scenario(
    name="fenced-zombie-producer-isr-of-one",
    title="A transactional producer is cut off with a leader that is alone in the ISR",
    article="transactions",
    section="fenced producer",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        transaction_log=(2, 3, 1),
        stream_rate=0,
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "fenced_write_read",
            messages(OLD).where,
            "the marker that ends the fenced producer's transaction is left out (KAFKA-20734)",
            since="4.3.0",
        ),
        Expected(
            "hung_transaction",
            f"topic = '{TOPIC}'",
            "the same: until the successor commits, only the leader knows the transaction to be open",
            since="4.3.0",
        ),
    ),
    faults=(f"cut {ZOMBIE} <-> {FOLLOWER}", "isolate az1"),
    kafka="3.9.1",
    mode="kraft-combined",
    modes=("kraft-combined", "zookeeper"),
    outcome="to 3.9: kept, aborted and never read, no successor before the heal; 4.3.1: committed by the successor, and read",
    versions=("2.7.1", "3.9.1", "4.3.1"),
)
