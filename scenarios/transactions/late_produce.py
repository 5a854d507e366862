"""A message of an aborted transaction arrives after the abort (KIP-890): it may stop readers for ever, or be read.

A client that gets no answer closes its connection and asks again over another one. The first request may
still be under way. Here it is held back, and delivered when the transaction has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from checkers.claims.builders import (
    Messages,
    both,
    decided,
    hangs,
    messages,
    partition,
    readers_are_served,
    readers_wait,
    transactions,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Generation, Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from run.transactional import DelayedRequest, TransactionalProducer
from scenarios.steps import stand
from scenarios.transactions.steps import SECTION, wait_complete

LEFT, NEXT, SAME, IDLE = "left-alone", "before-next", "within-next", "idle"
LEADER, COORDINATOR = "broker1", "broker2"
TIMEOUT_S, CLEANUP_S = 5.0, 1.0
TOPICS = tuple(Topic(name, (1, 2, 3)) for name in (LEFT, NEXT, SAME, IDLE))
CONFIG = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CLEANUP_S * 1000))}


def body(protocol: Generation) -> Callable[[Stage], None]:
    """The body for producers of one generation."""

    def run(stage: Stage) -> None:
        """Deliver a message late: to a producer that does nothing, before its next transaction, within it."""
        plain = stage.producer("az1", "az1-plain", LEADER, acks=-1)
        producers = {
            topic: stage.transactional("az1", topic, protocol=protocol, timeout_s=TIMEOUT_S).prepare()
            for topic in (LEFT, NEXT, SAME, IDLE)
        }
        idle = producers[IDLE]
        idle.begin()
        idle.must_send(IDLE, "never ended")

        plain.must_send(LEFT, "before")
        late = _aborted(stage, producers[LEFT], LEFT)
        late.deliver()
        arrived = stage.mark("arrived", f"{LEFT}: a message of the aborted transaction arrives")
        plain.must_send(LEFT, "behind")
        stage.wait_replicated(LEFT)
        stage.mark("behind", f"{LEFT}: another message, of no transaction, stands behind it")

        late = _aborted(stage, producers[NEXT], NEXT)
        refused = late.deliver().error != 0
        if refused and protocol == "v1":
            producers[NEXT].prepare()  # like clients whose sequence of messages is broken
        producers[NEXT].begin()
        producers[NEXT].must_send(NEXT, "next")
        producers[NEXT].must_end(commit=True)
        wait_complete(stage, NEXT, COORDINATOR)
        stage.mark("committed-next", f"{NEXT}: the transaction after it is committed")

        late = _aborted(stage, producers[SAME], SAME)
        producers[SAME].begin()
        if protocol == "v1":
            producers[SAME].add(SAME)
        else:
            producers[SAME].must_send(SAME, "first of the next")
        late.deliver()
        producers[SAME].must_send(SAME, "next")
        producers[SAME].must_end(commit=True)
        wait_complete(stage, SAME, COORDINATOR)
        stage.mark("committed-same", f"{SAME}: the next transaction, in which it arrived, is committed")

        # Longer than a coordinator needs to abort a transaction that nobody has ended.
        stand(stage, arrived, TIMEOUT_S + CLEANUP_S + 2.0)
        stage.mark("waited", "longer than transaction.timeout.ms and the coordinator's interval")
        for topic in (LEFT, NEXT, SAME):
            stage.read("az2", topic)
        stage.mark("read", "a consumer with read_committed has read each topic as far as it gets")

    return run


def _aborted(stage: Stage, producer: TransactionalProducer, topic: str) -> DelayedRequest:
    producer.begin()
    producer.must_send(topic, "first")
    late = producer.hold_send(topic, "late")
    producer.must_end(commit=False)
    wait_complete(stage, topic, COORDINATOR)
    stage.mark(f"aborted-{topic}", f"{topic}: the transaction is aborted; one of its messages is late")
    return late


BEHIND = messages("az1-plain", label="behind")


def _late(topic: str | tuple[str, ...]) -> Messages:
    return messages(topic, label="late")


def _taken(before: str = "") -> tuple[Claim, ...]:
    """Claims about brokers that do not ask whether a transaction is open."""
    return (
        Claim(
            name="taken",
            section=SECTION,
            says="A message that arrives after the abort of its transaction is acknowledged.",
            holds=_late((LEFT, NEXT)).acknowledged(at_least=2),
            before=before,
        ),
        Claim(
            name="hangs",
            section=SECTION,
            says="It opens a transaction that nobody ends: the last stable offset stands still for longer than "
            "transaction.timeout.ms, and what is written behind it is not read.",
            holds=both(
                readers_wait(partition(LEFT), 1, since="behind", until="waited"),
                decided(_late(LEFT), "open"),
                BEHIND.kept(),
                partition(LEFT).consumers_see_nothing_from(3, until="read"),
            ),
            before=before,
        ),
        Claim(
            name="joins-the-next",
            section=SECTION,
            says="If the producer goes on, its next transaction takes the message along: one that was aborted is "
            "committed, and read.",
            holds=both(
                transactions(NEXT, number=0).reported("aborted"),
                decided(_late(NEXT), "commit"),
                _late(NEXT).consumed(until="read"),
            ),
            before=before,
        ),
    )


def _refused(error: int, since: str = "") -> tuple[Claim, ...]:
    """Claims about brokers that ask, or that see that the producer's epoch is old."""
    return (
        Claim(
            name="refused",
            section=SECTION,
            says=f"A message that arrives after the abort of its transaction is refused with error {error}.",
            holds=both(
                _late((LEFT, NEXT)).refused_with(error, at_least=2),
                _late((LEFT, NEXT)).in_final_log(copies=0, at_least=2),
            ),
            since=since,
        ),
        Claim(
            name="readers-go-on",
            section=SECTION,
            says="Readers of committed messages go on.",
            holds=both(readers_are_served(partition(LEFT), 1, at="waited"), BEHIND.consumed(until="read")),
            since=since,
        ),
    )


