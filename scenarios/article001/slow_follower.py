"""Article 001, use of the ISR: a follower that lags but does not stop, with two values of replica.lag.time.max.ms.

The link from the leader to the follower loses two packets of five, so that TCP needs up to seconds for one fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from checkers.claims.builders import about, both, broker, heard_at, mark, messages, partition
from checkers.claims.builders.sql import listed
from harness.cluster.setup import Setup
from harness.errors import WaitTimeoutError
from harness.kafka.model import Topic
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import isr_updates, seed, settle, stand, updated_to, wait_isr_updates

TOPIC = "t"
WITHOUT_FOLLOWER = (1, 3)
LOSS_PERCENT = 40.0
SLOW_S = 12.0
EVERY_S = 0.25
"""Interval between two messages of a producer: long enough for the follower to catch up when a few packets arrive."""
WAITING = 5
"""Producers that write with acks=all during the loss; each waits for the acknowledgement of its previous message."""
SMALL_S, DEFAULT_S = 1.0, 30.0
"""replica.lag.time.max.ms of the two cases; 30 s is Kafka's default."""


def _slow_down(stage: Stage, *, until_it_flaps: bool) -> None:
    seed(stage, TOPIC)
    one = stage.producer("az1", "az1-acks1", "broker1", acks=1, request_timeout_s=30)
    every = stage.producer("az1", "az1-acks-all", "broker1", acks=-1, request_timeout_s=30)
    waiting = [
        stage.producer("az1", f"az1-waiting{number}", "broker1", acks=-1, request_timeout_s=30)
        for number in range(WAITING)
    ]
    # On a busy machine, the follower may have left the ISR while the cluster started.
    left_before = isr_updates(stage, "broker1", TOPIC, WITHOUT_FOLLOWER)
    with stage.nemesis.degrade.lose("broker1 -> broker2", percent=LOSS_PERCENT):
        slow = stage.mark("slow", "many packets from the leader broker1 to broker2 are lost")
        going_on = [writer.keep_writing(TOPIC, every_s=EVERY_S) for writer in (one, *waiting)]
        stand(stage, slow, SLOW_S)
        if until_it_flaps:
            _wait_for_shrinks(stage, left_before + 2)
        stage.mark("before-heal", "the last moment of the loss")
    stage.mark("healed", "the link is as before")
    for writes in going_on:
        writes.stop()
    settle(stage)
    for number in range(20):
        one.send(TOPIC, f"m{number}")
        every.send(TOPIC, f"m{number}")
    stage.mark("measured", "acks=1 and acks=all have been measured on healthy links")


def _wait_for_shrinks(stage: Stage, count: int) -> None:
    """Packets are lost at random; wait longer if too few of the follower's were lost."""
    with suppress(WaitTimeoutError):
        wait_isr_updates(stage, "broker1", TOPIC, WITHOUT_FOLLOWER, at_least=count)


def body(stage: Stage) -> None:
    """Lose two packets of five to a follower, while writing with acks=1 and acks=all, until it has left the ISR twice."""
    _slow_down(stage, until_it_flaps=True)


def default_body(stage: Stage) -> None:
    """Lose two packets of five to a follower, while writing with acks=1 and acks=all."""
    _slow_down(stage, until_it_flaps=False)


