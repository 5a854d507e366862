"""An idempotent producer loses its first message: a broker that does not know a producer accepts any sequence number.

A broker checks that the sequence numbers of a producer id follow each other. For a producer id without a
record in the partition, it accepts any first number (KIP-360, since 2.5). If the first message is refused for
a temporary reason, and the second one, which is already under way, is accepted, the first one can never be
written: its number is in the past. librdkafka takes the acknowledgement of the second message for one of the
first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from checkers.claims.builders import both, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import (
    log_lines,
    pins,
    require,
    settle,
    wait_answered,
    wait_log,
)
from workloads.protocol.spec import Via

SECTION = "beyond the articles: idempotence"

# ---- by hand

GAP, KNOWN, EMPTY = "gap", "known", "empty"
"""Topics: one with a message of another producer, one where the producer is known, one without messages."""


def by_hand(stage: Stage) -> None:
    """Begin at sequence number 1, then send number 0; do the same where the broker knows the producer."""
    plain = stage.producer("az2", "plain", "broker1")
    for topic in (GAP, KNOWN):
        plain.must_send(topic, "earlier")
    for topic, first in ((GAP, 1), (EMPTY, 1)):
        numbered = stage.producer("az1", topic, "broker1", idempotent=True).prepare(topic)
        numbered.send(topic, "second", sequence=first)
        numbered.send(topic, "first", sequence=0)
        numbered.send(topic, "third", sequence=2)
    numbered = stage.producer("az1", KNOWN, "broker1", idempotent=True).prepare(KNOWN)
    numbered.send(KNOWN, "first", sequence=0)
    numbered.send(KNOWN, "third", sequence=2)
    numbered.send(KNOWN, "second", sequence=1)
    stage.mark("sent", "each producer has sent its messages")
    settle(stage)


BY_HAND = (
    Claim(
        name="any-first-number",
        section=SECTION,
        says="A broker accepts a first message with sequence number 1 from a producer that it does not know, whether "
        "the partition holds messages of others or none at all.",
        holds=messages((GAP, EMPTY), label="second").kept(at_least=2),
    ),
    Claim(
        name="too-late",
        section=SECTION,
        says="From then on it refuses the message with number 0 with error 45: it can never be written.",
        holds=both(
            messages((GAP, EMPTY), label="first").refused_with(45, at_least=2),
            messages((GAP, EMPTY), label="first").in_final_log(copies=0, at_least=2),
            messages((GAP, EMPTY), label="third").kept(at_least=2),
        ),
    ),
    Claim(
        name="known-is-checked",
        section=SECTION,
        says="Where it knows the producer, it refuses a message that leaves a gap with error 45, and accepts it in "
        "its place.",
        holds=both(
            messages(KNOWN, label=("first", "second")).kept(at_least=2),
            messages(KNOWN, label="third").refused_with(45),
            messages(KNOWN, label="third").in_final_log(copies=0),
        ),
    ),
)

# ---- with real clients

TOPIC, OTHER = "t", "other"
"""The topic in question, and another with the same leader, with which the producers connect to it beforehand."""
PIPELINED, ALONE = "five-in-flight", "one-in-flight"
"""The producers, by the number of requests that they may have under way."""
LEADER, CLIENT = "broker1", "client3"
NOT_ENOUGH_REPLICAS = 19
AT_ONCE: Mapping[Via, Mapping[str, Any]] = {"librdkafka": {"socket.nagle.disable": True}}
"""The kernel must not hold back the first message while it awaits the acknowledgement of an earlier request."""
METADATA_MS = 300_000
"""A request for metadata without an answer would hold back a producer that may have one request under way."""
BATCH_BYTES = 61
"""The least size of a record batch, in bytes."""
REFUSED = ("Error processing append operation on partition ", f"{TOPIC}-0 ")
"""What the leader logs for each message that it refuses with this error; from 4.1 on, a topic id is between."""


def whole(via: Via) -> Callable[[Stage], None]:
    """The body for one client library."""

    def body(stage: Stage) -> None:
        """Have the first message refused, delay that answer, and have the second one accepted meanwhile."""
        plain = stage.producer("az1", "plain", LEADER)
        plain.must_send(TOPIC, "earlier")
        stage.wait_replicated(TOPIC)
        producers = [
            stage.producer(
                "az3",
                name,
                via=via,
                idempotent=True,
                retries=1_000_000,
                request_timeout_s=30.0,
                delivery_timeout_s=45.0,
                config={
                    "max.in.flight.requests.per.connection": in_flight,
                    "topic.metadata.refresh.interval.ms": METADATA_MS,
                    **AT_ONCE.get(via, {}),
                },
            ).prepare(TOPIC)
            for name, in_flight in ((PIPELINED, 5), (ALONE, 1))
        ]
        for topic in (TOPIC, OTHER):
            require(stage.leader(topic) == LEADER, f"{LEADER} leads {topic}")
        with stage.nemesis.cut(f"{LEADER} <-> broker2"):
            # A follower leaves the ISR only if it lacks a record.
            plain.send(TOPIC, "waits")
            stage.wait_for_isr(TOPIC, 1, within_s=stage.timings.shrink_s)
            wait_answered(stage, plain, TOPIC, NOT_ENOUGH_REPLICAS)
            for producer in producers:
                producer.must_send(OTHER, "connects")
            open_now = stage.nemesis.connections(CLIENT, f"{LEADER}:kafka")
            require(len(open_now) >= len(producers), f"the producers are connected to {LEADER}")
            stage.mark(
                "shrunk", f"{LEADER} is alone in the ISR and refuses messages: min.insync.replicas is 2"
            )
            answers = stage.nemesis.cut(f"{LEADER} -> {CLIENT}").inject()
            refused = len(log_lines(stage, LEADER, *REFUSED))
            outcomes = [producer.send_later(TOPIC, "first") for producer in producers]
            stage.mark("first-sent", f"each producer sends its first message; no answer reaches {CLIENT}")
            wait_log(stage, LEADER, *REFUSED, more_than=refused + len(producers) - 1)
        stage.wait_for_isr(TOPIC, 1, 2)
        wait_answered(stage, plain, TOPIC, 0)
        stage.mark("whole", "both replicas are in sync: messages are accepted again")
        before = stage.nemesis.bytes_written(CLIENT, f"{LEADER}:kafka")
        outcomes += [producer.send_later(TOPIC, "second") for producer in producers]
        stage.mark("second-sent", "each producer sends its second message")
        wait_until(
            lambda: stage.nemesis.bytes_written(CLIENT, f"{LEADER}:kafka"),
            accept=lambda now: any(now.get(one, 0) >= count + BATCH_BYTES for one, count in before.items()),
            within_s=30.0,
            poll_s=0.1,
            awaiting=f"{PIPELINED} to have written its second message to its connection",
            abort=stage.cluster.check_alive,
        )
        answers.heal()
        results = [outcome.result(timeout=120) for outcome in outcomes]
        stage.mark(
            "answered", "; ".join(f"{result.label}: {result.outcome} {result.error}" for result in results)
        )
        settle(stage)

    return body


def _of(producer: str, label: str = "") -> str:
    return f"writer_name = '{producer}'" + (f" AND label = '{label}'" if label else "")


REFUSED_FIRST = Claim(
    name="refused-first",
    section=SECTION,
    says="The first message is refused while the leader is alone; with a single request under way it is written when "
    "the client repeats it, before the second one.",
    holds=both(
        messages(ALONE, label=("first", "second")).kept(at_least=2),
        partition(TOPIC).has_isr(1, at="shrunk"),
    ),
)
LOST = Claim(
    name="lost-though-acknowledged",
    section=SECTION,
    says="With five requests under way the second message is written, and the first one is reported as delivered "
    "although no replica ever held it.",
    holds=both(
        messages(PIPELINED, label="second").kept(),
        messages(PIPELINED, label="first").became("lost"),
    ),
)
FAILED = Claim(
    name="reported-as-failed",
    section=SECTION,
    says="With five requests under way the second message is written, and the first one can never be: the client "
    "repeats it in vain, and reports that it failed.",
    holds=both(
        messages(PIPELINED, label="second").kept(),
        messages(PIPELINED, label="first").not_acknowledged(),
        messages(PIPELINED, label="first").in_final_log(copies=0),
    ),
)
WHOLE = Setup(
    topics=(Topic(TOPIC, (1, 2), config={"min.insync.replicas": "2"}), Topic(OTHER, (1, 3))),
    controller="broker3",
    zookeeper_leader="zookeeper3",
    zookeeper_pins=pins(1, 2, 3, to=(3,)),
    stream_rate=0,
)
FAULTS = (f"cut {LEADER} <-> broker2", f"cut {LEADER} -> {CLIENT}")
SCENARIOS = (
    Scenario(
        name="idempotent-first-sequence",
        title="An idempotent producer begins at sequence number 1",
        article="transactions",
        section="idempotence",
        body=by_hand,
        setup=Setup(topics=tuple(Topic(name, (1, 2, 3)) for name in (GAP, KNOWN, EMPTY)), stream_rate=0),
        claims=BY_HAND,
        expected=(
            Expected(
                "server_error",
                "detail LIKE '%Error processing append operation on partition%'",
                "the broker logs each message that it refuses for its sequence number",
            ),
        ),
        modes=("zookeeper", "kraft-combined"),
        outcome="accepted by every version, after which number 0 is refused for ever",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="idempotent-first-sequence-librdkafka",
        title="librdkafka's first message is refused, its second one accepted",
        article="transactions",
        section="idempotence",
        body=whole("librdkafka"),
        setup=WHOLE,
        claims=(REFUSED_FIRST, LOST),
        expected=(
            Expected(
                "lost",
                _of(PIPELINED, "first"),
                "librdkafka took the acknowledgement of the second message for one of the first",
            ),
        ),
        faults=FAULTS,
        kafka="4.3.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="reported as delivered and lost, with acks=all and idempotence; kept with one request in flight",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="idempotent-first-sequence-java",
        title="The same with the Java client",
        article="transactions",
        section="idempotence",
        body=whole("java"),
        setup=WHOLE,
        claims=(REFUSED_FIRST, FAILED),
        faults=FAULTS,
        kafka="4.3.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="not written, and reported as failed after delivery.timeout.ms; kept with one request in flight",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
)
