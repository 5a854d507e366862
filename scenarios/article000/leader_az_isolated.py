"""Article 000, section 3.2: the AZ of a partition leader is cut off, and the controller lives elsewhere."""

from __future__ import annotations

from checkers.claims.builders import (
    about,
    both,
    broker,
    controller_stays,
    messages,
    opposite,
    partition,
)
from checkers.claims.builders.sql import brokers_of, counted, listed
from harness.cluster.setup import Setup
from harness.cluster.timings import BASE, Timings
from harness.kafka.model import Topic
from run.scenario import Claim, Either, Erratum, Expected, Scenario
from run.stage import Stage
from scenarios.steps import elect_preferred, pins, seed, stand, wait_log

TOPIC = "t"


def body(stage: Stage) -> None:
    """Cut az1 off, write on both sides until the old leader wants a smaller ISR, heal, let it rejoin."""
    seed(stage, TOPIC)
    old_side = stage.producer("az1", "az1-acks1", "broker1", acks=1)
    new_side = stage.producer("az2", "az2-acks-all", "broker2", acks=-1)

    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 can no longer reach az2 and az3")
        for message in ("c", "d", "e"):
            old_side.send(TOPIC, message)
        going_on = old_side.keep_writing(TOPIC, every_s=0.1)
        stage.wait_for_leader(TOPIC, not_on="broker1", within_s=stage.timings.session_end_s)
        stage.mark("failover", "the majority elected a new leader; broker1 still believes it leads")
        stage.wait_until_serving(TOPIC, "broker2")
        for message in ("f", "g"):
            new_side.send(TOPIC, message)
        stage.read("az1", TOPIC, "broker1")
        stage.mark("read", "a consumer in az1 read what broker1 shows")
        wait_log(stage, "broker1", "Shrinking ISR")
        first = stage.mark("first-wanted", "broker1 wants to shrink the ISR of one of its partitions")
        stand(stage, first, stage.timings.all_checked_s)
        stage.mark("wanted", "broker1 wants to shrink ISRs to itself, and can tell nobody")
        for number in range(3):
            old_side.send(TOPIC, f"late{number}")
        stage.mark("split", "two leaders: broker1 in az1, broker2 in az2")

    stage.mark("healed", "the links are back")
    going_on.wait_refused(within_s=20 + stage.timings.recovery_s)
    stage.wait_converged(TOPIC)
    stage.mark("converged", "all replicas hold the same log and are in sync")
    elect_preferred(stage, TOPIC, "broker1")
    stage.mark("preferred", "the preferred leader leads again")


T = partition(TOPIC)
OLD_SIDE = messages("az1-acks1", after="cut")
_AFTER_IT_WANTED = messages("az1-acks1", label="late%")
_WANTED = broker(1).logged("isr_shrinking", of=T, after="cut", before="wanted")
_HANGS_ELSEWHERE = both(
    broker(1).speaks_before("2.7"), broker(1).logged("isr_shrinking", after="cut", before="wanted")
)
"""Before KIP-497 the thread that shrinks ISRs may wait for ZooKeeper before it comes to this partition."""
_CDE, _FG = messages("az1-acks1", label=("c", "d", "e")), messages("az2-acks-all", label=("f", "g"))
_EPOCHS = "array_join(transform(epochs, e -> concat(e, '')), ' and ')"
_SAME_EPOCHS = about(
    "SELECT CASE WHEN {final:*} IS NOT NULL AND count(*) >= 2 "
    "THEN bool_and(held = array(1, 2, 3) AND size(epochs) = 1 AND epochs[0] > 0) END AS holds, "
    f"concat({counted('message')}, ' on ', {listed(brokers_of('held'))}, ', leader epoch ', {listed(_EPOCHS)}) "
    "AS observed "
    "FROM (SELECT m.seq, sort_array(collect_set(c.broker)) AS held, collect_set(c.epoch) AS epochs "
    f"FROM (SELECT * FROM life WHERE {_FG.where}) m LEFT JOIN copies c "
    "ON c.writer = m.writer AND c.seq = m.seq AND c.topic = m.topic GROUP BY m.seq)",
    _FG,
    tables=("life", "copies"),
)
_ENTRY = "concat('epoch ', entry.epoch, ' from offset ', entry.start_offset)"
_ENTRIES = f"SELECT broker, explode(epochs) AS entry FROM replicas WHERE {T.where}"
_EPOCH_STARTS = about(
    "SELECT CASE WHEN count(*) >= 6 THEN bool_and(entry.start_offset = first) END AS holds, "
    "concat(count(*), ' entries of leader epochs on ', count(DISTINCT broker), ' replicas: ', "
    f"{listed(_ENTRY, between=', ')}) AS observed "
    f"FROM ({_ENTRIES}) e JOIN (SELECT epoch, min(offset) AS first FROM copies WHERE {T.where} GROUP BY epoch) c "
    "ON e.entry.epoch = c.epoch",
    T,
    tables=("replicas", "copies"),
)
"""At least two epochs with messages, on three replicas."""
_EMPTY_EPOCH = about(
    "SELECT CASE WHEN count(*) >= 2 THEN count_if(first IS NULL) > 0 END AS holds, "
    f"concat('entries of leader epochs on broker1: ', {listed(_ENTRY, between=', ')}) AS observed "
    f"FROM ({_ENTRIES} AND broker = 1) e LEFT JOIN (SELECT epoch, min(offset) AS first FROM copies "
    f"WHERE {T.where} GROUP BY epoch) c ON e.entry.epoch = c.epoch",
    T,
    broker(1),
    tables=("replicas", "copies"),
)


