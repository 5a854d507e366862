"""A reader fetches from the follower in its own AZ (KIP-392), and that follower no longer hears of the leader.

The leader tells a reader which replica is near (`replica.selector.class`, `client.rack`). The reader then asks that
replica, and the leader again only after an error or when some time has passed: 5 minutes in librdkafka,
`metadata.max.age.ms` in the Java client. A follower that lags gives no error: what it holds below its high watermark
ends, and it waits for more. A leader that is asked again names no replica that is out of the ISR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from checkers.claims.builders import both, messages, partition, reads
from harness.cluster.setup import Setup
from harness.kafka.model import Topic, TopicPartition
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import require, settle, stand, wait_read
from workloads.protocol.spec import Via

SECTION = "beyond the articles: readers"
NEAR, ANY, ASKS = "t", "u", "v"
"""`t` is read with `client.rack`, so from the follower in the reader's AZ, and `u` without, so from the leader. `v` is
read as `t`, by a Java client that asks the leader every second."""
_RACK = {"client.rack": "az3"}
_ASKS_S = 1.0
_MS = 1000
_READERS: Mapping[Via, Mapping[str, Mapping[str, str | int]]] = {
    "librdkafka": {NEAR: _RACK, ANY: {}},
    "java": {
        NEAR: {**_RACK, "topic.metadata.refresh.interval.ms": 300 * _MS},
        ANY: {},
        ASKS: {**_RACK, "topic.metadata.refresh.interval.ms": int(_ASKS_S * _MS)},
    },
}
"""What each topic is read with; a Java client has the property as `metadata.max.age.ms`, with the same default."""
READ_S = 60.0
LONGER_S = 20.0
"""How much longer the reader of the follower gets nothing than the other one needs."""


def _body(via: Via) -> Callable[[Stage], None]:
    def body(stage: Stage) -> None:
        """Cut the follower off from the other brokers, but from no client; write; heal."""
        writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1, request_timeout_s=READ_S)
        readers = {
            topic: stage.start_reader("az3", [TopicPartition(topic, 0)], properties, via=via)
            for topic, properties in _READERS[via].items()
        }

        for topic in readers:
            require(stage.leader(topic) == "broker1", f"broker1 leads {topic}")
            for label in ("a", "b"):
                writer.must_send(topic, label)
            stage.wait_replicated(topic)
            wait_read(stage, [readers[topic]], 2, READ_S)
        with stage.nemesis.cut("broker3 <-> broker1, broker3 <-> broker2"):
            cut = stage.mark("cut", "broker3 is cut off from the other brokers, but from no client")
            for topic in readers:
                for label in ("c", "d", "e"):
                    writer.must_send(topic, label)  # the first waits until the follower has left the ISR
            of_leader = [reader for topic, reader in readers.items() if topic != NEAR]
            wait_read(stage, of_leader, 5, READ_S)
            stage.mark("read-by-one", "the readers of the leader have received everything")
            stand(stage, cut, stage.since(cut) + LONGER_S)
            stage.mark("standing", "the last moment of the cut")
        stage.mark("healed", "the links are back")
        wait_read(stage, [readers[NEAR]], 5, READ_S)
        stage.mark("read-on", "the reader of the follower has received everything, too")
        for reader in readers.values():
            reader.stop()
        settle(stage)

    return body


N, A = partition(NEAR), partition(ANY)
_CLAIMS = (
    Claim(
        name="out-of-sync",
        section=SECTION,
        says="The follower leaves the ISR, and acks=all goes on without it.",
        holds=both(
            N.is_led_by(1, isr=(1, 2), epoch=0, at="standing"),
            A.is_led_by(1, isr=(1, 2), epoch=0, at="standing"),
            messages("az1-acks-all", after="cut", before="standing").acknowledged(at_least=6),
        ),
        precondition=True,
    ),
    Claim(
        name="silently-stale",
        section=SECTION,
        says="A reader with client.rack stays with the follower of its AZ and receives nothing new, without an error, "
        "although it can reach the leader.",
        holds=N.consumers_see_nothing_from(2, until="standing"),
    ),
    Claim(
        name="leader-serves",
        section=SECTION,
        says="A reader in the same AZ without client.rack reads from the leader, and receives everything.",
        holds=A.consumers_read(5, until="read-by-one"),
    ),
    Claim(
        name="goes-on",
        section=SECTION,
        says="When the follower hears of the leader again, its reader goes on where it was: nothing is left out or comes twice.",
        holds=both(
            reads(NEAR).stay_in_order(after="cut", until="standing"), N.consumers_read(5, until="read-on")
        ),
    ),
    Claim(
        name="acks-all-safe",
        section=SECTION,
        says="Nothing acknowledged with acks=all is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=1),
    ),
)
_MOVES = Claim(
    name="asks-again",
    section=SECTION,
    says="A Java reader whose metadata.max.age.ms has passed asks the leader, which names no replica that is out of sync: "
    "it reads from the leader.",
    holds=partition(ASKS).consumers_read(5, until="read-by-one"),
)


def _scenario(name: str, title: str, section: str, via: Via, *more: Claim) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        article="beyond",
        section=section,
        body=_body(via),
        setup=Setup(
            topics=tuple(Topic(name, (1, 2, 3)) for name in _READERS[via]),
            broker_config={
                "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"
            },
            quorum="one node",
            stream_rate=0.0,
        ),
        claims=(*_CLAIMS, *more),
        faults=("cut broker3 from the other brokers",),
        kafka="4.3.1",
        mode="kraft",
        outcome="the reader of the follower gets nothing until the heal, and no error; then it goes on",
    )


SCENARIOS = (
    _scenario(
        "reader-of-stale-follower", "A reader of the nearest replica, which lags", "reader 3", "librdkafka"
    ),
    _scenario(
        "reader-of-stale-follower-java",
        "A Java reader of the nearest replica, which lags",
        "reader 4",
        "java",
        _MOVES,
    ),
)
