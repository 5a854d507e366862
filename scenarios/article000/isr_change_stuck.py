"""Article 000, section 1, with the controller on the cut follower: the ISR change cannot be delivered."""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, opposite, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, seed, settle, updated_to, wait_isr_committed, wait_log

TOPIC = "t"


def stuck(stage: Stage) -> None:
    """Cut az1 from az2, where the controller is; nothing moves until the heal."""
    seed(stage, TOPIC)
    retrying = stage.producer("az1", "az1-retry", via="librdkafka", retries=1).prepare(TOPIC)
    with stage.nemesis.cut("az1 <-> az2"):
        stage.mark("cut", "az1 and az2 no longer see each other; the controller is in az2")
        retrying.send(TOPIC, "m1")
        wait_log(stage, "broker1", f"[Partition {TOPIC}-0 ", "Shrinking ISR")
        stage.mark("wanted", "broker1 has asked for the smaller ISR; its controller cannot hear it")
        stage.producer("az1", "az1-m2", "broker1", acks=-1).send(TOPIC, "m2")
        stage.producer("az1", "az1-m3", "broker1", acks=1).must_send(TOPIC, "m3")
        stage.read("az1", TOPIC, "broker1")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    wait_log(
        stage, "broker1", f"[Partition {TOPIC}-0 ", "ISR updated", within_s=30 + stage.timings.recovery_s
    )
    settle(stage)


def heals_itself(stage: Stage) -> None:
    """The same cut under inter.broker.protocol.version 2.6: the leader writes the ISR to ZooKeeper itself."""
    seed(stage, TOPIC)
    retrying = stage.producer("az1", "az1-retry", via="librdkafka", retries=1, request_timeout_s=1)
    retrying.prepare(TOPIC)
    with stage.nemesis.cut("az1 <-> az2"):
        stage.mark("cut", "az1 and az2 no longer see each other; the controller is in az2")
        retrying.send(TOPIC, "m1")
        stage.wait_for_isr(TOPIC, 1, 3, within_s=stage.timings.shrink_s)
        wait_isr_committed(stage, "broker1", TOPIC, (1, 3))
        stage.mark("shrunk", "broker2 has left the ISR")
        stage.producer("az1", "az1-m2", "broker1", acks=-1).must_send(TOPIC, "m2")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    settle(stage)


T = partition(TOPIC)
_FAILED, _M2, _M3 = messages("az1-retry"), messages("az1-m2"), messages("az1-m3")
_ACKS_ALL_FAILS = Claim(
    name="acks-all-fails",
    section="000 §1",
    quote="若 acks=-1，retries=1，则生产消息会失败，error_code=7（REQUEST_TIMED_OUT）…且会发两次",
    says="With acks=-1 and retries=1 producing fails with error_code 7; the message is sent twice.",
    holds=both(_FAILED.refused_with(7), _FAILED.seen_on(1, copies=2, until="before-heal")),
)
_DUPLICATED = Claim(
    name="failed-writes-duplicated",
    section="beyond 000 §1",
    says="At the end the 'failed' message is in the log twice.",
    holds=_FAILED.in_final_log(copies=2),
)
_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="beyond 000 §1",
    says="Nothing that was acknowledged is lost.",
    holds=messages().none_lost(at_risk_after="cut"),
)
_RECOVERS = Claim(
    name="recovers",
    section="000 §1",
    quote="网络恢复后，数据同步，更新 isr",
    says="After the network recovers data is replicated and the ISR updated.",
    holds=both(T.is_led_by(1, isr=(1, 2, 3), at="converged"), _FAILED.in_final_log(copies=2)),
)
_SHRINKS = "The follower that does not replicate is removed from the ISR."
_SHRINKS_QUOTE = "由于 broker-0 没有同步数据，因此会从 isr 中被剔除"
_DUPLICATES = Expected(
    "duplicated", _FAILED.where, "each attempt is appended, none is acknowledged, all survive"
)


def _setup(**broker_config: str) -> Setup:
    return Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper3",
        zookeeper_pins=pins(1, 2, 3, to=(3,)),
        broker_config={key.replace("_", "."): value for key, value in broker_config.items()},
    )


