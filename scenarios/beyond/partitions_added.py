"""Partitions are added to a topic that groups read, and written to before the groups notice them.

Clients learn of new partitions when they refresh their metadata (`metadata.max.age.ms`, 5 minutes by default). A group
has committed nothing in a new partition, so `auto.offset.reset` decides where it begins: with `latest` behind
everything that was acknowledged there until then.
"""

from __future__ import annotations

from checkers.claims.builders import both, members, messages
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from harness.waiting import wait_until
from run.producer import Producer
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import wait_read
from scenarios.transactions.steps import GROUPS_SECTION as SECTION
from scenarios.transactions.steps import HANDED_S
from workloads.client.client import BackgroundConsumer

LATEST, EARLIEST = "latest", "earliest"
"""Topics, and the `auto.offset.reset` of the group that reads each of them."""
OLD, NEW = 0, 1
REFRESH_S = 60.0
"""How often members refresh their metadata: seldom enough to write before they do."""
MEMBER = "az2-member"


def body(stage: Stage) -> None:
    """Start a group for each topic, add a partition to each, and write to it before and after the groups notice."""
    first = stage.producer("az1", "az1-first", "broker1", acks=-1)
    groups = {
        name: stage.start_member(
            "az2",
            name,
            name,
            partitions=NEW + 1,
            name=MEMBER,
            config={
                "auto.offset.reset": name,
                "topic.metadata.refresh.interval.ms": int(REFRESH_S * 1000),
            },
        )
        for name in (LATEST, EARLIEST)
    }
    for name, member in groups.items():
        _send_until_received(stage, first, name, OLD, member, HANDED_S)
    stage.mark("running", "both groups receive messages")

    operator = stage.operator
    for topic in stage.setup.topics:
        operator.add_partitions(topic)
    stage.mark("added", "each topic has another partition")
    early = stage.producer(
        "az1", "az1-early", via="librdkafka", acks=-1, retries=100, delivery_timeout_s=20.0
    )
    for name in groups:
        for label in ("a", "b", "c"):
            early.must_send(name, label, partition=NEW)
    stage.mark("written", "messages in the new partitions are acknowledged")
    probe = stage.producer("az1", "az1-probe", "broker1", acks=-1)
    for name, member in groups.items():
        _send_until_received(stage, probe, name, NEW, member, REFRESH_S + HANDED_S)
    stage.mark("noticed", "both groups read the new partitions")
    late = stage.producer("az1", "az1-late", "broker1", acks=-1)
    for name, member in groups.items():
        before = member.progress().count
        for label in ("d", "e"):
            late.must_send(name, label, partition=NEW)
        wait_read(stage, [member], before + 2, HANDED_S)
    stage.mark("read", "both groups have received the messages that were sent then")
    for member in groups.values():
        member.stop(20.0)


def _send_until_received(
    stage: Stage, writer: Producer, topic: str, number: int, member: BackgroundConsumer, within_s: float
) -> None:
    """Send messages to a partition until the member of a group receives one of them."""

    def received() -> int:
        writer.must_send(topic, "probe", partition=number)
        return sum(part.count for part in member.progress().partitions if part.partition.partition == number)

    wait_until(
        received,
        within_s=within_s,
        awaiting=f"the group {topic} to receive a message of {topic}/{number}",
        poll_s=0.5,
        abort=stage.cluster.check_alive,
    )


_EARLY, _LATE = "az1-early", "az1-late"
_ACKNOWLEDGED = Claim(
    name="acknowledged",
    section=SECTION,
    says="Messages in the new partition are acknowledged as soon as it is added, and they are in its log.",
    holds=messages(_EARLY).kept(at_least=6),
)

SCENARIO = Scenario(
    name="partitions-added",
    title="Partitions are added to a topic, and written to before consumer groups notice",
    article="beyond",
    section="groups",
    body=body,
    setup=Setup(
        topics=tuple(Topic(name, (1, 2, 3), partitions=NEW + 1, later=1) for name in (LATEST, EARLIEST)),
        offsets_log=(1, 2, 3),
        quorum="one node",
        stream_rate=0,
    ),
    modes=("zookeeper", "kraft"),
    versions=("2.7.1", "4.3.1"),
    claims=(
        Claim(
            name="unnoticed",
            section=SECTION,
            says="Until the messages are written, neither group has been assigned the new partition.",
            holds=both(
                *(
                    members(name, MEMBER).take_over(name, 0, after="added", before="written")
                    for name in (LATEST, EARLIEST)
                )
            ),
            precondition=True,
        ),
        _ACKNOWLEDGED,
        Claim(
            name="latest-misses",
            section=SECTION,
            says="A group with auto.offset.reset=latest never receives what was acknowledged in the new partition "
            "before it was assigned it.",
            holds=messages(_EARLY, topic=LATEST).not_consumed(
                beside=messages(_LATE, topic=LATEST), until="read"
            ),
        ),
        Claim(
            name="earliest-reads",
            section=SECTION,
            says="With earliest it receives all of it.",
            holds=messages(_EARLY, topic=EARLIEST).consumed(since="written", until="read", at_least=3),
        ),
        Claim(
            name="no-sign",
            section=SECTION,
            says="Nothing tells the group of it: it receives what comes later, and skips nothing behind what it "
            "has committed.",
            holds=members(LATEST, MEMBER).continue_at_commits(
                LATEST, after="noticed", before="read", at_least=2
            ),
        ),
    ),
    faults=("add partitions",),
    outcome="a group with `latest` misses acknowledged messages; one with `earliest` does not",
)
