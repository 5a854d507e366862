"""Article 001, scenario 6, variant: the ISR has shrunk to the leader before the leader is isolated.

Three topics with three settings suffer the same faults in one cluster.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import awaited, pins, seed, settle, wait_isr_committed

CLEAN, UNCLEAN, TWO = "t", "u", "m"
TOPICS = (CLEAN, UNCLEAN, TWO)
_SEEDED = 2


def shrink_then_isolate(stage: Stage, *, early_heal: bool) -> None:
    """Leave the leader alone in the ISR, isolate it while it writes on, and heal."""
    seed(stage, *TOPICS)
    waiting = stage.producer("az1", "az1-waiting", "broker1", acks=1)
    alone = stage.nemesis.cut("broker1 <-> broker2", "broker1 <-> broker3").inject()
    stage.mark("cut", "the leader, which is the controller, sees no follower")
    for topic in TOPICS:
        waiting.send(topic, "w")
    for topic in TOPICS:
        stage.wait_for_isr(topic, 1, within_s=stage.timings.shrink_s)
        wait_isr_committed(stage, "broker1", topic, (1,))
    stage.mark("shrunk", "the leader is alone in the ISR")
    before = stage.producer("az1", "az1-before", "broker1", acks=-1)
    for topic in TOPICS:
        before.send(topic, "x1")
    isolated = stage.nemesis.isolate("az1").inject()
    stage.mark("isolated", "az1 is isolated from everything")
    inside = stage.producer("az1", "az1-inside", "broker1", acks=-1)
    for topic in TOPICS:
        inside.send(topic, "x2")
    stage.wait_for_leader(UNCLEAN, on="broker2")
    awaited(lambda: stage.wait_for_no_leader(CLEAN))
    stage.mark("elected", "the unclean topics have another leader, the clean one has none")
    if early_heal:
        # Once the follower has fetched from the new leader, the leader asks for a larger ISR. It asks the
        # controller that it knows, which is the isolated one.
        stage.wait_until_serving(UNCLEAN, "broker2")
        wait_until(
            lambda: stage.own_log("broker3", UNCLEAN).records,
            accept=lambda records: len(records) > _SEEDED,
            within_s=stage.timings.shrink_s,
            awaiting="broker3 to follow broker2",
        )
    else:
        after = stage.producer("az2", "az2-after", "broker2", acks=-1)
        for topic in (UNCLEAN, TWO):
            stage.wait_for_isr(topic, 2, 3, within_s=stage.timings.shrink_s)
            wait_isr_committed(stage, "broker2", topic, (2, 3))
            after.send(topic, "y")
        for topic in TOPICS:
            inside.send(topic, "x3")
        stage.read("az1", CLEAN, "broker1")
        stage.producer("az2", "az2-to-clean", "broker2", acks=-1).send(CLEAN, "n")
        stage.mark("before-heal", "the last moment of the isolation")
    alone.heal()  # changes nothing yet: the isolation cuts these links, too, and then all come back at once
    isolated.heal()
    stage.mark("healed", "the links are back")


def body(stage: Stage) -> None:
    """Heal once the new leader has its followers, so that only the data are in question."""
    shrink_then_isolate(stage, early_heal=False)
    settle(stage)


T, U, M = partition(CLEAN), partition(UNCLEAN), partition(TWO)
_WAITING, _ALONE = "az1-waiting", ("az1-before", "az1-inside")
_UNCLEAN_LOST = messages((_WAITING, *_ALONE), topic=UNCLEAN, after="cut")
_ACKS_1_LOST = messages(_WAITING, topic=TWO, after="cut")
_STILL_TAKEN = "原leader仍然接收写请求,即使这时acks=all,因为这时的ISR仅有原leader自身"
_NEW_LEADER = "这时网络分区隔离了leader。新leader被选举出来"
_LOSES = "这之后写入的数据都将丢失"
_TWO_NEEDED = "要避免ISR退化为自身仍然可以写入数据并返回成功的情况,至少需要设置min.insync.replicas = 2"
CLAIMS = (
    Claim(
        name="accepts-alone",
        section="001 scenario 6, variant",
        quote=_STILL_TAKEN,
        says="The old leader still accepts writes, even with acks=all, since it is alone in the ISR.",
        holds=messages("az1-inside", topic=(CLEAN, UNCLEAN), after="isolated").acknowledged(at_least=4),
    ),
    Claim(
        name="new-leader",
        section="001 scenario 6, variant",
        quote=_NEW_LEADER,
        says="A new leader is elected.",
        holds=T.is_led_by((2, 3), at="before-heal"),
        erratum=Erratum(
            says="With unclean.leader.election.enable=false, the default, none is: leader -1, ISR [0].",
            because="unclean election is off by default since 0.11 (KIP-106); nobody else is in the ISR",
            holds=T.has_no_leader(isr=(1,), at="before-heal"),
        ),
    ),
    Claim(
        name="lost",
        section="001 scenario 6, variant, loss cause 4",
        quote=_LOSES,
        says="What is written after the election is lost.",
        holds=messages(_ALONE, topic=CLEAN).acknowledged_then_lost(at_least=3),
        erratum=Erratum(
            says="With unclean.leader.election.enable=false all of it is kept: broker-0 leads again after the heal.",
            because="nobody else could be elected, so that nobody truncates",
            holds=messages(_ALONE, topic=CLEAN).kept(at_least=3),
        ),
    ),
    Claim(
        name="unclean-new-leader",
        section="001 scenario 6, variant",
        quote=_NEW_LEADER,
        says="With unclean.leader.election.enable=true a new leader is elected.",
        holds=U.is_led_by(2, isr=(2, 3), epoch=2, at="before-heal"),
    ),
    Claim(
        name="unclean-lost",
        section="001 scenario 6, variant, loss cause 4",
        quote=_LOSES,
        says="With unclean.leader.election.enable=true acknowledged acks=all writes are lost.",
        holds=messages(_ALONE, topic=UNCLEAN).acknowledged_then_lost(at_least=3),
    ),
    Claim(
        name="min-insync-refuses",
        section="001 scenario 6, variant",
        quote=_TWO_NEEDED,
        says="min.insync.replicas=2 prevents it: the leader alone refuses acks=all (error 19).",
        holds=messages(_ALONE, topic=TWO).refused_with(19, at_least=3),
    ),
    Claim(
        name="min-insync-safe",
        section="001 conclusion",
        quote="通过设置min.insync.replicas为2及以上,可以增加进一步的安全性,确保不会丢失数据",
        says="With min.insync.replicas=2 the old leader acknowledges no acks=all write while it is alone, "
        "and no acks=all write that was acknowledged is lost.",
        holds=both(
            messages(_ALONE, topic=TWO).not_acknowledged(at_least=3),
            messages(topic=TWO, acks=-1).none_lost(at_risk_after="cut"),
        ),
        given=messages("az2-after", topic=TWO).acknowledged(),
    ),
    Claim(
        name="min-insync-acks-1",
        section="beyond 001 scenario 6",
        says="It does not help acks=1: that write is lost.",
        holds=_ACKS_1_LOST.acknowledged_then_lost(),
    ),
    Claim(
        name="clean-unavailable",
        section="001 conclusion",
        quote="由于不能切换到unclean的节点,因此如果leader出现故障无法修复,即使有其他节点拥有部分数据,仍然不可用,可用性降低",
        says="The price of unclean=false: az2 cannot write while the leader is away, although others have data.",
        holds=messages("az2-to-clean").refused_with(3, 5, 6),
    ),
    Claim(
        name="clean-leads-again",
        section="beyond 001 scenario 6",
        says="After the heal broker-0 leads the clean topic again.",
        holds=T.is_led_by(1, isr=(1, 2, 3), epoch=2, at="converged"),
    ),
    Claim(
        name="truncates",
        section="beyond 001 scenario 6",
        says="In the unclean topic it truncates to what the new leader had when it was elected. In the clean topic it does not truncate.",
        holds=both(
            broker(1).truncated(U, to=2, after="isolated"),
            broker(1).never_logged("truncated", of=T, after="isolated", before="converged"),
        ),
    ),
)

EXPECTED_LOSS = (
    Expected("lost", _UNCLEAN_LOST.where, "unclean election: a replica outside of the ISR became leader"),
    Expected("lost", _ACKS_1_LOST.where, "acks=1, and a replica outside of the ISR became leader"),
    Expected(
        "lost_after_read",
        _UNCLEAN_LOST.where,
        "unclean election: a replica outside of the ISR became leader",
    ),
)

SETUP = Setup(
    topics=(
        Topic(CLEAN, (1, 2, 3), config={"unclean.leader.election.enable": "false"}),
        Topic(UNCLEAN, (1, 2, 3), config={"unclean.leader.election.enable": "true"}),
        Topic(
            TWO,
            (1, 2, 3),
            config={"unclean.leader.election.enable": "true", "min.insync.replicas": "2"},
        ),
    ),
    controller="broker1",
    zookeeper_leader="zookeeper2",
    zookeeper_pins=pins(2, 3, to=(2, 3)),
)

SCENARIO = Scenario(
    name="isr-shrunk-leader-isolated",
    title="The leader is isolated after the ISR has shrunk to it: three settings side by side",
    article="001",
    section="6v",
    body=body,
    setup=SETUP,
    claims=CLAIMS,
    expected=EXPECTED_LOSS,
    faults=("cut broker1 <-> broker2, broker1 <-> broker3", "isolate az1"),
    outcome="unclean loses acks=all writes, clean loses nothing, min.insync.replicas=2 refuses",
)
