"""Article 001, scenario 3: a follower reaches the leader, but not ZooKeeper."""

from __future__ import annotations

from checkers.claims.former import (
    by,
    condition,
    equals,
    mark,
    none_lost,
    outcomes,
    seen_by,
    state,
    truth,
    unchanged,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Scenario
from scenarios.steps import seed, settle, wait_log

TOPIC = "t"


def body(stage: Stage) -> None:
    """Cut broker3 from ZooKeeper, first for a moment, then past its session; write all the time; heal."""
    seed(stage, TOPIC)
    writer = stage.writer("az1", "az1-acks-all", "broker1", acks=-1)
    with stage.nemesis.without_zookeeper("broker3"):
        stage.mark("blink", "broker3 has lost ZooKeeper for a moment")
        writer.must_send(TOPIC, "m1")
    stage.mark("blinked", "and has it back within its session")
    stage.wait_replicated(TOPIC)
    stage.mark("unharmed")

    with stage.nemesis.without_zookeeper("broker3"):
        stage.mark("cut", "broker3 has lost ZooKeeper for good; it still reaches the leader")
        stage.wait_for_isr(TOPIC, 1, 2)
        wait_log(stage, "broker3", "has an older epoch (0) than the current leader", "t-0", within_s=10)
        stage.mark("fenced", "broker3 has stopped fetching")
        for label in ("m2", "m3"):
            writer.must_send(TOPIC, label)
        stage.mark("before-heal")

    stage.mark("healed", "broker3 reaches ZooKeeper again")
    settle(stage)


CLAIMS = (
    Claim(
        name="blink-harmless",
        section="beyond 001 scenario 3",
        says="A cut shorter than the session changes nothing.",
        holds=unchanged(TOPIC, since=mark("seeded"), until=mark("unharmed"), columns="leader, epoch, isr"),
    ),
    Claim(
        name="stays-in-isr",
        section="001 scenario 3",
        says="The follower can still fetch from the leader and stays in the ISR.",
        holds=state(TOPIC, isr=(1, 2, 3), until=mark("before-heal")),
        erratum=Erratum(
            says="It leaves the ISR when its session ends, and the leader epoch rises.",
            because="the controller removes a broker that is gone from /brokers/ids from every ISR",
            holds=state(TOPIC, leader=1, isr=(1, 2), epoch=1, until=mark("before-heal")),
        ),
    ),
    Claim(
        name="keeps-fetching",
        section="001 scenario 3",
        says="It goes on fetching.",
        holds=equals(
            f"(SELECT count(*) FROM sightings s JOIN life m ON s.writer = m.writer AND s.seq = m.seq "
            f"WHERE s.topic = '{TOPIC}' AND s.broker = 3 AND m.label IN ('m2', 'm3') "
            f"AND s.seen_ns <= {mark('before-heal')})",
            "2",
            "later messages on broker3:",
        ),
        erratum=Erratum(
            says="It is fenced with its old leader epoch and stops fetching: its log stands still.",
            because="from inter.broker.protocol.version 2.1 on FETCH names the leader epoch (KIP-320), and "
            "broker3 is not told the new one",
            holds=equals(
                f"(SELECT count(*) FROM sightings s JOIN life m ON s.writer = m.writer AND s.seq = m.seq "
                f"WHERE s.topic = '{TOPIC}' AND s.broker = 3 AND m.label IN ('m2', 'm3') "
                f"AND s.seen_ns <= {mark('before-heal')})",
                "0",
                "later messages on broker3:",
            ),
        ),
    ),
    Claim(
        name="no-action",
        section="001 scenario 3",
        says="ZooKeeper takes it for dead; since it is only a follower, nobody else becomes leader.",
        holds=condition(
            f"{truth('leader', TOPIC, until=mark('converged'))} = 1",
            f"concat('leader broker', {truth('leader', TOPIC, until=mark('converged'))})",
        ),
    ),
    Claim(
        name="stale-metadata",
        section="beyond 001 scenario 3",
        says="broker3 itself still names all three as in sync.",
        holds=seen_by(3, TOPIC, until=mark("before-heal"), leader=1, isr=(1, 2, 3)),
    ),
    Claim(
        name="writes-unaffected",
        section="001 conclusion",
        says="acks=all goes on working.",
        holds=outcomes(by("az1-acks-all"), "ok", at_least=3),
    ),
    Claim(
        name="rejoins",
        section="beyond 001 scenario 3",
        says="After the heal it registers again, replicates and joins the ISR, without a new epoch.",
        holds=state(TOPIC, leader=1, isr=(1, 2, 3), epoch=1, until=mark("converged")),
    ),
    Claim(
        name="nothing-lost",
        section="001 conclusion",
        says="Partitions that affect followers lose no data.",
        holds=none_lost("outcome = 'ok'", at_least=5),
    ),
)

SCENARIO = Scenario(
    name="follower-without-zookeeper",
    title="A follower reaches the leader, but not ZooKeeper",
    article="001",
    section="3",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        # So long that the blink is shorter, also on a busy machine.
        broker_config={"zookeeper.session.timeout.ms": "8000", "replica.lag.time.max.ms": "15000"},
    ),
    claims=CLAIMS,
    faults=("broker3 without zookeeper",),
    outcome="nothing lost; the follower is fenced and stops fetching until it reaches ZooKeeper again",
)
