"""Article 001, scenario 2: the leader is cut from all followers, and all of them see ZooKeeper.

What follows depends on where the controller is, and on inter.broker.protocol.version: three cases.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.claims.former import (
    by,
    errors,
    fates,
    logged,
    mark,
    none_lost,
    outcomes,
    state,
    unchanged,
)
from harness.cluster.setup import Setup
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Scenario
from scenarios.steps import SHRINK_S, one_or_two_in_sync, seed, settle, wait_isr_committed, wait_log

ONE, TWO = "t", "m"
"""Topics with min.insync.replicas 1 and 2."""
TOPICS = (ONE, TWO)


def shrinking(stage: Stage) -> None:
    """Cut, let one write wait for the smaller ISR, write on, heal."""
    seed(stage, *TOPICS)
    waiting = stage.writer("az1", "az1-waiting", "broker1", acks=-1, request_timeout_s=20)
    with stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3"):
        stage.mark("cut", "the leader sees ZooKeeper, but none of its followers")
        started = [waiting.send_later(topic, "w") for topic in TOPICS]
        for topic in TOPICS:
            stage.wait_for_isr(topic, 1, within_s=SHRINK_S)
            wait_isr_committed(stage, "broker1", topic, (1,))
        stage.mark("shrunk", "the leader is alone in the ISR")
        one = stage.writer("az1", "az1-acks1", "broker1", acks=1)
        all_ = stage.writer("az1", "az1-after", "broker1", acks=-1)
        for topic in TOPICS:
            one.must_send(topic, "k")
        for sent in started:
            sent.result(timeout=30)
        for topic in TOPICS:
            all_.send(topic, "x")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    settle(stage)


def stuck(stage: Stage) -> None:
    """Cut, and see that with the controller on a follower nothing helps before the heal."""
    seed(stage, *TOPICS)
    with stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3"):
        stage.mark("cut", "the leader sees ZooKeeper, but no follower, and not the controller either")
        first = stage.writer("az1", "az1-waiting", "broker1", acks=-1)
        started = [first.send_later(topic, "w") for topic in TOPICS]
        for sent in started:
            sent.result(timeout=20)
        for topic in TOPICS:
            wait_log(stage, "broker1", f"[Partition {topic}-0 ", "Shrinking ISR")
        stage.mark("wanted", "the leader has asked for the smaller ISR; its controller cannot hear it")
        after = stage.writer("az1", "az1-after", "broker1", acks=-1)
        for topic in TOPICS:
            after.send(topic, "x")
        one = stage.writer("az1", "az1-acks1", "broker1", acks=1)
        for topic in TOPICS:
            one.must_send(topic, "k")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    for topic in TOPICS:
        wait_log(stage, "broker1", f"[Partition {topic}-0 ", "ISR updated", within_s=30)
    settle(stage)


_SHRINKS = "The followers cannot fetch, so that the ISR shrinks to the leader alone."
_NO_SPLIT = Claim(
    name="no-split-brain",
    section="001 scenario 2",
    says="There is no split brain: nobody else becomes leader.",
    holds=unchanged(ONE, since=mark("seeded"), until=mark("converged"), columns="leader, epoch"),
)
_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="001 scenario 2",
    says="Redundancy is gone while the cut lasts; nothing that was acknowledged is lost.",
    holds=none_lost("outcome = 'ok'", at_least=6),
)
_SHRUNK = Claim(
    name="isr-shrinks",
    section="001 scenario 2",
    says=_SHRINKS,
    holds=state(ONE, leader=1, isr=(1,), epoch=0, until=mark("shrunk")),
)
_WRITES_GO_ON = Claim(
    name="writes-go-on",
    section="001 scenario 2",
    says="With min.insync.replicas=1 the leader goes on alone, acks=all included.",
    holds=outcomes(by("az1-after", topic=ONE), "ok"),
)
_WAITING_COMPLETES = Claim(
    name="waiting-write-completes",
    section="beyond 001 scenario 2",
    says="The acks=all write that was waiting is acknowledged.",
    holds=outcomes(by("az1-waiting", topic=ONE), "ok"),
)
_WAITING_FAILS = Claim(
    name="waiting-write-fails",
    section="beyond 001 scenario 2",
    says="With min.insync.replicas=2 it fails with error 20 (NOT_ENOUGH_REPLICAS_AFTER_APPEND), yet it is kept.",
    holds=errors(by("az1-waiting", topic=TWO), 20),
)
_REFUSED = Claim(
    name="min-insync-refuses",
    section="001 conclusion",
    says="With min.insync.replicas=2 further acks=all writes are refused (error 19), nothing is appended.",
    holds=errors(by("az1-after", topic=TWO), 19),
)
_ABSENT = Claim(
    name="refused-absent",
    section="beyond 001 scenario 2",
    says="A refused write is absent, the one that failed after it was appended is kept.",
    holds=(
        f"SELECT count_if({by('az1-after', topic=TWO)} AND fate = 'failed') = 1 AND "
        f"count_if({by('az1-waiting', topic=TWO)} AND fate = 'unknown_kept') = 1 AS holds, "
        f"concat_ws(', ', sort_array(collect_list(concat(writer_name, ': ', fate)))) AS observed "
        f"FROM life WHERE topic = '{TWO}' AND writer_name IN ('az1-after', 'az1-waiting')"
    ),
)
_RECOVERS = Claim(
    name="recovers",
    section="001 scenario 2",
    says="After the heal the followers catch up and join the ISR again.",
    holds=state(ONE, leader=1, isr=(1, 2, 3), epoch=0, until=mark("converged")),
)


def _setup(controller: str, broker_config: Mapping[str, str]) -> Setup:
    return Setup(
        topics=one_or_two_in_sync(ONE, TWO),
        controller=controller,
        zookeeper_leader="zookeeper2",
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
        _WAITING_FAILS,
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
            says=_SHRINKS,
            holds=state(ONE, isr=(1,), until=mark("before-heal")),
            erratum=Erratum(
                says="The ISR never shrinks, and the leader is never replaced, while the cut lasts.",
                because="KIP-497: from 2.7 on the leader asks the controller (AlterIsr), which it cannot reach",
                holds=unchanged(
                    ONE, since=mark("seeded"), until=mark("before-heal"), columns="leader, epoch, isr"
                ),
            ),
        ),
        Claim(
            name="acks-all-fails",
            section="beyond 001 scenario 2",
            says="Every acks=all write fails with error 7; min.insync.replicas=2 is never enforced (no error 19).",
            holds=errors("writer_name IN ('az1-waiting', 'az1-after')", 7, at_least=4),
        ),
        Claim(
            name="acks-1-accepted",
            section="beyond 001 scenario 2",
            says="acks=1 is acknowledged, and kept.",
            holds=fates(by("az1-acks1"), "kept", at_least=2),
        ),
        Claim(
            name="late-shrink",
            section="beyond 001 scenario 2",
            says="The stale shrink is delivered after the heal: the ISR dips once before it is full again.",
            holds=logged(
                "broker1",
                "isr_updated",
                topic=ONE,
                # It asks once: whether both followers lag by then or the first of them alone is a race.
                where=f"text RLIKE ' to 1(,[23])? and ' AND ns > {mark('before-heal')}",
                what="smaller ISR taken in after the heal",
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
        _WAITING_FAILS,
        _REFUSED,
        _ABSENT,
        _RECOVERS,
        _NOTHING_LOST,
    ),
    faults=(_FAULT,),
    outcome="nothing lost; the ISR shrinks to the leader, min.insync.replicas=2 refuses",
)

SCENARIOS = (OWN_CONTROLLER, FOREIGN_CONTROLLER, BEFORE)