def _in_time(timings: Timings) -> Claim:
    session_s, limit_s = timings.session_s, 2 * timings.session_s
    return Claim(
        name="failover-in-time",
        section="000 §3.2",
        quote="时间取决于 zookeeper.session.timeout.ms",
        says=f"How soon depends on zookeeper.session.timeout.ms: with {session_s:g} s it takes {limit_s:g} s at most.",
        holds=T.becomes(leader=2, after="cut", within_s=limit_s),
    )


CLAIMS = (
    Claim(
        name="controller-stays",
        section="000 §3",
        quote="不会发生 controller 选举，controller 还是在 broker-1",
        says="No controller election happens; the controller stays where it was.",
        holds=controller_stays(since="seeded", until="split"),
    ),
    Claim(
        name="old-leader-unaware",
        section="000 §3.2",
        quote="Broker-0 连不上 zk，无法感知节点变化，且无法更新 isr，metadata 不变，leader 和 isr 都不变",
        says="broker-0 cannot see node changes nor update the ISR: its metadata keeps leader and ISR.",
        holds=both(
            broker(1).believes(T, leader=1, isr=(1, 2, 3), at="split"),
            broker(1).never_logged("isr_updated", of=T, after="cut", before="split"),
        ),
        given=opposite(both(opposite(_WANTED), opposite(_HANGS_ELSEWHERE))),
    ),
    Claim(
        name="zombie-accepts",
        section="000 §3.2",
        quote="az1 内客户端可以继续向 broker-0 生产",
        says="Clients in az1 can go on producing to broker-0.",
        holds=messages("az1-acks1", after="cut", before="wanted").acknowledged(at_least=10),
    ),
    Claim(
        name="zombie-accepts-on",
        section="000 §3.2",
        quote="az1 内客户端可以继续向 broker-0 生产",
        says="They still can when broker-0 wants to shrink its ISRs and cannot.",
        holds=_AFTER_IT_WANTED.acknowledged(at_least=3),
        either=Either(
            says="With an inter.broker.protocol.version before 2.7 broker-0 may hang from then on, and answer nobody.",
            because="before KIP-497 the thread that shrinks ISRs waits for ZooKeeper without limit, with the lock "
            "of the first partition held; which one is first is a race",
            holds=both(_AFTER_IT_WANTED.unanswered(at_least=3), broker(1).speaks_before("2.7")),
        ),
    ),
    Claim(
        name="zombie-serves-reads",
        section="000 §3.2",
        quote="az1 内客户端可以继续向 broker-0 生产消费",
        says="Clients in az1 can go on consuming from broker-0, including what is written after the cut.",
        holds=opposite(T.consumers_see_nothing_from(2, since="cut", until="read")),
        erratum=Erratum(
            says="What is written after the cut cannot be consumed in az1: the high watermark stands still.",
            because="the committed ISR still names three replicas, so the high watermark stays at 2",
            holds=T.consumers_see_nothing_from(2, since="cut", until="read"),
        ),
    ),
    Claim(
        name="failover",
        section="000 §3.2",
        quote="集群感知到 broker-0 下线，触发 leader 切换，broker-1 成为新的 leader…并更新 isr",
        says="The cluster notices that broker-0 is gone; broker-1 becomes leader and the ISR is updated.",
        holds=T.is_led_by(2, isr=(2, 3), at="split"),
    ),
    _in_time(BASE),
    Claim(
        name="both-sides-write",
        section="000 §3.2",
        quote="该分区出现了双主现象，replica-0 和 replica-1 均为 leader，均可以进行生产消费",
        says="The partition has two leaders, and both take writes.",
        holds=both(
            messages("az1-acks1", after="failover", before="wanted").acknowledged(),
            messages("az2-acks-all", after="failover", before="wanted").acknowledged(at_least=2),
        ),
    ),
    Claim(
        name="logs-diverge",
        section="000 §3.2",
        quote="若两个隔离域内的客户端都生产了消息，就会出现数据不一致的情况",
        says="Clients on both sides produce, and data become inconsistent: replica-0 alone holds c, d and e, the "
        "others alone hold f and g.",
        holds=both(
            _CDE.seen_on(1, until="split", at_least=3),
            _CDE.not_seen_on(2, until="split", at_least=3),
            _FG.seen_on(2, 3, until="split", at_least=2),
            _FG.not_seen_on(1, until="split", at_least=2),
        ),
    ),
    Claim(
        name="epoch-rises",
        section="000 §3.2",
        quote="这里 leaderEpoch 增加 2",
        says="The leader epoch rises by 2.",
        holds=T.epoch_rises(by=2, since="seeded", until="split"),
        erratum=Erratum(
            says="It rises by 1.",
            because="a live controller elects with the dead replica already out of the ISR, so the later "
            "OfflineReplica step has nothing to remove; +2 is what happens when the controller died too",
            holds=T.epoch_rises(by=1, since="seeded", until="split"),
        ),
    ),
    Claim(
        name="told-to-follow",
        section="000 §3.2",
        quote="controller 会告知 broker-0 makerFollower",
        says="After the heal the controller tells broker-0 to follow broker-1.",
        holds=both(
            broker(1).logged("became_follower", of=T, after="split"),
            broker(1).believes(T, leader=2, at="converged"),
        ),
    ),
    Claim(
        name="truncates-to-epoch-end",
        section="000 §3.2",
        quote="会先从 leader（broker-1）获取 leaderEpoch 对应的 endOffset…根据返回的结果进行 truncate",
        says="After the heal broker-0 asks for the end offset of its leader epoch and truncates to it.",
        holds=both(
            broker(1).truncated(T, to=2, after="cut"),
            broker(1).never_logged("truncated_to_hw", of=T, after="cut", before="converged"),
        ),
    ),
    Claim(
        name="zombie-writes-lost",
        section="000 §3.2",
        quote="根据返回的结果进行 truncate…以此和 leader 保持一致",
        says="What az1 wrote with acks=1 after the cut is gone once the logs agree (c, d, e).",
        holds=OLD_SIDE.acknowledged_then_lost(at_least=3),
    ),
    Claim(
        name="same-epochs",
        section="000 §3.2",
        quote="根据消息中的 leaderEpoch 进行 assign，以此和 leader 保持一致",
        says="broker-0 fetches f and g, with the leader epoch that they carry on every replica.",
        holds=_SAME_EPOCHS,
    ),
    Claim(
        name="epoch-cache",
        section="004, leader epochs",
        quote="而offset则对应于该epoch版本的leader写入第一条消息的位移",
        says="With each leader epoch every replica keeps the offset of the first message of that epoch.",
        holds=_EPOCH_STARTS,
    ),
    Claim(
        name="epoch-without-message",
        section="004, leader epochs",
        quote="如果这个leader首次写消息，则会在缓存中增加一个条目",
        says="A leader adds its epoch with the first message that it writes. The leader after the preferred leader election writes nothing, so it adds none.",
        holds=opposite(_EMPTY_EPOCH),
        erratum=Erratum(
            says="It adds the epoch when it becomes leader, before any message.",
            because="since KAFKA-7415 a new leader notes its epoch with its log end offset",
            holds=_EMPTY_EPOCH,
        ),
    ),
    Claim(
        name="majority-writes-kept",
        section="000 §3.2",
        quote="az2/3 内的客户端可以向 broker-1 生产消费",
        says="What az2 wrote to the new leader stays (f, g).",
        holds=messages("az2-acks-all", after="cut").kept(at_least=2),
    ),
    Claim(
        name="acks-all-safe",
        section="000 §3.2",
        quote="因此，考虑此种情况，建议客户端 acks=-1",
        says="With acks=all nothing that was acknowledged is lost.",
        holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=10),
    ),
    Claim(
        name="rejoins",
        section="000 §3.2",
        quote="待数据同步后，加入 isr",
        says="broker-0 catches up and joins the ISR again.",
        holds=T.has_isr(1, 2, 3, at="converged"),
    ),
    Claim(
        name="preferred-epoch",
        section="000 §3.2",
        quote="在触发 preferredLeaderElection 时，broker-0 再次成为 leader，并增加 leaderEpoch 为 3",
        says="A preferred leader election gives broker-0 the leadership again, at leader epoch 3.",
        holds=T.is_led_by(1, epoch=3, at="preferred"),
        erratum=Erratum(
            says="It leads again at one epoch more than that of the failover: 2.",
            because="the failover raised the epoch by 1, not by 2",
            holds=both(
                T.is_led_by(1, at="preferred"), T.epoch_rises(by=1, since="converged", until="preferred")
            ),
        ),
    ),
)

SCENARIO = Scenario(
    name="leader-az-isolated",
    title="The leader's AZ is cut off; the controller is elsewhere",
    article="000",
    section="3.2",
    body=body,
    setup=Setup(
        topics=(Topic(TOPIC, (1, 2, 3)),),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
    ),
    claims=CLAIMS,
    timed=(_in_time,),
    expected=(
        Expected("lost", OLD_SIDE.where, "acknowledged by the old leader alone, truncated when it rejoins"),
    ),
    faults=("isolate az1",),
    versions=("2.7.1", "2.7.1@2.6", "3.9.1"),
    modes=("zookeeper", "kraft", "kraft-combined"),
    outcome="every acks=1 write acknowledged in az1 after the cut is lost, nothing else",
)
