"""The same with real clients: the network delays a client's request to end a transaction.

The client gets no answer, closes the connection, and ends the transaction over another connection. The first
request stays in its kernel. It is delivered when the connection is released or, after a cut of the client's
AZ, when the kernel's retransmission timer expires, which may take as long again as the cut lasted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from checkers.claims.builders import (
    Messages,
    both,
    decided,
    markers_are,
    messages,
    partition,
    transactions,
    was_held_and_delivered,
)
from harness.cluster.setup import Setup
from harness.errors import WaitTimeoutError
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from run.transactional import TransactionalProducer
from scenarios.steps import pins, require, stand
from scenarios.transactions.steps import SECTION, wait_markers
from workloads.protocol.spec import Via

COMMIT, ABORT = "late-commit", "late-abort"
"""Topics, by the late request; the second transaction ends the other way."""
COMMIT_2, ABORT_2 = f"{COMMIT}-2", f"{ABORT}-2"
CLIENT, COORDINATOR, LEADER = "client1", "broker2", "broker3"
ANSWER_S = 2.0
"""How long the clients wait for an answer."""
MARKER_S = 5.0
"""A held request arrives at the latest after the next retransmission, and its marker soon after that."""


CUT_S = 7.5
"""How long the client's AZ is cut after the first request: the kernel repeats it after 0.2, 0.6, 1.4, 3.0, 6.2
and 12.6 s, the client itself within a second after the heal."""
LATE_S = 12.6
"""When the kernel first repeats it after the heal, counted from the request."""


def body(via: Via, *, cut: bool = False) -> Callable[[Stage], None]:
    """The body for one client library; with ``cut`` the client's AZ is cut, otherwise one connection held."""
    first = _first_during_cut if cut else _first_over_held

    def run(stage: Stage) -> None:
        """Delay the request that ends the first transaction, so that it arrives during the second one."""
        config: dict[str, str | int | float | bool]
        if via == "java":
            config = {"request.timeout.ms": int(ANSWER_S * 1000), "max.block.ms": 60_000}
        else:
            config = {"socket.timeout.ms": int(ANSWER_S * 1000)}
        for topic, commit in ((COMMIT, True), (ABORT, False)):
            producer = stage.transactional(
                "az1", topic, via=via, delivery_timeout_s=30.0, config=config
            ).prepare(60.0)
            require(stage.coordinator(topic) == COORDINATOR, f"{COORDINATOR} coordinates")
            first(stage, producer, topic, commit)
            _rest(stage, producer, topic, commit=commit, within_s=LATE_S if cut else MARKER_S)
        for topic in (COMMIT, COMMIT_2, ABORT, ABORT_2):
            stage.wait_replicated(topic)
            stage.read("az2", topic)
        stage.mark("read", "a consumer with read_committed has read each topic as far as it gets")

    return run


def _first_over_held(stage: Stage, producer: TransactionalProducer, topic: str, commit: bool) -> None:
    """End the first transaction while its connection is held, and begin the second one."""
    producer.begin()
    producer.must_send(topic, "x1")
    with stage.nemesis.hold_connections(CLIENT, COORDINATOR):
        stage.mark(f"held-{topic}", f"{topic}: the connection from {CLIENT} to {COORDINATOR} is held")
        producer.must_end(commit=commit, within_s=30.0)
        producer.begin()
        producer.must_send(topic, "x2")
        stage.mark(
            f"begun-{topic}",
            f"{topic}: reported as committed over another connection; the second one is open",
        )


def _first_during_cut(stage: Stage, producer: TransactionalProducer, topic: str, commit: bool) -> None:
    """Ask for the end of the first transaction while the client is cut off; heal, and begin the second one."""
    end = "committed" if commit else "aborted"
    producer.begin()
    producer.must_send(topic, "x1")
    with stage.nemesis.isolate("az1"):
        asked = stage.mark(f"asked-{topic}", f"{topic}: the transaction is to be {end}; az1 is isolated")
        ending = producer.end_later(commit=commit, within_s=60.0)
        stand(stage, asked, CUT_S)
    answer = ending.result(timeout=60.0)
    require(answer.outcome == end, f"the transaction is {end} after the heal ({answer.outcome})")
    producer.begin()
    producer.must_send(topic, "x2")
    begun = stage.mark(
        f"begun-{topic}", f"{topic}: {end} over another connection after the heal; the second one is open"
    )
    require(stage.since(asked) < LATE_S, f"the second transaction is open {LATE_S:g} s after the request")
    stage.progress.say(f"{topic}: {(begun - asked) / 1e9:.1f} s after the request")


