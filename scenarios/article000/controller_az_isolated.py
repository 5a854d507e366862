"""Article 000, section 4.1: the controller's AZ is isolated; the partition's leader is elsewhere."""

from __future__ import annotations

from checkers.claims.former import (
    by,
    condition,
    controller,
    logged,
    mark,
    none_lost,
    noted,
    outcomes,
    rise,
    state,
    unacknowledged,
    unchanged,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Scenario
from scenarios.steps import pins, seed, settle, try_create_topic, wait_for_controller

TOPIC = "t"
CONTROLLER_VIEW = (
    "(SELECT max_by(controller, ns) FROM views WHERE source = '{broker}' AND subject = 'controller' "
    "AND controller IS NOT NULL AND ns <= {until})"
)


def body(stage: Stage) -> None:
    """Isolate az3 with the controller in it, write and create topics on both sides, heal."""
    seed(stage, TOPIC)
    patient = stage.writer("az1", "az1-patient", "broker1", acks=-1, request_timeout_s=20)
    cut_off = stage.writer(
        "az3", "az3-cut-off", "broker3", via="librdkafka", retries=1, delivery_timeout_s=4
    ).prepare(TOPIC)
    with stage.nemesis.isolate("az3"):
        stage.mark("cut", "az3, where the controller is, can no longer reach az1 and az2")
        waiting = [patient.send_later(TOPIC, "m"), cut_off.send_later(TOPIC, "n")]
        new = wait_for_controller(stage, not_on="broker3")
        stage.mark("succession", "one of the others is controller; broker3 has not heard of it")
        stage.wait_for_isr(TOPIC, 1, 2)
        for sent in waiting:
            sent.result(timeout=30)
        stage.writer("az2", "az2-later", "broker1", acks=-1).must_send(TOPIC, "p")
        try_create_topic(stage, "broker3", "made-by-old", (1, 2), "create-by-old")
        try_create_topic(stage, f"broker{new}", "made-by-new", (1, 2), "create-by-new")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    settle(stage)


def _view(broker: int, until: str) -> str:
    return CONTROLLER_VIEW.format(broker=f"broker{broker}", until=mark(until))


CLAIMS = (
    Claim(
        name="new-controller",
        section="000 §4.1",
        says="broker-2 is disconnected from ZooKeeper; broker-0 and broker-1 compete to be controller.",
        holds=condition(
            f"{controller(until=mark('succession'))} IN (1, 2)",
            f"concat('controller broker', {controller(until=mark('succession'))}, ', ', "
            f"round(({mark('succession')} - {mark('cut')}) / 1e9, 1), ' s after the cut')",
        ),
    ),
    Claim(
        name="two-controllers",
        section="000 §4.1",
        says="broker-2 takes itself for the controller as well: there are two.",
        holds=condition(
            f"{_view(3, 'before-heal')} = 3 AND {_view(1, 'before-heal')} IN (1, 2)",
            f"concat('broker3 names broker', {_view(3, 'before-heal')}, ', broker1 names broker', "
            f"{_view(1, 'before-heal')})",
        ),
    ),
    Claim(
        name="az3-cannot-produce",
        section="000 §4.1",
        says="Clients in az3 cannot produce or consume.",
        holds=unacknowledged(by("az3-cut-off")),
    ),
    Claim(
        name="others-produce",
        section="000 §4.1",
        says="Clients in az1 and az2 can produce and consume normally.",
        holds=outcomes("writer_name IN ('az1-patient', 'az2-later')", "ok", at_least=2),
    ),
    Claim(
        name="isr-follows",
        section="beyond 000 §4.1",
        says="broker-2 leaves the ISR, under the same leader and a leader epoch one higher.",
        holds=state(TOPIC, leader=1, isr=(1, 2), epoch=1, until=mark("before-heal")),
    ),
    Claim(
        name="old-controller-powerless",
        section="beyond 000 §4.1",
        says="The old controller cannot act: a topic that is asked of it never comes to be.",
        holds=noted("create-by-old", "%no such topic"),
    ),
    Claim(
        name="new-controller-acts",
        section="beyond 000 §4.1",
        says="The new controller acts: a topic that is asked of it is made.",
        holds=noted("create-by-new", "%error 0; it exists"),
    ),
    Claim(
        name="resigns",
        section="000 §4.1",
        says="After the heal broker-2 notices its new session, resigns, and finds that it has a successor.",
        holds=logged("broker3", "resigned", where=f"ns > {mark('before-heal')}"),
    ),
    Claim(
        name="successor-stays",
        section="000 §4.1",
        says="It gives up competing: the successor stays controller.",
        holds=condition(
            f"{controller(until=mark('converged'))} = {controller(until=mark('succession'))}",
            f"concat('controller broker', {controller(until=mark('converged'))})",
        ),
    ),
    Claim(
        name="rejoins",
        section="000 §4.1",
        says="broker-2 replicates and joins the ISR again.",
        holds=state(TOPIC, leader=1, isr=(1, 2, 3), until=mark("converged")),
    ),
    Claim(
        name="one-epoch",
        section="beyond 000 §4.1",
        says="The heal raises no leader epoch.",
        holds=unchanged(TOPIC, since=mark("before-heal"), until=mark("converged"), columns="leader, epoch"),
        given=rise(TOPIC, mark("cut"), mark("before-heal"), 1),
    ),
    Claim(
        name="nothing-lost",
        section="000 §4.1",
        says="Nothing that was acknowledged is lost.",
        holds=none_lost("outcome = 'ok'", at_least=4),
    ),
)

SCENARIO = Scenario(
    name="controller-az-isolated",
    title="The controller's AZ is isolated; the leader is elsewhere",
    article="000",
    section="4.1",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker3",
        zookeeper_leader="zookeeper1",
        zookeeper_pins=pins(1, 2, to=(1, 2)),
    ),
    claims=CLAIMS,
    faults=("isolate az3",),
    outcome="two controllers for a while; nothing lost",
)
