"""Records with the time of their events: retention counts from it, not from when they were written."""

from __future__ import annotations

from checkers.claims.builders import messages, topic_is_set
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage
from scenarios.steps import require, stand

REPLAYED, MIXED, AHEAD = "replayed", "mixed", "ahead"
RETENTION_MS = 30 * 60 * 1000
AGE_S = 60 * 60
"""How old the replayed events are: twice what the topics retain."""
AHEAD_S = 2 * 60 * 60
"""Beyond the default of `log.message.timestamp.after.max.ms` since 4.0, an hour (KIP-1030)."""
_CHECK_MS = 1000
_FIRST_CHECK_S = 60.0
"""Brokers look at retention for the first time 30 s after their start (`log.initial.task.delay.ms`)."""
_SECTION = "beyond the articles"


def body(stage: Stage) -> None:
    """Write old events, alone and beside new ones, and events of the future; wait for retention."""
    for topic in (REPLAYED, MIXED, AHEAD):
        require(stage.leader(topic) == "broker1", f"broker1 leads {topic}")
    stage.mark("empty", "the topics are empty")
    replay = stage.producer("az1", "az1-replay", via="librdkafka", acks=-1, event_age_s=AGE_S)
    live = stage.producer("az1", "az1-live", "broker1", acks=-1)
    ahead = stage.producer("az1", "az1-ahead", "broker1", acks=-1, event_age_s=-AHEAD_S)
    for label in ("a", "b", "c"):
        replay.must_send(REPLAYED, label)
        replay.must_send(MIXED, label)
    live.must_send(MIXED, "now")
    ahead.send(AHEAD, "ahead")
    stage.mark("acknowledged", "old events are acknowledged by every replica")
    wait_until(
        lambda: stage.own_log(stage.leader(REPLAYED), REPLAYED).log_start,
        accept=lambda start: start == 3,
        within_s=_FIRST_CHECK_S,
        awaiting=f"the beginning of {REPLAYED} to be removed",
    )
    stage.mark("removed", f"{REPLAYED} begins behind the old events")
    stand(stage, stage.mark("next", "retention is looked at again and again"), 3 * _CHECK_MS / 1000)
    stage.mark("standing", "the last moment before the end")


REPLAYS = messages("az1-replay", topic=REPLAYED)

SCENARIO = Scenario(
    name="event-time-retention",
    title="Producers write the times of events: retention removes old ones as soon as they are acknowledged",
    article="-",
    section="",
    body=body,
    setup=Setup(
        topics=tuple(
            Topic(name, (1, 2, 3), config={"retention.ms": str(RETENTION_MS)})
            for name in (REPLAYED, MIXED, AHEAD)
        ),
        broker_config={"log.retention.check.interval.ms": str(_CHECK_MS)},
        stream_rate=0,
        quorum="one node",
    ),
    modes=("zookeeper", "kraft"),
    versions=("2.7.1", "4.3.1"),
    claims=(
        Claim(
            name="replayed-is-acknowledged",
            section=_SECTION,
            says="A record that is older than `retention.ms` is acknowledged as any other, with acks=all, too.",
            holds=REPLAYS.acknowledged(at_least=3),
        ),
        Claim(
            name="replayed-is-removed",
            section=_SECTION,
            says="Retention removes it at its next look, even from the segment that is written to.",
            holds=REPLAYS.became("retired", at_least=3),
            given=topic_is_set(REPLAYED, "retention.ms", str(RETENTION_MS)),
        ),
        Claim(
            name="newest-record-decides",
            section=_SECTION,
            says="Beside one newer record in their segment, equally old records stay: its newest timestamp decides.",
            holds=messages("az1-replay", topic=MIXED).kept(at_least=3),
        ),
        Claim(
            name="future-is-accepted",
            section=_SECTION,
            says="A record of the future is accepted.",
            holds=messages("az1-ahead").acknowledged(at_least=1),
            before="4.0.0",
        ),
        Claim(
            name="future-is-refused",
            section=_SECTION,
            says="A record that is two hours ahead is refused (INVALID_TIMESTAMP): since 4.0 the limit is an hour.",
            holds=messages("az1-ahead").refused_with(32),
            since="4.0.0",
        ),
    ),
    expected=(
        Expected(
            "server_error",
            f"detail LIKE '%Error processing append operation on partition %{AHEAD}-0 %'",
            "the leader logs each refused timestamp as ERROR",
            since="4.0.0",
        ),
    ),
    outcome="acknowledged records with old timestamps are removed within a second; nothing counts as lost",
)
