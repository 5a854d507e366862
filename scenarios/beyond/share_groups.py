"""Beyond the articles: share groups (KIP-932) under faults, and without.

One partition of a topic, a share group with members in az1 and az3. The partition's leader, the coordinator of
the stored states and the group's coordinator are three brokers, so that a fault hits one of them alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from checkers.claims.builders import both, messages, partition
from checkers.claims.builders.shares import shared
from harness.cluster.setup import SHARE_LIMITS, Setup
from harness.kafka.model import SHARE_LOG, Topic
from harness.waiting import wait_until
from run.producer import Producer
from run.scenario import Claim, Either, Expected, Scenario
from run.shares import configure_share_group, wait_until_done
from run.stage import Stage
from scenarios.steps import durable_producer, settle, stand
from workloads.client.client import ShareMember
from workloads.protocol.spec import ShareAnswer, Via

T, GROUP = "t", "g"
PT, LOG = partition(T), partition(SHARE_LOG)
RECORDS = shared(GROUP, T)
LEADER, COORDINATOR, OTHER = "broker1", "broker2", "broker3"
_SHORT_S, _MIDDLE_S, _LONG_S = 5.0, 12.0, 20.0
"""Times of locks: one that soon ends, one that outlasts the proof of a cut, and one that outlasts a failover."""
_DONE_S = 60.0
_MANY = 40
"""Messages that a step sends."""
_ANSWER_S = 20.0
"""How long a member waits for an answer that does not come; shorter than its client does (`request.timeout.ms`)."""
_STALL_S = 75.0
"""Longer than two clients wait for an answer (`request.timeout.ms`, 30 s) and a member needs to join again."""
_BELOW_S = 40.0
"""Longer than a client waits for an answer (`request.timeout.ms`, 30 s)."""


def _group(
    stage: Stage,
    *,
    az1: tuple[ShareAnswer, ...] = ("accept",),
    lock_s: float = _SHORT_S,
    writer_in: str = "az2",
    via: Via = "java",
) -> tuple[Producer, ShareMember, ShareMember]:
    """A producer that goes on through failovers, and two members that have been handed records."""
    configure_share_group(
        stage,
        GROUP,
        share_auto_offset_reset="earliest",
        share_record_lock_duration_ms=str(int(lock_s * 1000)),
    )
    writer = durable_producer(stage, writer_in, f"{writer_in}-writer")
    one = stage.start_share_member("az1", GROUP, T, answers=az1, via=via)
    other = stage.start_share_member("az3", GROUP, T, via=via)
    for member in (one, other):
        _send_until(stage, writer, member, member.progress().count + 1, "first")
    return writer, one, other


def _send_until(stage: Stage, writer: Producer, member: ShareMember, count: int, label: str) -> None:
    """Send messages until a member has been handed ``count`` records."""

    def enough() -> bool:
        for _ in range(5):
            writer.must_send(T, label)
        return member.progress().count >= count

    wait_until(
        enough,
        within_s=60.0,
        awaiting=f"{member.consumer.name} to be handed {count} records",
        abort=stage.cluster.check_alive,
    )


def _send(writer: Producer, label: str, count: int = _MANY) -> None:
    for number in range(count):
        writer.must_send(T, f"{label}{number}")


def _hold(stage: Stage, writer: Producer, member: ShareMember) -> None:
    """Let a member keep the records that it is handed next."""
    member.hold()

    def holding() -> bool:
        count = member.progress().count
        for _ in range(5):
            writer.must_send(T, "held")
        now = member.progress()
        return now.held > 0 and now.count == count

    wait_until(
        holding,
        within_s=60.0,
        awaiting=f"{member.consumer.name} to keep what it was handed",
        abort=stage.cluster.check_alive,
    )


def _wait_for_answers(stage: Stage, *members: ShareMember) -> None:
    """Wait until brokers have answered all that members have acknowledged."""
    wait_until(
        lambda: sum(member.progress().unanswered for member in members),
        accept=lambda unanswered: not unanswered,
        within_s=30.0,
        awaiting="every acknowledgement to be answered",
        abort=stage.cluster.check_alive,
    )


def _accept_after_failover(
    stage: Stage, writer: Producer, label: str, member: ShareMember, other: ShareMember
) -> None:
    """Let a member accept what it keeps, when a new leader has handed it on to the other member."""
    before = other.progress().count
    _send(writer, label)
    wait_until(
        lambda: other.progress().count - before,
        accept=lambda handed: handed >= _MANY,
        within_s=60.0,
        awaiting=f"{other.consumer.name} to be handed what the new leader has",
        abort=stage.cluster.check_alive,
    )
    handed = stage.mark("handed-on", "the new leader has handed on what the member has")
    stand(stage, handed, 1.0)
    member.answer("accept")
    stage.mark("late", "the member has accepted what it had")


def _end(stage: Stage) -> None:
    wait_until_done(stage, GROUP, T, within_s=_DONE_S)
    stage.mark("done", "the group is done with every record")
    settle(stage)


def _no_fault(stage: Stage) -> None:
    """Members accept, release, renew and reject; one keeps records longer than the lock lasts."""
    _answer_by_turns(stage, ("accept", "release", "renew", "reject"))


def _no_fault_librdkafka(stage: Stage) -> None:
    """Members of librdkafka accept, release and reject; one keeps records longer than the lock lasts."""
    _answer_by_turns(stage, ("accept", "release", "reject"), "librdkafka")


def _answer_by_turns(stage: Stage, answers: tuple[ShareAnswer, ...], via: Via = "java") -> None:
    writer, one, other = _group(stage, az1=answers, via=via)
    _send(writer, "plain", 200)
    wait_until_done(stage, GROUP, T, within_s=_DONE_S)
    one.stop()
    _hold(stage, writer, other)
    held = stage.mark("held", "a member keeps what it was handed")
    stand(stage, held, _SHORT_S + 3.0)
    stage.mark("lock-over", "its lock has ended")
    other.answer("accept")
    stage.mark("late", "it has accepted what it had")
    _end(stage)


def _leader_killed(stage: Stage) -> None:
    """The partition's leader dies while a member has records in its hands."""
    _kill_leader(stage)


