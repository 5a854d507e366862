"""Article 001, scenarios 1, 5 and 6, and loss cause 2: cases of article 000, judged by this article's sentences.

Scenario 1 cuts only the two brokers, while article 000 cuts their AZs.
"""

from __future__ import annotations

from dataclasses import replace

from checkers.claims.builders import (
    both,
    broker,
    controller_stays,
    messages,
    messages_where,
    opposite,
    partition,
    topic_is_set,
)
from harness.cluster.timings import BASE, Timings
from run.scenario import Claim, Either, Erratum, Scenario
from run.stage import Stage
from scenarios.article000 import (
    follower_az_isolated,
    follower_cut_from_leader,
    leader_az_isolated,
    unclean_election,
)
from scenarios.article001.long_isolation import FETCHED_LATER, ONE_FIRST
from scenarios.steps import seed, settle, shrinking_to, wait_isr_committed

_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="001 conclusion",
    quote="如果影响的是follower副本节点,不会导致数据丢失,仅仅是在网络分区期间会降低数据冗余度",
    says="If followers are affected, no data is lost; only redundancy is reduced.",
    holds=messages().none_lost(at_risk_after="cut", at_least=2),
)
_T = follower_cut_from_leader.TOPIC
T = partition(_T)


def _same(base: Scenario, name: str, section: str, claims: tuple[Claim, ...], title: str = "") -> Scenario:
    return replace(
        base,
        name=name,
        article="001",
        section=section,
        claims=claims,
        title=title or f"As {base.name}",
        versions=(),
        modes=(),
    )


def _cut_between_brokers(stage: Stage) -> None:
    """Cut a follower from both other brokers; ZooKeeper and all clients see all of them."""
    seed(stage, _T)
    with stage.nemesis.cut("broker1 <-> broker2", "broker2 <-> broker3"):
        stage.mark("cut", "the follower and the other brokers do not see each other; ZooKeeper sees them all")
        stage.producer("az1", "az1-acks1", "broker1", acks=1).send(_T, "m1")
        stage.wait_for_isr(_T, 1, 3, within_s=stage.timings.shrink_s)
        wait_isr_committed(stage, "broker1", _T, (1, 3))
        stage.mark("shrunk", "broker2 has left the ISR")
        stage.producer("az2", "az2-acks-all", "broker1", acks=-1).send(_T, "m2")
        stage.mark("before-heal", "the last moment of the cut")

    stage.mark("healed", "the links are back")
    settle(stage, _T)


def _leaves_isr(timings: Timings) -> Claim:
    lag_s, least_s = timings.lag_s, timings.lag_s - 1
    return Claim(
        name="leaves-isr",
        section="001 scenario 1",
        quote="在超过replica.lag.time.max.ms所设定的时间后将从ISR中被移除",
        says=f"The follower cannot fetch; after replica.lag.time.max.ms ({lag_s:g} s) it is removed from the ISR: "
        f"not within {least_s:g} s of the cut.",
        holds=both(
            T.is_led_by(1, isr=(1, 3), at="before-heal"),
            T.becomes(isr=(1, 3), after="cut", not_within_s=least_s),
        ),
    )


FOLLOWER_CUT = _same(
    replace(
        follower_cut_from_leader.SCENARIO,
        body=_cut_between_brokers,
        setup=replace(follower_cut_from_leader.SCENARIO.setup, zookeeper_pins={}, quorum="one node"),
        expected=(),
        timed=(_leaves_isr,),
        faults=("cut broker1 <-> broker2, broker2 <-> broker3",),
        outcome="nothing lost; the follower leaves the ISR and comes back",
    ),
    "partition-1-follower-cut",
    "1",
    (
        _leaves_isr(BASE),
        Claim(
            name="falls-behind",
            section="001 scenario 1",
            quote="不能再参与到数据的提交操作中,broker 3上的数据与leader上最新数据的差距逐渐拉大",
            says="It takes no part in commits any more, and its log falls behind the leader's.",
            holds=both(
                messages("az2-acks-all").acknowledged(),
                messages(("az1-acks1", "az2-acks-all")).not_seen_on(2, until="before-heal", at_least=2),
                messages(("az1-acks1", "az2-acks-all")).kept(at_least=2),
            ),
        ),
        Claim(
            name="still-registered",
            section="001 scenario 1",
            quote="zookeeper在这整个过程中都能够收到broker 3的心跳信息,因此认为这个节点工作正常",
            says="It still reaches ZooKeeper, so it counts as alive.",
            holds=broker(2).is_registered(at="before-heal"),
        ),
        Claim(
            name="no-split-brain",
            section="001 scenario 1",
            quote="这种情况没有出现脑裂,仅仅只是降低了数据冗余",
            says="There is no split brain: the leader stays.",
            holds=T.stays(since="seeded", until="converged", what="leader, epoch"),
        ),
        Claim(
            name="rejoins",
            section="001 scenario 1",
            quote="当网络分区问题得到解决后将能够继续发送fetch请求,在赶上leader的数据后将被重新加入到ISR中",
            says="After the partition it fetches again, catches up and is added to the ISR.",
            holds=T.is_led_by(1, isr=(1, 2, 3), at="converged"),
        ),
        _NOTHING_LOST,
    ),
    "Scenario 1: a follower reaches ZooKeeper, but no other broker",
)

