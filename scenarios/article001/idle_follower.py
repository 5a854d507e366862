"""Article 001, use of the ISR: does a follower that stops fetching leave the ISR of an idle partition?

A busy partition with the same replicas shows beside it that the leader does watch its followers.
"""

from __future__ import annotations

from checkers.claims.builders import both, broker, messages, partition
from harness.cluster.setup import Setup
from harness.cluster.timings import Timings
from harness.kafka.model import Topic
from run.scenario import Claim, Erratum, Scenario
from run.stage import Stage
from scenarios.steps import seed, settle, stand, wait_isr_committed

IDLE, BUSY = "i", "b"
CONFIG = {"replica.lag.time.max.ms": "3000"}
"""A leader looks for lagging followers every half of it."""
TIMINGS = Timings.of(CONFIG, "zookeeper")


def body(stage: Stage) -> None:
    """Cut a follower from its leader, write to one of two partitions, wait, write to the other, heal."""
    seed(stage, IDLE, BUSY)
    busy = stage.producer("az1", "az1-busy", "broker1", acks=1)
    idle = stage.producer("az1", "az1-first", "broker1", acks=1)
    with stage.nemesis.cut("broker1 <-> broker2"):
        cut = stage.mark("cut", "the follower broker2 can no longer fetch from broker1")
        for number in range(3):
            busy.send(BUSY, f"m{number}")
        stage.wait_for_isr(BUSY, 1, 3, within_s=stage.timings.shrink_s)
        stage.mark("shrunk", "broker2 has left the ISR of the busy partition")
        # Far longer than the 1.5 times at most that removal takes.
        stand(stage, cut, 4 * stage.timings.lag_s)
        stage.mark("waited", "nothing has been written to the idle partition")
        idle.send(IDLE, "m")
        stage.wait_for_isr(IDLE, 1, 3, within_s=stage.timings.shrink_s)
        wait_isr_committed(stage, "broker1", IDLE, (1, 3))
        stage.mark("left", "broker2 has left the ISR of the other partition as well")
        stage.producer("az1", "az1-after", "broker1", acks=-1).send(IDLE, "n")
        stage.mark("before-heal", "the last moment of the cut")
    stage.mark("healed", "the link is back")
    settle(stage)


Q, B = partition(IDLE), partition(BUSY)
_LEAVES = (
    "如果一个follower在replica.lag.time.max.ms设定的时间范围内没有向leader发出fetch操作请求"
    "或者滞后于leader的最新的数据点超过replica.lag.time.max.ms所设定的时间,那么这个follower将被leader从ISR中剔除"
)


def _busy_leaves(timings: Timings) -> Claim:
    lag_s = timings.lag_s
    return Claim(
        name="busy-leaves",
        section="001, use of the ISR",
        quote=_LEAVES,
        says="A follower that lags behind the leader's newest data for replica.lag.time.max.ms leaves the ISR: "
        f"after {lag_s:g} s to {1.5 * lag_s:g} s.",
        holds=both(
            B.becomes(isr=(1, 3), after="cut", within_s=1.5 * lag_s + 2.5, not_within_s=lag_s - 1),
            broker(1).logged("isr_shrinking", of=B, after="cut", before="shrunk"),
        ),
    )


def _idle_leaves(timings: Timings) -> Claim:
    return Claim(
        name="idle-leaves",
        section="001, use of the ISR",
        quote=_LEAVES,
        says="A follower that sends no fetch request within replica.lag.time.max.ms is removed from the ISR.",
        holds=Q.has_out_of_isr(2, at="waited"),
        erratum=Erratum(
            says=f"It stays in the ISR of an idle partition: for {4 * timings.lag_s:g} s, four times "
            "replica.lag.time.max.ms.",
            because="from 2.1 on a follower whose log ends where the leader's does counts as in sync, whenever it "
            "fetched last",
            holds=both(
                Q.stays(since="seeded", until="waited"),
                broker(1).never_logged("isr_shrinking", of=Q, after="cut", before="waited"),
            ),
        ),
    )


def _first_write_removes(timings: Timings) -> Claim:
    return Claim(
        name="first-write-removes",
        section="beyond 001, use of the ISR",
        says="The first write removes it at the leader's next look, within half of replica.lag.time.max.ms: "
        "the time counts from its last fetch, not from the write.",
        holds=Q.becomes(isr=(1, 3), after="waited", within_s=timings.lag_s),
        given=Q.has_isr(1, 2, 3, at="waited"),
    )


CLAIMS = (
    Claim(
        name="does-not-fetch",
        section="beyond 001, use of the ISR",
        says="The follower fetches nothing from the leader during the cut.",
        holds=messages("az1-busy").not_seen_on(2, until="before-heal", at_least=3),
    ),
    _busy_leaves(TIMINGS),
    _idle_leaves(TIMINGS),
    _first_write_removes(TIMINGS),
    Claim(
        name="no-new-leader",
        section="beyond 001, use of the ISR",
        says="Neither partition gets another leader or leader epoch.",
        holds=both(*(one.stays(since="seeded", until="converged", what="leader, epoch") for one in (Q, B))),
        given=both(*(one.has_isr(1, 3, at="before-heal") for one in (Q, B))),
    ),
    Claim(
        name="rejoins",
        section="001, rejoining",
        quote="它们仅仅需要尽快地从leader同步数据,最终能够赶上leader,然后就可以被添加到ISR列表中",
        says="The follower joins both ISRs again after the cut.",
        holds=both(
            *(one.has_isr(1, 3, at="before-heal") for one in (Q, B)),
            *(one.has_isr(1, 2, 3, at="converged") for one in (Q, B)),
        ),
    ),
    Claim(
        name="keeps-its-data",
        section="001, rejoining",
        quote="期间不会被阻塞,也不会丢弃原有数据",
        says="Until it joins them again it is not blocked, as it gets all that it missed, and it discards nothing that it has.",
        holds=both(
            messages(("az1-busy", "az1-first", "az1-after")).seen_on(2, until="converged", at_least=5),
            *(broker(2).never_logged("truncated", of=one, after="cut", before="converged") for one in (Q, B)),
            messages("az1-seed").held_by(1, 2, 3, at_least=4),
        ),
        given=messages("az1-busy").not_seen_on(2, until="before-heal", at_least=3),
    ),
    Claim(
        name="nothing-lost",
        section="beyond 001, use of the ISR",
        says="Nothing that was acknowledged is lost.",
        holds=messages().none_lost(at_risk_after="cut", at_least=5),
    ),
)

SCENARIO = Scenario(
    name="idle-follower",
    title="A follower of an idle partition can no longer fetch",
    article="001",
    section="ISR",
    body=body,
    setup=Setup(
        topics=(Topic(IDLE, (1, 2, 3)), Topic(BUSY, (1, 2, 3))),
        controller="broker3",
        zookeeper_leader="zookeeper3",
        broker_config=CONFIG,
        stream_rate=0.0,
    ),
    claims=CLAIMS,
    timed=(_busy_leaves, _idle_leaves, _first_write_removes),
    faults=("cut broker1 <-> broker2",),
    outcome="the follower leaves the busy partition's ISR, and stays in the idle one's until something is written",
)
