"""Article 001, scenario 3: a follower reaches the leader, but not ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping

from checkers.claims.builders import both, broker, controller_stays, messages, opposite, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.steps import awaited, seed, settle, stand, wait_log, wait_unregistered

TOPIC = "t"
SESSION_MS = 6000
"""Long enough to outlast the short cut, even on a busy machine."""
LAG_MS = 5000
"""`replica.lag.time.max.ms` where the follower is to stay in the ISR."""
FETCHED_S = 2.0
"""A follower that fetches has a message after 0.5 s at most, and its log is looked at every 0.2 s."""


def body(stage: Stage) -> None:
    """Cut broker3 from ZooKeeper, first for a moment, then past its session; write all the time; heal."""
    seed(stage, TOPIC)
    writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1)
    with stage.nemesis.without_zookeeper("broker3"):
        blink = stage.mark("blink", "broker3 has lost ZooKeeper for a moment")
        writer.send(TOPIC, "m1")
    stage.mark("blinked", "broker3 has ZooKeeper back within its session")
    stand(stage, blink, stage.timings.session_s + 1.0)
    stage.wait_replicated(TOPIC)
    stage.mark("unharmed", "a session that began with the cut would be over")

    with stage.nemesis.without_zookeeper("broker3"):
        stage.mark("cut", "broker3 has lost ZooKeeper for good; it still reaches the leader")
        awaited(lambda: stage.wait_for_isr(TOPIC, 1, 2))
        refused = ("has an older epoch (0) than the current leader", "t-0")
        awaited(lambda: wait_log(stage, "broker3", *refused, within_s=10 + stage.timings.recovery_s))
        fenced = stage.mark("fenced", "broker3 has stopped fetching, if it is fenced")
        for label in ("m2", "m3"):
            writer.send(TOPIC, label)
        stand(stage, fenced, FETCHED_S)
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "broker3 reaches ZooKeeper again")
    settle(stage)


def without_epochs(stage: Stage) -> None:
    """Cut broker3 from ZooKeeper past its session, and write; heal."""
    seed(stage, TOPIC)
    writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1)
    with stage.nemesis.without_zookeeper("broker3"):
        stage.mark("cut", "broker3 has lost ZooKeeper; it still reaches the leader")
        wait_unregistered(stage, "broker3")
        gone = stage.mark("gone", "ZooKeeper no longer has broker3")
        stand(stage, gone, 1.5 * LAG_MS / 1000 + 1.0)
        late = stage.mark("late", "a follower that had stopped fetching would have left the ISR")
        for label in ("m2", "m3"):
            writer.send(TOPIC, label)
        stand(stage, late, FETCHED_S)
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "broker3 reaches ZooKeeper again")
    settle(stage)


def _setup(config: Mapping[str, str], *, stream_rate: float = 10.0) -> Setup:
    return Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        quorum="one node",
        broker_config={"zookeeper.session.timeout.ms": str(SESSION_MS), **config},
        stream_rate=stream_rate,
    )


T = partition(TOPIC)
_WRITTEN, _LATER = messages("az1-acks-all"), messages("az1-acks-all", after="fenced")
_NO_ACTION = Claim(
    name="no-action",
    section="001 scenario 3",
    quote="zookeeper由于不能收到这个broker的心跳信息,因此认为它已经失效,但由于它仅仅是一个follower,因此没有更多的动作",
    says="ZooKeeper regards it as dead. Since it is only a follower, nobody is elected.",
    holds=both(
        T.stays(since="seeded", until="before-heal", what="leader"),
        controller_stays(since="seeded", until="before-heal"),
    ),
    given=opposite(broker(3).is_registered(at="before-heal")),
)
_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="001 conclusion",
    quote="如果影响的是follower副本节点,不会导致数据丢失",
    says="A network partition that affects followers loses no data.",
    holds=messages().none_lost(at_risk_after="cut", at_least=2),
)
CLAIMS = (
    Claim(
        name="blink-harmless",
        section="beyond 001 scenario 3",
        says="A cut shorter than the session changes nothing.",
        holds=both(
            T.stays(since="seeded", until="unharmed"),
            messages(label="m1").seen_on(1, 2, 3, until="unharmed"),
        ),
    ),
    Claim(
        name="stays-in-isr",
        section="001 scenario 3",
        quote="它仍然能够向leader发送fetch请求,同时仍然被保留在ISR中",
        says="The follower can still fetch from the leader and stays in the ISR.",
        holds=T.has_isr(1, 2, 3, at="before-heal"),
        erratum=Erratum(
            says="It leaves the ISR when its session ends, and the leader epoch rises.",
            because="the controller removes a broker that is gone from /brokers/ids from every ISR",
            holds=T.is_led_by(1, isr=(1, 2), epoch=1, at="before-heal"),
        ),
    ),
    Claim(
        name="keeps-fetching",
        section="001 scenario 3",
        quote="它仍然能够向leader发送fetch请求",
        says="It goes on fetching: it gets what is written later.",
        holds=_LATER.seen_on(1, 2, 3, until="before-heal", at_least=2),
        erratum=Erratum(
            says="It is fenced with its old leader epoch and stops fetching: its log stands still.",
            because="from inter.broker.protocol.version 2.1 on FETCH names the leader epoch (KIP-320), and "
            "broker3 is not told the new one",
            holds=both(
                _LATER.seen_on(1, 2, until="before-heal", at_least=2),
                _LATER.not_seen_on(3, until="before-heal", at_least=2),
            ),
        ),
    ),
    _NO_ACTION,
    Claim(
        name="stale-metadata",
        section="beyond 001 scenario 3",
        says="broker3 itself still names all three as in sync.",
        holds=broker(3).believes(T, leader=1, isr=(1, 2, 3), at="before-heal"),
    ),
    Claim(
        name="writes-unaffected",
        section="001 conclusion",
        quote="如果影响的是follower副本节点,不会导致数据丢失,仅仅是在网络分区期间会降低数据冗余度",
        says="Only redundancy is reduced: acks=all still works.",
        holds=_WRITTEN.acknowledged(at_least=3),
    ),
    Claim(
        name="rejoins",
        section="beyond 001 scenario 3",
        says="After the heal it registers again, replicates and joins the ISR, without a new epoch.",
        holds=both(
            broker(3).is_registered(at="converged"),
            T.is_led_by(1, isr=(1, 2, 3), epoch=1, at="converged"),
        ),
    ),
    _NOTHING_LOST,
)

FENCED = Scenario(
    name="follower-without-zookeeper",
    title="A follower reaches the leader, but not ZooKeeper",
    article="001",
    section="3",
    body=body,
    setup=_setup({"replica.lag.time.max.ms": "15000"}),
    claims=CLAIMS,
    faults=("broker3 without zookeeper",),
    outcome="nothing lost; the follower is fenced and stops fetching until it reaches ZooKeeper again",
)

_TO_3 = messages("az1-acks-all", after="late")
UNFENCED = Scenario(
    name="follower-without-zookeeper-ibp20",
    title="The same under inter.broker.protocol.version 2.0: the article is right",
    article="001",
    section="3 (IBP 2.0)",
    body=without_epochs,
    # Partitions that broker3 leads would hang it before inter.broker.protocol.version 2.7.
    setup=_setup(
        {"replica.lag.time.max.ms": str(LAG_MS), "inter.broker.protocol.version": "2.0"}, stream_rate=0.0
    ),
    claims=(
        Claim(
            name="stays-in-isr",
            section="001 scenario 3",
            quote="它仍然能够向leader发送fetch请求,同时仍然被保留在ISR中",
            says="The follower can still fetch from the leader and stays in the ISR.",
            holds=both(T.has_isr(1, 2, 3, at="late"), T.has_isr(1, 2, 3, at="before-heal")),
            given=opposite(broker(3).is_registered(at="before-heal")),
        ),
        Claim(
            name="keeps-fetching",
            section="001 scenario 3",
            quote="它仍然能够向leader发送fetch请求",
            says="It goes on fetching: it gets what is written later.",
            holds=_TO_3.seen_on(1, 2, 3, until="before-heal", at_least=2),
        ),
        Claim(
            name="taken-back",
            section="beyond 001 scenario 3",
            says="It stays because the leader takes it back: the controller removes it from the ISR when its session ends, "
            "and the leader adds it again, since it fetches.",
            holds=both(
                broker(1).logged("became_leader", of=T, after="cut", before="before-heal", where="epoch = 1"),
                broker(1).logged("isr_expanding", of=T, after="cut", before="before-heal"),
                T.is_led_by(1, isr=(1, 2, 3), epoch=1, at="before-heal"),
            ),
        ),
        Claim(
            name="old-epoch-accepted",
            section="beyond 001 scenario 3",
            says="broker3 is not told the new leader epoch, and is not fenced: FETCH names no epoch before "
            "inter.broker.protocol.version 2.1 (KIP-320).",
            holds=both(
                broker(3).believes(T, leader=1, epoch=0, at="before-heal"),
                _TO_3.seen_on(3, until="before-heal", at_least=2),
            ),
        ),
        _NO_ACTION,
        _NOTHING_LOST,
    ),
    faults=("broker3 without zookeeper",),
    outcome="nothing lost; the follower goes on fetching, and the leader takes it back into the ISR",
)
SCENARIOS = (FENCED, UNFENCED)
