"""Messages that are removed as documented: by retention, a DeleteRecords request and deletions of topics."""

from __future__ import annotations

from functools import partial

from acked import Claim, Scenario, Setup, Stage, Topic
from acked.claims import messages
from acked.steps import stand
from harness.waiting import wait_until

TIME, SIZE, DELETED, GONE, AGAIN = "by-time", "by-size", "deleted-records", "gone", "again"
COUNT, KEPT_FROM = 40, 20
LATER = 5
"""Messages that are sent when the first ones are gone."""


SEGMENT_S = 1.1
"""Longer than `segment.ms`: the next message begins another segment."""


def log_starts(stage: Stage, topic: str) -> list[int]:
    """The log start offset of each replica."""
    return [stage.own_log(f"broker{number}", topic).log_start for number in (1, 2, 3)]


def body(stage: Stage) -> None:
    """Send to every topic, remove, and send again."""
    writers = {
        topic: stage.producer("az2", f"to-{topic}", via="librdkafka", acks=-1).prepare(topic)
        for topic in (TIME, SIZE, DELETED, GONE, AGAIN)
    }
    for number in range(COUNT):
        for topic, writer in writers.items():
            writer.must_send(topic, f"{topic}-{number}")
        if number % 10 == 9:
            stand(stage, stage.mark(f"sent-{number}"), SEGMENT_S)
    operator = stage.operator
    operator.delete_records(DELETED, KEPT_FROM)
    operator.delete_topic(GONE)
    operator.delete_topic(AGAIN)
    operator.create_topic(Topic(AGAIN, (1, 2, 3)))
    stage.mark("recreated", "a topic is gone, and another one is new")
    new = stage.producer("az2", "to-the-new", via="librdkafka", acks=-1).prepare(AGAIN)
    for number in range(LATER):
        new.must_send(AGAIN, f"new-{number}")
    for topic in (TIME, SIZE):
        wait_until(
            partial(log_starts, stage, topic),
            accept=lambda starts: min(starts) > 0,
            within_s=90.0,
            awaiting=f"retention to remove messages of {topic}",
            poll_s=0.5,
        )
    for topic in (TIME, SIZE, DELETED):
        for number in range(COUNT, COUNT + LATER):
            writers[topic].must_send(topic, f"{topic}-{number}")
    for topic in (TIME, SIZE, DELETED, AGAIN):
        stage.wait_replicated(topic)
        stage.wait_converged(topic)


SCENARIO = Scenario(
    name="removals",
    title="Documented removals",
    body=body,
    setup=Setup(
        topics=(
            Topic(TIME, (1, 2, 3), config={"retention.ms": "3000", "segment.ms": "1000"}),
            Topic(SIZE, (1, 2, 3), config={"retention.bytes": "2000", "segment.ms": "1000"}),
            *(Topic(topic, (1, 2, 3)) for topic in (DELETED, GONE, AGAIN)),
        ),
        broker_config={"log.retention.check.interval.ms": "1000", "log.segment.delete.delay.ms": "500"},
        stream_rate=0,
    ),
    claims=(
        Claim(
            name="none-lost",
            says="Nothing is lost.",
            holds=messages().none_lost(at_risk_after="recreated", at_least=LATER),
        ),
        Claim(
            name="new-kept", says="The new topic is kept.", holds=messages("to-the-new").kept(at_least=LATER)
        ),
    ),
    faults=("delete records", "delete topic", "create topic"),
    modes=("zookeeper", "kraft"),
    outcome="what was removed has a documented cause",
)
