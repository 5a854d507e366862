"""Article 000, section 3.1: the AZ of a follower is isolated; leader and controller are elsewhere."""

from __future__ import annotations

from checkers.claims.former import (
    by,
    condition,
    controller,
    copies_in,
    equals,
    mark,
    none_lost,
    outcomes,
    rise,
    seen_by,
    state,
    unacknowledged,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Expected, Scenario
from scenarios.steps import SESSION_S, pins, seed, settle

RETRIED, PATIENT, IDEMPOTENT = "t", "u", "v"
TOPICS = (RETRIED, PATIENT, IDEMPOTENT)


def body(stage: Stage) -> None:
    """Isolate az1, produce on both sides, wait for the ISR to follow, heal."""
    seed(stage, *TOPICS, leader="broker2")
    retrying = stage.writer(
        "az2", "az2-retry", via="librdkafka", retries=5, request_timeout_s=1, delivery_timeout_s=15
    ).prepare(RETRIED)
    idempotent = stage.writer(
        "az2",
        "az2-idempotent",
        via="librdkafka",
        retries=5,
        idempotent=True,
        request_timeout_s=1,
        delivery_timeout_s=15,
    ).prepare(IDEMPOTENT)
    patient = stage.writer("az2", "az2-patient", "broker2", acks=-1, request_timeout_s=15)
    cut_off = stage.writer(
        "az1", "az1-cut-off", "broker1", via="librdkafka", retries=1, delivery_timeout_s=4
    ).prepare(RETRIED)

    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 can no longer reach az2 and az3")
        waiting = [
            retrying.send_later(RETRIED, "m"),
            patient.send_later(PATIENT, "m"),
            idempotent.send_later(IDEMPOTENT, "m"),
            cut_off.send_later(RETRIED, "n"),
        ]
        for topic in TOPICS:
            stage.wait_for_isr(topic, 2, 3, within_s=SESSION_S)
        stage.mark("shrunk", "broker1's session has ended")
        for sent in waiting:
            sent.result(timeout=30)
        later = stage.writer("az3", "az3-later", "broker2", acks=-1)
        later.must_send(RETRIED, "p")
        stage.read("az3", RETRIED, "broker2")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    settle(stage)


CLAIMS = (
    Claim(
        name="controller-stays",
        section="000 §3",
        says="No controller election happens; the controller stays where it was.",
        holds=equals(controller(until=mark("before-heal")), "2", "controller is broker"),
    ),
    Claim(
        name="zookeeper-in-az1-down",
        section="000 §3",
        says="zk-0 has lost the majority: ZooKeeper in az1 is not available.",
        holds=condition(
            f"(SELECT max_by(error IS NOT NULL, ns) FROM views WHERE source = 'zookeeper1' AND "
            f"subject = 'reachable' AND ns <= {mark('before-heal')})",
            f"concat('zookeeper1: ', (SELECT coalesce(max_by(error, ns), 'answers') FROM views "
            f"WHERE source = 'zookeeper1' AND subject = 'reachable' AND ns <= {mark('before-heal')}))",
        ),
    ),
    Claim(
        name="stale-metadata",
        section="000 §3.1",
        says="broker-0's metadata are not updated: leader 1, ISR [1,0,2].",
        holds=seen_by(1, RETRIED, until=mark("before-heal"), leader=2, isr=(1, 2, 3)),
    ),
    Claim(
        name="az1-cannot-produce",
        section="000 §3.1",
        says="Clients in az1 cannot produce or consume.",
        holds=unacknowledged(by("az1-cut-off")),
    ),
    Claim(
        name="isr-follows",
        section="000 §3.1",
        says="broker-0 is found to be gone: ISR [1,0,2] becomes [1,2], the leader stays.",
        holds=state(RETRIED, leader=2, isr=(2, 3), until=mark("shrunk")),
    ),
    Claim(
        name="epoch-rises",
        section="beyond 000 §3.1",
        says="The leader epoch rises by 1 although the leader stays.",
        holds=rise(RETRIED, mark("cut"), mark("shrunk"), 1),
    ),
    Claim(
        name="others-produce",
        section="000 §3.1",
        says="Clients in az2 and az3 can produce and consume normally.",
        holds=outcomes("writer_name IN ('az2-retry', 'az2-patient', 'az2-idempotent', 'az3-later')", "ok"),
    ),
    Claim(
        name="retries-duplicate",
        section="beyond 000 §3.1",
        says="The acknowledged write of the retrying producer is in the log more than once.",
        holds=(
            f"SELECT min(copies) > 1 AS holds, concat(min(copies), ' copies') AS observed FROM "
            f"(SELECT count(DISTINCT c.offset) AS copies FROM (SELECT * FROM life WHERE {by('az2-retry')}) m "
            f"JOIN copies c ON c.writer = m.writer AND c.seq = m.seq)"
        ),
    ),
    Claim(
        name="patient-once",
        section="beyond 000 §3.1",
        says="A producer that waits longer than the session is answered with success, and has one copy.",
        holds=copies_in("copies", by("az2-patient"), 1),
    ),
    Claim(
        name="idempotent-once",
        section="beyond 000 §3.1",
        says="With enable.idempotence there is one copy.",
        holds=copies_in("copies", by("az2-idempotent"), 1),
    ),
    Claim(
        name="rejoins",
        section="000 §3",
        says="After the network recovers broker-0 joins the cluster and replicates.",
        holds=state(RETRIED, isr=(1, 2, 3), until=mark("converged")),
    ),
    Claim(
        name="nothing-lost",
        section="000 §3.1",
        says="Nothing that was acknowledged is lost.",
        holds=none_lost("outcome = 'ok'", at_least=6),
    ),
)

SCENARIO = Scenario(
    name="follower-az-isolated",
    title="A follower's AZ is isolated; leader and controller are elsewhere",
    article="000",
    section="3.1",
    body=body,
    setup=Setup(
        topics=tuple(Topic(name, (2, 1, 3)) for name in TOPICS),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        # Long enough for a second attempt before the session ends, also on a busy machine.
        broker_config={"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "12000"},
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "duplicated",
            by("az2-retry"),
            "its first attempts time out after they were appended, and all of them survive",
        ),
    ),
    faults=("isolate az1",),
    outcome="nothing lost; the retried write is there several times",
)
