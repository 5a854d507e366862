"""Article 000, section 3.2 with acks=all: what the isolated leader appends is never acknowledged."""

from __future__ import annotations

from checkers.claims.former import (
    by,
    copies_in,
    errors,
    fates,
    logged,
    mark,
    none_lost,
    readable,
    rise,
    state,
    unchanged,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import SESSION_S, pins, seed, settle

RETRIED, IDEMPOTENT = "t", "i"
TOPICS = (RETRIED, IDEMPOTENT)
MESSAGES = ("c", "d", "e")


def isolated(stage: Stage) -> None:
    """Isolate az1, produce there with acks=all and retries until all attempts are used up, heal."""
    seed(stage, *TOPICS)
    retrying = [
        stage.writer("az1", f"az1-retry-{label}", "broker1", via="librdkafka", retries=3).prepare(RETRIED)
        for label in MESSAGES
    ]
    idempotent = stage.writer(
        "az1", "az1-idempotent", "broker1", via="librdkafka", retries=3, idempotent=True, delivery_timeout_s=9
    ).prepare(IDEMPOTENT)

    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 can no longer reach az2 and az3")
        waiting = [
            writer.send_later(RETRIED, label) for writer, label in zip(retrying, MESSAGES, strict=True)
        ]
        waiting.append(idempotent.send_later(IDEMPOTENT, "c"))
        for topic in TOPICS:
            stage.wait_for_leader(topic, not_on="broker1", within_s=SESSION_S)
        stage.mark("failover", "the majority elected a new leader")
        for topic in TOPICS:
            stage.wait_until_serving(topic, "broker2")
        stage.writer("az2", "az2-new-side", "broker2", acks=-1).must_send(RETRIED, "f")
        for sent in waiting:
            sent.result(timeout=30)
        stage.mark("refused", "the producers in az1 have given up")
        stage.read("az1", RETRIED, "broker1")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    settle(stage)


def short(stage: Stage) -> None:
    """The same, but the cut ends before anybody's ZooKeeper session does."""
    seed(stage, *TOPICS)
    retrying = stage.writer(
        "az1", "az1-retry", "broker1", via="librdkafka", retries=3, request_timeout_s=0.7
    ).prepare(RETRIED)
    idempotent = stage.writer(
        "az1",
        "az1-idempotent",
        "broker1",
        via="librdkafka",
        retries=3,
        idempotent=True,
        request_timeout_s=0.7,
    ).prepare(IDEMPOTENT)

    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 can no longer reach az2 and az3")
        waiting = [retrying.send_later(RETRIED, "c"), idempotent.send_later(IDEMPOTENT, "c")]
        for sent in waiting:
            sent.result(timeout=30)
        stage.mark("refused", "the producers in az1 have given up")

    stage.mark("healed", "the links are back before any session has ended")
    settle(stage)
    stage.read("az3", RETRIED)
    stage.mark("read")


_RETRIED = f"writer_name LIKE 'az1-retry%' AND topic = '{RETRIED}'"
_ON_ZOMBIE = f"broker = 1 AND seen_ns <= {mark('before-heal')}"
LONG = Scenario(
    name="leader-az-isolated-acks-all",
    title="The leader's AZ is cut off; its clients produce with acks=all and retries",
    article="000",
    section="3.2 acks=all",
    body=isolated,
    setup=Setup(
        topics=tuple(Topic(name, (1, 2, 3)) for name in TOPICS),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
    ),
    claims=(
        Claim(
            name="production-fails",
            section="000 §3.2",
            says="With acks=-1 and retries=3 clients in az1 are told that producing failed.",
            holds=errors(_RETRIED, 7, at_least=3),
        ),
        Claim(
            name="four-copies",
            section="000 §3.2",
            says="The data directory holds the messages nevertheless, four times each.",
            holds=copies_in("sightings", _RETRIED, 4, at_least=3, on=_ON_ZOMBIE),
        ),
        Claim(
            name="idempotent-one-copy",
            section="beyond 000 §3.2",
            says="With enable.idempotence it holds one copy.",
            holds=copies_in("sightings", by("az1-idempotent"), 1, on=_ON_ZOMBIE),
        ),
        Claim(
            name="not-consumable",
            section="beyond 000 §3.2",
            says="None of them can be consumed in az1.",
            holds=readable(f"topic = '{RETRIED}' AND ns <= {mark('before-heal')}", 2),
        ),
        Claim(
            name="overwritten",
            section="000 §3.2",
            says="After the heal offsets 2 to 13 are overwritten.",
            holds=logged("broker1", "truncated", topic=RETRIED, where=f"offset = 2 AND ns > {mark('cut')}"),
        ),
        Claim(
            name="gone",
            section="000 §3.2",
            says="The messages are gone everywhere; since the client was told so, that is no loss.",
            holds=fates(
                f"{_RETRIED} OR {by('az1-idempotent')}", "unknown_dropped", at_least=len(MESSAGES) + 1
            ),
        ),
        Claim(
            name="new-leader",
            section="000 §3.2",
            says="The majority has a new leader, which takes writes.",
            holds=state(RETRIED, leader=2, isr=(2, 3), until=mark("before-heal")),
        ),
        Claim(
            name="epoch-rises",
            section="000 §3.2",
            says="The leader epoch rises (by 1, see leader-az-isolated).",
            holds=rise(RETRIED, mark("cut"), mark("before-heal"), 1),
        ),
        Claim(
            name="acks-all-safe",
            section="000 §3.2",
            says="So produce with acks=-1: nothing that was acknowledged is lost.",
            holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=5),
        ),
    ),
    faults=("isolate az1",),
    outcome="nothing acknowledged is lost; four unacknowledged copies of each message come and go",
)