def _leader_killed_librdkafka(stage: Stage) -> None:
    """The partition's leader dies while a member of librdkafka has records in its hands."""
    _kill_leader(stage, "librdkafka")


def _kill_leader(stage: Stage, via: Via = "java") -> None:
    writer, one, other = _group(stage, lock_s=_LONG_S, via=via)
    _hold(stage, writer, other)
    stage.mark("held", "a member keeps what it was handed")
    stage.kill(LEADER)
    stage.mark("killed", "the partition's leader is dead")
    stage.wait_for_leader(T, not_on=LEADER)
    stage.mark("moved", "another broker leads")
    _accept_after_failover(stage, writer, "after", other, one)
    stage.restart(LEADER)
    stage.mark("back", "the old leader is back")
    _end(stage)


def _leader_isolated(stage: Stage) -> None:
    """The partition's leader is cut off together with a member that has records in its hands."""
    writer, one, _other = _group(stage, lock_s=_LONG_S)
    _hold(stage, writer, one)
    stage.mark("held", "a member keeps what it was handed")
    with stage.nemesis.isolate("az1"):
        cut = stage.mark("cut", "the leader and the member are cut off")
        one.answer("accept", within_s=_ANSWER_S)
        stage.mark("accepted", "the member has accepted what it had, and waited for an answer")
        stage.wait_for_leader(T, not_on=LEADER)
        stage.mark("moved", "another broker leads")
        _send(writer, "moved")
        stand(stage, cut, _STALL_S)
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    _send(writer, "after")
    _end(stage)


