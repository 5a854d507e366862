"""Articles 002 and 004: the divergence that leader epochs left possible until Kafka 2.0 (KIP-279).

A follower asks for the end of its last leader epoch. Before 2.0 a leader that never saw that epoch answered
with the start of its next epoch, although the follower may hold other records up to that offset. Two quick
leader changes within the ISR are enough; there is no unclean election.

| offset | A (broker1) | B (broker2) |
|---|---|---|
| 0, 1 | m1, m2 (epoch 1) | m1, m2 (epoch 1) |
| 2 | a1 (epoch 1) | b1 (epoch 2) |
| 3 | a2 (epoch 1) | |
| 4 | c1 (epoch 3) | |

B comes back and asks for the end of epoch 2. A, which knows the epochs 1 and 3, used to answer 4. Since 2.0 it
answers that epoch 1 ends at 4, so that B finds the end of its own epoch 1, and truncates to 2.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, messages_where, partition
from harness.cluster.setup import Setup
from harness.cluster.zookeeper_mode import ZooKeeperCluster
from harness.errors import InvalidRunError
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import log_end_offset, require, wait_log_end_offset, wait_view

TOPIC = "t"
A, B = "broker1", "broker2"


def body(stage: Stage) -> None:
    """Let A lead, cut it from B, elect B, kill B so that A leads again, heal, and bring B back."""
    stage.kill(B)
    stage.wait_for_isr(TOPIC, 1)
    stage.restart(B)
    stage.wait_for_isr(TOPIC, 1, 2, within_s=stage.timings.converge_s)
    require(stage.leader(TOPIC) == A, f"{A} leads {TOPIC}")
    for host in (A, B):
        wait_view(stage, host, TOPIC, leader=1)
    first = stage.producer("az1", "az1-acks-all", A, acks=-1, request_timeout_s=10)
    for label in ("m1", "m2"):
        first.must_send(TOPIC, label)
    wait_log_end_offset(stage, TOPIC, 2, A, B)
    stage.mark("seeded", "A leads in epoch 1; m1 and m2 are on both")

    with stage.nemesis.cut(f"{A} <-> {B}"):
        stage.mark("cut", "A and B do not reach each other; the controller reaches both")
        on_a = stage.producer("az1", "az1-acks1", A, acks=1)
        for label in ("a1", "a2"):
            on_a.must_send(TOPIC, label)
        _elect_preferred(stage)
        stage.mark("b-leads", "B leads in epoch 2")
        on_b = stage.producer("az2", "az2-acks1", B, acks=1)
        on_b.wait_writable(TOPIC, label="b1", within_s=15)
        wait_view(stage, A, TOPIC, leader=2)
        wait_log_end_offset(stage, TOPIC, 3, B)
        stage.mark("b-wrote", f"B has b1 at offset 2, A has log end offset {log_end_offset(stage, A, TOPIC)}")
        stage.kill(B)
        stage.wait_for_leader(TOPIC, on=A)
        stage.mark("a-leads", "A leads again, in epoch 3, without having heard from B")
        again = stage.producer("az1", "az1-again", A, acks=1)
        again.wait_writable(TOPIC, label="c1", within_s=15)

    stage.mark("healed", "A and B reach each other")
    stage.restart(B)
    stage.wait_for_isr(TOPIC, 1, 2, within_s=stage.timings.converge_s)
    stage.producer("az1", "az1-last", A, acks=-1, request_timeout_s=10).must_send(TOPIC, "d1")
    wait_log_end_offset(stage, TOPIC, log_end_offset(stage, A, TOPIC), A, B)
    stage.mark("rejoined", "B is in sync again, as ZooKeeper sees it")


def _elect_preferred(stage: Stage) -> None:
    """Elect B, the first replica of the assignment; brokers before 2.2 have no request for that."""
    cluster = stage.cluster
    if not isinstance(cluster, ZooKeeperCluster):
        raise InvalidRunError("This scenario needs ZooKeeper, by which it asks for an election.")
    stage.operator.act(
        f"elect preferred leader of {TOPIC}/0",
        mechanism="elect_preferred",
        targets={"partitions": [f"{TOPIC}/0"]},
        action=lambda: cluster.registry.elect_preferred(TOPIC),
        observe=lambda: cluster.partition(TOPIC),
        accept=lambda state: state is not None and state.leader == 2,
    )
    stage.wait_for_leader(TOPIC, on=B)


T = partition(TOPIC)
ON_A = messages("az1-acks1")
B1 = messages_where("label = 'b1' AND outcome = 'ok'")
LATER = messages_where("label IN ('c1', 'd1') AND outcome = 'ok'")
"""The writes of b1 and c1 are repeated until the new leader accepts them; only the accepted ones count."""
_GAP = (
    "before 2.0 the answer to OffsetForLeaderEpoch held no epoch: a leader that never saw the follower's epoch "
    "answered with the start of its next one (KIP-279)"
)


def _claims(before: str) -> tuple[Claim, ...]:
    """The claims. The gap is open in versions below ``before`` (empty: in all)."""
    return (
        Claim(
            name="fast-failovers",
            section="beyond 004",
            says="A, B and again A lead in epochs 1 to 3, each elected from the ISR.",
            precondition=True,
            holds=both(
                T.is_led_by(1, isr=(1, 2), epoch=1, at="seeded"),
                T.is_led_by(2, isr=(1, 2), epoch=2, at="b-wrote"),
                T.is_led_by(1, isr=(1,), epoch=3, at="a-leads"),
            ),
        ),
        Claim(
            name="epochs-prevent-divergence",
            section="004, leader epochs",
            quote="依靠leader epoch的信息可以有效地规避数据不一致的问题",
            says="With leader epochs the logs of A and B agree.",
            holds=both(T.logs_agree(replicas=2, at_least=6), ON_A.held_by(1, 2, at_least=2), B1.held_by()),
            erratum=Erratum(
                says="They differ for ever: A has a1 where B has b1, and both are in sync.",
                because=_GAP,
                before=before,
                holds=both(
                    T.replicas_differ(at_offset=2),
                    messages(label="a1").held_by(1),
                    messages(label="a2").held_by(1, 2),
                    B1.held_by(2),
                    T.is_led_by(1, isr=(1, 2), epoch=3, at="rejoined"),
                ),
            ),
        ),
        Claim(
            name="truncates-by-epoch",
            section="004, leader epochs",
            quote="在恢复的时候完全使用这些信息而非水位来判断是否需要截断日志",
            says="B truncates what A never had: its log from offset 2 on.",
            holds=broker(2).truncated(T, to=2, after="healed"),
            erratum=Erratum(
                says="B keeps it: A answers that epoch 2 ends at 4, beyond the end of B's log.",
                because=_GAP,
                before=before,
                holds=both(
                    B1.held_by(2),
                    broker(2).never_logged(
                        "truncated", of=T, after="healed", before="rejoined", where="offset < 3"
                    ),
                ),
            ),
        ),
        Claim(
            name="later-writes-kept",
            section="beyond 004",
            says="What A acknowledges as leader of epoch 3 is kept, on both.",
            holds=both(LATER.kept(at_least=2), LATER.held_by(1, 2, at_least=2)),
        ),
    )


def _expected(before: str) -> tuple[Expected, ...]:
    return (
        Expected("lost", B1.where, "acknowledged by B alone with acks=1; A never had it"),
        Expected("overwritten", B1.where, "acknowledged by B alone with acks=1; A never had it"),
        Expected("diverged", f"topic = '{TOPIC}'", "the gap of KIP-101 that KIP-279 closed", before=before),
    )


_SETUP = Setup(
    topics=(Topic(TOPIC, (2, 1)),),
    controller="broker3",
    zookeeper_leader="zookeeper3",
    broker_config={"replica.lag.time.max.ms": "60000"},
    stream_rate=0.0,
)
_FAULTS = (f"kill {B}", f"cut {A} <-> {B}", f"elect {B}", f"kill {B}")
SCENARIOS = (
    Scenario(
        name="kip-279-gap",
        aliases={"A": A, "B": B},
        title="Two quick leader changes within the ISR on Kafka 1.1: leader epochs, and yet the logs diverge",
        article="002",
        section="004 leader epochs",
        body=body,
        setup=_SETUP,
        claims=_claims("2.0.0"),
        expected=_expected("2.0.0"),
        faults=_FAULTS,
        kafka="1.1.1",
        outcome="0.11 and 1.1 diverge; from 2.0 on the replicas agree",
        versions=("0.11.0.3", "1.1.1", "2.4.1", "2.7.1"),
    ),
)