R = partition(follower_az_isolated.RETRIED)
FOLLOWER_ISOLATED = _same(
    follower_az_isolated.SCENARIO,
    "partition-5-follower-isolated",
    "5",
    (
        Claim(
            name="leaves-isr",
            section="001 scenario 5",
            quote="这个时候它仅仅是从ISR列表中被移除",
            says="The follower is merely removed from the ISR.",
            holds=R.is_led_by(2, isr=(2, 3), at="before-heal"),
        ),
        Claim(
            name="no-further-action",
            section="001 scenario 5",
            quote="由于其仅仅是一个失效的follower,zookeeper在将其标志为失效后没有后续动作",
            says="ZooKeeper marks it as failed, and nothing else follows: leader and controller stay.",
            holds=both(
                R.stays(since="seeded", until="before-heal", what="leader"),
                controller_stays(since="seeded", until="before-heal"),
            ),
            given=opposite(broker(1).is_registered(at="before-heal")),
        ),
        Claim(
            name="rejoins",
            section="001 scenario 5",
            quote="在网络问题解决后可以重新加入集群再追赶上leader",
            says="After the partition it joins the cluster again and catches up.",
            holds=both(
                R.is_led_by(2, isr=(1, 2, 3), at="converged"), broker(1).is_registered(at="converged")
            ),
        ),
        _NOTHING_LOST,
    ),
    "Scenario 5: a follower is isolated from everything (as follower-az-isolated)",
)

L = partition(leader_az_isolated.TOPIC)
_INSIDE = "az1-acks1"
_AFTER_L = messages(_INSIDE, after="wanted", before="split")
_SERVED = messages(topic=leader_az_isolated.TOPIC, acks=1, az="az2", after="failover", before="wanted")
_BY_NEW = messages_where(f"{_SERVED.where} AND outcome = 'ok'", of=_SERVED)
"""The new leader acknowledged them before messages `_AFTER_L` were sent to the old one."""


def _wants(isr: str) -> str:
    return both(
        broker(1).logged("isr_shrinking", of=L, after="failover", before="wanted", where=shrinking_to(isr)),
        broker(1).never_logged("isr_shrinking", of=L, after="cut", before="failover"),
        broker(1).never_logged("isr_updated", of=L, after="cut", before="split"),
        L.is_led_by(2, isr=(2, 3), at="split"),
    )


