"""A reader that has moved on to a new leader can reach only the old one, which has been replaced and does not know it (a stale leader).

The old leader lacks what its successor appended. To it, the reader's position is beyond the end of the log,
so it answers OFFSET_OUT_OF_RANGE. A client must not take that for the end of the log: it knows a newer leader
epoch (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable

from checkers.claims.builders import both, broker, messages, partition, reads
from harness.cluster.setup import Setup
from harness.kafka.model import Topic, TopicPartition
from harness.waiting import wait_until
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import give_time, require, settle, stand, wait_read
from workloads.protocol.spec import Via

SECTION = "beyond the articles: readers"
TOPIC, CONTROL, OTHER = "t", "u", "v"
"""`u` is read by a client that does not start again from its bootstrap servers. broker2 leads `v`: a reader
that is connected to one broker only asks nobody else who leads."""
BEFORE, AFTER = "az1-before", "az2-after"
REQUEST = {"socket.timeout.ms": 5000}
"""How long a reader waits for an answer; by default, the cut would have to last longer than 30 s (Java) or 60 s."""
MOVES_S = 60.0
"""How long a reader may take to find the new leader."""
CUT_S = 40.0
"""How long a reader may take to try the old leader: librdkafka took 11 to 15 s."""
LONGER_S = 10.0
"""How much longer the old leader can be reached afterwards."""


def stale_leader(via: Via) -> Callable[[Stage], None]:
    """The body for one client library."""

    def body(stage: Stage) -> None:
        """Depose broker1 while only the clients reach it, then leave it alone with readers that have moved on."""
        topics = [topic.name for topic in stage.setup.topics if topic.name != OTHER]
        before = stage.producer("az1", BEFORE, "broker1", acks=-1)
        after = stage.producer("az2", AFTER, "broker2", acks=-1)
        readers = [
            stage.start_reader(
                "az1",
                [TopicPartition(topic, 0), TopicPartition(OTHER, 0)],
                REQUEST | ({"metadata.recovery.strategy": "none"} if topic == CONTROL else {}),
                via=via,
            )
            for topic in topics
        ]

        for topic in topics:
            require(stage.leader(topic) == "broker1", f"broker1 leads {topic}")
            for label in ("a", "b"):
                before.must_send(topic, label)
            stage.wait_replicated(topic)
        wait_read(stage, readers, 2, MOVES_S)
        alone = stage.nemesis.cut("broker1 <-> broker2, broker1 <-> broker3").inject()
        stage.mark("cut", "the leader is cut off from the other brokers, but not from the clients")
        for topic in topics:
            stage.wait_for_leader(topic, not_on="broker1")
            stage.wait_until_serving(topic, "broker2")
            for label in ("c", "d", "e"):
                after.must_send(topic, label)
        wait_read(stage, readers, 5, MOVES_S)
        stage.mark("moved", "the readers have received what the new leader appended")
        isolated = stage.nemesis.isolate("az1").inject()
        since = stage.mark("isolated", "the readers reach nobody but the old leader")
        seen = readers[0].progress().count
        give_time(
            stage,
            lambda: readers[0].progress().count > seen,
            CUT_S,
            "a reader to receive something from the old leader",
        )
        stand(stage, since, stage.since(since) + LONGER_S)
        stage.mark("stale", "the readers have tried the old leader, or have had time to")
        alone.heal()  # changes nothing yet: the isolation cuts these links, too
        isolated.heal()
        stage.mark("healed", "the links are back")
        read = [reader.progress().count for reader in readers]
        for topic in topics:
            stage.wait_for_leader(topic, on="broker2")
            after.must_send(topic, "f")
        wait_until(
            lambda: [reader.progress().count for reader in readers],
            accept=lambda counts: all(now > then for now, then in zip(counts, read, strict=True)),
            within_s=MOVES_S,
            awaiting="each reader to receive the next message",
            abort=stage.cluster.check_alive,
        )
        stage.mark("read-on", "the readers receive messages again")
        for reader in readers:
            reader.stop()
        settle(stage)

    return body


T = partition(TOPIC)
GIVEN = (
    Claim(
        name="moved-on",
        section=SECTION,
        says="While the leader is cut off from the other brokers, one of them is elected, and the readers receive what it appends.",
        holds=both(
            T.is_led_by(2, isr=(2, 3), epoch=1, at="moved"),
            reads(TOPIC).receive(4, after="cut", before="moved"),
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
GOES_BACK = (
    Claim(
        name="begins-again",
        section=SECTION,
        says="A librdkafka reader with auto.offset.reset=earliest goes back from the end to offset 0: it receives "
        "the whole log again.",
        holds=reads(TOPIC).go_back(to=0, after="isolated", before="stale"),
    ),
    Claim(
        name="without-bootstrap",
        section=SECTION,
        says="With metadata.recovery.strategy=none, a reader beside it waits for the heal, and goes on.",
        holds=reads(CONTROL).stay_in_order(after="cut", until="healed"),
    ),
)
GOES_ON = (
    Claim(
        name="waits",
        section=SECTION,
        says="A reader of the Java client waits for the heal, and goes on.",
        holds=reads(TOPIC).stay_in_order(after="cut", until="healed"),
    ),
)
NOTHING_LOST = Claim(
    name="nothing-lost",
    section=SECTION,
    says="No acknowledged message is lost.",
    holds=messages((BEFORE, AFTER)).none_lost(at_risk_after="cut", at_least=4),
)


def _scenario(
    via: Via,
    title: str,
    topics: tuple[str, ...],
    claims: tuple[Claim, ...],
    outcome: str,
    *expected: Expected,
) -> Scenario:
    return Scenario(
        name=f"reader-stale-leader-{via}",
        title=title,
        article="beyond",
        section="readers",
        body=stale_leader(via),
        setup=Setup(
            topics=(*(Topic(name, (1, 2, 3)) for name in topics), Topic(OTHER, (2, 3, 1))),
            controller="broker2",
            stream_rate=0,
        ),
        claims=(*GIVEN, *claims, NOTHING_LOST),
        expected=expected,
        faults=("cut broker1 <-> broker2, broker1 <-> broker3", "isolate az1"),
        kafka="4.3.1",
        mode="kraft-combined",
        modes=("kraft-combined",),
        outcome=outcome,
        versions=("3.9.1", "4.3.1"),
    )


SCENARIOS = (
    _scenario(
        "librdkafka",
        "A stale leader sends a librdkafka reader back to the beginning",
        (TOPIC, CONTROL),
        GOES_BACK,
        "the reader receives the whole log again (auto.offset.reset=earliest); nothing is lost",
        Expected(
            "non_monotonic",
            f"topic = '{TOPIC}'",
            "librdkafka forgets the leader epoch and trusts the stale leader",
            client="librdkafka",
        ),
    ),
    _scenario(
        "java",
        "The same with a reader of the Java client",
        (TOPIC,),
        GOES_ON,
        "the reader waits for the heal, and goes on; nothing is lost",
    ),
)