COORDINATOR_KNOWS_NOTHING = Claim(
    name="coordinator-knows-nothing",
    section=SECTION,
    says="The leader knows the transaction to be open, and its coordinator knows it to be over: nobody will end it.",
    holds=hangs(partition(LEFT), 1, at="waited"),
)
TAKEN_WITHIN = Claim(
    name="taken-within-the-next",
    section=SECTION,
    says="If it arrives when the next transaction holds the same partition, it is acknowledged, committed with that "
    "one, and read, verification or not.",
    holds=both(
        transactions(SAME, number=0).reported("aborted"),
        _late(SAME).acknowledged(),
        decided(_late(SAME), "commit"),
        _late(SAME).consumed(until="read"),
    ),
)
REFUSED_WITHIN = Claim(
    name="refused-within-the-next",
    section=SECTION,
    says="If it arrives within the next transaction, it is refused as well: that one has another epoch.",
    holds=both(_late(SAME).refused_with(47), _late(SAME).in_final_log(copies=0)),
)
ALWAYS = (
    Claim(
        name="next-is-read",
        section=SECTION,
        says="What the producer commits in its next transaction is read.",
        holds=both(
            transactions((NEXT, SAME), number=1).reported("committed", at_least=2),
            messages((NEXT, SAME), label="next").consumed(until="read", at_least=2),
        ),
    ),
    Claim(
        name="idle-is-aborted",
        section=SECTION,
        says="A transaction that nobody ends is aborted by its coordinator in the meantime.",
        holds=both(decided(messages(IDLE), "abort"), readers_are_served(partition(IDLE), 1, at="waited")),
    ),
)


def _torn(topic: str, before: str = "") -> Expected:
    because = "a message arrived after the abort of its transaction, and the next transaction included it"
    return Expected("torn_transaction", f"topic = '{topic}' AND txn = 0", because, before=before)


def _hangs(before: str = "") -> Expected:
    because = "a message arrived after the abort of its transaction, and nothing followed"
    return Expected("hanging_transaction", f"topic = '{LEFT}' AND txn = 0", because, before=before)


SETUP = Setup(topics=TOPICS, broker_config=CONFIG, transaction_log=(2, 3, 1), stream_rate=0)
SCENARIOS = (
    Scenario(
        name="late-produce-after-abort",
        title="A message of an aborted transaction arrives after the abort",
        article="transactions",
        section="late produce",
        body=body("v1"),
        setup=SETUP,
        claims=(*_taken(before="3.6.0"), *_refused(48, since="3.6.0"), TAKEN_WITHIN, *ALWAYS),
        expected=(_hangs(before="3.6.0"), _torn(NEXT, before="3.6.0"), _torn(SAME)),
        faults=("hold Produce",),
        modes=("zookeeper", "kraft-combined"),
        outcome="2.7.1: readers wait for ever, or read it; since 3.6 refused, unless the next transaction is open",
        versions=("2.7.1", "3.6.2", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="late-produce-unverified",
        title="The same on 3.9.1 with transaction.partition.verification.enable=false",
        article="transactions",
        section="late produce",
        body=body("v1"),
        setup=replace(SETUP, broker_config={**CONFIG, "transaction.partition.verification.enable": "false"}),
        claims=(*_taken(), COORDINATOR_KNOWS_NOTHING, TAKEN_WITHIN, *ALWAYS),
        expected=(
            _hangs(),
            Expected(
                "hung_transaction",
                f"topic = '{NEXT}'",
                "a message arrived after the abort of its transaction; the next one ended it",
            ),
            _torn(NEXT),
            _torn(SAME),
        ),
        faults=("hold Produce",),
        kafka="3.9.1",
        mode="kraft-combined",
        outcome="readers wait for ever, or read it, as on 2.7.1",
    ),
    Scenario(
        name="late-produce-v2",
        title="The same with a producer that speaks version 2 of the protocol",
        article="transactions",
        section="late produce",
        body=body("v2"),
        setup=SETUP,
        claims=(*_refused(47), REFUSED_WITHIN, *ALWAYS),
        faults=("hold Produce",),
        kafka="4.3.1",
        mode="kraft-combined",
        outcome="refused wherever it arrives; nothing aborted is read",
    ),
)
