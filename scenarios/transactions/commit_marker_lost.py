"""An unclean election takes the commit marker away (KAFKA-20716): readers wait, and the ways out may lose the commit."""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders import (
    Messages,
    both,
    decided,
    hangs,
    messages,
    messages_where,
    partition,
    readers_are_served,
    readers_wait,
    transactions,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Generation, Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, require, stand
from scenarios.transactions.steps import SECTION, abort_by_operator, wait_complete, wait_markers

NOTHING, OPERATOR, COMMITS, ABORTS = "nothing-done", "operator-aborts", "next-commits", "next-aborts"
"""What is done about it: names of the producers, and of their topics."""
NAMES = (NOTHING, OPERATOR, COMMITS, ABORTS)
COORDINATOR = "broker3"
TIMEOUT_S, CLEANUP_S = 5.0, 1.0
UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def body(protocol: Generation) -> Callable[[Stage], None]:
    """The body for producers of one generation."""

    def run(stage: Stage) -> None:
        """Commit while the follower is away, kill the leader with the markers, and try each way out."""
        producers = {
            name: stage.transactional("az3", name, protocol=protocol, timeout_s=TIMEOUT_S).prepare()
            for name in NAMES
        }
        for name, producer in producers.items():
            require(producer.coordinator == COORDINATOR, f"{COORDINATOR} coordinates")
            producer.begin()
            producer.must_send(name, "paid")
        for name in NAMES:
            stage.wait_replicated(name)
        with stage.nemesis.cut("broker1 <-> broker2"):
            stage.mark("cut", "the follower has every message, and gets nothing more")
            for producer in producers.values():
                producer.must_end(commit=True)
            stage.mark("told", "every transaction is reported as committed")
            for name in NAMES:
                stage.wait_for_isr(name, 1, within_s=stage.timings.shrink_s)
                # The old leader may know of the smaller ISR long before it counts the marker as committed; the
                # coordinator writes it again until it does (KAFKA-13091).
                wait_complete(stage, name, COORDINATOR, within_s=30.0)
                stage.read("az3", name)
            stage.mark("read-once", "a consumer with read_committed has read every message")
            stage.kill("broker1")
        for name in NAMES:
            stage.wait_for_leader(name, on="broker2")
            stage.wait_until_serving(name, "broker2")
        elected = stage.mark("elected", "broker2 leads, which has the messages but not the markers")
        # Longer than a coordinator needs to abort a transaction that nobody has ended.
        stand(stage, elected, TIMEOUT_S + CLEANUP_S + 2.0)
        stage.mark("waited", "longer than transaction.timeout.ms and the coordinator's interval")
        for name, commit in ((COMMITS, True), (ABORTS, False)):
            producers[name].begin()
            producers[name].must_send(name, "next")
            producers[name].must_end(commit=commit)
            wait_markers(stage, "broker2", name)
        if stage.dialect.describe_quorum is not None:
            abort_by_operator(stage, "broker2", OPERATOR)
        for name in NAMES:
            stage.read("az3", name)
        stage.mark("done", "each way out was taken, and a consumer has read again")
        stage.restart("broker1")
        for name in NAMES:
            stage.wait_converged(name)
        stage.mark("converged", "the old leader follows")

    return run


def _paid(name: str | tuple[str, ...]) -> Messages:
    return messages(name, label="paid")


def _behind(*topics: str) -> Messages:
    """Writes outside transactions, tried until the new leader takes one."""
    tried = messages("az2-probe-%", topic=topics, label="_")
    return messages_where(f"{tried.where} AND outcome = 'ok'", of=tried)


CLAIMS = (
    Claim(
        name="committed-and-read",
        section=SECTION,
        says="Every transaction is reported as committed, and its message is read.",
        holds=both(
            transactions(NAMES, number=0).reported("committed", at_least=4),
            _paid(NAMES).consumed(until="read-once", at_least=4),
        ),
    ),
    Claim(
        name="unclean-leader-lacks-markers",
        section=SECTION,
        says="After the unclean election readers wait at these messages again, for longer than "
        "transaction.timeout.ms.",
        holds=both(
            partition(NOTHING).is_led_by(2, isr=(2,), at="elected"),
            *(readers_wait(partition(name), 2, since="elected", until="waited") for name in NAMES),
        ),
    ),
    Claim(
        name="coordinator-knows-nothing",
        section=SECTION,
        says="The leader knows these transactions to be open, and their coordinator knows them to be over: nobody will "
        "end them.",
        holds=both(*(hangs(partition(name), 2, at="waited") for name in NAMES)),
        since="3.0.0",
    ),
    Claim(
        name="plain-behind-not-read",
        section=SECTION,
        says="What others write behind them with acks=1 is acknowledged and kept, and not read where the "
        "transaction has not ended.",
        holds=both(
            _behind(NOTHING).kept(),
            _behind(NOTHING).not_consumed(beside=_behind(COMMITS, ABORTS), until="done"),
        ),
    ),
    Claim(
        name="nobody-acts",
        section=SECTION,
        says="If nobody acts, they wait for ever; the old leader gives up its marker when it returns.",
        holds=both(
            decided(_paid(NOTHING), "open"),
            readers_wait(partition(NOTHING), 2, since="elected", until="converged"),
            partition(NOTHING).logs_agree(replicas=2, at_least=1),
        ),
    ),
    Claim(
        name="next-commit-keeps",
        section=SECTION,
        says="If the producer commits its next transaction in that partition, the message is committed again.",
        holds=both(
            decided(_paid(COMMITS), "commit"),
            readers_are_served(partition(COMMITS), 2, at="done"),
            _paid(COMMITS).consumed(since="waited", until="done"),
        ),
    ),
    Claim(
        name="next-abort-loses",
        section=SECTION,
        says="If it aborts its next transaction there, the message that was committed and read is aborted for ever.",
        holds=both(decided(_paid(ABORTS), "abort"), readers_are_served(partition(ABORTS), 2, at="done")),
    ),
    Claim(
        name="operator-loses",
        section=SECTION,
        says="If an operator ends it with kafka-transactions.sh, which can only abort, it is aborted for ever.",
        holds=both(decided(_paid(OPERATOR), "abort"), readers_are_served(partition(OPERATOR), 2, at="done")),
        since="3.0.0",
    ),
)
SETUP = Setup(
    topics=tuple(Topic(name, (1, 2), config=UNCLEAN) for name in NAMES),
    broker_config={
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CLEANUP_S * 1000)),
    },
    controller="broker3",
    zookeeper_leader="zookeeper3",
    zookeeper_pins=pins(2, 3, to=(2, 3)),
    transaction_log=(3, 2, 1),
    stream_rate=0,
)
EXPECTED = (
    Expected(
        "hanging_transaction", f"topic = '{NOTHING}' AND txn = 0", "its marker was lost, and nobody acted"
    ),
    Expected(
        "hanging_transaction",
        f"topic = '{OPERATOR}' AND txn = 0",
        "its marker was lost, and this version has no tool to end it",
        before="3.0.0",
    ),
    Expected(
        "hung_transaction",
        f"topic IN ('{COMMITS}', '{OPERATOR}', '{ABORTS}')",
        "its marker was lost, and its coordinator did not know",
        since="3.0.0",
    ),
    Expected(
        "lost_transaction",
        f"topic IN ('{OPERATOR}', '{ABORTS}') AND txn = 0",
        "its marker was lost, and an abort followed",
    ),
)
OUTCOME = (
    "a commit that was reported and read hangs after the election; two of four ways out abort it for ever"
)
SCENARIOS = (
    Scenario(
        name="commit-marker-lost",
        title="An unclean election takes the commit marker of a transaction away",
        article="transactions",
        section="commit marker",
        body=body("v1"),
        setup=SETUP,
        claims=CLAIMS,
        expected=EXPECTED,
        faults=("cut broker1 <-> broker2", "kill broker1"),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome=OUTCOME,
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="commit-marker-lost-v2",
        title="The same with a producer that speaks version 2 of the protocol",
        article="transactions",
        section="commit marker",
        body=body("v2"),
        setup=SETUP,
        claims=CLAIMS,
        expected=EXPECTED,
        faults=("cut broker1 <-> broker2", "kill broker1"),
        kafka="4.3.1",
        mode="kraft-combined",
        outcome=OUTCOME,
    ),
)
