"""Article 000, section 3.2 with acks=all: what the isolated leader appends is never acknowledged."""

from __future__ import annotations

from checkers.claims.builders import both, broker, does_not_answer, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, seed, settle, stand

RETRIED, IDEMPOTENT = "t", "i"
TOPICS = (RETRIED, IDEMPOTENT)
MESSAGES = ("c", "d", "e")


def isolated(stage: Stage) -> None:
    """Isolate az1, produce there with acks=all and retries until all attempts are used up, heal."""
    seed(stage, *TOPICS)
    retrying = [
        stage.producer("az1", f"az1-retry-{label}", "broker1", via="librdkafka", retries=3).prepare(RETRIED)
        for label in MESSAGES
    ]
    idempotent = stage.producer(
        "az1", "az1-idempotent", "broker1", via="librdkafka", retries=3, idempotent=True, delivery_timeout_s=9
    ).prepare(IDEMPOTENT)

    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 can no longer reach az2 and az3")
        waiting = [
            writer.send_later(RETRIED, label) for writer, label in zip(retrying, MESSAGES, strict=True)
        ]
        waiting.append(idempotent.send_later(IDEMPOTENT, "c"))
        for topic in TOPICS:
            stage.wait_for_leader(topic, not_on="broker1", within_s=stage.timings.session_end_s)
        stage.mark("failover", "the majority elected a new leader")
        for topic in TOPICS:
            stage.wait_until_serving(topic, "broker2")
        stage.producer("az2", "az2-new-side", "broker2", acks=-1).must_send(RETRIED, "f")
        stage.read("az3", RETRIED, "broker2")
        for sent in waiting:
            sent.result(timeout=30)
        stage.mark("refused", "the producers in az1 have given up")
        stage.read("az1", RETRIED, "broker1")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    settle(stage)


def short(stage: Stage) -> None:
    """The same, but the cut ends before anybody's ZooKeeper session does."""
    seed(stage, *TOPICS)
    retrying = stage.producer(
        "az1", "az1-retry", "broker1", via="librdkafka", retries=3, request_timeout_s=0.7
    ).prepare(RETRIED)
    idempotent = stage.producer(
        "az1",
        "az1-idempotent",
        "broker1",
        via="librdkafka",
        retries=3,
        idempotent=True,
        request_timeout_s=0.7,
    ).prepare(IDEMPOTENT)

    with stage.nemesis.isolate("az1"):
        cut = stage.mark("cut", "az1 can no longer reach az2 and az3")
        waiting = [retrying.send_later(RETRIED, "c"), idempotent.send_later(IDEMPOTENT, "c")]
        for sent in waiting:
            sent.result(timeout=30)
        stage.mark("refused", "the producers in az1 have given up")

    stage.mark("healed", "the links are back before any session has ended")
    stand(stage, cut, stage.timings.session_s + 1.0)  # a session that began with the cut would be over
    settle(stage)
    stage.read("az3", RETRIED)
    stage.mark("read")


