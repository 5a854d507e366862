"""Article 000, section 1, with the controller on the cut follower: the ISR change cannot be delivered."""

from __future__ import annotations

from checkers.claims.former import (
    between,
    by,
    copies_in,
    errors,
    fates,
    logged,
    mark,
    never_logged,
    none_lost,
    outcomes,
    readable,
    state,
    unchanged,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from scenarios.steps import SHRINK_S, pins, seed, settle, wait_isr_committed, wait_log

TOPIC = "t"
_FAILED = by("az1-retry")


def stuck(stage: Stage) -> None:
    """Cut az1 from az2, where the controller is; nothing moves until the heal."""
    seed(stage, TOPIC)
    retrying = stage.writer("az1", "az1-retry", via="librdkafka", retries=1).prepare(TOPIC)
    with stage.nemesis.cut("az1 <-> az2"):
        stage.mark("cut", "az1 and az2 no longer see each other; the controller is in az2")
        retrying.send(TOPIC, "m1")
        wait_log(stage, "broker1", f"[Partition {TOPIC}-0 ", "Shrinking ISR")
        stage.mark("wanted", "broker1 has asked for the smaller ISR; its controller cannot hear it")
        stage.writer("az1", "az1-m2", "broker1", acks=-1).send(TOPIC, "m2")
        stage.writer("az1", "az1-m3", "broker1", acks=1).must_send(TOPIC, "m3")
        stage.read("az1", TOPIC, "broker1")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    wait_log(stage, "broker1", f"[Partition {TOPIC}-0 ", "ISR updated", within_s=30)
    settle(stage)


def heals_itself(stage: Stage) -> None:
    """The same cut under inter.broker.protocol.version 2.6: the leader writes the ISR to ZooKeeper itself."""
    seed(stage, TOPIC)
    retrying = stage.writer("az1", "az1-retry", via="librdkafka", retries=1, request_timeout_s=1)
    retrying.prepare(TOPIC)
    with stage.nemesis.cut("az1 <-> az2"):
        stage.mark("cut", "az1 and az2 no longer see each other; the controller is in az2")
        retrying.send(TOPIC, "m1")
        stage.wait_for_isr(TOPIC, 1, 3, within_s=SHRINK_S)
        wait_isr_committed(stage, "broker1", TOPIC, (1, 3))
        stage.mark("shrunk", "broker2 has left the ISR")
        stage.writer("az1", "az1-m2", "broker1", acks=-1).must_send(TOPIC, "m2")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    settle(stage)


_ACKS_ALL_FAILS = Claim(
    name="acks-all-fails",
    section="000 §1",
    says="With acks=-1 and retries=1 producing fails with error_code 7; the message is sent twice.",
    holds=errors(_FAILED, 7),
)
_DUPLICATED = Claim(
    name="failed-writes-duplicated",
    section="beyond 000 §1",
    says="The 'failed' message is in the log twice in the end.",
    holds=copies_in("copies", _FAILED, 2),
)
_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="000 §1",
    says="Nothing that was acknowledged is lost.",
    holds=none_lost("outcome = 'ok'", at_least=3),
)
_RECOVERS = Claim(
    name="recovers",
    section="000 §1",
    says="After the network recovers data is replicated and the ISR updated.",
    holds=state(TOPIC, leader=1, isr=(1, 2, 3), until=mark("converged")),
)
_DUPLICATES = Expected("duplicated", _FAILED, "each attempt is appended, none is acknowledged, all survive")


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
            says="The follower that does not replicate is removed from the ISR.",
            holds=state(TOPIC, isr=(1, 3), until=mark("before-heal")),
            erratum=Erratum(
                says="The ISR never shrinks while the cut lasts.",
                because="KIP-497: from 2.7 on the leader asks the controller (AlterIsr), which it cannot reach",
                holds=unchanged(
                    TOPIC, since=mark("seeded"), until=mark("before-heal"), columns="leader, isr"
                ),
            ),
        ),
        Claim(
            name="shrink-asked-once",
            section="beyond 000 §1",
            says="The leader logs the shrink that it wants, and never that it took place.",
            holds=never_logged("broker1", "isr_updated", topic=TOPIC, where=f"ns < {mark('before-heal')}"),
            given=logged("broker1", "isr_shrinking", topic=TOPIC, where=f"ns < {mark('before-heal')}"),
        ),
        Claim(
            name="acks-all-fails-on",
            section="beyond 000 §1",
            says="Every further acks=all write fails with error 7, however long the cut lasts.",
            holds=errors(by("az1-m2"), 7),
        ),
        Claim(
            name="acks-1-accepted",
            section="beyond 000 §1",
            says="acks=1 is still acknowledged.",
            holds=outcomes(by("az1-m3"), "ok"),
        ),
        Claim(
            name="consumers-stall",
            section="000 §1",
            says="Clients in az1 can consume.",
            holds=readable(f"topic = '{TOPIC}' AND ns < {mark('before-heal')}", 6),
            erratum=Erratum(
                says="Nothing written after the cut can be consumed: the high watermark stands still.",
                because="the committed ISR still names the follower that cannot replicate",
                holds=readable(f"topic = '{TOPIC}' AND ns < {mark('before-heal')}", 2),
            ),
        ),
        Claim(
            name="late-shrink",
            section="beyond 000 §1",
            says="The stale shrink is delivered after the heal: the ISR dips once before it is full again.",
            holds=logged(
                "broker1",
                "isr_updated",
                topic=TOPIC,
                where=f"text LIKE '% to 1,3 and %' AND ns > {mark('before-heal')}",
                what="ISR 1,3 taken in after the heal",
            ),
        ),
        _DUPLICATED,
        Claim(
            name="all-kept",
            section="beyond 000 §1",
            says="In the end all 'failed' writes are in the log.",
            holds=fates(f"{by('az1-m2')} OR {by('az1-m3')}", "kept", "unknown_kept", at_least=2),
        ),
        _RECOVERS,
        _NOTHING_LOST,
    ),
    expected=(_DUPLICATES,),
    faults=("cut az1 <-> az2",),
    outcome="nothing lost, but acks=all is impossible until the heal; the 'failed' write is there twice",
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
            says="The follower that does not replicate is removed from the ISR.",
            holds=state(TOPIC, leader=1, isr=(1, 3), epoch=0, until=mark("before-heal")),
        ),
        Claim(
            name="acks-all-works-again",
            section="000 §1",
            says="Clients in az1 can produce again, with acks=all.",
            holds=outcomes(f"{by('az1-m2')} AND {between('shrunk', 'before-heal')}", "ok"),
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
