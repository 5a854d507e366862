"""A broker keeps replicas in two directories, each on a disk of its own, and one of the disks fails.

A broker whose disk fails goes on with its other log directories (KIP-112; on KRaft since 3.7, KIP-858). Its replicas
in the failed directory are offline, and other brokers lead their partitions, until it is started again.
"""

from __future__ import annotations

from checkers.claims.builders import both, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.lab.model import DATA, SECOND_DATA
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, stand, wait_log_end_offset

SECTION = "beyond the articles"
SPARED, HIT, ALONE = "spared", "hit", "alone"
"""Topics that broker1 leads: one in the directory that stays, two in the one that fails. `alone` has one replica."""
_CUT = ("broker2 -> broker1:9092", "broker3 -> broker1:9092")
SEEDED = 2
"""Messages of `seed` in each topic."""
STAND_S = 5.0


def body(stage: Stage) -> None:
    """Place the replicas; let the leader be ahead of its followers; fill the disk; free it; restart."""
    seed(stage, SPARED, HIT, ALONE)
    operator = stage.operator
    for topic, folder in ((SPARED, DATA), (HIT, SECOND_DATA), (ALONE, SECOND_DATA)):
        operator.move_replica(topic, "broker1", folder)
        stage.wait_replicated(topic)
    stage.mark("placed", f"{HIT} and {ALONE} are in the second directory of broker1")
    ahead = stage.producer("az1", "az1-ahead", "broker1", acks=1)
    disk = stage.nemesis.storage.fill_disk("broker1", folder=SECOND_DATA)
    with stage.nemesis.cut(*_CUT):
        stage.mark("cut", "the followers get nothing more from broker1")
        for label in ("c", "d"):
            ahead.must_send(HIT, label)
        wait_log_end_offset(stage, HIT, SEEDED + 2, "broker1")
        disk.inject()
        stage.mark("full", "the disk with the second directory is full")
        ahead.send(HIT, "too much")
        stage.wait_for_leader(HIT, not_on="broker1")
        stage.wait_for_no_leader(ALONE)
        stage.mark("failed", "broker1 has given up the second directory")
    stage.mark("healed", "the links are back")
    writer = stage.producer(
        "az2", "az2-acks-all", via="librdkafka", acks=-1, retries=100, delivery_timeout_s=30.0
    )
    for topic in (SPARED, HIT):
        for label in ("e", "f", "g"):
            writer.must_send(topic, label)
    stand(stage, stage.mark("written", "acks=all goes on in both topics"), STAND_S)
    stage.mark("standing", "the last moment with a full disk")
    disk.heal()
    stand(stage, stage.mark("freed", "the disk has room again"), STAND_S)
    stage.mark("waited", "nothing has changed since")
    stage.nemesis.rolling_restart("broker1", restart=stage.restart)
    settle(stage)


S, H, A = partition(SPARED), partition(HIT), partition(ALONE)
CLAIMS = (
    Claim(
        name="others-lead",
        section=SECTION,
        says="Another broker leads the partitions of the failed directory; one without another replica has no leader.",
        holds=both(
            H.is_led_by((2, 3), isr=(2, 3), at="standing"),
            A.has_no_leader(at="standing"),
        ),
    ),
    Claim(
        name="broker-stays",
        section=SECTION,
        says="The broker goes on with its other directory: it leads there, in the same epoch, with all replicas in sync.",
        holds=S.is_led_by(1, isr=(1, 2, 3), epoch=0, at="standing"),
    ),
    Claim(
        name="writes-go-on",
        section=SECTION,
        says="acks=all goes on in both directories' topics.",
        holds=messages("az2-acks-all", after="failed", before="standing").acknowledged(at_least=6),
    ),
    Claim(
        name="stays-offline",
        section=SECTION,
        says="That the disk works again changes nothing: the directory stays offline until the broker is started again.",
        holds=both(H.has_isr(2, 3, at="waited"), A.has_no_leader(at="waited")),
    ),
    Claim(
        name="comes-back",
        section=SECTION,
        says="Then its replicas are back: the partition with one replica has all of its messages.",
        holds=both(
            H.has_isr(1, 2, 3, at="converged"),
            A.is_led_by(1, at="converged"),
            messages(topic=ALONE).kept(at_least=2),
        ),
    ),
    Claim(
        name="ahead-lost",
        section=SECTION,
        says="What the offline replica alone had, acknowledged with acks=1, is lost.",
        holds=messages("az1-ahead", label=("c", "d")).acknowledged_then_lost(at_least=2),
    ),
    Claim(
        name="acks-all-safe",
        section=SECTION,
        says="Nothing acknowledged with acks=all is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="full", at_least=6),
    ),
)

SCENARIO = Scenario(
    name="log-directory-fails",
    title="One of a broker's two log directories fails",
    article="beyond",
    section="disks",
    body=body,
    setup=Setup(
        topics=(Topic(SPARED, (1, 2, 3)), Topic(HIT, (1, 2, 3)), Topic(ALONE, (1,))),
        second_log_dirs=("broker1",),
        controller="broker1",
        quorum="one node",
        stream_rate=0,
    ),
    modes=("zookeeper", "kraft"),
    versions=("2.7.1", "4.3.1"),
    claims=CLAIMS,
    expected=(
        Expected("lost", "writer_name = 'az1-ahead'", "only the replica in the failed directory had it"),
        Expected(
            "server_error", f"detail LIKE '%/{SECOND_DATA}%'", "the broker logs that the directory fails"
        ),
    ),
    faults=("cut broker2, broker3 -> broker1:9092", "fill the second disk of broker1", "restart broker1"),
    outcome="only the replicas in that directory go offline; acks=all loses nothing, acks=1 what the leader alone had",
)
