"""Article 001, fourth cause of loss, in KRaft: the last in-sync replica comes back without its data.

With eligible leader replicas (KIP-966) the controller remembers which other replicas hold everything
committed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from harness.errors import InvalidRunError, WaitTimeoutError
from harness.kafka.model import Topic
from harness.waiting import wait_until
from nemesis.fault import Action, Evidence
from nemesis.processes.killing import Ending
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import note_eligible, require, seed

TOPIC = "precious"
LAST, MEMBER, THIRD = "broker1", "broker2", "broker3"
ELR = "eligible.leader.replicas.version"


def _body(how: Ending) -> Callable[[Stage], None]:
    def body(stage: Stage) -> None:
        """Followers stop one by one; the last replica dies and loses its disk; it comes back first, then the others."""
        seed(stage, TOPIC, leader=LAST, labels=("w0",))
        writer = stage.producer("az1", "az1-acks-all", LAST, acks=-1)
        stage.nemesis.stop(THIRD)
        stage.wait_for_isr(TOPIC, 1, 2)
        writer.send(TOPIC, "w1")
        stage.wait_replicated(TOPIC)
        stage.mark("two-left", "w0 and w1 are acknowledged with acks=all and stand on broker1 and broker2")
        (stage.nemesis.stop if how == "stop" else stage.nemesis.kill)(MEMBER)
        stage.wait_for_isr(TOPIC, 1)
        writer.send(TOPIC, "w2")
        stage.producer("az1", "az1-acks1", LAST, acks=1).send(TOPIC, "z3")
        note_eligible(stage, LAST, TOPIC, "one-left")
        stage.nemesis.kill(LAST)
        _wipe(stage, LAST)
        stage.mark("wiped", f"{LAST} is down, and its copy of {TOPIC} is gone")
        stage.restart(LAST)
        _settle(stage)
        note_eligible(stage, LAST, TOPIC, "back-empty")
        stage.restart(MEMBER)
        stage.wait_for_leader(TOPIC, on=_winner(stage), within_s=stage.timings.converge_s)
        stage.restart(THIRD)
        stage.wait_converged(TOPIC, within_s=stage.timings.converge_s)
        stage.mark("converged", "all replicas hold the same log and are in sync")

    return body


def _wipe(stage: Stage, broker: str) -> None:
    folder = stage.lab.data_dir(broker) / "data" / f"{TOPIC}-0"
    require(folder.is_dir(), f"{folder.name} lies in the data folder of {broker}")

    def verify() -> Evidence:
        if folder.exists():
            raise InvalidRunError(f"{folder} is still there after it was wiped.")
        return {"gone": folder.name}

    act = Action(
        f"wipe {TOPIC} on {broker}",
        kind="storage",
        mechanism="wipe",
        targets={"hosts": [broker], "partitions": [f"{TOPIC}/0"]},
        act=lambda: shutil.rmtree(folder),
        verify=verify,
    )
    stage.nemesis.add(act).inject()


def _settle(stage: Stage) -> None:
    """Give the controller time to elect the empty replica."""
    try:
        stage.wait_for_leader(TOPIC, on=LAST, within_s=5.0)
    except WaitTimeoutError:
        return


def _winner(stage: Stage) -> str:
    """The leader once the member is back: Kafka decides, and the claims judge."""
    state = wait_until(
        lambda: stage.cluster.partition(TOPIC),
        accept=lambda stated: stated is not None and stated.leader > 0,
        within_s=stage.timings.converge_s,
        awaiting=f"a leader of {TOPIC}",
        abort=stage.cluster.check_alive,
    )
    assert state is not None
    return f"broker{state.leader}"


T = partition(TOPIC)
_COMMITTED, _ALONE = messages(acks=-1), messages("az1-acks1")
# Not epoch 0: while a restarted broker replays the metadata log, it logs its leadership of the time before it
# died.
_LED_EMPTY = broker(1).logged(
    "became_leader", of=T, after="wiped", before="converged", where="offset = 0 AND epoch > 0"
)
_NEVER_LED = broker(1).never_logged(
    "became_leader", of=T, after="wiped", before="converged", where="epoch > 0"
)


def _claims(protected: bool) -> tuple[Claim, ...]:
    """With ``protected``, from 4.1.0 on eligible leader replicas keep what was committed."""

    def cure(says: str, holds: str) -> Erratum | None:
        because = "eligible leader replicas (KIP-966, on by default in a new cluster from 4.1)"
        return Erratum(says=says, because=because, holds=holds, since="4.1.0") if protected else None

    return (
        Claim(
            name="refused-alone",
            section="001 conclusion",
            quote="在ISR退化到只有leader的时候不能再写入数据,可用性降低",
            says="With one replica left, acks=all is refused under min.insync.replicas=2 (w2).",
            holds=messages("az1-acks-all", label="w2").refused_with(19),
        ),
        Claim(
            name="empty-leads",
            section="001 loss cause 4",
            quote="leader发生了不可修复的磁盘故障导致,leader上的数据丢失,在空数据恢复leader",
            says="The replica that was last in sync leads, although it came back empty.",
            holds=both(T.is_led_by(1, at="converged"), _LED_EMPTY),
            erratum=cure(
                "It does not; a replica that holds all that was committed leads.",
                both(T.is_led_by(2, at="converged"), _NEVER_LED),
            ),
        ),
        Claim(
            name="committed-lost",
            section="001 loss cause 4",
            quote="在空数据恢复leader后会最终导致整个topic的数据丢失",
            says="At the end the whole topic is lost, including what two replicas acknowledged with acks=all (w0, w1).",
            holds=_COMMITTED.acknowledged_then_lost(at_least=2),
            erratum=cure(
                "Nothing that was acknowledged with acks=all is lost.",
                _COMMITTED.none_lost(at_risk_after="seeded"),
            ),
        ),
        Claim(
            name="acks1-lost",
            section="001 loss cause 4",
            quote="在空数据恢复leader后会最终导致整个topic的数据丢失",
            says="What the last replica acknowledged alone, with acks=1, is lost in any case (z3).",
            holds=_ALONE.acknowledged_then_lost(),
        ),
    )


def _scenario(
    name: str,
    title: str,
    *,
    how: Ending = "stop",
    features: dict[str, str] | None = None,
    protected: bool,
    versions: tuple[str, ...],
    outcome: str,
) -> Scenario:
    lost = "fell with the only copy that was still in sync"
    return Scenario(
        name=name,
        title=title,
        article="001",
        section="cause 4 in KRaft",
        body=_body(how),
        setup=Setup(
            topics=(Topic(TOPIC, (1, 2, 3), config={"min.insync.replicas": "2"}),),
            controller="broker2",
            quorum="one node",
            format_features=features or {},
            stream_rate=0.0,
        ),
        claims=_claims(protected),
        expected=(
            Expected("lost", _ALONE.where, lost),
            Expected("lost", _COMMITTED.where, lost, before="4.1.0" if protected else ""),
        ),
        faults=(f"{how} followers", f"kill {LAST}", f"wipe {TOPIC} on {LAST}"),
        kafka=versions[-1],
        mode="kraft",
        outcome=outcome,
        versions=versions,
    )


SCENARIOS = (
    _scenario(
        "kraft-last-replica-wiped",
        "KRaft: the last in-sync replica dies and comes back without its data",
        protected=True,
        versions=("3.9.1", "4.1.0", "4.3.1"),
        outcome="3.9.1 loses what was committed; 4.1.0 and later keep it (eligible leader replicas)",
    ),
    _scenario(
        "kraft-last-replica-wiped-no-elr",
        "KRaft: the same with eligible leader replicas switched off",
        features={ELR: "0"},
        protected=False,
        versions=("4.1.0", "4.3.1"),
        outcome="what was committed is lost, in 4.x too",
    ),
    _scenario(
        "kraft-last-replica-wiped-elr-killed",
        "KRaft: the same, but the eligible replica was killed instead of stopped",
        how="kill",
        protected=False,
        versions=("4.1.0", "4.3.1"),
        outcome="what was committed is lost in spite of eligible leader replicas: an unclean end voids them",
    ),
)
