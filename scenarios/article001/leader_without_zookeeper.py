"""Article 001, scenario 4: the leader reaches its followers, but not ZooKeeper. Also its third cause of loss."""

from __future__ import annotations

from checkers.claims.builders import both, broker, mark, messages, messages_where, opposite, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, stand, wait_log

TOPIC = "t"


def zombie(stage: Stage) -> None:
    """Cut broker1 from ZooKeeper only; a client goes on writing to it until it learns of its successor."""
    seed(stage, TOPIC)
    with stage.nemesis.without_zookeeper("broker1"):
        stage.mark("cut", "the leader has lost ZooKeeper; it still reaches its followers and clients")
        stage.producer("az1", "az1-early", "broker1", acks=-1).send(TOPIC, "early")
        going_on = stage.producer("az1", "az1-acks1", "broker1", acks=1).keep_writing(TOPIC, every_s=0.2)
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.wait_until_serving(TOPIC, "broker2")
        stage.mark("moved", "the followers have another leader; broker1 has not heard of it")
        stage.producer("az2", "az2-new-side", "broker2", acks=-1).send(TOPIC, "f")
        stage.producer("az1", "az1-late", "broker1", acks=-1).send(TOPIC, "late")
        # Past the point at which the leader wants to shrink its ISR, which it then cannot.
        wait_log(stage, "broker1", f"[Partition {TOPIC}-0 ", "Shrinking ISR")
        shrink_wanted = stage.mark("wanted", "broker1 wants to shrink its ISR to itself")
        stand(stage, shrink_wanted, stage.timings.held_s)
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "broker1 reaches ZooKeeper again")
    going_on.wait_refused(within_s=20 + stage.timings.recovery_s)
    settle(stage)


def hanging(stage: Stage) -> None:
    """The same under inter.broker.protocol.version 2.6, where the leader itself writes the ISR to ZooKeeper."""
    seed(stage, TOPIC)
    patient = stage.producer(
        "az1", "az1-patient", "broker1", acks=1, request_timeout_s=40 + stage.timings.recovery_s
    )
    with stage.nemesis.without_zookeeper("broker1"):
        stage.mark("cut", "the leader has lost ZooKeeper; it still reaches its followers and clients")
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.wait_until_serving(TOPIC, "broker2")
        stage.mark("moved", "the followers have another leader; broker1 has not heard of it")
        stage.producer("az2", "az2-new-side", "broker2", acks=-1).send(TOPIC, "f")
        stage.producer("az1", "az1-acks1", "broker1", acks=1).send(TOPIC, "z1")
        wait_log(stage, "broker1", f"[Partition {TOPIC}-0 ", "Shrinking ISR")
        stage.mark("hung", "broker1 waits for ZooKeeper, to which it wants to write a smaller ISR")
        blocked = patient.send_later(TOPIC, "blocked")
        longer_than_its_own = stage.timings.request_s + 0.5
        short = stage.producer(
            "az1", "az1-blocked-short", "broker1", acks=1, request_timeout_s=longer_than_its_own
        )
        short.send(TOPIC, "short")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "broker1 reaches ZooKeeper again")
    blocked.result(timeout=60 + stage.timings.recovery_s)
    settle(stage)


