"""Article 000, section 1: a follower's AZ and the leader's AZ no longer see each other."""

from __future__ import annotations

from checkers.claims.former import (
    after,
    by,
    condition,
    controller,
    copies_in,
    equals,
    errors,
    fates,
    mark,
    none_lost,
    readable,
    rise,
    state,
    truth,
    unchanged,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.run.stage import Stage
from harness.scenario import Claim, Erratum, Expected, Scenario
from scenarios.steps import SHRINK_S, pins, seed, settle, wait_isr_committed

TOPIC, IDEMPOTENT = "t", "i"


def body(stage: Stage) -> None:
    """Cut az1 from az2, produce with acks=all and one retry, see the ISR shrink, heal."""
    seed(stage, TOPIC, IDEMPOTENT)
    retrying = stage.writer("az1", "az1-retry", via="librdkafka", retries=1).prepare(TOPIC)
    idempotent = stage.writer(
        "az1", "az1-idempotent", via="librdkafka", retries=1, idempotent=True, delivery_timeout_s=5
    ).prepare(IDEMPOTENT)
    cut_off = stage.writer(
        "az2", "az2-retry", "broker2", via="librdkafka", retries=1, delivery_timeout_s=5
    ).prepare(TOPIC)

    with stage.nemesis.cut("az1 <-> az2"):
        stage.mark("cut", "az1 and az2 no longer see each other; az3 sees both")
        waiting = [
            retrying.send_later(TOPIC, "m1"),
            idempotent.send_later(IDEMPOTENT, "m1"),
            cut_off.send_later(TOPIC, "n1"),
        ]
        for sent in waiting:
            sent.result(timeout=20)
        stage.mark("refused", "the producers have given up")
        for topic in (TOPIC, IDEMPOTENT):
            stage.wait_for_isr(topic, 1, 3, within_s=SHRINK_S)
            wait_isr_committed(stage, "broker1", topic, (1, 3))
        stage.mark("shrunk", "broker2 has left the ISR")
        later = stage.writer("az1", "az1-later", "broker1", acks=-1)
        for topic in (TOPIC, IDEMPOTENT):
            later.must_send(topic, "m2")
        stage.read("az3", TOPIC, "broker1")
        stage.mark("before-heal")

    stage.mark("healed", "the links are back")
    settle(stage)


_FAILED = by("az1-retry")
CLAIMS = (
    Claim(
        name="leader-stays",
        section="000 §1",
        says="Leader and controller do not change.",
        holds=unchanged(TOPIC, since=mark("seeded"), until=mark("converged"), columns="leader, epoch"),
    ),
    Claim(
        name="controller-stays",
        section="000 §1",
        says="Leader and controller do not change (controller).",
        holds=equals(controller(until=mark("converged")), "3", "controller is broker"),
    ),
    Claim(
        name="cut-off-clients-stop",
        section="000 §1",
        says="Clients in az2 cannot produce: metadata names broker-0, which they cannot reach.",
        holds=fates(by("az2-retry"), "unknown_dropped", "failed"),
    ),
    Claim(
        name="acks-all-fails",
        section="000 §1",
        says="With acks=-1 and retries=1 producing fails with error_code 7 (REQUEST_TIMED_OUT).",
        holds=errors(_FAILED, 7),
    ),
    Claim(
        name="sent-twice",
        section="000 §1",
        says="It is sent twice (because of retries=1): broker-0 and broker-2 hold two copies each.",
        holds=copies_in(
            "sightings",
            _FAILED,
            2,
            on=f"broker = 1 AND seen_ns <= {mark('before-heal')}",
        ),
    ),
    Claim(
        name="absent-on-cut-follower",
        section="000 §1",
        says="broker-1 does not have the message.",
        holds=copies_in("sightings", _FAILED, 0, on=f"broker = 2 AND seen_ns <= {mark('before-heal')}"),
    ),
    Claim(
        name="leaves-the-isr",
        section="000 §1",
        says="Because broker-0 did not replicate, it is removed from the ISR, which becomes [2,0].",
        holds=condition(
            f"NOT array_contains({truth('isr', TOPIC, until=mark('shrunk'))}, 1)",
            f"concat('ISR ', cast({truth('isr', TOPIC, until=mark('shrunk'))} AS string))",
        ),
        erratum=Erratum(
            says="broker-1 is the one that leaves; the ISR becomes {0, 2}.",
            because="a slip of the pen: the article's own new ISR [2,0] contains broker-0",
            holds=state(TOPIC, isr=(1, 3), leader=1, until=mark("shrunk")),
        ),
    ),
    Claim(
        name="no-new-epoch",
        section="000 §1",
        says="The controller tells the brokers the new ISR in a LeaderAndIsr request.",
        holds=rise(TOPIC, mark("seeded"), mark("shrunk"), 1),
        erratum=Erratum(
            says="The leader epoch does not rise: the controller answers AlterIsr and sends UpdateMetadata only.",
            because="KIP-497 (AlterIsr, from 2.7): an ISR change by the leader is no new leadership",
            holds=rise(TOPIC, mark("seeded"), mark("shrunk"), 0),
        ),
    ),
    Claim(
        name="failed-writes-consumable",
        section="beyond 000 §1",
        says="The next acks=all write commits the 'failed' copies as well: a consumer reads m1 twice.",
        holds=readable(f"topic = '{TOPIC}' AND ns < {mark('before-heal')}", 5),
    ),
    Claim(
        name="failed-writes-duplicated",
        section="beyond 000 §1",
        says="The 'failed' message survives as two copies on every replica.",
        holds=copies_in("copies", _FAILED, 2),
    ),
    Claim(
        name="idempotent-once",
        section="beyond 000 §1",
        says="With enable.idempotence the broker drops the second attempt: one copy, though it 'failed' too.",
        holds=copies_in("copies", by("az1-idempotent"), 1),
    ),
    Claim(
        name="available-after-shrink",
        section="000 §1",
        says="Clients in az1 and az3 can produce.",
        holds=fates(f"{by('az1-later')} AND {after('shrunk')}", "kept", at_least=2),
    ),
    Claim(
        name="recovers",
        section="000 §1",
        says="After the network recovers data is replicated and the ISR updated.",
        holds=state(TOPIC, isr=(1, 2, 3), until=mark("converged")),
    ),
    Claim(
        name="nothing-lost",
        section="000 §1",
        says="Nothing that was acknowledged is lost.",
        holds=none_lost("outcome = 'ok'", at_least=4),
    ),
)

SCENARIO = Scenario(
    name="follower-cut-from-leader",
    title="A follower's AZ is cut from the leader's; a third AZ still sees both",
    article="000",
    section="1",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)), Topic(IDEMPOTENT, (1, 2, 3))),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        zookeeper_pins=pins(1, 2, 3, to=(3,)),
    ),
    claims=CLAIMS,
    expected=(
        Expected(
            "duplicated",
            _FAILED,
            "acks=all without idempotence: each attempt is appended, none is acknowledged, all survive",
        ),
    ),
    faults=("cut az1 <-> az2",),
    outcome="nothing lost; the 'failed' write of the retrying producer is in the log twice",
)
