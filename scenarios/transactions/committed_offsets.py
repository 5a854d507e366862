"""Committed offsets of a consumer group while its coordinator is cut off, and when they are lost."""

from __future__ import annotations

from collections.abc import Mapping

from checkers.claims.builders import both, group_offsets, partition
from harness.cluster.setup import Setup
from harness.kafka.model import OFFSETS_LOG, Topic
from run.scenario import Claim, Either, Expected, Scenario
from run.stage import Stage
from scenarios.steps import pins, require
from scenarios.transactions.steps import GROUPS_SECTION as SECTION

TOPIC, GROUP = "t", "g"
ZOMBIE, NUMBER = "broker1", 1
SURVIVORS = (2, 3)
OFFSETS_COMMIT_S = 5.0
"""offsets.commit.timeout.ms, after which a coordinator gives up."""
COMMIT_S = 3 * OFFSETS_COMMIT_S


def isolate(stage: Stage) -> None:
    """Isolate the coordinator; commit inside, fail over, commit outside; ask both; heal, ask both again."""
    inside, outside = stage.group_offsets("az1", GROUP), stage.group_offsets("az2", GROUP)
    _begin(stage)
    with stage.nemesis.isolate("az1"):
        stage.mark("cut", "az1 is isolated, with the group's coordinator")
        waiting = inside.commit_later(TOPIC, 20, at=ZOMBIE, within_s=COMMIT_S)
        state = stage.wait_for_leader(OFFSETS_LOG, not_on=ZOMBIE)
        leader = f"broker{state.leader}"
        outside.wait_answered(TOPIC, at=leader)
        stage.mark("moved", f"{leader} coordinates")
        first = waiting.result(COMMIT_S + 10.0)
        again = inside.commit(TOPIC, 21, at=ZOMBIE, within_s=COMMIT_S)
        stage.mark("inside-told", f"the old coordinator answers two commits: {first.error}, {again.error}")
        inside.fetch(TOPIC, at=ZOMBIE)
        outside.fetch(TOPIC, at=leader)
        stage.mark("compared", "both coordinators have been asked")
        outside.must_commit(TOPIC, 12, at=leader)
        outside.fetch(TOPIC, at=leader)
        inside.fetch(TOPIC, at=ZOMBIE)
        stage.mark(
            "outside-committed", "offset 12 is committed at the new one, and both have been asked again"
        )
    stage.mark("healed", "az1 is back")
    stage.wait_converged(OFFSETS_LOG)
    for client in (inside, outside):
        client.fetch(TOPIC, at=leader)
        client.fetch(TOPIC, at=ZOMBIE)
    stage.mark("asked", "after the heal clients of both AZs have asked both brokers")


def elect_uncleanly(stage: Stage) -> None:
    """Take the coordinator's followers away, commit, kill it; ask the replica that is elected uncleanly."""
    outside = stage.group_offsets("az3", GROUP)
    _begin(stage)
    with stage.nemesis.cut("broker2 -> broker1:9092", "broker3 -> broker1:9092"):
        stage.mark("cut", "the followers of the offsets topic get nothing more from the coordinator")
        # Followers leave the ISR only when they lack a record.
        waiting = outside.commit_later(TOPIC, 20, at=ZOMBIE, within_s=COMMIT_S)
        stage.wait_for_isr(OFFSETS_LOG, NUMBER, within_s=stage.timings.shrink_s)
        waiting.result(COMMIT_S + 10.0)
        stage.mark("shrunk", "the coordinator is the only replica in sync")
        outside.commit(TOPIC, 22, at=ZOMBIE, within_s=COMMIT_S)
        outside.fetch(TOPIC, at=ZOMBIE)
        stage.mark("told", "it has answered a commit, and what is committed")
        stage.kill(ZOMBIE)
    state = stage.wait_for_leader(OFFSETS_LOG, not_on=ZOMBIE)
    leader = f"broker{state.leader}"
    outside.wait_answered(TOPIC, at=leader)
    stage.mark("elected", f"{leader} is elected and has loaded the offsets")
    stage.restart(ZOMBIE)
    stage.wait_converged(OFFSETS_LOG)
    outside.fetch(TOPIC, at=leader)
    stage.mark("asked", "the old coordinator is back and follows; the new one has been asked again")


def _begin(stage: Stage) -> None:
    """Send messages, and commit offset 10, replicated everywhere."""
    writer = stage.producer("az2", "az2-writer", "broker2", acks=-1, request_timeout_s=10.0)
    for number in range(24):
        writer.must_send(TOPIC, f"m{number}")
    require(stage.leader(OFFSETS_LOG) == ZOMBIE, f"{ZOMBIE} coordinates")
    client = stage.group_offsets("az2", GROUP)
    client.wait_answered(TOPIC, at=ZOMBIE)
    client.must_commit(TOPIC, 10, at=ZOMBIE)
    stage.wait_replicated(OFFSETS_LOG)
    stage.mark("committed", "the group has committed offset 10")


