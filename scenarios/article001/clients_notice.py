"""Article 001, scenarios 4 and 6: when producers notice that the leader has changed.

The old leader is cut from ZooKeeper only. It reaches its clients, and nobody tells it that it has a
successor. So it refuses nothing, and only new metadata can send a producer elsewhere. librdkafka asks the
broker that it used last for metadata. A producer of this one partition therefore asks the old leader, which
names itself. A producer that also writes to another broker asks that broker sooner or later. The Java client
asks any broker that is not busy, and keeps the newest leader epoch that it has heard of: it soon hears of the
new leader and never goes back.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, mark, messages, messages_where, partition
from checkers.claims.builders.messages import Messages
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, stand
from workloads.client.client import Stream
from workloads.protocol.spec import StreamLoad

TOPIC = "t"
RATE = 10.0
SHORT, DEFAULT = 500, 300_000
"""topic.metadata.refresh.interval.ms: half a second, and librdkafka's default of 5 minutes."""
SOON_S = 8.0
"""16 short intervals: by then a producer that asks one of two brokers at random has asked both."""
STAND_S = 11.0
MINUTE_S = 62.0


def body(stage: Stage) -> None:
    """Start the producers, cut the leader of partition 0 from ZooKeeper, let everything stand, heal."""
    seed(stage, TOPIC)
    producers = [
        _start(stage, "one-short", (0,), refresh_ms=SHORT),
        _start(stage, "one-default", (0,), refresh_ms=DEFAULT),
        _start(stage, "two-short", (0, 1), refresh_ms=SHORT),
        _start(stage, "two-default", (0, 1), refresh_ms=DEFAULT),
        _start(stage, "one-acks-all", (0,), refresh_ms=DEFAULT, acks=-1),
    ]
    with stage.nemesis.without_zookeeper("broker1"):
        stage.mark("cut", "the leader has lost ZooKeeper; it still reaches its followers and clients")
        stage.wait_for_leader(TOPIC, on="broker2")
        failover = stage.mark("failover", "broker2 leads partition 0 too; broker1 has not heard of it")
        stand(stage, failover, SOON_S)
        stage.mark("soon", f"{SOON_S:g} s after the failover")
        stand(stage, failover, STAND_S)
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "broker1 reaches ZooKeeper again")
    for number in (0, 1):
        stage.wait_for_isr(TOPIC, 1, 2, 3, partition=number, within_s=stage.timings.converge_s)
    rejoined = stage.mark("rejoined", "broker1 follows")
    stand(stage, rejoined, 2.0)
    for producer in producers:
        producer.stop(flush_s=8.0)
    settle(stage)


def _start(
    stage: Stage,
    name: str,
    partitions: tuple[int, ...],
    *,
    refresh_ms: int,
    acks: int = 1,
    rate: float = RATE,
) -> Stream:
    writer = stage.producer(
        "az2",
        name,
        "broker2",
        acks=acks,
        via="librdkafka",
        idempotent=acks == -1,
        delivery_timeout_s=60.0,
        retries=1000,
        # One request in flight, because several that are refused at the heal may be sent again in another
        # order.
        config={
            "topic.metadata.refresh.interval.ms": refresh_ms,
            "max.in.flight.requests.per.connection": 1,
        },
    )
    load = StreamLoad(topic=TOPIC, partitions=partitions, rate=rate)
    return stage.clients["az2"].start_stream(writer.spec, load)


def minute(stage: Stage) -> None:
    """The same for more than a minute, with a producer whose metadata settings are librdkafka's defaults."""
    seed(stage, TOPIC)
    producer = _start(stage, "two-default", (0, 1), refresh_ms=DEFAULT, rate=RATE / 2)
    with stage.nemesis.without_zookeeper("broker1"):
        stage.mark("cut", "the leader has lost ZooKeeper; it still reaches its followers and clients")
        stage.wait_for_leader(TOPIC, on="broker2")
        failover = stage.mark("failover", "broker2 leads partition 0 too; broker1 has not heard of it")
        stand(stage, failover, MINUTE_S)
        after = stage.mark("minute", f"{MINUTE_S:g} s after the failover")
        stand(stage, after, 5.0)
        stage.mark("before-heal", "the last moment of the cut")
    stage.wait_for_isr(TOPIC, 1, 2, 3, within_s=stage.timings.converge_s)
    producer.stop(flush_s=8.0)
    settle(stage)


T = partition(TOPIC)


def _sent(*names: str, after: str, before: str) -> Messages:
    """What these producers sent to the partition of the old leader between two marks."""
    listed = ", ".join(f"'{name}'" for name in names)
    return messages_where(
        f"writer_name IN ({listed}) AND partition = 0 "
        f"AND sent_ns >= {mark(after)} AND sent_ns <= {mark(before)}",
        since=after,
        until=before,
    )


_LATER = {"after": "soon", "before": "before-heal"}
_NOTICE_QUOTE = "客户端将很快感知到leader已经发生切换,并将数据写往新的leader"
_REFRESH_QUOTE = "他们将被告知新的leader已经选出,并开始将写入请求发送到新leader"
_EVERY = ("one-short", "one-default", "two-short", "two-default", "one-acks-all")

_UNAWARE = both(
    broker(1).believes(T, leader=1, epoch=0, at="before-heal"),
    T.is_led_by(2, isr=(2, 3), epoch=1, at="before-heal"),
)
"""The old leader believes that it leads, and another one does."""