def _coordinator_killed(stage: Stage) -> None:
    """The coordinator of the stored states dies."""
    writer, *members = _group(stage)
    _wait_for_answers(stage, *members)
    stage.kill(COORDINATOR)
    stage.mark("killed", "the coordinator of the stored states is dead")
    _send(writer, "during")
    stage.wait_for_leader(SHARE_LOG, not_on=COORDINATOR)
    stage.mark("moved", "another broker coordinates")
    _send(writer, "moved")
    stage.restart(COORDINATOR)
    stage.mark("back", "it is back")
    _send(writer, "after")
    _end(stage)


def _coordinator_isolated(stage: Stage) -> None:
    """The AZ with the coordinator of the stored states is cut off; the partition's leader is not."""
    writer, *members = _group(stage, writer_in="az1")
    _wait_for_answers(stage, *members)
    with stage.nemesis.isolate("az2"):
        cut = stage.mark("cut", "the AZ with the coordinator of the stored states is cut off")
        _send(writer, "during")
        stage.wait_for_leader(SHARE_LOG, not_on=COORDINATOR)
        stage.mark("moved", "another broker coordinates")
        _send(writer, "moved")
        stand(stage, cut, stage.timings.quorum_cut_s)
        stage.mark("standing", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    _send(writer, "after")
    _end(stage)


def _states_below_min_insync(stage: Stage) -> None:
    """The stored states have fewer replicas in sync than they need; those of the partition have enough."""
    writer, _one, _other = _group(stage)
    stage.kill(OTHER)
    stage.wait_for_isr(SHARE_LOG, 2)
    below = stage.mark("below", "one replica of the stored states is in sync, and two are needed")
    _send(writer, "during")
    stand(stage, below, _BELOW_S)
    stage.mark("standing", "the last moment without the other replica")
    stage.restart(OTHER)
    stage.wait_for_isr(SHARE_LOG, 2, 3, within_s=stage.timings.converge_s)
    stage.mark("back", "both are in sync")
    _send(writer, "after")
    _end(stage)


def _rolling_restart(stage: Stage) -> None:
    """Brokers restart one by one; the leader is the last, while a member has records in its hands."""
    writer, one, other = _group(stage, lock_s=_LONG_S)
    for number, host in enumerate((OTHER, COORDINATOR), start=1):
        stage.nemesis.stop(host)
        if host == COORDINATOR:
            stage.wait_for_leader(SHARE_LOG, not_on=COORDINATOR)
        stage.mark(f"stopped-{number}", f"{host} is stopped")
        _send(writer, f"without-{host}-")
        _restart(stage, host)
        stage.mark(f"back-{number}", f"{host} is back, and in sync")
        _send(writer, f"with-{host}-")
    _hold(stage, writer, other)
    stage.mark("held", "a member keeps what it was handed")
    stage.nemesis.stop(LEADER)
    stage.wait_for_leader(T, not_on=LEADER)
    stage.mark("stopped-3", "the partition's leader is stopped")
    _accept_after_failover(stage, writer, f"without-{LEADER}-", other, one)
    _restart(stage, LEADER)
    stage.mark("back-3", "the old leader is back, and in sync")
    _send(writer, f"with-{LEADER}-")
    _end(stage)


def _restart(stage: Stage, host: str) -> None:
    stage.restart(host)
    for topic in (T, SHARE_LOG):
        stage.wait_for_isr(topic, 1, 2, 3, within_s=stage.timings.converge_s)


def _member_isolated(stage: Stage) -> None:
    """A member is cut off with records in its hands, and acknowledges them when it is back."""
    writer, one, other = _group(stage, lock_s=_MIDDLE_S)
    _hold(stage, writer, one)
    stage.mark("held", "a member keeps what it was handed")
    handed = other.progress().count
    with stage.nemesis.isolate("clients@az1"):
        cut = stage.mark("cut", "the member is cut off")
        wait_until(
            lambda: other.progress().count > handed,
            within_s=30.0,
            awaiting="the other member to be handed the records",
            abort=stage.cluster.check_alive,
        )
        _send(writer, "during")
        stand(stage, cut, _MIDDLE_S + 4.0)
        stage.mark("lock-over", "the last moment of the cut")
    stage.mark("healed", "the links are back")
    one.answer("accept", within_s=15.0)
    stage.mark("late", "the member has accepted what it had")
    _send(writer, "after")
    _end(stage)


def _claim(name: str, says: str, holds: str, since: str = "") -> Claim:
    return Claim(name=name, section="beyond the articles", says=says, holds=holds, since=since)


def _late_accept_refused(since: str = "") -> Claim:
    return _claim(
        "late-accept-refused",
        "When the member accepts what it had, it is refused (NOT_LEADER_OR_FOLLOWER).",
        RECORDS.late_answers(6, by="az3-share", since="held", after="handed-on", before="late"),
        since=since,
    )


_SETTLED = _claim(
    "every-record-done",
    "A member accepts or rejects every message that was acknowledged; none is left out.",
    RECORDS.are_settled(at_least=50),
)
_CONTROL = (
    _claim(
        "every-record-once",
        "Members accept or reject each message that was acknowledged, once.",
        RECORDS.are_settled(at_least=200, once=True),
    ),
    _claim(
        "released-again",
        "A record that a member releases is handed out again.",
        RECORDS.come_again("release", again=True, at_least=2),
    ),
    _claim(
        "rejected-never",
        "A record that a member rejects is not handed out again, and neither is one that it accepts.",
        both(
            RECORDS.come_again("reject", again=False, at_least=2),
            RECORDS.come_again("accept", again=False, at_least=100),
        ),
    ),
    _claim(
        "lock-ends",
        "What a member keeps longer than the lock lasts is handed out again, with a higher delivery count.",
        RECORDS.are_handed_on(by="az3-share", to=("az3-share",), after="held", before="done"),
    ),
    _claim(
        "late-accept-refused",
        "When the member accepts it after that time, the broker refuses (INVALID_RECORD_STATE).",
        RECORDS.late_answers(121, by="az3-share", since="held", after="lock-over", before="late"),
    ),
)
_RENEWED = _claim(
    "renewed-stays",
    "A record whose lock a member renews stays in its hands (KIP-1222).",
    RECORDS.come_again("renew", again=False, at_least=2),
)
_FAILOVER = (
    _SETTLED,
    _claim(
        "another-leads",
        "Another broker is elected, and nothing that was acknowledged with acks=all is lost.",
        both(PT.is_led_by((2, 3), at="moved"), messages("az2-writer").none_lost(at_risk_after="killed")),
    ),
    _claim(
        "handed-on-anew",
        "The new leader hands on what the member still has, long before its lock ends, and counts the "
        "deliveries anew.",
        RECORDS.are_handed_on(
            by="az3-share", to=("az1-share",), after="killed", before="handed-on", counted="anew"
        ),
    ),
    # The client of 4.2.2 calls no callback for it; 4.3.1 was not tried.
    _late_accept_refused(since="4.4.0"),
)
_HELD_TWICE = Expected("held_twice", f"topic = '{T}'", "a new leader knows of no record in a member's hands")
_KEPT_BY_CLIENT = Expected(
    "accept_lost",
    f"topic = '{T}' AND cause = 'earlier_leader'",
    "the member's client still has records that the old leader handed out",
)
_SETUP = Setup(
    topics=(Topic(T, (1, 2, 3), config={"min.insync.replicas": "2"}),),
    controller="broker3",
    exactly=("broker", "controller"),
    share_log=(2, 3, 1),
    offsets_log=(3, 1, 2),
    broker_config={
        **SHARE_LIMITS,
        "group.share.session.timeout.ms": "6000",
        "group.share.heartbeat.interval.ms": "1000",
    },
    controller_config=SHARE_LIMITS,
    stream_rate=2.0,
)
_scenario = partial(
    Scenario, article="beyond", section="share groups", setup=_SETUP, kafka="4.4.0", mode="kraft"
)
_NOT_STORED = (
    ("Exhausted max retries for write state RPC", "that it gives up storing the accept"),
    ("Failed to write the share group state", "that the accept was not stored"),
)
"""What the leader of a data partition logs, and what that says."""
SCENARIOS = (
    _scenario(
        name="share-no-fault",
        title="A share group without a fault: accept, release, renew, reject, and a lock that ends",
        body=_no_fault,
        claims=(*_CONTROL, _RENEWED),
        outcome="every record is accepted or rejected once; what was kept too long is handed on",
    ),
    _scenario(
        name="share-leader-killed",
        title="The leader of a partition dies while a member of a share group has its records in hand",
        body=_leader_killed,
        claims=_FAILOVER,
        expected=(_HELD_TWICE, _KEPT_BY_CLIENT),
        faults=(f"kill {LEADER}",),
        outcome="nothing is lost; a record that a member has in hand is handed to another one as well",
    ),
    _scenario(
        name="share-leader-isolated",
        title="The leader of a partition is cut off with a member of a share group that has its records in hand",
        body=_leader_isolated,
        claims=(
            _SETTLED,
            _claim(
                "accept-without-an-answer",
                "The leader that is cut off cannot have the accept stored, and so does not answer the member.",
                RECORDS.wait(by="az1-share", after="cut", before="standing"),
            ),
            _claim(
                "another-leads",
                "Another broker is elected, and nothing that was acknowledged with acks=all is lost.",
                both(PT.is_led_by((2, 3), at="moved"), messages("az2-writer").none_lost(at_risk_after="cut")),
            ),
            Claim(
                name="other-member-stalls",
                section="beyond the articles",
                says="The other member, whose AZ is not cut off, asks the old leader again and again, and is handed "
                "nothing until the links are back.",
                holds=RECORDS.none_handed("az3-share", after="moved", before="standing"),
                either=Either(
                    says="The other member asks the new leader, which hands it what the first one has as well, with "
                    "a new delivery count.",
                    because="its request for metadata went to a broker that answers, before it tried to connect to "
                    "the old leader again",
                    holds=RECORDS.are_handed_on(
                        by="az1-share", to=("az3-share",), after="cut", before="standing", counted="anew"
                    ),
                ),
            ),
        ),
        expected=(
            Expected(
                "accept_lost",
                f"topic = '{T}' AND cause = 'stale_leader'",
                "the old leader hands the record out again when its lock has ended",
            ),
            Expected(
                "server_error",
                "detail LIKE '%Read request leader epoch is smaller than last recorded%'",
                "the coordinator logs that the old leader asks in an old epoch",
            ),
            *(
                Expected("server_error", f"detail LIKE '%{text}%'", f"the old leader logs {why}")
                for text, why in (
                    *_NOT_STORED,
                    ("Unable to perform write state RPC", "that the coordinator knows a newer leader epoch"),
                    (
                        "Unable to perform read state RPC",
                        "the same, if a member comes back before it steps down",
                    ),
                    (
                        "Failed to initialize the share partition",
                        "that it therefore cannot serve that member",
                    ),
                    (
                        "while releasing acquired topic partitions",
                        "that it no longer knows the member's records",
                    ),
                )
            ),
        ),
        faults=("isolate az1",),
        outcome="the accept gets no answer; the other member may be handed nothing until the links are back",
    ),
    _scenario(
        name="share-coordinator-killed",
        title="The coordinator of a share group's stored states dies",
        body=_coordinator_killed,
        claims=(
            _claim(
                "every-accept-confirmed",
                "Every accept is confirmed, also those that have to wait for the next coordinator.",
                RECORDS.are_settled(at_least=100, once=True),
            ),
            _claim(
                "accepted-stays",
                "The next coordinator knows what was accepted: no such record is handed out again.",
                RECORDS.come_again("accept", again=False, at_least=100),
            ),
            _claim(
                "another-coordinates",
                "Another broker leads the log of states, and nothing that was acknowledged with acks=all is lost.",
                both(
                    LOG.is_led_by((1, 3), at="moved"),
                    messages("az2-writer").none_lost(at_risk_after="killed"),
                ),
            ),
        ),
        faults=(f"kill {COORDINATOR}",),
        outcome="members wait for the next coordinator; nothing is lost, and nothing is handed out twice",
    ),
    _scenario(
        name="share-coordinator-isolated",
        title="The coordinator of a share group's stored states is cut off with its AZ",
        body=_coordinator_isolated,
        claims=(
            _claim(
                "goes-on-in-the-cut",
                "As soon as another broker coordinates, members accept what they are handed, and every accept is "
                "confirmed, while the cut lasts.",
                RECORDS.are_settled(after="cut", before="standing", at_least=60, once=True),
            ),
            _claim(
                "every-accept-confirmed",
                "Every accept is confirmed, also those that have to wait for the next coordinator.",
                RECORDS.are_settled(at_least=150, once=True),
            ),
            _claim(
                "accepted-stays",
                "The next coordinator knows what was accepted: no such record is handed out again, neither in the "
                "cut nor when the links are back.",
                RECORDS.come_again("accept", again=False, at_least=150),
            ),
            _claim(
                "another-coordinates",
                "Another broker leads the log of states; the partition's leader stays.",
                both(LOG.is_led_by((1, 3), at="moved"), PT.is_led_by(1, isr=(1, 3), at="standing")),
            ),
            _claim(
                "nothing-lost",
                "Nothing that was acknowledged with acks=all is lost.",
                messages("az1-writer").none_lost(at_risk_after="cut", at_least=100),
            ),
        ),
        faults=("isolate az2",),
        outcome="members wait until another broker coordinates, and go on in the cut; nothing is handed out twice",
    ),
    _scenario(
        name="share-states-below-min-insync",
        title="The stored states of share groups have fewer replicas in sync than they need",
        body=_states_below_min_insync,
        setup=replace(_SETUP, share_log=(2, 3), offsets_log=(1, 2, 3)),
        claims=(
            _SETTLED,
            _claim(
                "accepts-wait",
                "Members are handed records, but no accept is confirmed as long as the replica is missing.",
                RECORDS.wait(after="below", before="standing", at_least=10),
            ),
            _claim(
                "accepted-stays",
                "When the replica is back, accepts are confirmed, and no such record is handed out again.",
                both(
                    RECORDS.come_again("accept", again=False, at_least=100),
                    RECORDS.are_settled(after="back", at_least=40, once=True),
                ),
            ),
            _claim(
                "writes-go-on",
                "The partition has enough replicas: producers with acks=all go on, and nothing is lost.",
                both(
                    LOG.is_led_by(2, isr=(2,), at="standing"),
                    PT.is_led_by(1, isr=(1, 2), at="standing"),
                    messages("az2-writer").none_lost(at_risk_after="below", at_least=80),
                ),
            ),
        ),
        expected=tuple(
            Expected("server_error", f"detail LIKE '%{text}%'", f"the leader logs {why}")
            for text, why in _NOT_STORED
        ),
        faults=(f"kill {OTHER}",),
        outcome="accepts wait until the replica is back, some longer than the client; nothing is handed out again",
    ),
    _scenario(
        name="share-rolling-restart",
        title="Brokers restart one by one, and a member of a share group has records in hand",
        body=_rolling_restart,
        claims=(
            _claim(
                "goes-on",
                "Members accept each message once, and go on while any one of the brokers is stopped.",
                both(
                    RECORDS.are_settled(at_least=200, once=True),
                    RECORDS.are_settled(after="stopped-1", before="back-1", at_least=30, once=True),
                    RECORDS.are_settled(after="stopped-2", before="back-2", at_least=30, once=True),
                    RECORDS.are_settled(after="stopped-3", before="back-3", at_least=30, once=True),
                ),
            ),
            _claim(
                "accepted-stays",
                "What was accepted outlives every restart: no such record is handed out again.",
                RECORDS.come_again("accept", again=False, at_least=200),
            ),
            _claim(
                "others-take-over",
                "Other brokers coordinate and lead meanwhile, and nothing that was acknowledged with acks=all is "
                "lost.",
                both(
                    LOG.is_led_by((1, 3), at="stopped-2"),
                    PT.is_led_by((2, 3), at="stopped-3"),
                    messages("az2-writer").none_lost(at_risk_after="stopped-1", at_least=150),
                ),
            ),
            Claim(
                name="handed-on-anew",
                section="beyond the articles",
                says="What a member has in hand when the leader is stopped, the next leader hands to another member, "
                "as if the leader had been killed: the delivery count begins anew.",
                holds=RECORDS.are_handed_on(
                    by="az3-share", to=("az1-share",), after="held", before="handed-on", counted="anew"
                ),
                either=Either(
                    says="It hands it to another member, and the delivery count goes on.",
                    because="the leader released the record when it closed the member's connection, and that was stored "
                    "before the leader ended",
                    holds=RECORDS.are_handed_on(
                        by="az3-share", to=("az1-share",), after="held", before="handed-on"
                    ),
                ),
            ),
            _late_accept_refused(),
        ),
        expected=(_HELD_TWICE, _KEPT_BY_CLIENT),
        faults=("stop each broker in turn, and start it again",),
        outcome="every record is accepted once; only what is in hand when the leader stops is handed out twice",
    ),
    _scenario(
        name="share-member-isolated",
        title="A member of a share group is cut off with records in hand, and acknowledges them too late",
        body=_member_isolated,
        claims=(
            _SETTLED,
            _claim(
                "handed-on",
                "When the lock of what it has ends, the other member is handed it, with a higher delivery count.",
                RECORDS.are_handed_on(
                    by="az1-share",
                    to=("az3-share",),
                    after="cut",
                    before="lock-over",
                    not_within_s=1.0,
                ),
            ),
            _claim(
                "late-accept-confirmed",
                "When the member is back and accepts what it had, the broker confirms that, although another member "
                "has accepted the record: it is before the start offset, and the broker looks no further.",
                RECORDS.late_answers(0, by="az1-share", since="held", after="healed", before="late"),
            ),
            _claim(
                "nobody-else-notices",
                "Leader and ISR stay, and nothing that was acknowledged with acks=all is lost.",
                both(
                    PT.is_led_by(1, isr=(1, 2, 3), at="lock-over"),
                    messages("az2-writer").none_lost(at_risk_after="cut", at_least=40),
                ),
            ),
        ),
        expected=(
            Expected(
                "lock_outlived", f"topic = '{T}'", "the record was done, and the broker looked no further"
            ),
        ),
        faults=("isolate clients@az1",),
        outcome="the other member processes what it had; its own accept, which is too late, is confirmed",
    ),
    _scenario(
        name="share-no-fault-librdkafka",
        title="A share group without a fault, with members of librdkafka: accept, release, reject, and a lock that ends",
        body=_no_fault_librdkafka,
        claims=_CONTROL,
        outcome="as with members of the Java client: every record is accepted or rejected once",
    ),
    _scenario(
        name="share-leader-killed-librdkafka",
        title="The leader of a partition dies while a member of librdkafka has its records in hand",
        body=_leader_killed_librdkafka,
        claims=_FAILOVER,
        expected=(_HELD_TWICE, _KEPT_BY_CLIENT),
        faults=(f"kill {LEADER}",),
        outcome="as with members of the Java client: nothing is lost; a record in hand is handed to another one as well",
    ),
)
