"""Article 001, scenario 2: the leader is cut from all followers, and all of them see ZooKeeper.

The outcome depends on where the controller is, and on inter.broker.protocol.version: there are three cases.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from run.scenario import Claim, Either, Erratum, Scenario
from run.stage import Stage
from scenarios.article001.long_isolation import FETCHED_LATER
from scenarios.steps import (
    one_or_two_in_sync,
    seed,
    settle,
    shrinking_to,
    updated_to,
    wait_isr_committed,
    wait_log,
)

ONE, TWO = "t", "m"
"""Topics with min.insync.replicas 1 and 2."""
TOPICS = (ONE, TWO)


def shrinking(stage: Stage) -> None:
    """Cut the leader from all followers, let a write wait for the smaller ISR, write on, heal."""
    seed(stage, *TOPICS)
    waiting = stage.producer(
        "az1", "az1-waiting", "broker1", acks=-1, request_timeout_s=stage.timings.shrink_s
    )
    with stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3"):
        stage.mark("cut", "the leader sees ZooKeeper, but none of its followers")
        started = [waiting.send_later(topic, "w") for topic in TOPICS]
        for topic in TOPICS:
            stage.wait_for_isr(topic, 1, within_s=stage.timings.shrink_s)
            wait_isr_committed(stage, "broker1", topic, (1,))
        stage.mark("shrunk", "the leader is alone in the ISR")
        one = stage.producer("az1", "az1-acks1", "broker1", acks=1)
        all_ = stage.producer("az1", "az1-after", "broker1", acks=-1)
        for topic in TOPICS:
            one.send(topic, "k")
        for sent in started:
            sent.result(timeout=stage.timings.shrink_s + 10)
        for topic in TOPICS:
            all_.send(topic, "x")
        for topic in TOPICS:
            stage.read("az1", topic, "broker1")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    settle(stage)


def stuck(stage: Stage) -> None:
    """Cut the leader from all followers, one of which is the controller; write; heal."""
    seed(stage, *TOPICS)
    with stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3"):
        stage.mark("cut", "the leader sees ZooKeeper, but neither a follower nor the controller")
        first = stage.producer("az1", "az1-waiting", "broker1", acks=-1)
        started = [first.send_later(topic, "w") for topic in TOPICS]
        for sent in started:
            sent.result(timeout=20)
        for topic in TOPICS:
            wait_log(stage, "broker1", f"[Partition {topic}-0 ", "Shrinking ISR")
        stage.mark("wanted", "the leader has asked for the smaller ISR; its controller cannot hear it")
        after = stage.producer("az1", "az1-after", "broker1", acks=-1)
        for topic in TOPICS:
            after.send(topic, "x")
        one = stage.producer("az1", "az1-acks1", "broker1", acks=1)
        for topic in TOPICS:
            one.send(topic, "k")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    for topic in TOPICS:
        wait_log(
            stage, "broker1", f"[Partition {topic}-0 ", "ISR updated", within_s=30 + stage.timings.recovery_s
        )
    settle(stage)


T = partition(ONE)
_WAITING, _AFTER = messages("az1-waiting", topic=ONE), messages("az1-after", topic=ONE)
_WAITING_TWO, _AFTER_TWO = messages("az1-waiting", topic=TWO), messages("az1-after", topic=TWO)
_SHRINKS = "The followers cannot fetch, so that the ISR shrinks to the leader alone."
_SHRINKS_QUOTE = "由于follower不能发送fetch请求,因此ISR将会缩减到只剩leader"
_REDUNDANCY_QUOTE = "仅仅是在网络分区问题解决前对于新数据丧失了数据冗余的保护"
_NO_SPLIT = Claim(
    name="no-split-brain",
    section="001 scenario 2",
    quote="这也没有产生脑裂",
    says="There is no split brain: nobody else becomes leader, and ZooKeeper regards the leader as alive.",
    holds=both(
        T.stays(since="seeded", until="converged", what="leader, epoch"),
        broker(1).is_registered(at="before-heal"),
    ),
)
_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="001 scenario 2",
    quote=_REDUNDANCY_QUOTE,
    says="Only redundancy is lost while the cut lasts; nothing that was acknowledged is.",
    holds=messages().none_lost(at_risk_after="cut", at_least=2),
)
_SHRUNK = Claim(
    name="isr-shrinks",
    section="001 scenario 2",
    quote=_SHRINKS_QUOTE,
    says=_SHRINKS,
    holds=T.is_led_by(1, isr=(1,), epoch=0, at="before-heal"),
)
_WRITES_GO_ON = Claim(
    name="writes-go-on",
    section="001 scenario 2",
    quote=_REDUNDANCY_QUOTE,
    says="With min.insync.replicas=1 the leader goes on alone, acks=all included.",
    holds=_AFTER.acknowledged(),
)
_WAITING_COMPLETES = Claim(
    name="waiting-write-completes",
    section="beyond 001 scenario 2",
    says="The acks=all write that was waiting is acknowledged.",
    holds=_WAITING.acknowledged(),
)
_WAITING_FAILS = (
    Claim(
        name="waiting-write-fails",
        section="beyond 001 scenario 2",
        says="With min.insync.replicas=2 it fails with error 20 (NOT_ENOUGH_REPLICAS_AFTER_APPEND), yet it is kept.",
        holds=both(_WAITING_TWO.refused_with(20), _WAITING_TWO.became("unknown_kept")),
        before="3.7.0",
    ),
    Claim(
        name="waiting-write-times-out",
        section="beyond 001 scenario 2",
        says="With min.insync.replicas=2 it times out (error 7), yet it is kept: the high watermark no longer advances "
        "while the ISR is smaller than min.insync.replicas (KAFKA-15583).",
        holds=both(
            _WAITING_TWO.refused_with(7),
            _WAITING_TWO.became("unknown_kept"),
            partition(TWO).consumers_see_nothing_from(2, since="cut", until="before-heal"),
        ),
        since="3.7.0",
    ),
)
_REFUSED = Claim(
    name="min-insync-refuses",
    section="001 conclusion",
    quote="可以有效避免即使在设置acks=all,但ISR已经退化为leader的情况下发生网络分区,单个leader仍然可以继续写入数据的问题",
    says="With min.insync.replicas=2 the leader alone refuses further acks=all writes (error 19).",
    holds=_AFTER_TWO.refused_with(19),
)
_ABSENT = Claim(
    name="refused-absent",
    section="beyond 001 scenario 2",
    says="A write that was refused was not appended.",
    holds=_AFTER_TWO.became("failed"),
)
_RECOVERS = Claim(
    name="recovers",
    section="001 scenario 2",
    quote="在赶上leader的数据后将被重新加入到ISR中",
    says="After the heal the followers catch up and join the ISR again.",
    holds=both(
        T.is_led_by(1, isr=(1, 2, 3), epoch=0, at="converged"), messages("az1-acks1").kept(at_least=2)
    ),
)


def _late_shrink(isr: str) -> str:
    return both(
        broker(1).logged("isr_shrinking", of=T, after="cut", before="before-heal", where=shrinking_to(isr)),
        broker(1).logged("isr_updated", of=T, after="before-heal", where=updated_to(isr)),
    )


def _setup(controller: str, broker_config: Mapping[str, str]) -> Setup:
    return Setup(
        topics=one_or_two_in_sync(ONE, TWO),
        controller=controller,
        zookeeper_leader="zookeeper2",
        quorum="one node",
        broker_config=broker_config,
    )


_FAULT = "cut broker1 <-> broker2, broker1 <-> broker3"
OWN_CONTROLLER = Scenario(
    name="leader-cut-from-followers",
    title="The leader, which is the controller, is cut from all followers",
    article="001",
    section="2",
    body=shrinking,
    setup=_setup("broker1", {}),
    claims=(
        _SHRUNK,
        _NO_SPLIT,
        _WRITES_GO_ON,
        _WAITING_COMPLETES,
        *_WAITING_FAILS,
        _REFUSED,
        _ABSENT,
        _RECOVERS,
        _NOTHING_LOST,
    ),
    faults=(_FAULT,),
    outcome="nothing lost; the ISR shrinks to the leader, min.insync.replicas=2 refuses",
)

FOREIGN_CONTROLLER = Scenario(
    name="leader-cut-from-followers-stuck",
    title="The leader is cut from all followers, one of which is the controller",
    article="001",
    section="2b",
    body=stuck,
    setup=_setup("broker2", {}),
    claims=(
        Claim(
            name="isr-shrinks",
            section="001 scenario 2",
            quote=_SHRINKS_QUOTE,
            says=_SHRINKS,
            holds=T.has_isr(1, at="before-heal"),
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
            name="acks-all-fails",
            section="beyond 001 scenario 2",
            says="Every acks=all write fails with error 7; min.insync.replicas=2 is never enforced (no error 19).",
            holds=messages(("az1-waiting", "az1-after")).refused_with(7, at_least=4),
        ),
        Claim(
            name="acks-1-accepted",
            section="beyond 001 scenario 2",
            says="acks=1 is acknowledged, and kept.",
            holds=messages("az1-acks1").kept(at_least=2),
        ),
        Claim(
            name="late-shrink",
            section="beyond 001 scenario 2",
            says="The stale shrink to the leader alone is delivered after the heal: the ISR shrinks before it is full again.",
            holds=_late_shrink("1"),
            either=Either(
                says="The leader wanted to remove one follower only, and after the heal the ISR shrinks by that one.",
                because=f"it asks once, and {FETCHED_LATER}",
                holds=_late_shrink("1,[23]"),
            ),
        ),
        _NO_SPLIT,
        _RECOVERS,
        _NOTHING_LOST,
    ),
    faults=(_FAULT,),
    outcome="nothing lost, but acks=all is impossible until the heal",
)

BEFORE = Scenario(
    name="leader-cut-from-followers-ibp26",
    title="The same under inter.broker.protocol.version 2.6: the article is right",
    article="001",
    section="2b (IBP 2.6)",
    body=shrinking,
    setup=_setup("broker2", {"inter.broker.protocol.version": "2.6"}),
    claims=(
        _SHRUNK,
        _NO_SPLIT,
        _WRITES_GO_ON,
        _WAITING_COMPLETES,
        *_WAITING_FAILS,
        _REFUSED,
        _ABSENT,
        _RECOVERS,
        _NOTHING_LOST,
    ),
    faults=(_FAULT,),
    outcome="nothing lost; the ISR shrinks to the leader, min.insync.replicas=2 refuses",
)

SCENARIOS = (OWN_CONTROLLER, FOREIGN_CONTROLLER, BEFORE)