SHORT = Scenario(
    name="leader-az-cut-short",
    title="The leader's AZ is cut off for less than a ZooKeeper session",
    article="000",
    section="3.2 short",
    body=short,
    setup=Setup(
        topics=tuple(Topic(name, (1, 2, 3)) for name in TOPICS),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        broker_config={"zookeeper.session.timeout.ms": "20000", "replica.lag.time.max.ms": "20000"},
    ),
    claims=(
        Claim(
            name="production-fails",
            section="000 §3.2",
            says="With acks=-1 and retries=3 clients in az1 are told that producing failed.",
            holds=errors(f"{by('az1-retry')} OR {by('az1-idempotent')}", 7, -192, at_least=2),
        ),
        Claim(
            name="nothing-changes",
            section="beyond 000 §3.2",
            says="A cut shorter than the session changes neither leader nor epoch.",
            holds=unchanged(RETRIED, since=mark("seeded"), until=mark("converged"), columns="leader, epoch"),
        ),
        Claim(
            name="four-durable-copies",
            section="beyond 000 §3.2",
            says="The 'failed' message then stands four times on every replica.",
            holds=copies_in("copies", by("az1-retry"), 4),
        ),
        Claim(
            name="consumed-four-times",
            section="beyond 000 §3.2",
            says="Consumers read it four times.",
            holds=readable(f"topic = '{RETRIED}' AND ns BETWEEN {mark('healed')} AND {mark('read')}", 6),
        ),
        Claim(
            name="idempotent-once",
            section="beyond 000 §3.2",
            says="With enable.idempotence it stands there once.",
            holds=copies_in("copies", by("az1-idempotent"), 1),
        ),
        Claim(
            name="nothing-lost",
            section="beyond 000 §3.2",
            says="Nothing that was acknowledged is lost.",
            holds=none_lost("outcome = 'ok'", at_least=4),
        ),
    ),
    expected=(
        Expected(
            "duplicated",
            by("az1-retry"),
            "all four attempts were appended and nobody truncates them",
        ),
    ),
    faults=("isolate az1",),
    outcome="nothing lost; the 'failed' write is in the log four times",
)

SCENARIOS = (LONG, SHORT)