LEADER_ISOLATED = _same(
    leader_az_isolated.SCENARIO,
    "partition-6-leader-isolated",
    "6",
    (
        Claim(
            name="new-leader",
            section="001 scenario 6",
            quote="zookeeper将已经被隔离的broker标记为失效,通知控制节点重新选举新的leader",
            says="ZooKeeper marks the isolated broker as failed; the controller elects a new leader.",
            holds=both(L.is_led_by(2, isr=(2, 3), at="split"), opposite(broker(1).is_registered(at="split"))),
        ),
        Claim(
            name="wants-to-shrink",
            section="001 scenario 6",
            quote="在replica.lag.time.max.ms超时后原leader仍然不能接收到任何fetch请求,它会试图将ISR缩减到自身,但是由于不能将这个变化更新到zookeeper",
            says="After replica.lag.time.max.ms without fetches it tries to shrink the ISR to itself, which it "
            "cannot tell ZooKeeper.",
            holds=_wants("1"),
            either=Either(says=ONE_FIRST, because=FETCHED_LATER, holds=_wants("1,[23]")),
        ),
        Claim(
            name="accepts-acks-1-briefly",
            section="001 scenario 6",
            quote="原leader短时间内仍然会接收acks=1的写入请求,但很快就停止这么做",
            says="For a short time the old leader still accepts acks=1 writes, but soon stops: after "
            "replica.lag.time.max.ms it wants a smaller ISR and cannot tell ZooKeeper.",
            holds=both(
                messages(_INSIDE, after="cut", before="failover").acknowledged(at_least=3),
                _AFTER_L.not_acknowledged(at_least=3),
            ),
            erratum=Erratum(
                says="It does not stop: it accepts them until it learns after the heal that it no longer leads.",
                because="KIP-497: from 2.7 on an ISR change that cannot be sent blocks nothing (with "
                "inter.broker.protocol.version 2.6 it hangs)",
                holds=_AFTER_L.acknowledged(at_least=3),
            ),
        ),
        Claim(
            name="acknowledged-lost",
            section="001 scenario 6",
            quote="在网络分区发生后仍然写往原leader并获得确认的信息将丢失",
            says="What is written to the old leader and acknowledged after the partition began is lost.",
            holds=messages(_INSIDE, after="cut").acknowledged_then_lost(at_least=3),
        ),
        Claim(
            name="truncates",
            section="001 scenario 6",
            quote="将自己的日志截断到新leader发生故障切换时自己保存的HW所指示的位置",
            says="It truncates its log to the high watermark that the new leader had at the failover.",
            holds=broker(1).logged("truncated_to_hw", of=L, after="split"),
            erratum=Erratum(
                says="It truncates to the end offset of its leader epoch.",
                because="KIP-101: leader epochs replace the high watermark for truncation from 0.11 on",
                holds=both(
                    broker(1).truncated_to_end_of(L, 0, after="split"),
                    broker(1).never_logged("truncated_to_hw", of=L, after="split", before="converged"),
                ),
            ),
        ),
        Claim(
            name="split-brain",
            section="001 scenario 6",
            quote="这是一个当acks=1且min.insync.replicas=1时由于网络分区会导致短时间脑裂的案例",
            says="With acks=1 and min.insync.replicas=1 there is a short split brain: until the partition ends, two brokers "
            "act as leader at the same time, and both acknowledge acks=1 writes.",
            holds=both(
                L.is_led_by(2, at="split"),
                broker(2).believes(L, leader=2, at="split"),
                broker(1).believes(L, leader=1, at="split"),
                _BY_NEW.answered_by(2),
                _AFTER_L.acknowledged(at_least=3),
                _AFTER_L.answered_by(1, at_least=3),
                broker(1).believes(L, leader=2, at="converged"),
            ),
            given=topic_is_set(leader_az_isolated.TOPIC, "min.insync.replicas", "1"),
        ),
        Claim(
            name="acks-all-safe",
            section="beyond 001 scenario 6",
            says="Only acks=1 loses messages: acks=all loses nothing.",
            holds=messages(acks=-1).none_lost(at_risk_after="cut", at_least=2),
        ),
    ),
    "Scenario 6: the leader is isolated from everything (as leader-az-isolated)",
)

_ALONE = messages("az1-alone", topic=unclean_election.UNCLEAN)
_ALONE_CLEAN = messages("az1-alone", topic=unclean_election.CLEAN)
UNCLEAN = _same(
    unclean_election.SCENARIO,
    "loss-2-unclean-failover",
    "cause 2",
    (
        Claim(
            name="unclean-loses",
            section="001 loss cause 2",
            quote="即使在设置acks=all的情况下,如果允许unclean的故障切换(被选举为新leader的相关follower已经不在ISR列表中)",
            says="Even with acks=all data is lost if an unclean failover is allowed.",
            holds=_ALONE.acknowledged_then_lost(),
        ),
        Claim(
            name="clean-avoids",
            section="001 conclusion",
            quote="Unclean的故障切换可以通过设置unclean.leader.election.enable=false来避免",
            says="unclean.leader.election.enable=false avoids it.",
            holds=_ALONE_CLEAN.kept(),
        ),
        Claim(
            name="at-a-price",
            section="001 conclusion",
            quote="由于不能切换到unclean的节点,因此如果leader出现故障无法修复,即使有其他节点拥有部分数据,仍然不可用,可用性降低",
            says="The price is availability: while the leader is away nobody can write.",
            holds=messages("az2-late", topic=unclean_election.CLEAN).not_acknowledged(at_least=3),
        ),
    ),
    "Loss cause 2: an unclean failover loses acks=all writes (as unclean-election)",
)

SCENARIOS = (FOLLOWER_CUT, FOLLOWER_ISOLATED, LEADER_ISOLATED, UNCLEAN)