CLAIMS = (
    Claim(
        name="old-leader-unaware",
        section="001 scenario 4",
        quote="然而原leader仍然认为自己还是leader",
        says="As long as the cut lasts, the old leader believes that it leads, and tells clients so.",
        holds=_UNAWARE,
    ),
    Claim(
        name="clients-notice-soon",
        section="001 scenario 4",
        quote=_NOTICE_QUOTE,
        says="Clients soon notice that the leader has changed, and write to the new one.",
        holds=_sent("one-default", "two-default", **_LATER).kept(at_least=20),
        erratum=Erratum(
            says="With default settings they do not notice: the old leader acknowledges all that they write, "
            "and all of it is lost.",
            because="no error tells them, and metadata is refreshed every 5 minutes",
            holds=_sent("one-default", "two-default", **_LATER).acknowledged_then_lost(at_least=20),
        ),
    ),
    Claim(
        name="refresh-tells",
        section="001 scenario 6",
        quote=_REFRESH_QUOTE,
        says="Clients that refresh their metadata learn of the new leader: a client that writes to two brokers moves to it.",
        holds=both(
            _sent("two-short", **_LATER).kept(at_least=8),
            messages("two-short", before="before-heal").acknowledged(at_least=50),
        ),
    ),
    Claim(
        name="refresh-tells-all",
        section="001 scenario 6",
        quote=_REFRESH_QUOTE,
        says="So does a client that writes only to the old leader.",
        holds=_sent("one-short", **_LATER).kept(at_least=15),
        erratum=Erratum(
            says="It does not learn of it, however often it asks: all that it writes is lost.",
            because="librdkafka asks the broker that it used last, which is the old leader. The Java client asks "
            "any broker that has no request of its own in flight (NetworkClient.leastLoadedNode), and ignores "
            "answers with an older leader epoch (KIP-320)",
            holds=_sent("one-short", **_LATER).acknowledged_then_lost(at_least=15),
            client="librdkafka",
        ),
    ),
    Claim(
        name="all-notice-after-heal",
        section="001 scenario 6",
        quote="所有的客户端也会发现leader已经发生切换并开始向新leader写入数据",
        says="When the partition ends, the old leader learns that it no longer leads, and all clients write to the new one.",
        holds=both(
            _sent(*_EVERY, after="rejoined", before="converged").kept(at_least=40),
            broker(1).believes(T, leader=2, at="converged"),
        ),
    ),
    Claim(
        name="acks-all-remedy",
        section="001 conclusion",
        quote="我们可以通过设置acks=all来进行补救",
        says="A client with acks=all loses nothing: the old leader cannot acknowledge what it writes.",
        holds=both(
            _sent("one-acks-all", **_LATER).kept(at_least=15),
            messages("one-acks-all").none_lost(at_risk_after="failover", at_least=50),
        ),
    ),
)

_SETUP = Setup(
    topics=(Topic(TOPIC, (1, 2, 3), partitions=2, spread=True),),
    controller="broker2",
    zookeeper_leader="zookeeper2",
    stream_rate=0.0,
)
_EXPECTED = (
    Expected(
        "lost",
        "acks = 1 AND partition = 0 AND writer_name LIKE '%-%'",
        "acknowledged by a leader that had lost its followers without knowing it",
    ),
    Expected(
        "out_of_order",
        "acks = 1 AND partition = 0 AND writer_name LIKE '%-%'",
        "librdkafka counts requests in flight for each broker: one that the old leader has not answered may "
        "be appended after those that were sent to the new leader",
        client="librdkafka",
    ),
)
_SOON = Scenario(
    name="clients-notice",
    title="When producers notice that their leader was replaced without learning of it",
    article="001",
    section="4c",
    body=body,
    setup=_SETUP,
    claims=CLAIMS,
    expected=_EXPECTED,
    faults=("broker1 without zookeeper",),
    outcome="only a producer that also asks another broker notices (with the Java client: any that asks often); "
    "the acks=1 writes of the others are lost",
)
_AFTER_A_MINUTE = _sent("two-default", after="minute", before="before-heal")
_MINUTE = Scenario(
    name="clients-notice-after-a-minute",
    title="Whether a producer with default settings refreshes its metadata within a minute",
    article="001",
    section="6 metadata",
    body=minute,
    setup=_SETUP,
    claims=(
        Claim(
            name="refreshed-after-a-minute",
            section="001 scenario 6",
            quote="客户端每隔60秒将更新最新的元数据信息",
            says="Clients update their metadata every 60 seconds.",
            holds=_AFTER_A_MINUTE.kept(at_least=8),
            erratum=Erratum(
                says="More than a minute after the failover a producer with default settings still writes to the old "
                "leader, and all of it is lost.",
                because="metadata is refreshed every 5 minutes by default, with librdkafka and the Java client",
                holds=_AFTER_A_MINUTE.acknowledged_then_lost(at_least=8),
            ),
        ),
        Claim(
            name="old-leader-unaware",
            section="beyond 001 scenario 4",
            says="The old leader believes all the time that it leads.",
            holds=_UNAWARE,
        ),
    ),
    expected=_EXPECTED,
    faults=("broker1 without zookeeper",),
    outcome="it does not; what it writes is lost for as long",
)
SCENARIOS = (_SOON, _MINUTE)