_G = group_offsets(GROUP)


def _not_acknowledged(error: int) -> str:
    return _G.commits_answered(
        error,
        at=NUMBER,
        offsets=(20, 21),
        after="cut",
        before="inside-told",
        at_least=2,
        not_within_s=OFFSETS_COMMIT_S,
    )


def _waits_in_vain(error: int, not_within_s: float = 0.0) -> str:
    return both(
        _G.commits_answered(
            error, at=NUMBER, offsets=(20,), after="cut", before="shrunk", not_within_s=not_within_s
        ),
        partition(OFFSETS_LOG).has_isr(NUMBER, at="shrunk"),
    )


_MOVES = Claim(
    name="coordinator-moves",
    section=SECTION,
    says="Another broker coordinates the group as soon as it leads the offsets topic, and knows the offset that was "
    "committed before.",
    holds=both(
        partition(OFFSETS_LOG).is_led_by(SURVIVORS, at="moved"),
        _G.is_answered(10, by=SURVIVORS, after="moved", before="compared"),
    ),
)
_ONE_ANSWER = Claim(
    name="one-answer-after-heal",
    section=SECTION,
    says="After the heal clients of both AZs get one answer, that of the new coordinator; the old one answers with "
    "error 16.",
    holds=both(
        _G.is_answered(12, by=SURVIVORS, after="healed", before="asked", at_least=2),
        _G.is_refused(16, by=NUMBER, after="healed", before="asked", at_least=2),
    ),
)
STALE_CLAIMS = (
    _MOVES,
    Claim(
        name="commit-inside-not-acknowledged",
        section=SECTION,
        says="The isolated coordinator acknowledges no commit: it answers with error 7 after "
        "offsets.commit.timeout.ms.",
        holds=_not_acknowledged(7),
        before="4.0.0",
    ),
    Claim(
        name="commit-inside-not-available",
        section=SECTION,
        says="The isolated coordinator acknowledges no commit: it answers with error 15 after "
        "offsets.commit.timeout.ms.",
        holds=_not_acknowledged(15),
        since="4.0.0",
    ),
    Claim(
        name="old-offset-inside",
        section=SECTION,
        says="It goes on answering without an error: with the offset that was committed before the cut, and not with one that it did not acknowledge.",
        holds=_G.is_answered(10, by=NUMBER, after="inside-told", before="compared"),
    ),
    Claim(
        name="stale-inside",
        section=SECTION,
        says="After the new coordinator has acknowledged a later offset, clients inside still get the old one: "
        "a consumer that starts there reads messages again that the group has processed.",
        holds=both(
            _G.commits_answered(0, at=SURVIVORS, offsets=(12,), after="compared", before="outside-committed"),
            _G.is_answered(12, by=SURVIVORS, after="compared", before="outside-committed"),
            _G.is_answered(10, by=NUMBER, after="compared", before="outside-committed"),
        ),
    ),
    _ONE_ANSWER,
    Claim(
        name="no-commit-lost",
        section=SECTION,
        says="No acknowledged commit is lost.",
        holds=_G.none_lost(by=SURVIVORS, before="asked", after="cut"),
    ),
)
LOST_CLAIMS = (
    _MOVES,
    Claim(
        name="commit-inside-acknowledged",
        section=SECTION,
        says="With offsets.commit.required.acks=1 the isolated coordinator acknowledges commits, and answers with "
        "the last of them.",
        holds=both(
            _G.commits_answered(
                0, at=NUMBER, offsets=(20, 21), after="cut", before="inside-told", at_least=2
            ),
            _G.is_answered(21, by=NUMBER, after="inside-told", before="compared"),
        ),
    ),
    Claim(
        name="commits-lost",
        section=SECTION,
        says="The new coordinator does not know them: both acknowledged commits are lost, and the group processes "
        "11 messages again.",
        holds=_G.acknowledged_then_lost(by=SURVIVORS, after="cut", before="compared", at_least=2),
    ),
    _ONE_ANSWER,
)
UNCLEAN_CLAIMS = (
    Claim(
        name="commit-acknowledged",
        section=SECTION,
        says="The last replica in sync acknowledges a commit, and answers with it.",
        holds=both(
            _G.commits_answered(0, at=NUMBER, offsets=(22,), after="shrunk", before="told"),
            _G.is_answered(22, by=NUMBER, after="shrunk", before="told"),
        ),
    ),
    Claim(
        name="commit-lost",
        section=SECTION,
        says="The replica that is elected uncleanly does not know it: the acknowledged commit is lost, and the "
        "group processes 12 messages again.",
        holds=both(
            partition(OFFSETS_LOG).is_led_by(SURVIVORS, at="elected"),
            _G.acknowledged_then_lost(by=SURVIVORS, after="shrunk", before="elected"),
        ),
    ),
    Claim(
        name="lost-for-good",
        section=SECTION,
        says="The return of the old coordinator, which had it, does not bring it back.",
        holds=_G.is_answered(10, by=SURVIVORS, after="elected", before="asked"),
    ),
)
REFUSED_CLAIMS = (
    Claim(
        name="waiting-commit-not-acknowledged",
        section=SECTION,
        says="A commit that waits for the followers is not acknowledged either: error 7 after "
        "offsets.commit.timeout.ms, before the followers leave the ISR.",
        holds=_waits_in_vain(7, not_within_s=OFFSETS_COMMIT_S),
        either=Either(
            says="It is refused with error 15, as the followers leave the ISR before offsets.commit.timeout.ms has passed.",
            because="that time begins with the commit, and the 6 s after which followers leave the ISR with their last "
            "fetch before the cut, which is proved before the commit is sent",
            holds=_waits_in_vain(15),
        ),
        before="4.0.0",
    ),
    Claim(
        name="waiting-commit-not-acknowledged",
        section=SECTION,
        says="A commit that waits for the followers is not acknowledged either: error 15, after offsets.commit.timeout.ms "
        "or when they leave the ISR.",
        holds=_waits_in_vain(15),
        since="4.0.0",
    ),
    Claim(
        name="commit-refused",
        section=SECTION,
        says="With min.insync.replicas=2 on the offsets topic the last replica in sync refuses the commit with "
        "error 15, and answers with the offset before.",
        holds=both(
            _G.commits_answered(15, at=NUMBER, offsets=(22,), after="shrunk", before="told"),
            _G.is_answered(10, by=NUMBER, after="shrunk", before="told"),
        ),
    ),
    Claim(
        name="no-commit-lost",
        section=SECTION,
        says="The replica that is elected uncleanly knows every acknowledged commit.",
        holds=both(
            partition(OFFSETS_LOG).is_led_by(SURVIVORS, at="elected"),
            _G.none_lost(by=SURVIVORS, before="asked", after="shrunk"),
        ),
    ),
)


