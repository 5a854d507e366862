"""Article 001, scenario 4: the leader reaches its followers, but not ZooKeeper. Also its third cause of loss."""

from __future__ import annotations

from checkers.claims.former import (
    after,
    by,
    errors,
    fates,
    logged,
    mark,
    none_lost,
    outcomes,
    seen_by,
    state,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from harness.waiting import wait_until
from scenarios.steps import seed, settle, wait_log

TOPIC = "t"
_ZOMBIE = by("az1-acks1")
_SINCE_MOVE = f"{_ZOMBIE} AND outcome = 'ok' AND {after('moved')}"


def zombie(stage: Stage) -> None:
    """Cut broker1 from ZooKeeper only; a client goes on writing to it until it learns better."""
    seed(stage, TOPIC)
    with stage.nemesis.without_zookeeper("broker1"):
        stage.mark("cut", "the leader has lost ZooKeeper; it still reaches its followers and clients")
        stage.writer("az1", "az1-early", "broker1", acks=-1).must_send(TOPIC, "early")
        going_on = stage.writer("az1", "az1-acks1", "broker1", acks=1).keep_writing(TOPIC, every_s=0.2)
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.wait_until_serving(TOPIC, "broker2")
        stage.mark("moved", "the followers have another leader; broker1 has not heard of it")
        stage.writer("az2", "az2-new-side", "broker2", acks=-1).must_send(TOPIC, "f")
        stage.writer("az1", "az1-late", "broker1", acks=-1).send(TOPIC, "late")
        # Past the point at which the leader wants to shrink its ISR, which it then cannot.
        wait_log(stage, "broker1", f"[Partition {TOPIC}-0 ", "Shrinking ISR")
        stage.mark("wanted", "broker1 wants to shrink its ISR to itself")
        taken = going_on.writes.progress().ok
        wait_until(
            lambda: going_on.writes.progress().ok,
            accept=lambda count: count >= taken + 6,  # the first may have been on its way at the mark
            within_s=10,
            awaiting="broker1 to take six more acks=1 writes",
        )
        stage.read("az1", TOPIC, "broker1")
        stage.mark("before-heal")

    stage.mark("healed", "broker1 reaches ZooKeeper again")
    going_on.wait_refused(within_s=20)
    settle(stage)


def hanging(stage: Stage) -> None:
    """The same under inter.broker.protocol.version 2.6, where the leader hangs in ZooKeeper with a lock held."""
    seed(stage, TOPIC)
    patient = stage.writer("az1", "az1-patient", "broker1", acks=1, request_timeout_s=40)
    with stage.nemesis.without_zookeeper("broker1"):
        stage.mark("cut", "the leader has lost ZooKeeper; it still reaches its followers and clients")
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.wait_until_serving(TOPIC, "broker2")
        stage.mark("moved", "the followers have another leader; broker1 has not heard of it")
        stage.writer("az2", "az2-new-side", "broker2", acks=-1).must_send(TOPIC, "f")
        before = stage.writer("az1", "az1-acks1", "broker1", acks=1)
        before.must_send(TOPIC, "z1")
        wait_log(stage, "broker1", f"[Partition {TOPIC}-0 ", "Shrinking ISR")
        stage.mark("hung", "broker1 waits for ZooKeeper, and holds the partition's lock")
        blocked = patient.send_later(TOPIC, "blocked")
        stage.writer("az1", "az1-blocked-short", "broker1", acks=1, request_timeout_s=1).send(TOPIC, "short")
        stage.mark("before-heal")

    stage.mark("healed", "broker1 reaches ZooKeeper again")
    blocked.result(timeout=60)
    settle(stage)


_NEW_LEADER = Claim(
    name="new-leader",
    section="001 scenario 4",
    says="ZooKeeper marks the leader as failed; the controller elects a new one among the followers.",
    holds=state(TOPIC, leader=2, isr=(2, 3), epoch=1, until=mark("moved")),
)
_UNAWARE = Claim(
    name="old-leader-unaware",
    section="001 scenario 4",
    says="The old leader still takes itself for the leader.",
    holds=seen_by(1, TOPIC, until=mark("before-heal"), leader=1, isr=(1, 2, 3)),
)
_ACKS_ALL_SAFE = Claim(
    name="acks-all-safe",
    section="001 scenario 4",
    says="acks=all loses nothing that was acknowledged.",
    holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=3),
)
_EPOCH_TRUNCATION = Claim(
    name="truncates",
    section="001 scenario 4",
    says="After the heal the old leader truncates its log to the high watermark that the new leader had.",
    holds=logged("broker1", "truncated_to_hw", topic=TOPIC, where=f"ns > {mark('before-heal')}"),
    erratum=Erratum(
        says="It truncates to the end offset of its leader epoch, which the new leader tells it.",
        because="KIP-101: leader epochs replace the high watermark for truncation from 0.11 on",
        holds=logged("broker1", "truncated", topic=TOPIC, where=f"ns > {mark('before-heal')}"),
    ),
)
_REJOINS = Claim(
    name="rejoins",
    section="001 scenario 4",
    says="It follows the new leader and joins the ISR.",
    holds=state(TOPIC, leader=2, isr=(1, 2, 3), epoch=1, until=mark("converged")),
)
_LOST = Expected(
    "lost",
    f"{_ZOMBIE} AND {after('cut')}",
    "acknowledged by a leader that had lost its followers without knowing it",
)