T = partition(RETRIED)
_SAYS_FAILS = "With acks=-1 and retries=3 clients in az1 learn that producing failed."
_QUOTE_FAILS = "若 az1 内的客户端 acks=-1，retries=3，会发现生产消息失败"
_QUOTE_COPIES = "而数据目录中有消息，且为生产消息数的 4 倍（每条消息重复 4 次）"
_QUOTE_GONE = "offset2-13 的消息会被覆盖，但因为…给客户端返回的是生产失败的，因此也不算消息丢失"
_COPIED = messages("az1-retry-%", topic=RETRIED)
_ONCE, _SHORT = messages("az1-idempotent"), messages("az1-retry")
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
            name="zookeeper-in-az1-down",
            section="000 §3.2",
            quote="az1 内 zk 集群不可用",
            says="ZooKeeper is not available in az1.",
            holds=does_not_answer("zookeeper1", at="before-heal"),
        ),
        Claim(
            name="production-fails",
            section="000 §3.2",
            quote=_QUOTE_FAILS,
            says=_SAYS_FAILS,
            holds=_COPIED.refused_with(7, at_least=3),
        ),
        Claim(
            name="four-copies",
            section="000 §3.2",
            quote=_QUOTE_COPIES,
            says="The data directory holds the messages nevertheless, four times each.",
            holds=_COPIED.seen_on(1, copies=4, until="before-heal", at_least=3),
        ),
        Claim(
            name="idempotent-one-copy",
            section="beyond 000 §3.2",
            says="With enable.idempotence it holds one copy.",
            holds=_ONCE.seen_on(1, copies=1, until="before-heal"),
        ),
        Claim(
            name="not-consumable",
            section="beyond 000 §3.2",
            says="None of them can be consumed in az1.",
            holds=T.consumers_see_nothing_from(2, since="refused", until="before-heal"),
        ),
        Claim(
            name="overwritten",
            section="000 §3.2",
            quote=_QUOTE_GONE,
            says="After the heal offsets 2 to 13 are overwritten.",
            holds=broker(1).truncated(T, to=2, after="cut"),
        ),
        Claim(
            name="gone",
            section="000 §3.2",
            quote=_QUOTE_GONE,
            says="The messages are gone everywhere. The client was told that they failed, so this is not a loss.",
            holds=both(_COPIED.became("unknown_dropped", at_least=3), _ONCE.became("unknown_dropped")),
        ),
        Claim(
            name="new-leader",
            section="000 §3.2",
            quote="触发 leader 切换，broker-1 成为新的 leader…az2/3 内的客户端可以向 broker-1 生产消费",
            says="The majority has a new leader; clients in az2 and az3 produce to it and consume from it.",
            holds=both(
                T.is_led_by(2, isr=(2, 3), at="before-heal"),
                messages("az2-new-side").kept(),
                messages("az2-new-side").consumed(since="failover", until="refused"),
            ),
        ),
        Claim(
            name="epoch-rises",
            section="beyond 000 §3.2",
            says="The leader epoch rises by 1 (see leader-az-isolated).",
            holds=T.epoch_rises(by=1, since="seeded", until="before-heal"),
        ),
        Claim(
            name="acks-all-safe",
            section="000 §3.2",
            quote="因此，考虑此种情况，建议客户端 acks=-1",
            says="So produce with acks=-1: nothing that was acknowledged is lost.",
            holds=messages(acks=-1).none_lost(at_risk_after="cut"),
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
            quote=_QUOTE_FAILS,
            says=_SAYS_FAILS,
            holds=both(_SHORT.refused_with(7, -192), _ONCE.refused_with(7, -192)),
        ),
        Claim(
            name="nothing-changes",
            section="beyond 000 §3.2",
            says="A cut shorter than the session changes neither leader nor epoch.",
            holds=T.stays(since="seeded", until="read", what="leader, epoch"),
        ),
        Claim(
            name="four-durable-copies",
            section="beyond 000 §3.2",
            says="The 'failed' message is then on every replica four times.",
            holds=_SHORT.in_final_log(copies=4),
        ),
        Claim(
            name="consumed-four-times",
            section="beyond 000 §3.2",
            says="Consumers read it four times.",
            holds=T.consumers_read(6, since="healed", until="read"),
        ),
        Claim(
            name="idempotent-once",
            section="beyond 000 §3.2",
            says="With enable.idempotence it is there once.",
            holds=_ONCE.in_final_log(copies=1),
        ),
        Claim(
            name="nothing-lost",
            section="beyond 000 §3.2",
            says="Nothing that was acknowledged is lost.",
            holds=messages().none_lost(at_risk_after="cut", at_least=10),
        ),
    ),
    expected=(
        Expected(
            "duplicated",
            _SHORT.where,
            "all four attempts were appended and nobody truncates them",
        ),
    ),
    faults=("isolate az1",),
    outcome="nothing lost; the 'failed' write is in the log four times",
)

SCENARIOS = (LONG, SHORT)