def _setup(brokers: Mapping[str, str] | None = None, **log: str) -> Setup:
    return Setup(
        topics=(Topic(TOPIC, (2, 3)),),
        broker_config=dict(brokers or {}),
        controller="broker2",
        zookeeper_leader="zookeeper2",
        zookeeper_pins=pins(2, 3, to=(2, 3)),
        offsets_log=(1, 2, 3),
        offsets_log_config={name.replace("_", "."): value for name, value in log.items()},
        stream_rate=0,
    )


_STALE = Expected("stale_offset", f"topic = '{TOPIC}'", "the isolated coordinator answers from its memory")
_COMMIT_LOST = Expected(
    "commit_lost", f"topic = '{TOPIC}'", "the new coordinator does not know what the old one acknowledged"
)
_LOST = "an acknowledged commit is lost, and the group processes messages again"
_FAULTS = ("cut broker2, broker3 -> broker1:9092", "kill broker1")
SCENARIOS = (
    Scenario(
        name="stale-coordinator-offsets",
        title="The AZ of a group's coordinator is isolated: clients inside get old offsets",
        article="transactions",
        section="committed offsets",
        body=isolate,
        setup=_setup(),
        claims=STALE_CLAIMS,
        expected=(_STALE,),
        faults=("isolate az1",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="commits inside are not acknowledged; fetches inside are answered with an old offset, without error",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="offsets-commit-lost",
        title="The same with offsets.commit.required.acks=1: acknowledged commits are lost at the failover",
        article="transactions",
        section="committed offsets",
        body=isolate,
        setup=_setup({"offsets.commit.required.acks": "1"}),
        claims=LOST_CLAIMS,
        expected=(_COMMIT_LOST,),
        faults=("isolate az1",),
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome=_LOST,
        versions=("2.7.1", "3.9.1"),
    ),
    Scenario(
        name="offsets-commit-lost-unclean",
        title="An unclean election of the offsets topic loses an acknowledged commit",
        article="transactions",
        section="committed offsets",
        body=elect_uncleanly,
        setup=_setup(unclean_leader_election_enable="true", min_insync_replicas="1"),
        claims=UNCLEAN_CLAIMS,
        expected=(_COMMIT_LOST,),
        faults=_FAULTS,
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome=_LOST,
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
    Scenario(
        name="offsets-commit-refused",
        title="The same with min.insync.replicas=2 on the offsets topic: the commit is refused, and nothing is lost",
        article="transactions",
        section="committed offsets",
        body=elect_uncleanly,
        setup=_setup(unclean_leader_election_enable="true", min_insync_replicas="2"),
        claims=REFUSED_CLAIMS,
        faults=_FAULTS,
        kafka="3.9.1",
        mode="kraft-combined",
        modes=("kraft-combined", "zookeeper"),
        outcome="the commit is refused; the uncleanly elected coordinator knows everything that was acknowledged",
        versions=("2.7.1", "3.9.1", "4.3.1"),
    ),
)