STUCK = Scenario(
    name="isr-change-stuck",
    title="A follower is cut from the leader, and the controller is on that follower",
    article="000",
    section="1c",
    body=stuck,
    setup=_setup(),
    claims=(
        _ACKS_ALL_FAILS,
        Claim(
            name="isr-shrinks",
            section="000 §1",
            quote=_SHRINKS_QUOTE,
            says=_SHRINKS,
            holds=T.has_isr(1, 3, at="before-heal"),
            erratum=Erratum(
                says="The ISR never shrinks while the cut lasts, though the leader wants it to.",
                because="KIP-497: from 2.7 on the leader asks the controller (AlterIsr), which it cannot reach",
                holds=both(
                    T.stays(since="seeded", until="before-heal"),
                    broker(1).logged("isr_shrinking", of=T, after="cut", before="before-heal"),
                ),
            ),
        ),
        Claim(
            name="shrink-asked-once",
            section="beyond 000 §1",
            says="The leader logs that it wants to shrink the ISR, and only after the heal that it did.",
            holds=broker(1).never_logged("isr_updated", of=T, before="before-heal"),
            given=both(
                broker(1).logged("isr_shrinking", of=T, before="before-heal"),
                broker(1).logged("isr_updated", of=T, after="before-heal"),
            ),
        ),
        Claim(
            name="acks-all-fails-on",
            section="beyond 000 §1",
            says="Further acks=all writes fail with error 7 when the ISR should have shrunk.",
            holds=_M2.refused_with(7),
        ),
        Claim(
            name="acks-1-accepted",
            section="beyond 000 §1",
            says="acks=1 is still acknowledged.",
            holds=_M3.acknowledged(),
        ),
        Claim(
            name="consumers-stall",
            section="000 §1",
            quote="az1/3 内的客户端可以生产消费",
            says="Clients in az1 can consume what is written after the cut.",
            holds=opposite(T.consumers_see_nothing_from(2, until="before-heal")),
            erratum=Erratum(
                says="Nothing written after the cut can be consumed: the high watermark stands still.",
                because="the committed ISR still names the follower that cannot replicate",
                holds=T.consumers_see_nothing_from(2, until="before-heal"),
            ),
        ),
        Claim(
            name="late-shrink",
            section="beyond 000 §1",
            says="The stale shrink is delivered after the heal: the ISR shrinks once before it is full again.",
            holds=broker(1).logged("isr_updated", of=T, after="before-heal", where=updated_to("1,3")),
        ),
        _DUPLICATED,
        Claim(
            name="all-kept",
            section="beyond 000 §1",
            says="At the end all 'failed' writes are in the log.",
            holds=both(_M2.became("unknown_kept"), _M3.kept()),
        ),
        _RECOVERS,
        _NOTHING_LOST,
    ),
    expected=(_DUPLICATES,),
    faults=("cut az1 <-> az2",),
    outcome="nothing lost, but acks=all is impossible until the heal; the 'failed' write is in the log twice",
)

BEFORE = Scenario(
    name="isr-change-stuck-ibp26",
    title="The same under inter.broker.protocol.version 2.6: it heals itself",
    article="000",
    section="1c (IBP 2.6)",
    body=heals_itself,
    setup=_setup(inter_broker_protocol_version="2.6"),
    claims=(
        _ACKS_ALL_FAILS,
        Claim(
            name="isr-shrinks",
            section="000 §1",
            quote=_SHRINKS_QUOTE,
            says=_SHRINKS,
            holds=T.is_led_by(1, isr=(1, 3), epoch=0, at="before-heal"),
        ),
        Claim(
            name="acks-all-works-again",
            section="000 §1",
            quote="az1/3 内的客户端可以生产消费",
            says="Clients in az1 can produce again, with acks=all.",
            holds=messages("az1-m2", after="shrunk", before="before-heal").acknowledged(),
        ),
        _DUPLICATED,
        _RECOVERS,
        _NOTHING_LOST,
    ),
    expected=(_DUPLICATES,),
    faults=("cut az1 <-> az2",),
    outcome="nothing lost; the ISR shrinks although the controller cannot be reached",
)

SCENARIOS = (STUCK, BEFORE)