T = partition(TOPIC)
_ONE, _EVERY = (
    messages(name, after="converged", before="measured") for name in ("az1-acks1", "az1-acks-all")
)
_SLOW_ONE, _SLOW_EVERY = (
    messages(name, after="slow", before="before-heal") for name in ("az1-acks1", "az1-waiting%")
)
_LEAVES = (
    "如果一个follower在replica.lag.time.max.ms设定的时间范围内没有向leader发出fetch操作请求"
    "或者滞后于leader的最新的数据点超过replica.lag.time.max.ms所设定的时间,那么这个follower将被leader从ISR中剔除"
)
_FETCHED = about(
    f"""SELECT CASE WHEN count(*) >= 10 THEN true WHEN {heard_at(2, "before-heal")} THEN false END AS holds,
    concat(count(*), ' records fetched by broker2 during the loss') AS observed
FROM sightings WHERE {T.where} AND broker = 2 AND seen_ns > {mark("slow")} AND seen_ns <= {mark("before-heal")}""",
    T,
    broker(2),
    since="slow",
    until="before-heal",
    tables=("sightings",),
)
_IN_OR_OUT = f"""SELECT m.writer, m.seq, max(m.done_ns - m.sent_ns) / 1e6 AS ms,
    array_contains(max_by(t.isr, struct(t.epoch, t.ns)), 2) AS waits
FROM (SELECT * FROM life WHERE {messages("az1-waiting%", after="slow").where} AND outcome = 'ok') m
JOIN (SELECT * FROM truth WHERE {T.where}) t ON t.ns <= m.sent_ns GROUP BY m.writer, m.seq"""
"""How long each acknowledgement took, and whether broker2 was in the ISR when the message was sent."""
_FASTER_WITHOUT = about(
    f"""SELECT CASE WHEN least(inside, outside) >= 3 THEN inside_ms > outside_ms END AS holds,
    concat(inside, ' acknowledgements with broker2 in the ISR ', coalesce(cast(inside_ms AS string), 'unknown'),
        ' ms on average, ', outside, ' without it ', coalesce(cast(outside_ms AS string), 'unknown'), ' ms') AS observed
FROM (SELECT count_if(waits) AS inside, round(avg(ms) FILTER (WHERE waits), 1) AS inside_ms,
    count_if(NOT waits) AS outside, round(avg(ms) FILTER (WHERE NOT waits), 1) AS outside_ms FROM ({_IN_OR_OUT}))""",
    T,
    messages("az1-waiting%", after="slow"),
    tables=("life", "truth"),
)
_SET_TO_30_S = about(
    f"""SELECT CASE WHEN count(*) > 0 THEN count_if(value = '30000') = count(*) END AS holds,
    concat('replica.lag.time.max.ms=', {listed("value")}) AS observed
FROM configs WHERE scope = 'broker' AND key = 'replica.lag.time.max.ms'""",
    tables=("configs",),
)
_FETCHES = Claim(
    name="does-not-stop",
    section="beyond 001, use of the ISR",
    says="The follower does not stop fetching: it gets at least ten records during the loss.",
    holds=_FETCHED,
)
_WAITS = Claim(
    name="acks-all-waits",
    section="001, use of the ISR",
    quote="因为当acks=all时需保证ISR列表中的副本都提交数据才能认为副本已成功过提交数据",
    says="acks=all waits for the slow follower while it is in the ISR; acks=1 does not.",
    holds=_SLOW_EVERY.slower_than(_SLOW_ONE, at_least=5),
)
_NOTHING_LOST = Claim(
    name="nothing-lost",
    section="beyond 001, use of the ISR",
    says="Nothing that was acknowledged is lost, not even with acks=1: the leader stays.",
    holds=both(
        messages().none_lost(at_risk_after="slow", at_least=20),
        T.stays(since="seeded", until="converged", what="leader, epoch"),
    ),
)
_SMALL = (
    _FETCHES,
    Claim(
        name="leaves",
        section="001, use of the ISR",
        quote=_LEAVES,
        says="A follower that lags for longer than replica.lag.time.max.ms is removed from the ISR, though it fetches.",
        holds=both(T.becomes(isr=(1, 3), after="seeded", within_s=2 * SLOW_S), _FETCHED),
    ),
    Claim(
        name="flaps",
        section="001, use of the ISR",
        quote="如果你觉得这个值比较长你可以缩小它。但是这也将导致follower会频繁地从ISR中被移除或加入",
        says="With a small value the follower is removed and added again and again: at least twice.",
        holds=both(
            *(
                broker(1).logged("isr_updated", of=T, after="seeded", before=until, where=where, at_least=2)
                for until, where in (
                    ("before-heal", updated_to("1,3")),
                    ("converged", updated_to("1,3,2")),
                )
            )
        ),
    ),
    Claim(
        name="healthy-follower-stays",
        section="beyond 001, use of the ISR",
        says="The follower with a healthy link stays in the ISR all the time.",
        holds=broker(1).never_logged(
            "isr_shrinking",
            of=T,
            after="seeded",
            before="before-heal",
            where="text NOT LIKE '% to 1,3. %'",
        ),
        given=broker(1).logged("isr_shrinking", of=T, after="seeded", before="before-heal"),
    ),
    Claim(
        name="removal-helps",
        section="001, use of the ISR",
        quote="ISR可以在一定程度上解决高延迟的问题",
        says="The ISR solves the problem of high latency to some degree: acks=all is faster on average while the slow follower "
        "is out of it.",
        holds=_FASTER_WITHOUT,
    ),
    _WAITS,
    _NOTHING_LOST,
)
_DEFAULT = (
    _FETCHES,
    Claim(
        name="stays",
        section="beyond 001, use of the ISR",
        says="With replica.lag.time.max.ms=30000 the same follower stays in the ISR for the 12 s that the link is slow.",
        holds=both(
            _SET_TO_30_S,
            T.stays(since="seeded", until="before-heal"),
            broker(1).never_logged("isr_shrinking", of=T, after="seeded", before="before-heal"),
        ),
        given=_FETCHED,
    ),
    Claim(
        name="acks-all-costs-latency",
        section="001 conclusion",
        quote="在需要保证高可靠的环境中通常设置acks=all,同时min.insync.replicas大于1。但这样做的代价是:…增加数据处理延迟,性能降低",
        says="The price of acks=all is latency: even on healthy links the median is longer than with acks=1.",
        holds=_EVERY.slower_than(_ONE, at_least=20),
    ),
    _WAITS,
    Claim(
        name="slow-follower-costs-latency",
        section="001, use of the ISR",
        quote="同时最大限度地减少无效副本或慢副本在延迟方面的影响",
        says="A slow follower that stays in the ISR slows acks=all down; its removal would prevent this.",
        holds=_SLOW_EVERY.slower_than(_EVERY, at_least=5),
    ),
    _NOTHING_LOST,
)


def _scenario(
    name: str, lag_s: float, does: Callable[[Stage], None], claims: tuple[Claim, ...], outcome: str
) -> Scenario:
    return Scenario(
        name=name,
        title=f"A follower lags, but does not stop; replica.lag.time.max.ms is {lag_s:g} s",
        article="001",
        section="ISR, slow",
        body=does,
        setup=Setup(
            topics=(Topic(TOPIC, (1, 2, 3)),),
            controller="broker3",
            zookeeper_leader="zookeeper3",
            broker_config={
                "replica.lag.time.max.ms": f"{lag_s * 1000:.0f}",
                "replica.fetch.wait.max.ms": "200",
            },
            stream_rate=0.0,
        ),
        claims=claims,
        faults=(f"lose broker1 -> broker2 ({LOSS_PERCENT:g} %)",),
        outcome=outcome,
    )


SCENARIOS = (
    _scenario(
        "slow-follower",
        SMALL_S,
        body,
        _SMALL,
        "nothing lost; the follower leaves and joins the ISR repeatedly",
    ),
    _scenario(
        "slow-follower-default-lag",
        DEFAULT_S,
        default_body,
        _DEFAULT,
        "nothing lost; the follower stays in the ISR, and acks=all waits for it",
    ),
)
