"""An operator sets the committed offsets of consumer groups: one back, and one ahead."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.claims.builders import both, group_offsets, members, messages
from harness.cluster.setup import Setup
from harness.kafka.model import Topic
from run.producer import Producer
from run.scenario import Claim, Scenario
from run.stage import Stage
from scenarios.steps import wait_read
from scenarios.transactions.steps import GROUPS_SECTION as SECTION
from scenarios.transactions.steps import HANDED_S
from workloads.client.client import BackgroundConsumer

BACK, AHEAD = "back", "ahead"
"""Topics, and the group that reads each of them."""
HELD, TO_BACK, TO_AHEAD = 7, 4, 13
"""What the operator asks for while members live, and then without them."""
READ, ALL = 10, 15
"""How many messages the groups have received when they stop, and how many are sent in all."""
COORDINATOR, NUMBER = "broker1", 1
_FIRST, _SECOND = "az2-first", "az2-second"


def body(stage: Stage) -> None:
    """Let groups read ten of fifteen messages; set the offset of one, ask in vain for the other; start both again."""
    writer = stage.producer("az1", "az1-writer", "broker1", acks=-1, request_timeout_s=10.0)
    members = {name: _member(stage, name, _FIRST) for name in (BACK, AHEAD)}
    for name, member in members.items():
        _send(writer, name, range(READ))
        wait_read(stage, [member], READ, HANDED_S)
    stage.mark("read-first", "both groups have received ten messages")
    members[AHEAD].stop(20.0)
    _send(writer, AHEAD, range(READ, ALL))
    stage.alter_offsets("az3", AHEAD, AHEAD, TO_AHEAD)
    stage.mark("ahead", f"offset {TO_AHEAD} is committed for a group without members")
    stage.group_offsets("az3", BACK).commit(BACK, HELD, at=COORDINATOR)
    stage.mark("asked", "an operator has tried to set the offset of the group with a member")
    members[BACK].stop(20.0)
    _send(writer, BACK, range(READ, ALL))
    stage.alter_offsets("az3", BACK, BACK, TO_BACK)
    stage.mark("back", f"it has no member any more, and offset {TO_BACK} is committed")
    members = {name: _member(stage, name, _SECOND) for name in members}
    wait_read(stage, [members[BACK]], ALL - TO_BACK, HANDED_S)
    wait_read(stage, [members[AHEAD]], ALL - TO_AHEAD, HANDED_S)
    stage.mark("read-again", "both groups have reached the end")
    for member in members.values():
        member.stop(20.0)


def _send(writer: Producer, topic: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        writer.must_send(topic, f"m{number}")


def _member(stage: Stage, group: str, name: str) -> BackgroundConsumer:
    return stage.start_member("az2", group, group, name=name)


def _numbered(since: int, until: int) -> tuple[str, ...]:
    return tuple(f"m{number}" for number in range(since, until))


_GROUPS = {name: group_offsets(name) for name in (BACK, AHEAD)}
CLAIMS = (
    Claim(
        name="refused-with-members",
        section=SECTION,
        says="While a group has members, its coordinator refuses (error 25, UNKNOWN_MEMBER_ID).",
        holds=_GROUPS[BACK].commits_answered(25, at=NUMBER, offsets=(HELD,), after="ahead", before="asked"),
    ),
    Claim(
        name="set",
        section=SECTION,
        says="Without members it commits any offset, a lower one too.",
        holds=both(
            _GROUPS[BACK].is_answered(TO_BACK, by=NUMBER, after="asked", before="back"),
            _GROUPS[AHEAD].is_answered(TO_AHEAD, by=NUMBER, after="read-first", before="ahead"),
        ),
    ),
    Claim(
        name="received-again",
        section=SECTION,
        says="A group that was set back receives again what it had committed.",
        holds=messages(topic=BACK, label=_numbered(TO_BACK, READ)).consumed(
            since="back", until="read-again", at_least=READ - TO_BACK
        ),
    ),
    Claim(
        name="left-out",
        section=SECTION,
        says="One that was set ahead never receives what lies between.",
        holds=messages(topic=AHEAD, label=_numbered(READ, TO_AHEAD)).not_consumed(
            beside=messages(topic=AHEAD, label=_numbered(TO_AHEAD, ALL)), until="read-again"
        ),
    ),
    Claim(
        name="explained",
        section=SECTION,
        says="Neither is a broken promise: both groups begin where the operator said, and acked finds no replay "
        "and no skip.",
        holds=both(
            members(BACK, _SECOND).continue_at_commits(
                BACK, after="back", before="read-again", at_least=ALL - TO_BACK
            ),
            members(AHEAD, _SECOND).continue_at_commits(
                AHEAD, after="back", before="read-again", at_least=ALL - TO_AHEAD
            ),
        ),
    ),
)

SCENARIO = Scenario(
    name="offsets-altered",
    title="An operator sets the committed offsets of consumer groups back, and ahead",
    article="transactions",
    section="committed offsets",
    body=body,
    setup=Setup(
        topics=(Topic(BACK, (1, 2, 3)), Topic(AHEAD, (1, 2, 3))),
        offsets_log=(1, 2, 3),
        quorum="one node",
        stream_rate=0,
    ),
    claims=CLAIMS,
    faults=("alter offsets",),
    kafka="4.3.1",
    mode="kraft",
    modes=("kraft", "zookeeper"),
    outcome="a group that is set back receives messages again, one that is set ahead leaves some out; no finding",
    versions=("2.7.1", "4.3.1"),
)
