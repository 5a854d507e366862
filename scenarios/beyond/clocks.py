"""The wall clock of a partition's leader jumps while it runs, ahead or back.

Why a follower stays in the ISR after a jump back: for each follower the leader keeps the latest time at which it
had caught up (`Replica.updateFetchState`), and never an earlier one.
"""

from __future__ import annotations

from checkers.claims.builders import (
    about,
    both,
    condition,
    mark,
    messages,
    messages_where,
    partition,
    topic_is_set,
)
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import require, seed, settle, stand

T = "t"
PT = partition(T)
_DAY_S = 86_400
RETENTION_MS = 7 * _DAY_S * 1000
AHEAD_S = 8 * _DAY_S
BACK_S, FAR_BACK_S = 30 * 60, 2 * 60 * 60
"""Below and above `log.message.timestamp.after.max.ms`, which is an hour since 4.0 (KIP-1030)."""
_CHECK_MS = 1000
_FIRST_CHECK_S = 60.0
"""Brokers look at retention for the first time 30 s after their start (`log.initial.task.delay.ms`)."""
_SECTION = "beyond the articles"
_ALL = "az1-acks-all"


def _wait_removed(stage: Stage, offset: int) -> None:
    wait_until(
        lambda: stage.own_log("broker1", T).log_start,
        accept=lambda start: start > offset,
        within_s=_FIRST_CHECK_S,
        awaiting=f"broker1 to remove offset {offset} of {T}",
        abort=stage.cluster.check_alive,
    )


def _ahead(stage: Stage) -> None:
    """Write before, during and after a jump of the leader's clock, and wait for retention."""
    seed(stage, T)
    producer = stage.producer("az1", _ALL, "broker1", acks=-1)
    producer.must_send(T, "before")
    with stage.nemesis.shift_clock("broker1", AHEAD_S):
        stage.mark("ahead", "the clock of broker1 is 8 days ahead")
        during = producer.must_send(T, "during")
        assert during.offset is not None
        _wait_removed(stage, during.offset)
        stage.mark("removed", "broker1 has removed what it had acknowledged")
    stage.mark("right", "the clock of broker1 is right again")
    producer.must_send(T, "after")
    stand(stage, stage.mark("next", "retention is looked at again and again"), 3 * _CHECK_MS / 1000)
    settle(stage)


def _back(stage: Stage) -> None:
    """Jump far back, and write; jump back by less, and cut a follower off from the leader while writing."""
    seed(stage, T)
    require(stage.leader(T) == "broker1", "broker1 leads")
    producer = stage.producer("az1", _ALL, "broker1", acks=-1, request_timeout_s=60)
    with stage.nemesis.shift_clock("broker1", -FAR_BACK_S):
        stage.mark("far", "the clock of broker1 is two hours behind")
        producer.send(T, "far")
    with stage.nemesis.shift_clock("broker1", -BACK_S):
        stage.mark("back", "the clock of broker1 is half an hour behind")
        producer.must_send(T, "behind")
        with stage.nemesis.cut("broker1 <-> broker3"):
            since = stage.mark("cut", "broker3 does not reach broker1, nor broker1 broker3")
            held = producer.send_later(T, "held")
            stand(stage, since, stage.timings.shrink_s)
            stage.mark("standing", "the last moment of the cut")
        held.result(timeout=60)
    stage.mark("right", "the clock of broker1 is right again")
    settle(stage)


