"""Article 000, section 4.2: controller and leader are the same broker, and its AZ is isolated."""

from __future__ import annotations

from checkers.claims.former import (
    after,
    by,
    condition,
    controller,
    fates,
    logged,
    mark,
    none_lost,
    outcomes,
    rise,
    seen_by,
    state,
    truth,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.article000.controller_az_isolated import CONTROLLER_VIEW
from scenarios.steps import elect_preferred, pins, seed, settle, wait_for_controller

TOPIC = "t"
_OLD_SIDE = by("az1-acks1")
_BOTH = f"{_OLD_SIDE} AND outcome = 'ok' AND {after('cut')}"


def body(stage: Stage) -> None:
    """Isolate az1, write on both sides, heal, and give the old leader its role back."""
    seed(stage, TOPIC)
    old_side = stage.writer("az1", "az1-acks1", "broker1", acks=1)
    retrying = stage.writer("az1", "az1-retry", "broker1", via="librdkafka", retries=1).prepare(TOPIC)
    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1, with the controller and the leader in it, is alone")
        failing = retrying.send_later(TOPIC, "all")
        for label in ("c", "d", "e"):
            old_side.send(TOPIC, label)
        going_on = old_side.keep_writing(TOPIC, every_s=0.2)
        wait_for_controller(stage, not_on="broker1")
        stage.wait_for_leader(TOPIC, not_on="broker1")
        stage.mark("failover", "a new controller elected a new leader")
        stage.wait_until_serving(TOPIC, "broker3", az="az3")
        new_side = stage.writer("az3", "az3-acks-all", "broker3", acks=-1)
        for label in ("f", "g"):
            new_side.must_send(TOPIC, label)
        failing.result(timeout=20)
        stage.mark("split", "two controllers, two leaders")

    stage.mark("healed", "the links are back")
    going_on.wait_refused(within_s=20)
    settle(stage)
    elect_preferred(stage, TOPIC, "broker1")
    stage.mark("preferred", "the preferred leader leads again")


def _view(broker: int) -> str:
    return CONTROLLER_VIEW.format(broker=f"broker{broker}", until=mark("split"))


CLAIMS = (
    Claim(
        name="two-controllers",
        section="000 §4.2",
        says="Another broker becomes controller, and broker-0 takes itself for it too.",
        holds=condition(
            f"{controller(until=mark('split'))} IN (2, 3) AND {_view(1)} = 1 AND {_view(3)} IN (2, 3)",
            f"concat('ZooKeeper names broker', {controller(until=mark('split'))}, ', broker1 names broker', "
            f"{_view(1)}, ', broker3 names broker', {_view(3)})",
        ),
    ),
    Claim(
        name="new-leader",
        section="000 §4.2",
        says="replica-2 becomes leader.",
        holds=condition(
            f"{truth('leader', TOPIC, until=mark('split'))} = 3",
            f"concat('leader broker', {truth('leader', TOPIC, until=mark('split'))})",
        ),
    ),
    Claim(
        name="two-leaders",
        section="000 §4.2",
        says="The partition has two leaders: broker-0 has not heard of it.",
        holds=seen_by(1, TOPIC, until=mark("split"), leader=1, isr=(1, 2, 3)),
    ),
    Claim(
        name="epoch-rises-by-2",
        section="000 §3.2 figure",
        says="The leader epoch rises by 2: one for the replica that went offline, one for the election.",
        holds=rise(TOPIC, mark("cut"), mark("split"), 2),
    ),
    Claim(
        name="zombie-accepts",
        section="000 §4.2",
        says="Clients in az1 can go on producing to broker-0 (acks=1).",
        holds=outcomes(
            f"{_OLD_SIDE} AND sent_ns BETWEEN {mark('cut')} AND {mark('split')}", "ok", at_least=4
        ),
    ),
    Claim(
        name="data-inconsistent",
        section="000 §4.2",
        says="The situation is that of 3.2: data become inconsistent, what az1 wrote is lost.",
        holds=fates(_BOTH, "lost", "lost_after_read", at_least=3),
    ),
    Claim(
        name="acks-all-safe",
        section="000 §3.2",
        says="acks=-1 loses nothing that was acknowledged; in az1 it fails.",
        holds=none_lost("acks = -1 AND outcome = 'ok'", at_least=4),
    ),
    Claim(
        name="truncates",
        section="000 §4.2",
        says="broker-0 truncates by leader epoch and replicates from broker-2.",
        holds=logged("broker1", "truncated", topic=TOPIC, where=f"offset = 2 AND ns > {mark('cut')}"),
    ),
    Claim(
        name="resigns",
        section="000 §4.2",
        says="broker-0 gives up the controller's role after the heal.",
        holds=logged("broker1", "resigned", where=f"ns > {mark('cut')}"),
    ),
    Claim(
        name="rejoins",
        section="000 §4.2",
        says="It joins the ISR.",
        holds=state(TOPIC, leader=3, isr=(1, 2, 3), epoch=2, until=mark("converged")),
    ),
    Claim(
        name="preferred-epoch",
        section="000 §4.2",
        says="A preferred leader election makes it leader again; the leader epoch rises by 1 (to 3).",
        holds=state(TOPIC, leader=1, epoch=3),
    ),
)

SCENARIO = Scenario(
    name="controller-and-leader-isolated",
    title="Controller and leader are one broker, and its AZ is isolated",
    article="000",
    section="4.2",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 3, 2)),),
        controller="broker1",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "lost",
            f"{_OLD_SIDE} AND {after('cut')}",
            "acknowledged by the old leader alone, truncated when it rejoins",
        ),
    ),
    faults=("isolate az1",),
    outcome="every acks=1 write acknowledged in az1 after the cut is lost, nothing else",
)
