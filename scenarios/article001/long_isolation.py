"""Article 001, scenario 6, past replica.lag.time.max.ms: the isolated leader tries to shrink its ISR.

`partition-6-leader-isolated` shows Kafka 2.7, which asks the controller for a smaller ISR. Here the brokers
speak the protocol of 2.6, with which the leader itself writes the ISR to ZooKeeper. It waits for ZooKeeper
without limit, and before 3.1 nobody can write meanwhile.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, mark, messages, messages_where, opposite, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Either, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.article001.leader_without_zookeeper import LOCK_RELEASED
from scenarios.steps import pins, seed, settle, shrinking_to, stand, wait_log

TOPIC = "t"


def body(stage: Stage) -> None:
    """Isolate az1 until its leader wants to shrink the ISR, and for some time longer; write to it; heal."""
    seed(stage, TOPIC)
    early = stage.producer("az1", "az1-early", "broker1", acks=1)
    patient = stage.producer(
        "az1", "az1-patient", "broker1", acks=1, request_timeout_s=40 + stage.timings.recovery_s
    )
    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 can no longer reach az2 and az3")
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.wait_until_serving(TOPIC, "broker2")
        stage.mark("moved", "the majority has another leader; broker1 has not heard of it")
        for label in ("c", "d", "e"):
            early.send(TOPIC, label)
        stage.producer("az2", "az2-new-side", "broker2", acks=-1).send(TOPIC, "f")
        stage.mark("early", "broker1 has not tried to shrink the ISR yet")
        wait_log(stage, "broker1", f"[Partition {TOPIC}-0 ", "Shrinking ISR")
        shrink_wanted = stage.mark("wanted", "broker1 wants to shrink the ISR to itself, and can tell nobody")
        blocked = patient.send_later(TOPIC, "blocked")
        for acks, name in ((1, "az1-after-acks1"), (-1, "az1-after-acks-all")):
            stage.producer("az1", name, "broker1", acks=acks).send(TOPIC, "short")
        stand(stage, shrink_wanted, stage.timings.held_s)
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    blocked.result(timeout=60 + stage.timings.recovery_s)
    settle(stage)


T = partition(TOPIC)
_ACKS_1, _ACKS_ALL = messages("az1-after-acks1"), messages("az1-after-acks-all")
_PATIENT, _BOTH = messages("az1-patient"), messages(("az1-patient", "az1-after-acks1"))
_LATE_ANSWER = messages_where(
    f"{_PATIENT.where} AND done_ns > {mark('before-heal')}", of=_PATIENT, since="before-heal"
)
_ANSWERED = messages_where(
    f"{_BOTH.where} AND done_ns <= {mark('before-heal')}", of=_BOTH, until="before-heal"
)
_STOPS = "因此它不再接收新的写入请求"
ONE_FIRST = "It tries to remove one follower first."
FETCHED_LATER = (
    "the other one fetched a little later, and so did not lag for long enough yet when the leader looked"
)


def _wants(isr: str) -> str:
    return both(
        broker(1).logged("isr_shrinking", of=T, after="early", before="wanted", where=shrinking_to(isr)),
        broker(1).never_logged("isr_shrinking", of=T, after="cut", before="early"),
    )


CLAIMS = (
    Claim(
        name="new-leader",
        section="001 scenario 6",
        quote="zookeeper将已经被隔离的broker标记为失效,通知控制节点重新选举新的leader",
        says="ZooKeeper marks the isolated broker as failed; the controller elects a new leader.",
        holds=both(
            T.is_led_by(2, isr=(2, 3), epoch=1, at="moved"), opposite(broker(1).is_registered(at="moved"))
        ),
    ),
    Claim(
        name="accepts-acks-1-briefly",
        section="001 scenario 6",
        quote="在短时间内它仍然会接受acks=1的写入请求",
        says="For a short time it still accepts acks=1 writes.",
        holds=messages("az1-early", before="early").acknowledged(at_least=3),
    ),
    Claim(
        name="wants-to-shrink",
        section="001 scenario 6",
        quote="在replica.lag.time.max.ms超时后原leader仍然不能接收到任何fetch请求,它会试图将ISR缩减到自身",
        says="After replica.lag.time.max.ms without fetches it tries to shrink the ISR to itself, but not before.",
        holds=_wants("1"),
        either=Either(says=ONE_FIRST, because=FETCHED_LATER, holds=_wants("1,[23]")),
    ),
    Claim(
        name="cannot-update-isr",
        section="001 scenario 6",
        quote="但是由于不能将这个变化更新到zookeeper",
        says="It cannot write that to ZooKeeper.",
        holds=both(
            broker(1).never_logged("isr_updated", of=T, after="cut", before="before-heal"),
            T.is_led_by(2, isr=(2, 3), epoch=1, at="before-heal"),
        ),
    ),
    Claim(
        name="stops",
        section="001 scenario 6",
        quote=_STOPS,
        says="So it accepts no further writes, neither acks=1 nor acks=all.",
        given=broker(1).logged("isr_shrinking", of=T, after="cut", before="wanted"),
        holds=both(_ACKS_1.not_acknowledged(), _ACKS_ALL.not_acknowledged()),
        erratum=Erratum(
            says="It goes on accepting acks=1 writes. Only those with acks=all fail, with error 7.",
            because="since 3.1.0 it waits for ZooKeeper without the partition's lock (KAFKA-13091), and meanwhile the old ISR "
            "stays in force",
            holds=both(_ANSWERED.acknowledged(at_least=2), _ACKS_ALL.refused_with(7)),
            since=LOCK_RELEASED,
        ),
    ),
    Claim(
        name="refuses",
        section="001 scenario 6",
        quote=_STOPS,
        says="It refuses them with an error.",
        holds=both(_ACKS_1.failed(), _ACKS_ALL.failed()),
        erratum=Erratum(
            says="It hangs, and answers nobody before the heal.",
            because="before KIP-497 (2.7) it waits for ZooKeeper without limit, with the partition's lock held",
            holds=both(_ACKS_1.unanswered(), _ACKS_ALL.unanswered(), _LATE_ANSWER.acknowledged()),
        ),
        before=LOCK_RELEASED,
    ),
    Claim(
        name="acknowledged-lost",
        section="001 scenario 6",
        quote="在网络分区发生后仍然写往原leader并获得确认的信息将丢失",
        says="What it acknowledged after the partition began is lost, also what it acknowledges after the heal.",
        holds=both(
            messages("az1-early", after="cut").acknowledged_then_lost(at_least=3),
            _LATE_ANSWER.acknowledged_then_lost(),
        ),
        before=LOCK_RELEASED,
    ),
    Claim(
        name="acknowledged-lost",
        section="001 scenario 6",
        quote="在网络分区发生后仍然写往原leader并获得确认的信息将丢失",
        says="What it acknowledged after the partition began is lost, also what it acknowledged while it waited for "
        "ZooKeeper.",
        holds=both(
            messages("az1-early", after="cut").acknowledged_then_lost(at_least=3),
            _ANSWERED.acknowledged_then_lost(at_least=2),
        ),
        since=LOCK_RELEASED,
    ),
    Claim(
        name="acks-all-safe",
        section="001 conclusion",
        quote="我们可以通过设置acks=all来进行补救",
        says="acks=all loses nothing that was acknowledged.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut"),
    ),
    Claim(
        name="rejoins",
        section="001 scenario 6",
        quote="然后以follower的身份向新leader发出fetch请求",
        says="After the heal it follows the new leader and joins the ISR.",
        holds=T.is_led_by(2, isr=(1, 2, 3), epoch=1, at="converged"),
    ),
)

SCENARIO = Scenario(
    name="long-isolation-ibp26",
    title="Scenario 6 under inter.broker.protocol.version 2.6: before Kafka 3.1 the isolated leader hangs",
    article="001",
    section="6 (IBP 2.6)",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        broker_config={"inter.broker.protocol.version": "2.6"},
        # One thread shrinks ISRs: it would hang on whichever partition of this leader comes first.
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost",
            messages(("az1-early", "az1-patient"), after="cut").where,
            "acknowledged by a leader that was isolated",
        ),
        Expected(
            "lost",
            _ACKS_1.where,
            "acknowledged by a leader that was isolated",
            since=LOCK_RELEASED,
        ),
    ),
    faults=("isolate az1",),
    outcome="acks=1 writes that the old leader takes after the cut are lost, one of them acknowledged late",
)