def _rest(
    stage: Stage, producer: TransactionalProducer, topic: str, *, commit: bool, within_s: float
) -> None:
    """Wait for the late request, then end the second transaction the other way."""
    try:
        wait_markers(stage, LEADER, topic, 2, within_s=within_s)
    except WaitTimeoutError:
        stage.progress.say(f"{topic}: the delayed request has written no marker")
    stage.mark(f"arrived-{topic}", f"{topic}: nothing is delayed any more")
    producer.must_send(f"{topic}-2", "y2")
    producer.must_end(commit=not commit, within_s=30.0)
    end = "aborted" if commit else "committed"
    stage.mark(f"ended-{topic}", f"{topic}: the second transaction is reported as {end}")


DELIVERED = Claim(
    name="delivered",
    section=SECTION,
    says="Both times the held request is delivered to the coordinator, during the second transaction.",
    holds=was_held_and_delivered(at_least=2),
    precondition=True,
)


def _x2(name: str) -> Messages:
    return messages(name, label="x2")


def _y2(name: str) -> Messages:
    return messages(name, label="y2")


V1 = (
    DELIVERED,
    Claim(
        name="aborted-is-read",
        section=SECTION,
        says="A transaction that the client aborts, reported as aborted, is half read.",
        holds=both(
            transactions(COMMIT, number=1).reported("aborted"),
            markers_are(partition(COMMIT), "commit", "commit"),
            decided(_y2(COMMIT), "abort"),
            _x2(COMMIT).consumed(until="read"),
        ),
    ),
    Claim(
        name="half-lost",
        section=SECTION,
        says="A transaction that the client commits, reported as committed, is half lost.",
        holds=both(
            transactions(ABORT, number=1).reported("committed"),
            markers_are(partition(ABORT), "abort", "abort"),
            decided(_x2(ABORT), "abort"),
            _y2(ABORT).consumed(until="read"),
            _x2(ABORT).not_consumed(beside=_y2(ABORT), until="read"),
        ),
    ),
)
V2 = (
    DELIVERED,
    Claim(
        name="as-told",
        section=SECTION,
        says="Every transaction ends as reported to the client.",
        holds=both(
            transactions(COMMIT, number=1).reported("aborted"),
            transactions(ABORT, number=1).reported("committed"),
            markers_are(partition(COMMIT), "commit", "abort"),
            markers_are(partition(ABORT), "abort", "commit"),
            messages(ABORT, label=("x2", "y2")).consumed(until="read", at_least=2),
            messages(COMMIT, label=("x2", "y2")).not_consumed(
                beside=messages(COMMIT, label="x1"), until="read", at_least=2
            ),
        ),
    ),
)
SETUP = Setup(
    topics=tuple(Topic(name, (3, 2)) for name in (COMMIT, COMMIT_2, ABORT, ABORT_2)),
    controller="broker2",
    zookeeper_leader="zookeeper2",
    zookeeper_pins=pins(2, 3, to=(2, 3)),
    transaction_log=(2, 3, 1),
    stream_rate=0,
)
TORN = Expected(
    "torn_transaction",
    f"writer_name IN ('{COMMIT}', '{ABORT}') AND txn = 1",
    "a late request ended the first part of it another way",
)
SCENARIOS = (
    Scenario(
        name="delayed-end-txn-librdkafka",
        title="librdkafka's connection to the coordinator is held while it ends a transaction",
        article="transactions",
        section="delayed EndTxn, clients",
        body=body("librdkafka"),
        setup=SETUP,
        claims=V1,
        expected=(TORN,),
        faults=(f"hold {CLIENT} -> {COORDINATOR}",),
        kafka="4.3.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="reported as committed twice: one transaction is half lost, one that was aborted half read; on 4.3.1 as on 2.7.1",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="delayed-end-txn-client-az-cut",
        title="librdkafka's AZ is isolated for some seconds while it ends a transaction",
        article="transactions",
        section="delayed EndTxn, clients",
        body=body("librdkafka", cut=True),
        setup=SETUP,
        claims=V1[1:],
        expected=(TORN,),
        faults=("isolate az1",),
        kafka="4.3.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="an ordinary outage of seconds is enough: half lost, half read, reported as committed and aborted",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="delayed-end-txn-java",
        title="The Java client's connection to the coordinator is held while it ends a transaction",
        article="transactions",
        section="delayed EndTxn, clients",
        body=body("java"),
        setup=SETUP,
        claims=(
            *(replace(claim, before="4.0.0") for claim in V1),
            *(replace(claim, since="4.0.0") for claim in V2),
        ),
        expected=(replace(TORN, before="4.0.0"),),
        faults=(f"hold {CLIENT} -> {COORDINATOR}",),
        kafka="4.3.1",
        mode="kraft-combined",
        outcome="3.9.1: half lost, half read, as with librdkafka; 4.x speaks version 2: every transaction ends as reported",
        versions=("3.9.1", "4.3.1"),
    ),
)