T = partition(TOPIC)
_ZOMBIE = messages("az1-acks1", after="cut")
_WHILE_WANTED = messages("az1-acks1", after="wanted", before="before-heal")
_PATIENT, _BOTH = messages("az1-patient"), messages(("az1-patient", "az1-blocked-short"))
_LATE_ANSWER = messages_where(
    f"{_PATIENT.where} AND done_ns > {mark('before-heal')}", of=_PATIENT, since="before-heal"
)
_ANSWERED = messages_where(
    f"{_BOTH.where} AND done_ns <= {mark('before-heal')}", of=_BOTH, until="before-heal"
)
LOCK_RELEASED = "3.1.0"
"""First version whose leader changes the ISR outside the partition's lock (KAFKA-13091), also in ZooKeeper.

With the protocol of 2.6 it used to hold the lock while it waited for ZooKeeper.
"""
_STOPS = (
    "It wants to shrink the ISR to itself; since it cannot tell ZooKeeper, it refuses all further writes "
    "from then on."
)
_STOPS_QUOTE = (
    "由于它不能与zookeeper通讯,因此它不能将这一更新发布到zookeeper上,从这一刻开始它将拒绝更多的写入请求"
)
_LOST_QUOTE = "在存在两个leader期间,由原leader所确认写入的数据都将丢失"
_NEW_LEADER = Claim(
    name="new-leader",
    section="001 scenario 4",
    quote="zookeeper将原leader标记为失效,同时通知控制节点。控制节点将从剩余的follower中选举出新的leader",
    says="ZooKeeper marks the leader as failed; the controller elects a new one among the followers.",
    holds=both(
        T.is_led_by(2, isr=(2, 3), epoch=1, at="moved"), opposite(broker(1).is_registered(at="moved"))
    ),
)
_ACKS_ALL_SAFE = Claim(
    name="acks-all-safe",
    section="001 conclusion",
    quote="我们可以通过设置acks=all来进行补救",
    says="acks=all loses nothing that was acknowledged.",
    holds=messages(acks=-1).none_lost(at_risk_after="cut"),
)
_EPOCH_TRUNCATION = Claim(
    name="truncates",
    section="001 scenario 4",
    quote="将自己的日志截断到新leader发生故障切换时自己保存的HW所指示的位置",
    says="After the heal the old leader truncates its log to the high watermark that the new leader had.",
    holds=broker(1).logged("truncated_to_hw", of=T, after="before-heal"),
    erratum=Erratum(
        says="It truncates to the end offset of its leader epoch, which the new leader tells it.",
        because="KIP-101: leader epochs replace the high watermark for truncation from 0.11 on",
        holds=both(
            broker(1).truncated_to_end_of(T, 0, after="before-heal"),
            broker(1).never_logged("truncated_to_hw", of=T, after="before-heal", before="converged"),
        ),
    ),
)
_REJOINS = Claim(
    name="rejoins",
    section="001 scenario 4",
    quote="从这里开始向新的leader发出fetch请求同步数据",
    says="It follows the new leader and joins the ISR.",
    holds=T.is_led_by(2, isr=(1, 2, 3), epoch=1, at="converged"),
)
_UNHEARD = "acknowledged by a leader that had lost its followers without knowing it"


def _unaware(at: str) -> Claim:
    return Claim(
        name="old-leader-unaware",
        section="001 scenario 4",
        quote="然而原leader仍然认为自己还是leader",
        says="The old leader still believes that it leads, with all replicas in the ISR.",
        holds=broker(1).believes(T, leader=1, isr=(1, 2, 3), at=at),
    )


def _refuses(erratum: Erratum, *, since: str = "", before: str = "") -> Claim:
    return Claim(
        name="refuses",
        section="001 scenario 4",
        quote=_STOPS_QUOTE,
        says=_STOPS,
        holds=messages("az1-blocked-short").failed(),
        erratum=erratum,
        since=since,
        before=before,
    )


def _setup(*, stream_rate: float = 50.0, **broker_config: str) -> Setup:
    return Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        quorum="one node",
        broker_config={key.replace("_", "."): value for key, value in broker_config.items()},
        stream_rate=stream_rate,
    )