GONE = messages(label=("a", "b", "before", "during"))
FAR, BEHIND, HELD, AFTER = (messages(_ALL, label=label) for label in ("far", "behind", "held", "after"))
_BY_CLOCK = about(
    condition(
        f"(SELECT CASE WHEN count(*) > 0 THEN count_if(cause = 'clock_ahead') = count(*) END FROM life "
        f"WHERE {GONE.where})",
        f"(SELECT concat('causes: ', array_join(collect_set(coalesce(cause, 'none')), ', ')) "
        f"FROM life WHERE {GONE.where})",
    ),
    GONE,
    tables=("life",),
)
_LATE = messages_where(f"{HELD.where} AND done_ns > {mark('standing')}", of=HELD, since="standing")
_WHOLE = Claim(
    name="whole-again",
    section=_SECTION,
    says="In the end all replicas are in sync and hold the same log, and the leader is the same.",
    holds=PT.is_led_by(1, isr=(1, 2, 3), epoch=0, at="converged"),
)
SCENARIOS = (
    Scenario(
        name="leader-clock-ahead",
        title="The leader's clock jumps 8 days ahead, and the topic keeps records for 7 days",
        article="beyond",
        section="clock 1",
        body=_ahead,
        setup=Setup(
            topics=(Topic(T, (1, 2, 3), config={"retention.ms": str(RETENTION_MS)}),),
            broker_config={"log.retention.check.interval.ms": str(_CHECK_MS)},
            own_clocks=("broker1",),
            stream_rate=0,
            quorum="one node",
        ),
        modes=("zookeeper", "kraft"),
        versions=("2.7.1", "4.4.0"),
        claims=(
            Claim(
                name="lost",
                section=_SECTION,
                says="All that was acknowledged before and during the jump is lost, with acks=all, too: the leader "
                "removes it at its next look at retention, and the followers do as their leader does.",
                holds=both(GONE.acknowledged_then_lost(at_least=4), GONE.acknowledged(at_least=4)),
                given=topic_is_set(T, "retention.ms", str(RETENTION_MS)),
            ),
            Claim(
                name="by-the-clock",
                section=_SECTION,
                says="The cause that the finding names is retention, by the leader's clock.",
                holds=_BY_CLOCK,
            ),
            Claim(
                name="kept-afterwards",
                section=_SECTION,
                says="What is acknowledged once the clock is right again is kept.",
                holds=AFTER.kept(),
            ),
            _WHOLE,
        ),
        expected=(
            Expected(
                "lost", "cause = 'clock_ahead'", "the leader removes what is older than 7 days by its clock"
            ),
        ),
        faults=("shift the clock of broker1 8 days ahead",),
        outcome="all that was acknowledged up to then is lost on every replica, with acks=all, too",
    ),
    Scenario(
        name="leader-clock-back",
        title="The leader's clock jumps back",
        article="beyond",
        section="clock 2",
        body=_back,
        setup=Setup(
            topics=(Topic(T, (1, 2, 3)),),
            own_clocks=("broker1",),
            quorum="one node",
        ),
        modes=("zookeeper", "kraft"),
        versions=("2.7.1", "4.4.0"),
        claims=(
            Claim(
                name="far-is-accepted",
                section=_SECTION,
                says="A leader whose clock is two hours behind accepts writes.",
                holds=FAR.acknowledged(),
                before="4.0.0",
            ),
            Claim(
                name="far-is-refused",
                section=_SECTION,
                says="A leader whose clock is two hours behind refuses writes (INVALID_TIMESTAMP): for it, they are "
                "records of the future.",
                holds=FAR.refused_with(32),
                since="4.0.0",
            ),
            Claim(
                name="behind-is-accepted",
                section=_SECTION,
                says="Half an hour behind, it accepts them.",
                holds=BEHIND.acknowledged(),
            ),
            Claim(
                name="follower-stays-in-sync",
                section=_SECTION,
                says="A follower that it does not hear from stays in the ISR: for the leader, it has caught up at a "
                "time to come.",
                holds=PT.has_isr(1, 2, 3, at="standing"),
            ),
            Claim(
                name="writes-wait",
                section=_SECTION,
                says="So a write with acks=all waits until the follower is back.",
                holds=both(_LATE.acknowledged(), _LATE.kept()),
            ),
            Claim(
                name="nothing-lost",
                section=_SECTION,
                says="Nothing that was acknowledged is lost.",
                holds=messages(acks=-1).none_lost(at_risk_after="far", at_least=2),
            ),
            _WHOLE,
        ),
        faults=(
            "shift the clock of broker1 back by two hours, and by half an hour",
            "cut broker1 <-> broker3",
        ),
        outcome="nothing is lost; but a follower that is cut off stays in the ISR, and acks=all waits for it",
    ),
)
