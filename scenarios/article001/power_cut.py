"""Article 001, fifth cause of loss: all replicas lose their power at once. With and without flushing."""

from __future__ import annotations

from collections.abc import Mapping

from checkers.claims.former import fates, mark, outcomes, state
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import require, seed, settle, wait_unregistered

TOPIC = "t"
BROKERS = ("broker1", "broker2", "broker3")


def body(stage: Stage) -> None:
    """Kill everything: nothing is lost. Write, cut the power of everything: that is another matter."""
    seed(stage, TOPIC, labels=("m1", "m2", "m3"))
    stage.kill(*BROKERS)
    stage.mark("killed", "all brokers were killed; the kernel still has what they wrote")
    wait_unregistered(stage, *BROKERS)
    for broker in BROKERS:
        stage.restart(broker)
    stage.wait_for_leader(TOPIC, on="broker1")
    settle(stage, TOPIC, mark="back")
    require(len(stage.own_log("broker1", TOPIC).records) >= 3, "the killed brokers still have their records")
    writer = stage.writer("az1", "az1-late", "broker1", acks=-1)
    for label in ("m4", "m5", "m6"):
        writer.must_send(TOPIC, label)
    stage.mark("written", "three more messages are acknowledged by three replicas")
    stage.nemesis.storage.power_cut(*BROKERS)
    stage.mark("dark", "all brokers have lost their power")
    wait_unregistered(stage, *BROKERS)
    for broker in BROKERS:
        stage.restart(broker)
    settle(stage, TOPIC)


_LATE = "writer_name = 'az1-late'"
_KILL_SAFE = Claim(
    name="kill-loses-nothing",
    section="beyond 001 loss cause 5",
    says="Killing all brokers at once loses nothing: written is not flushed, but the kernel has it.",
    holds=(
        f"SELECT count(DISTINCT s.broker) = 3 AND count(*) = 9 AS holds, concat(count(*), ' records on ', "
        f"count(DISTINCT s.broker), ' replicas after the restart') AS observed FROM sightings s "
        f"JOIN life m ON s.writer = m.writer AND s.seq = m.seq WHERE s.topic = '{TOPIC}' "
        f"AND m.writer_name = 'az1-seed' AND (s.gone_ns IS NULL OR s.gone_ns > {mark('written')})"
    ),
)
_ACKED = Claim(
    name="acknowledged-from-memory",
    section="001 loss cause 5",
    says="Data count as written once they are in memory: acks=all is answered with success.",
    holds=outcomes(_LATE, "ok", at_least=3),
)
_WHOLE = Claim(
    name="isr-complete",
    section="beyond 001 loss cause 5",
    says="Afterwards all replicas are in sync; no log says that anything is missing.",
    holds=state(TOPIC, isr=(1, 2, 3), until=mark("converged")),
)


def _setup(broker_config: Mapping[str, str]) -> Setup:
    return Setup(
        topics=(Topic(TOPIC, (1, 2, 3), config={"min.insync.replicas": "2"}),),
        controller="broker1",
        zookeeper_leader="zookeeper3",
        broker_config=broker_config,
        stream_rate=0.0,
        volatile_disks=BROKERS,
    )


UNFLUSHED = Scenario(
    name="power-cut",
    title="All replicas lose their power at once",
    article="001",
    section="cause 5",
    body=body,
    setup=_setup({}),
    claims=(
        _KILL_SAFE,
        _ACKED,
        Claim(
            name="lost",
            section="001 loss cause 5",
            says="When all replicas fail at the same time what was not on disk is lost.",
            holds=fates(_LATE, "lost", "lost_after_read", "overwritten", at_least=3),
        ),
        _WHOLE,
    ),
    expected=tuple(
        Expected(finding, "writer_name IN ('az1-late', 'az1-seed')", "it was in memory only, on all replicas")
        for finding in ("lost", "lost_after_read", "overwritten")
    ),
    faults=("kill all brokers", "power cut of all brokers"),
    outcome="what was acknowledged by three replicas is lost: none of them had flushed it",
)

FLUSHED = Scenario(
    name="power-cut-flushed",
    title="All replicas lose their power at once, with log.flush.interval.messages=1",
    article="001",
    section="cause 5 flushed",
    body=body,
    setup=_setup({"log.flush.interval.messages": "1"}),
    claims=(
        _KILL_SAFE,
        _ACKED,
        Claim(
            name="kept",
            section="beyond 001 loss cause 5",
            says="A broker that flushes before it answers keeps everything.",
            holds=fates(f"({_LATE} OR writer_name = 'az1-seed') AND outcome = 'ok'", "kept", at_least=6),
        ),
        _WHOLE,
    ),
    faults=("kill all brokers", "power cut of all brokers"),
    outcome="nothing is lost: every message was flushed before it was acknowledged",
)

SCENARIOS = (UNFLUSHED, FLUSHED)
