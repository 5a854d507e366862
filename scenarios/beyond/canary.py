"""Beyond the articles: a replica's log is altered by hand, and the checker must see it.

A harness that reports nothing proves nothing until it has been seen to report. The only fault here is one
byte on one replica's disk.
"""

from __future__ import annotations

from checkers.claims.builders import about, both, messages
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.scenario import Claim, Expected, Scenario
from run.stage import Stage

TOPIC = "t"


def body(stage: Stage) -> None:
    """Three messages on three replicas; one byte of one replica's log is flipped; one more message."""
    writer = stage.producer("az1", "az1-acks-all", "broker1", acks=-1, request_timeout_s=10)
    for message in ("a", "b", "c"):
        writer.must_send(TOPIC, message)
    stage.wait_replicated(TOPIC)
    stage.nemesis.storage.corrupt("broker3", TOPIC, offset=1)
    stage.mark("altered", "one byte of message b on broker3 is not what was written")
    writer.must_send(TOPIC, "d")
    stage.wait_replicated(TOPIC)


_ALTERED_ALONE = about(
    f"SELECT count(*) = 1 AND count_if(class = 'corrupt' AND offset = 1 AND topic = '{TOPIC}' "
    "AND array_contains(brokers, 3)) = 1 AS holds, concat('findings: ', count(*), ', ', coalesce(concat_ws(', ', "
    "collect_list(concat(class, ' at offset ', offset, ' of ', topic, ' on ', array_join(transform(brokers, "
    "b -> concat('broker', b)), ', ')))), '')) "
    "AS observed FROM findings",
    tables=("findings",),
)
SCENARIO = Scenario(
    name="canary",
    title="One byte of one replica's log is altered by hand",
    article="-",
    section="",
    body=body,
    setup=Setup(topics=(Topic(TOPIC, (1, 2, 3)),), stream_rate=20.0, quorum="one node"),
    claims=(
        Claim(
            name="damage-is-seen",
            section="acked",
            says="The altered record is found on the altered replica, and nothing else is found: what is written afterwards is on all three.",
            holds=both(_ALTERED_ALONE, messages(after="altered", topic=TOPIC).held_by(1, 2, 3)),
        ),
    ),
    expected=(Expected("corrupt", "topic = 't'", "the byte that the scenario altered"),),
    faults=("corrupt one byte",),
    outcome="exactly the altered record is found corrupt",
)
