"""An idempotent producer's message reaches a leader that was deposed, and lacks what its successor appended.

The old leader knows the producer only up to the messages before its fall. To it, the next sequence number
leaves a gap, so it answers OUT_OF_ORDER_SEQUENCE_NUMBER. A client must not conclude that messages are lost:
the leader is the one that it had before, in an older leader epoch (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.producer import Producer
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import give_time, require, settle
from workloads.protocol.spec import Via

SECTION = "beyond the articles: idempotence"
TOPIC = "t"
IDEMPOTENT, NEW = "az1-idempotent", "az1-new"
OUT_OF_ORDER, FATAL = 45, -150
"""Kafka's OUT_OF_ORDER_SEQUENCE_NUMBER; librdkafka's error for every message after a fatal error."""
REQUEST_S, DELIVERY_S = 3.0, 120.0
NOTHING: Mapping[str, str] = MappingProxyType({})
CUT_S = 40.0
"""How long the producer may take to try the old leader: librdkafka took 9 to 19 s."""


def stale_leader(via: Via, config: Mapping[str, str]) -> Callable[[Stage], None]:
    """The body for one client library and its settings."""

    def body(stage: Stage) -> None:
        """Depose broker1 while it is paused, then leave it alone with a producer that has moved on."""

        def producer(name: str) -> Producer:
            return stage.producer(
                "az1",
                name,
                via=via,
                acks=-1,
                idempotent=True,
                retries=1_000_000,
                request_timeout_s=REQUEST_S,
                delivery_timeout_s=DELIVERY_S,
                config=config,
            ).prepare(TOPIC)

        moved = producer(IDEMPOTENT)
        require(stage.leader(TOPIC) == "broker1", "broker1 leads t")
        for label in ("a", "b"):
            moved.must_send(TOPIC, label)
        stage.wait_replicated(TOPIC)
        paused = stage.nemesis.pause("broker1").inject()
        stage.mark("paused", "the leader is paused")
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.wait_until_serving(TOPIC, "broker2")
        for label in ("c", "d", "e"):
            moved.must_send(TOPIC, label)
        stage.mark("moved", "the producer writes to the new leader")
        cut = stage.nemesis.isolate("az1").inject()
        paused.heal()
        stage.mark("resumed", "the old leader goes on, cut off from all but the producer")
        next_one = moved.send_later(TOPIC, "f")
        give_time(stage, next_one.done, CUT_S, "the producer's next message to end")
        stage.mark("stale", "the producer has tried the old leader, or has had time to")
        cut.heal()
        stage.mark("healed", "the links are back")
        result = next_one.result(timeout=DELIVERY_S + 30)
        stage.mark("answered", f"{result.label}: {result.outcome} {result.error}")
        for one, label in ((producer(NEW), "new"), (moved, "g")):
            sent = one.send_later(TOPIC, label).result(timeout=DELIVERY_S + 30)
            stage.mark(f"sent-{label}", f"{sent.label}: {sent.outcome} {sent.error}")
        settle(stage)

    return body


T = partition(TOPIC)
GIVEN = (
    Claim(
        name="moved-on",
        section=SECTION,
        says="While the leader is paused, another one is elected, and the producer writes to it.",
        holds=both(
            T.is_led_by(2, isr=(2, 3), epoch=1, at="moved"),
            messages(IDEMPOTENT, label=("c", "d", "e")).kept(at_least=3),
        ),
        precondition=True,
    ),
    Claim(
        name="stale-leader",
        section=SECTION,
        says="The old leader, cut off from the others, goes on to believe that it leads in the old epoch.",
        holds=broker(1).believes(T, leader=1, at="stale"),
        precondition=True,
    ),
)
FATAL_ERROR = (
    Claim(
        name="refused",
        section=SECTION,
        says="The old leader refuses the producer's next message as out of order.",
        holds=both(
            messages(IDEMPOTENT, label="f").refused_with(OUT_OF_ORDER),
            messages(IDEMPOTENT, label="f").answered_by(1),
        ),
    ),
    Claim(
        name="never-again",
        section=SECTION,
        says="librdkafka calls that a fatal error: after the heal the producer sends nothing any more, while a new "
        "producer with the same settings works.",
        holds=both(
            messages(IDEMPOTENT, label="g").refused_with(FATAL),
            messages(IDEMPOTENT, label="g").in_final_log(copies=0),
            messages(NEW).kept(),
        ),
    ),
)
GOES_ON = (
    Claim(
        name="waits",
        section=SECTION,
        says="The producer's next message is acknowledged after the heal, and written once.",
        holds=both(
            messages(IDEMPOTENT, label="f").kept(),
            messages(IDEMPOTENT, label="f").in_final_log(copies=1),
        ),
    ),
    Claim(
        name="goes-on",
        section=SECTION,
        says="The producer goes on, as does a new one.",
        holds=both(messages(IDEMPOTENT, label="g").kept(), messages(NEW).kept()),
    ),
)
NOTHING_LOST = Claim(
    name="nothing-lost",
    section=SECTION,
    says="No acknowledged message is lost.",
    holds=messages((IDEMPOTENT, NEW)).none_lost(at_risk_after="paused", at_least=4),
)


def _scenario(
    name: str,
    via: Via,
    title: str,
    claims: tuple[Claim, ...],
    outcome: str,
    config: Mapping[str, str] = NOTHING,
) -> Scenario:
    return Scenario(
        name=f"idempotent-stale-leader-{name}",
        title=title,
        article="transactions",
        section="idempotence",
        body=stale_leader(via, config),
        setup=Setup(
            topics=(Topic(TOPIC, (1, 2, 3)),),
            controller="broker2",
            zookeeper_leader="zookeeper2",
            stream_rate=0,
        ),
        claims=(*GIVEN, *claims, NOTHING_LOST),
        faults=("pause broker1", "isolate az1"),
        modes=("zookeeper", "kraft-combined"),
        outcome=outcome,
        versions=("2.7.1", "3.9.1", "4.3.1"),
    )


SCENARIOS = (
    _scenario(
        "librdkafka",
        "librdkafka",
        "A deposed leader's answer ends an idempotent librdkafka producer",
        FATAL_ERROR,
        "a fatal error: the producer never writes again, with acks=all and idempotence; nothing is lost",
    ),
    _scenario(
        "java",
        "java",
        "The same with the Java client",
        GOES_ON,
        "the producer waits for the heal, and goes on; nothing is lost",
    ),
    _scenario(
        "no-rebootstrap",
        "librdkafka",
        "The same with librdkafka and metadata.recovery.strategy=none",
        GOES_ON,
        "the producer waits for the heal, and goes on; nothing is lost",
        {"metadata.recovery.strategy": "none"},
    ),
)
