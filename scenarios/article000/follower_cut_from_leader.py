"""Article 000, section 1: a follower's AZ and the leader's AZ no longer see each other."""

from __future__ import annotations

from checkers.claims.builders import both, broker, controller_stays, messages, noted, partition
from harness.cluster.setup import Setup
from harness.cluster.timings import BASE, Timings
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, read_in_vain, seed, settle, wait_isr_committed

TOPIC, IDEMPOTENT = "t", "i"


def body(stage: Stage) -> None:
    """Cut az1 from az2, produce with acks=all and one retry, see the ISR shrink, read everywhere, heal."""
    seed(stage, TOPIC, IDEMPOTENT)
    retrying = stage.producer("az1", "az1-retry", via="librdkafka", retries=1).prepare(TOPIC)
    idempotent = stage.producer(
        "az1", "az1-idempotent", via="librdkafka", retries=1, idempotent=True, delivery_timeout_s=5
    ).prepare(IDEMPOTENT)
    cut_off = stage.producer(
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
            stage.wait_for_isr(topic, 1, 3, within_s=stage.timings.shrink_s)
            wait_isr_committed(stage, "broker1", topic, (1, 3))
        stage.mark("shrunk", "broker2 has left the ISR")
        later = stage.producer("az1", "az1-later", "broker1", acks=-1)
        for topic in (TOPIC, IDEMPOTENT):
            later.must_send(topic, "m2")
        stage.producer("az3", "az3-later", "broker1", acks=-1).must_send(IDEMPOTENT, "m3")
        for az in ("az1", "az3"):
            stage.read(az, TOPIC, "broker1")
        read_in_vain(stage, "az2", TOPIC, "broker2", "broker3", mark="read-in-az2")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    settle(stage)


T = partition(TOPIC)
_FAILED, _LATER = messages("az1-retry"), messages("az1-later", topic=TOPIC)


def _stays_at_first(timings: Timings) -> Claim:
    lag_s, least_s = timings.lag_s, timings.lag_s - 1
    return Claim(
        name="isr-stays-at-first",
        section="000 §1",
        quote="leader、isr、controller 都不变",
        says=f"The ISR does not change at first: it stays for at least {least_s:g} s (replica.lag.time.max.ms is {lag_s:g} s).",
        holds=T.becomes(isr=(1, 3), after="cut", not_within_s=least_s),
        given=T.has_isr(1, 3, at="before-heal"),
    )


CLAIMS = (
    Claim(
        name="leader-stays",
        section="000 §1",
        quote="leader、isr、controller 都不变",
        says="Leader, ISR and controller do not change (leader).",
        holds=T.stays(since="seeded", until="before-heal", what="leader, epoch"),
    ),
    _stays_at_first(BASE),
    Claim(
        name="controller-stays",
        section="000 §1",
        quote="leader、isr、controller 都不变",
        says="Leader, ISR and controller do not change (controller).",
        holds=controller_stays(since="seeded", until="before-heal"),
    ),
    Claim(
        name="cut-off-clients-stop",
        section="000 §1",
        quote="az2 内的客户端无法生产消费（metadata 指明 leader 为 broker-0，而 az2 连不上 broker-0）",
        says="Clients in az2 cannot produce or consume: metadata names broker-0, which they cannot reach.",
        holds=both(
            messages("az2-retry").not_acknowledged(),
            broker(2).believes(T, leader=1, at="before-heal"),
            noted("read-in-az2", records=0),
            _LATER.consumed(since="cut", until="before-heal"),
        ),
    ),
    Claim(
        name="acks-all-fails",
        section="000 §1",
        quote="若 acks=-1，retries=1，则生产消息会失败，error_code=7（REQUEST_TIMED_OUT）",
        says="With acks=-1 and retries=1 producing fails with error_code 7 (REQUEST_TIMED_OUT).",
        holds=_FAILED.refused_with(7),
    ),
    Claim(
        name="sent-twice",
        section="000 §1",
        quote="且会发两次（因为 retries=1），broker-0 和 broker-2 中会各有两条重复的消息",
        says="It is sent twice (because of retries=1): broker-0 and broker-2 hold two copies each.",
        holds=_FAILED.seen_on(1, 3, copies=2, until="before-heal"),
    ),
    Claim(
        name="absent-on-cut-follower",
        section="000 §1",
        quote="而 broker-1 中没有",
        says="broker-1 does not have the message.",
        holds=_FAILED.not_seen_on(2, until="before-heal"),
    ),
    Claim(
        name="leaves-the-isr",
        section="000 §1",
        quote="由于 broker-0 没有同步数据，因此会从 isr 中被剔除",
        says="Because broker-0 did not replicate, it is removed from the ISR, which becomes [2,0].",
        holds=T.has_out_of_isr(1, at="shrunk"),
        erratum=Erratum(
            says="broker-1 is the one that leaves; the ISR becomes {0, 2}.",
            because="a slip of the pen: the article's own new ISR [2,0] contains broker-0",
            holds=T.is_led_by(1, isr=(1, 3), at="shrunk"),
        ),
    ),
    Claim(
        name="metadata-follow",
        section="000 §1",
        quote="controller 同步 metadata 和 leaderAndIsr，isr 更新为 [2,0]",
        says="The controller passes the new ISR on as metadata: broker-1, which does not see the leader, knows it.",
        holds=both(
            *(broker(number).believes(T, leader=1, isr=(1, 3), at="before-heal") for number in (2, 3))
        ),
    ),
    Claim(
        name="no-new-epoch",
        section="beyond 000 §1",
        says="The leader epoch does not rise: an ISR change by the leader (AlterIsr) is no new leadership.",
        holds=T.stays(since="seeded", until="before-heal", what="epoch"),
        given=T.has_isr(1, 3, at="before-heal"),
    ),
    Claim(
        name="failed-writes-consumable",
        section="beyond 000 §1",
        says="The next acks=all write commits the 'failed' copies as well: a consumer reads m1 twice.",
        holds=both(_FAILED.consumed(until="before-heal"), T.consumers_read(10, until="before-heal")),
    ),
    Claim(
        name="failed-writes-duplicated",
        section="beyond 000 §1",
        says="The 'failed' message survives as two copies on every replica.",
        holds=_FAILED.in_final_log(copies=2),
    ),
    Claim(
        name="idempotent-once",
        section="beyond 000 §1",
        says="With enable.idempotence the broker drops the second attempt: there is one copy, though this write 'failed', too.",
        holds=both(
            messages("az1-idempotent").refused_with(7), messages("az1-idempotent").in_final_log(copies=1)
        ),
    ),
    Claim(
        name="available-after-shrink",
        section="000 §1",
        quote="az1/3 内的客户端可以生产消费",
        says="Clients in az1 and az3 can produce and consume.",
        holds=both(
            messages("az1-later", after="shrunk").kept(at_least=2),
            messages("az3-later", after="shrunk").kept(),
            _LATER.consumed(since="shrunk", until="before-heal", readers=2),
        ),
    ),
    Claim(
        name="recovers",
        section="000 §1",
        quote="网络恢复后，数据同步，更新 isr",
        says="After the network recovers data is replicated and the ISR updated.",
        holds=T.is_led_by(1, isr=(1, 2, 3), at="converged"),
        given=T.has_isr(1, 3, at="before-heal"),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 000 §1",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=3),
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
    timed=(_stays_at_first,),
    expected=(
        Expected(
            "duplicated",
            _FAILED.where,
            "acks=all without idempotence: each attempt is appended, none is acknowledged, all survive",
        ),
    ),
    faults=("cut az1 <-> az2",),
    outcome="nothing lost; the 'failed' write of the retrying producer is in the log twice",
)