ZOMBIE = Scenario(
    name="leader-without-zookeeper",
    title="The leader reaches its followers and clients, but not ZooKeeper",
    article="001",
    section="4",
    body=zombie,
    setup=_setup(),
    claims=(
        _NEW_LEADER,
        _unaware("before-heal"),
        Claim(
            name="early-writes",
            section="beyond 001 scenario 4",
            says="Before the session ends acks=all works, and is kept.",
            holds=messages("az1-early").kept(),
        ),
        Claim(
            name="accepts-acks-1",
            section="001 scenario 4",
            quote="原leader仍然认为自己还是leader,同时接受acks=1的写入请求",
            says="The old leader accepts acks=1 writes.",
            holds=messages("az1-acks1", after="moved", before="wanted").acknowledged(at_least=3),
        ),
        Claim(
            name="refuses-soon",
            section="001 scenario 4",
            quote=_STOPS_QUOTE,
            says=_STOPS,
            holds=_WHILE_WANTED.failed(at_least=10),
            erratum=Erratum(
                says="It accepts acks=1 writes for as long as the cut lasts.",
                because="KIP-497: while AlterIsr is unanswered (the controller ignores it with "
                "STALE_BROKER_EPOCH) the old ISR stays in force, and nothing blocks",
                holds=both(
                    _WHILE_WANTED.acknowledged(at_least=10),
                    broker(1).never_logged("isr_updated", of=T, after="cut", before="before-heal"),
                ),
            ),
        ),
        Claim(
            name="followers-leave",
            section="001 scenario 4",
            quote="由于新leader选举出来后,follower就不再向原leader发送fetch请求",
            says="Once there is a new leader, the followers no longer fetch from the old one: they get no message of the old leader, and have those of the new one.",
            holds=both(
                *(_WHILE_WANTED.not_seen_on(n, until="before-heal", at_least=10) for n in (2, 3)),
                messages("az2-new-side").seen_on(2, 3, until="before-heal"),
            ),
        ),
        Claim(
            name="acks-all-fails",
            section="001 scenario 4",
            quote="对于设置了acks=all的数据,由于刚开始ISR包含了所有副本节点,因此无法收集到所有节点的确认信息,写入是失败的",
            says="acks=all writes to it fail: the followers do not confirm.",
            holds=messages("az1-late").refused_with(7),
        ),
        Claim(
            name="lost",
            section="001 scenario 4, loss cause 3",
            quote=_LOST_QUOTE,
            says="What the old leader acknowledged while there were two leaders is lost.",
            holds=messages("az1-acks1", after="moved").acknowledged_then_lost(at_least=10),
        ),
        _EPOCH_TRUNCATION,
        _REJOINS,
        _ACKS_ALL_SAFE,
    ),
    expected=(Expected("lost", _ZOMBIE.where, _UNHEARD),),
    faults=("broker1 without zookeeper",),
    outcome="acks=1 writes that the old leader takes after the failover are lost, nothing else",
)

HANG = Scenario(
    name="leader-without-zookeeper-ibp26",
    title="The same under inter.broker.protocol.version 2.6: before Kafka 3.1 the old leader hangs",
    article="001",
    section="4 (IBP 2.6)",
    body=hanging,
    # One thread shrinks ISRs: it would hang on whichever partition of this leader comes first.
    setup=_setup(stream_rate=0.0, inter_broker_protocol_version="2.6"),
    claims=(
        _NEW_LEADER,
        _unaware("hung"),  # metadata requests are not answered either while it hangs
        _refuses(
            Erratum(
                says="It does not refuse them but hangs, and answers nobody.",
                because="it waits for ZooKeeper without limit, with the partition's lock held",
                holds=both(messages("az1-blocked-short").unanswered(), _LATE_ANSWER.acknowledged()),
            ),
            before=LOCK_RELEASED,
        ),
        _refuses(
            Erratum(
                says="It goes on acknowledging acks=1 writes.",
                because="it still waits for ZooKeeper without limit, but since 3.1.0 no longer with the partition's lock "
                "held (KAFKA-13091)",
                holds=both(
                    _ANSWERED.acknowledged(at_least=2),
                    broker(1).never_logged("isr_updated", of=T, after="cut", before="before-heal"),
                ),
            ),
            since=LOCK_RELEASED,
        ),
        Claim(
            name="acknowledged-late-and-lost",
            section="beyond 001 scenario 4",
            says="A client that waits gets an acknowledgement after the heal, and the message is lost.",
            holds=_LATE_ANSWER.acknowledged_then_lost(),
            before=LOCK_RELEASED,
        ),
        Claim(
            name="acknowledged-at-once-and-lost",
            section="beyond 001 scenario 4",
            says="What it acknowledges while it waits for ZooKeeper is lost.",
            holds=_ANSWERED.acknowledged_then_lost(at_least=2),
            since=LOCK_RELEASED,
        ),
        Claim(
            name="lost",
            section="001 scenario 4, loss cause 3",
            quote=_LOST_QUOTE,
            says="What the old leader acknowledged while there were two leaders is lost.",
            holds=messages("az1-acks1", after="moved").acknowledged_then_lost(),
        ),
        _EPOCH_TRUNCATION,
        _REJOINS,
        _ACKS_ALL_SAFE,
    ),
    expected=(
        Expected("lost", messages(("az1-acks1", "az1-patient"), after="cut").where, _UNHEARD),
        Expected("lost", messages("az1-blocked-short").where, _UNHEARD, since=LOCK_RELEASED),
    ),
    faults=("broker1 without zookeeper",),
    outcome="acks=1 writes that the old leader takes after the failover are lost, one of them acknowledged late",
)

SCENARIOS = (ZOMBIE, HANG)
