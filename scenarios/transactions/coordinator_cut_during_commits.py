"""Several commits are under way when the coordinator is cut off: reported commits hold, silence means either."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from checkers.claims.builders import (
    both,
    decided_whole,
    messages,
    partition,
    readers_are_served,
    transactions,
)
from harness.cluster.setup import Setup
from harness.kafka.model import TRANSACTION_LOG, Topic
from harness.waiting import wait_until
from run.scenario import Claim, Scenario
from run.stage import Stage
from run.transactional import TransactionalProducer
from scenarios.steps import pins, require, stand
from scenarios.transactions.steps import SECTION
from workloads.protocol.results import TransactionEnd

NEAR, FAR = "p", "q"
COORDINATOR = "broker1"
MANY, BEFORE = 24, 8
"""How many transactions end, and how many requests for it leave before the cut begins."""
SPACING_S = 0.04
SILENCE_S = 5.0
TIMEOUT_S, CLEANUP_S = 20.0, 1.0


def body(stage: Stage) -> None:
    """Commit one transaction after the other; isolate the coordinator meanwhile; repeat half of the unanswered requests."""
    producers = [
        stage.transactional("az2", f"order-{number:02}", timeout_s=TIMEOUT_S).prepare()
        for number in range(MANY)
    ]
    require(producers[0].coordinator == COORDINATOR, f"{COORDINATOR} coordinates")
    for producer in producers:
        producer.begin()
        producer.must_send(NEAR, "p")
        producer.must_send(FAR, "q")
    for topic in (NEAR, FAR):
        stage.wait_replicated(topic)
    with ThreadPoolExecutor(1) as pool:
        answers: list[Future[TransactionEnd]] = []
        asking = pool.submit(_commit_all, producers, answers)
        wait_until(lambda: len(answers) >= BEFORE, within_s=30.0, awaiting="the first commits", poll_s=0.01)
        with stage.nemesis.isolate("az1"):
            cut = stage.mark("cut", "az1 is isolated, with the coordinator, while transactions are committed")
            asking.result(timeout=30.0)
            ends = [answer.result(timeout=SILENCE_S + 30.0) for answer in answers]
            silent = [one for one, end in zip(producers, ends, strict=True) if end.outcome != "committed"]
            stage.mark(
                "silent", f"{MANY - len(silent)} are reported as committed, {len(silent)} have no answer"
            )
            stage.wait_for_leader(TRANSACTION_LOG, not_on=COORDINATOR)
            coordinator = stage.coordinator(producers[0].spec.transactional_id, not_on=COORDINATOR)
            for producer in silent[::2]:
                producer.coordinator = coordinator
                producer.must_end(commit=True, within_s=20.0)
            stage.mark("asked-again", f"{coordinator} answers every second one of them: committed")
            stand(stage, cut, TIMEOUT_S + CLEANUP_S + 3.0)
            stage.mark("timed-out", "longer than transaction.timeout.ms: nobody asked for the others again")
    for topic in (NEAR, FAR):
        stage.wait_converged(topic)
        stage.read("az2", topic)
    stage.mark("read", "after the heal a consumer with read_committed has read both topics")


def _commit_all(producers: Sequence[TransactionalProducer], answers: list[Future[TransactionEnd]]) -> None:
    pause = threading.Event()
    for producer in producers:
        answers.append(producer.end_later(commit=True, within_s=SILENCE_S))
        pause.wait(SPACING_S)


ORDERS = transactions("order-%")
CLAIMS = (
    Claim(
        name="silence",
        section=SECTION,
        says="Commits that were under way when the coordinator was cut off, and later ones, get no answer.",
        holds=ORDERS.was_reported(
            "unknown", errors=(-185, -187, -195), after="cut", before="silent", at_least=3
        ),
    ),
    Claim(
        name="asked-again",
        section=SECTION,
        says="To a repeated request, the new coordinator answers that the transaction is committed, whatever happened to the first request.",
        holds=ORDERS.was_reported("committed", after="silent", before="asked-again", at_least=2),
    ),
    Claim(
        name="decided-as-a-whole",
        section=SECTION,
        says="Every transaction that is reported as committed is in both partitions. Transactions without an answer are committed or aborted as a whole.",
        holds=decided_whole(ORDERS, committed=BEFORE, unanswered=1),
    ),
    Claim(
        name="readers-go-on",
        section=SECTION,
        says="After transaction.timeout.ms no reader waits for transactions whose request nobody repeated.",
        holds=both(
            readers_are_served(partition(NEAR), 2, at="timed-out"),
            readers_are_served(partition(FAR), 3, at="timed-out"),
        ),
    ),
    Claim(
        name="acks-all-safe",
        section=SECTION,
        says="No message that was acknowledged is lost.",
        holds=messages("order-%").became("kept", at_least=2 * MANY),
    ),
)
SCENARIO = Scenario(
    name="coordinator-cut-during-commits",
    title="The coordinator's AZ is isolated while many transactions are committed",
    article="transactions",
    section="coordinator isolated",
    body=body,
    setup=Setup(
        topics=(Topic(NEAR, (2, 3)), Topic(FAR, (3, 2))),
        broker_config={
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CLEANUP_S * 1000)),
        },
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        transaction_log=(1, 2, 3),
        stream_rate=0,
    ),
    claims=CLAIMS,
    faults=("isolate az1",),
    kafka="3.9.1",
    mode="kraft-combined",
    modes=("kraft-combined", "zookeeper"),
    outcome="what is reported as committed is committed as a whole; silence means committed or aborted, never half",
    versions=("2.7.1", "3.9.1", "4.3.1"),
)