def _setup(*, stream_rate: float = 50.0, **broker_config: str) -> Setup:
    return Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
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
        _UNAWARE,
        Claim(
            name="early-writes",
            section="beyond 001 scenario 4",
            says="Before the session ends acks=all works, and is kept.",
            holds=fates(by("az1-early"), "kept"),
        ),
        Claim(
            name="accepts-acks-1",
            section="001 scenario 4",
            says="The old leader takes acks=1 writes.",
            holds=outcomes(
                f"{_ZOMBIE} AND sent_ns < {mark('wanted')} AND {after('moved')}", "ok", at_least=3
            ),
        ),
        Claim(
            name="refuses-soon",
            section="001 scenario 4",
            says="It wants to shrink the ISR to itself; since it cannot tell ZooKeeper, it refuses all further "
            "writes from then on.",
            holds=outcomes(
                f"{_ZOMBIE} AND sent_ns BETWEEN {mark('wanted')} AND {mark('before-heal')}",
                "fail",
                at_least=5,
            ),
            erratum=Erratum(
                says="It takes acks=1 writes for as long as the cut lasts.",
                because="KIP-497: while AlterIsr is unanswered (the controller ignores it with "
                "STALE_BROKER_EPOCH) the old ISR stays in force, and nothing blocks",
                holds=outcomes(
                    f"{_ZOMBIE} AND sent_ns BETWEEN {mark('wanted')} AND {mark('before-heal')}",
                    "ok",
                    at_least=5,
                ),
            ),
        ),
        Claim(
            name="acks-all-fails",
            section="001 scenario 4",
            says="acks=all writes to it fail: the followers do not confirm.",
            holds=errors(by("az1-late"), 7),
        ),
        Claim(
            name="lost",
            section="001 scenario 4, loss cause 3",
            says="What the old leader acknowledged while there were two leaders is lost.",
            holds=fates(_SINCE_MOVE, "lost", "lost_after_read", at_least=5),
        ),
        _EPOCH_TRUNCATION,
        _REJOINS,
        _ACKS_ALL_SAFE,
    ),
    expected=(_LOST,),
    faults=("broker1 without zookeeper",),
    outcome="acks=1 writes that the old leader takes after the failover are lost, nothing else",
)

HANG = Scenario(
    name="leader-without-zookeeper-ibp26",
    title="The same under inter.broker.protocol.version 2.6: the old leader hangs",
    article="001",
    section="4 (IBP 2.6)",
    body=hanging,
    # One thread shrinks ISRs: it would hang on whichever partition of this leader comes first.
    setup=_setup(stream_rate=0.0, inter_broker_protocol_version="2.6"),
    claims=(
        _NEW_LEADER,
        _UNAWARE,
        Claim(
            name="refuses",
            section="001 scenario 4",
            says="It wants to shrink the ISR to itself; since it cannot tell ZooKeeper, it refuses all further "
            "writes from then on.",
            holds=outcomes(by("az1-blocked-short"), "fail"),
            erratum=Erratum(
                says="It does not refuse but hang: the client is told nothing.",
                because="it waits for ZooKeeper without limit, with the partition's lock held",
                holds=(
                    f"SELECT count(*) = 1 AND count_if(outcome = 'info' AND error < 0) = 1 AS holds, "
                    f"concat('outcome ', max(outcome), ', error ', max(error)) AS observed "
                    f"FROM life WHERE {by('az1-blocked-short')}"
                ),
            ),
        ),
        Claim(
            name="acknowledged-late-and-lost",
            section="beyond 001 scenario 4",
            says="A client that waits is answered with success after the heal, and the message is lost.",
            holds=fates(f"{by('az1-patient')} AND outcome = 'ok'", "lost", "lost_after_read"),
        ),
        Claim(
            name="lost",
            section="001 scenario 4, loss cause 3",
            says="What the old leader acknowledged while there were two leaders is lost.",
            holds=fates(_SINCE_MOVE, "lost", "lost_after_read"),
        ),
        _EPOCH_TRUNCATION,
        _REJOINS,
        _ACKS_ALL_SAFE,
    ),
    expected=(
        Expected(
            "lost",
            f"writer_name IN ('az1-acks1', 'az1-patient') AND {after('cut')}",
            "acknowledged by a leader that had lost its followers without knowing it",
        ),
    ),
    faults=("broker1 without zookeeper",),
    outcome="acks=1 writes that the old leader takes after the failover are lost, one of them acknowledged late",
)

SCENARIOS = (ZOMBIE, HANG)
