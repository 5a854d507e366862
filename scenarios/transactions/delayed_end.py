"""The request that ends a transaction arrives late, and ends the next one (KAFKA-17754).

EndTxn names the transactional id, the producer id and its epoch, but not the transaction. With version 1 of
the protocol the epoch stays the same, so a coordinator cannot tell a late request from a request of the open
transaction. The first attempt is held back; the producer asks again, is answered, and goes on. Then the first
one arrives.
"""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders import (
    Messages,
    both,
    decided,
    late_answer,
    markers_are,
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
from scenarios.transactions.steps import SECTION, wait_complete, wait_markers

ABORT, COMMIT, SAME, ALONE = "late-abort", "late-commit", "same-partition", "nothing-follows"
"""The producers, each with a topic of the same name."""
ABORT_2, COMMIT_2 = f"{ABORT}-2", f"{COMMIT}-2"
LEADER, COORDINATOR = "broker1", "broker2"
TIMEOUT_S, CLEANUP_S = 5.0, 1.0


def body(protocol: Generation) -> Callable[[Stage], None]:
    """The body for producers of one generation."""

    def run(stage: Stage) -> None:
        """End a transaction by the second attempt, begin the next one, and deliver the first attempt."""
        producers = {
            name: stage.transactional("az1", name, protocol=protocol, timeout_s=TIMEOUT_S).prepare()
            for name in (ABORT, COMMIT, SAME, ALONE)
        }

        one = producers[ABORT]
        late = _next_begun(stage, one, commit=False)
        _deliver(stage, late, one, protocol)
        one.must_send(ABORT_2, "y2")
        one.must_end(commit=True)
        stage.mark(f"ended-{ABORT}", "the second transaction is reported as committed")

        one = producers[COMMIT]
        late = _next_begun(stage, one, commit=True)
        _deliver(stage, late, one, protocol)
        one.must_send(COMMIT_2, "y2")
        one.must_end(commit=False)
        stage.mark(f"ended-{COMMIT}", "the second transaction is reported as aborted")

        one = producers[SAME]
        late = _next_begun(stage, one, commit=True)
        _deliver(stage, late, one, protocol)
        behind = one.send(SAME, "x3")
        end = one.commit()
        same = stage.mark(
            "carried-on", f"a further message: {behind.outcome}; the second transaction: {end.outcome}"
        )

        one = producers[ALONE]
        late = _next_begun(stage, one, commit=True)
        _deliver(stage, late, one, protocol)
        end = one.abort()
        stage.mark(f"ended-{ALONE}", f"the abort of the second transaction: {end.outcome}, error {end.error}")

        stand(stage, same, TIMEOUT_S + CLEANUP_S + 2.0)
        stage.mark("waited", "longer than transaction.timeout.ms and the coordinator's interval")
        for topic in TOPICS:
            stage.read("az2", topic.name)
        stage.mark("read", "a consumer with read_committed has read each topic as far as it gets")

    return run


def _next_begun(stage: Stage, producer: TransactionalProducer, *, commit: bool) -> DelayedRequest:
    """End a first transaction while the first attempt to end it is under way; begin the next one."""
    topic = producer.spec.name
    producer.begin()
    producer.must_send(topic, "x1")
    late = producer.hold_end(commit=commit)
    producer.must_end(commit=commit)
    wait_complete(stage, topic, COORDINATOR)
    producer.begin()
    producer.must_send(topic, "x2")
    stage.mark(f"begun-{topic}", f"{topic}: the first transaction has ended, the second one is open")
    return late


def _deliver(
    stage: Stage, late: DelayedRequest, producer: TransactionalProducer, protocol: Generation
) -> None:
    topic = producer.spec.name
    answer = late.deliver()
    if protocol == "v1":
        wait_markers(stage, LEADER, topic, 2)
        wait_complete(stage, topic, COORDINATOR)
    stage.mark(f"arrived-{topic}", f"{topic}: the late request arrives: error {answer.error}")


def _x2(name: str) -> Messages:
    return messages(name, label="x2")


def _y2(name: str) -> Messages:
    return messages(name, label="y2")


X3 = messages(SAME, label="x3")
V1 = (
    Claim(
        name="obeyed",
        section=SECTION,
        says="A request to end the first transaction that arrives during the second one is carried out: it writes "
        "a second marker.",
        holds=both(late_answer("EndTxn", 0, at_least=4), markers_are(partition(ALONE), "commit", "commit")),
    ),
    Claim(
        name="half-lost",
        section=SECTION,
        says="A transaction that is reported as committed is half lost: what it wrote before the late abort is aborted.",
        holds=both(
            transactions(ABORT, number=1).reported("committed"),
            decided(_x2(ABORT), "abort"),
            decided(_y2(ABORT), "commit"),
            markers_are(partition(ABORT), "abort", "abort"),
            partition(ABORT_2).consumers_read(1, until="read"),
        ),
    ),
    Claim(
        name="aborted-is-read",
        section=SECTION,
        says="A transaction that is reported as aborted is half read: what it wrote before the late commit is committed.",
        holds=both(
            transactions(COMMIT, number=1).reported("aborted"),
            decided(_x2(COMMIT), "commit"),
            decided(_y2(COMMIT), "abort"),
            markers_are(partition(COMMIT), "commit", "commit"),
            _x2(COMMIT).consumed(until="read"),
        ),
    ),
    Claim(
        name="commit-hangs",
        section=SECTION,
        says="If the second transaction goes on in the same partition, its further messages are in no transaction "
        "that anybody ends, although it is reported as committed: readers wait for longer than transaction.timeout.ms.",
        holds=both(
            transactions(SAME, number=1).reported("committed"),
            X3.acknowledged(),
            decided(X3, "open"),
            readers_wait(partition(SAME), 1, since="carried-on", until="waited"),
            partition(SAME).consumers_see_nothing_from(4, until="read"),
        ),
        before="3.6.0",
    ),
    Claim(
        name="further-refused",
        section=SECTION,
        says="If the second transaction goes on in the same partition, its further messages are refused with error "
        "48; its commit is reported as committed all the same.",
        holds=both(
            transactions(SAME, number=1).reported("committed"),
            X3.refused_with(48),
            readers_are_served(partition(SAME), 1, at="waited"),
        ),
        since="3.6.0",
    ),
    Claim(
        name="refused-yet-read",
        section=SECTION,
        says="If nothing follows in the second transaction, its abort is refused with error 48, and its messages are "
        "read all the same.",
        holds=both(
            transactions(ALONE, number=1).reported("unknown", errors=(48,)),
            decided(_x2(ALONE), "commit"),
            _x2(ALONE).consumed(until="read"),
        ),
    ),
)
V2 = (
    Claim(
        name="recognised",
        section=SECTION,
        says="The late request names an epoch that is over: it is answered with error 90 and has no effect.",
        holds=both(
            late_answer("EndTxn", 90, at_least=4),
            markers_are(partition(ABORT), "abort", "commit"),
            markers_are(partition(COMMIT), "commit", "abort"),
        ),
    ),
    Claim(
        name="committed-is-read",
        section=SECTION,
        says="What is reported as committed is committed and read, all of it.",
        holds=both(
            transactions((ABORT, SAME), number=1).reported("committed", at_least=2),
            *(decided(found, "commit") for found in (_x2(ABORT), _y2(ABORT), _x2(SAME))),
            decided(X3, "commit"),
            messages((ABORT, SAME), label=("x2", "x3", "y2")).consumed(until="read", at_least=4),
        ),
    ),
    Claim(
        name="aborted-is-not-read",
        section=SECTION,
        says="What is reported as aborted is aborted, all of it.",
        holds=both(
            transactions((COMMIT, ALONE), number=1).reported("aborted", at_least=2),
            *(decided(found, "abort") for found in (_x2(COMMIT), _y2(COMMIT), _x2(ALONE))),
            partition(COMMIT).consumers_see_nothing_from(2, until="read"),
            partition(ALONE).consumers_see_nothing_from(2, until="read"),
        ),
    ),
)

TOPICS = tuple(Topic(name, (1, 2, 3)) for name in (ABORT, ABORT_2, COMMIT, COMMIT_2, SAME, ALONE))
SETUP = Setup(
    topics=TOPICS,
    broker_config={
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CLEANUP_S * 1000)),
    },
    transaction_log=(2, 3, 1),
    stream_rate=0,
)
SCENARIOS = (
    Scenario(
        name="delayed-end-txn",
        title="The request that ends a transaction arrives during the next one",
        article="transactions",
        section="delayed EndTxn",
        body=body("v1"),
        setup=SETUP,
        claims=V1,
        expected=(
            Expected(
                "torn_transaction",
                f"writer_name IN ('{ABORT}', '{COMMIT}') AND txn = 1",
                "a late request ended the first part of it another way",
            ),
            Expected(
                "aborted_read",
                f"writer_name = '{ALONE}' AND txn = 1",
                "a late commit of the transaction before has committed it",
            ),
            Expected(
                "hanging_transaction",
                f"writer_name = '{SAME}' AND txn = 1",
                "a late commit took the coordinator's knowledge of the partition away",
                before="3.6.0",
            ),
        ),
        faults=("hold EndTxn",),
        modes=("zookeeper", "kraft-combined"),
        outcome="reported as committed and half lost; reported as aborted and half read; on 2.7.1 readers wait for ever as well",
        versions=("2.7.1", "3.6.2", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="delayed-end-txn-v2",
        title="The same with a producer that speaks version 2 of the protocol",
        article="transactions",
        section="delayed EndTxn",
        body=body("v2"),
        setup=SETUP,
        claims=V2,
        faults=("hold EndTxn",),
        kafka="4.3.1",
        mode="kraft-combined",
        outcome="the late request is recognised and refused; every transaction ends as reported",
    ),
)
