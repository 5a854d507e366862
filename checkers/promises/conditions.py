"""The conditions that rows of the promise table name, each decided from the facts: yes, no, or not known.

If the facts do not decide a condition, the answer says which fact is missing. `CONDITIONS` maps names to
conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from checkers.convergence import STUCK
from checkers.evidence import DATA_LOSS, HINDERS_REPLICATION, broker_of, whole_number
from checkers.partition.messages import FOREVER
from checkers.promises.case import FindingContext, went_ahead
from harness.errors import json_object
from harness.kafka.model import OFFSETS_LOG, SHARE_LOG
from harness.kafka.versions import INTER_BROKER_PROTOCOL

ISR_TIME_NS = 30 * 10**9
"""A replica that has been back for longer than this and is still out of the ISR did not rejoin it."""
_LINK_KINDS = ("link", "degrade")
_UNCLEAN = ("unclean_election", "marker_lost_in_unclean_election")
_AT_THE_END = ("record_missing", "record_extra", "log_ends_earlier", "reference_ends_earlier")
"""Differences of replicas of which one has a record, and the other has none."""


class Answer(NamedTuple):
    """Whether a condition holds (None: not known), and why, in half a sentence."""

    holds: bool | None
    why: str = ""

    def negated(self) -> Answer:
        """The answer to the opposite question."""
        return self if self.holds is None else Answer(not self.holds, self.why)


NO = Answer(False)


def unknown(missing: str) -> Answer:
    """The facts do not decide it; ``missing`` says which fact is missing."""
    return Answer(None, missing)


# ---- the producer


def _acks(level: int) -> Callable[[FindingContext], Answer]:
    def asked(case: FindingContext) -> Answer:
        if case.finding["class"] == "truncated":
            return Answer(False, "it was below the high watermark")
        if case.finding["writer"] is None:
            return unknown("the finding names no producer")
        if case.writer is None or case.writer["acks"] is None:
            return unknown("the acks of the producer are not recorded")
        name = {-1: "all"}.get(level, str(level))
        return Answer(case.writer["acks"] == level, f"acks={name}")

    return asked


def _read(case: FindingContext) -> Answer:
    received = case.finding["class"] in ("lost_after_read", "aborted_read", "offset_conflict")
    return Answer(received, "a reader received it" if received else "no reader received it")


def _idempotent(case: FindingContext) -> Answer:
    if case.writer is None or case.writer["idempotent"] is None:
        return unknown("enable.idempotence of the producer is not recorded")
    idempotent = bool(case.writer["idempotent"])
    return Answer(idempotent, f"enable.idempotence={str(idempotent).lower()}")


def _one_attempt(case: FindingContext) -> Answer:
    if case.writer is None:
        return unknown("the configuration of the producer is not recorded")
    if case.writer["client"] == "raw":
        return Answer(True, "one request per message")
    retries = case.writer["retries"]
    if retries is None:
        return unknown("the retries of the producer are not recorded")
    if retries == 0 and case.writer["client"] == "librdkafka":
        # librdkafka sends again after NOT_LEADER_OR_FOLLOWER, whatever the limit is.
        return Answer(False, "librdkafka retries NOT_LEADER_OR_FOLLOWER even with retries=0")
    return Answer(retries == 0, f"retries={retries}")


def _one_in_flight(case: FindingContext) -> Answer:
    if case.writer is None:
        return unknown("the configuration of the producer is not recorded")
    if case.writer["client"] == "librdkafka":
        # librdkafka's limit counts for each broker: after a change of leader, a request that the old leader
        # has not answered is still in flight when the next one goes to the new leader.
        return Answer(False, "librdkafka has requests in flight to the old and to the new leader at once")
    for key in ("max.in.flight.requests.per.connection", "max.in.flight"):
        if key in case.config:
            return Answer(str(case.config[key]) == "1", f"{key}={case.config[key]}")
    return unknown("max.in.flight.requests.per.connection of the producer is not recorded")


def _per_message_connection(case: FindingContext) -> Answer:
    if case.writer is None:
        return unknown("the client is not recorded")
    # Also true where a scenario names connections: messages of one connection never overlap.
    return Answer(case.writer["client"] == "raw", "the raw client sends them over different connections")


def _overlapped(case: FindingContext) -> Answer:
    if case.message is None or case.message.overlapped is None:
        return unknown("whether the sends overlapped was not looked up")
    return Answer(case.message.overlapped, "the later message was sent before this one was answered")


def _sessions(case: FindingContext) -> Answer:
    if case.message is None or case.message.sessions is None:
        return unknown("the records name no producer id")
    return Answer(case.message.sessions > 1, f"its records have {case.message.sessions} producer ids")


def _expired(case: FindingContext) -> Answer:
    """A message without an answer counts as answered at once: brokers keep what they know for hours."""
    took_ns = None if case.message is None else case.message.took_ns
    limit_ns = case.facts.producer_id_expiration_ns
    if took_ns is None or took_ns < limit_ns:
        return NO
    took_ms, limit_ms = took_ns // 10**6, limit_ns // 10**6
    return Answer(True, f"its answer took {took_ms} ms, and producer ids expire after {limit_ms} ms")


def _epochs(case: FindingContext) -> Answer:
    if case.message is None or case.message.epochs is None:
        return unknown("the records name no producer epoch")
    return Answer(case.message.epochs > 1, f"its records have {case.message.epochs} producer epochs")


def _failed(case: FindingContext) -> Answer:
    if case.finding["class"] == "phantom":
        return Answer(True, "the client reported a failure")
    if case.finding["writer"] is None or case.finding["txn"] is not None:
        return NO
    if case.message is None:
        return unknown("the outcome of the message was not looked up")
    return Answer(case.message.outcome == "fail", "the client reported a failure")


def _aborted(case: FindingContext) -> Answer:
    if case.finding["txn"] is not None:
        return Answer(True, "nobody asked for the commit of its transaction")
    if case.finding["writer"] is None:
        return NO
    if case.message is None:
        return unknown("the transaction of the message was not looked up")
    return Answer(case.message.aborted, "its transaction was aborted")


# ---- leaders and replicas


def _leader_failed(case: FindingContext) -> Answer:
    facts, by = case.facts, case.finding["acked_by"]
    if facts.states.get(case.where):
        now = facts.state_at(*case.where, case.since)
        assert now is not None
        for _, state in case.elections:
            if by is None or state.leader != by:
                return Answer(True, f"broker{state.leader} was elected in epoch {state.epoch} afterwards")
        if by is not None and now.leader >= 0 and now.leader != by and now.ns <= case.since:
            return Answer(True, f"broker{now.leader} already led in epoch {now.epoch}")
    brokers = None if by is None else (int(by),)
    for broker, spans in facts.down.items():
        if (by is None or broker == by) and any(span.until_ns > case.since for span in spans):
            return Answer(True, f"the process of broker{broker} ended afterwards")
    hit = case.hits(DATA_LOSS, brokers)
    if hit:
        return Answer(True, f"`{hit[0].name}` took data from its disk")
    if not facts.states.get(case.where):
        return unknown("no view says who led the partition")
    if by is None:
        return unknown("which broker acknowledged it is not known")
    if case.facts.attached and any(span.until_ns > case.since for span in facts.silent.get(int(by), ())):
        return unknown(f"whether broker{by} failed while it did not answer is not known")
    return Answer(False, "its leader neither failed nor was deposed")


def _unclean_allowed(case: FindingContext) -> Answer:
    value = case.facts.topic_config(case.topic, "unclean.leader.election.enable")
    if value is None:
        return unknown("unclean.leader.election.enable of the topic is not recorded")
    return Answer(value == "true", f"unclean.leader.election.enable={value}")


def _unclean_seen(case: FindingContext) -> Answer:
    if case.cause in _UNCLEAN:
        facts = case.cause_facts
        return Answer(
            True,
            f"broker{facts['broker']} was elected in epoch {facts['epoch']} from the ISR {facts['isr']}",
        )
    if case.where in case.facts.unclean:
        return Answer(True, "a broker logged an unclean election")
    if not case.facts.states.get(case.where):
        return unknown("no view says who was elected from which ISR")
    for before, state in case.elections:
        if before.isr and state.leader not in before.isr:
            return Answer(
                True,
                f"broker{state.leader} was elected in epoch {state.epoch} from the ISR {list(before.isr)}",
            )
    return Answer(False, "every new leader was in the ISR")


def _unclean_by_operator(case: FindingContext) -> Answer:
    name = f"{case.topic}/{case.partition}"
    for fault in case.facts.faults:
        on_it = not fault.partitions or name in fault.partitions
        if fault.mechanism == "elect_unclean" and fault.until_ns >= case.since and on_it:
            return Answer(True, f"`{fault.name}`")
    if case.facts.attached and _unclean_seen(case).holds is not False:
        return unknown("whether an operator elected the leader is not known of this cluster")
    return Answer(False, "no operator elected a leader")


def _all_down(case: FindingContext) -> Answer:
    if case.facts.attached:
        return _all_silent(case)
    if not case.facts.ends_of_processes(0):
        return Answer(False, "no broker's process ended")
    if not case.facts.states.get(case.where):
        return unknown("no view says which replicas were in sync")
    if case.gone is None:
        return Answer(False, "an in-sync replica was alive at all times")
    return Answer(True, f"all of the ISR {list(case.gone.isr)} were down at once")


def _all_silent(case: FindingContext) -> Answer:
    """Of a cluster that acked did not start: brokers that answer have not ended."""
    if not case.facts.states.get(case.where):
        return unknown("no view says which replicas were in sync")
    if case.gone is None:
        return Answer(False, "an in-sync replica answered at all times")
    return unknown(
        f"whether all of the ISR {list(case.gone.isr)}, which did not answer, were down is not known"
    )


def _all_down_damaged(case: FindingContext) -> Answer:
    if case.facts.attached:
        silent = _all_silent(case)
        return silent if silent.holds is False else unknown("whether a replica lost data is not known")
    if not case.hits(DATA_LOSS):
        return Answer(False, "no replica lost data")
    answer = _all_down(case)
    if not answer.holds:
        return answer
    assert case.gone is not None
    if case.gone.flush_unknown:
        return unknown("flush.messages of the topic is not recorded")
    if not case.gone.damaged:
        return Answer(False, "none of them lost data")
    return Answer(True, f"{answer.why}, and `{case.gone.damaged[0]}` took data")


def _isr_of_one(case: FindingContext) -> Answer:
    if case.gone is None:
        return NO
    return Answer(len(case.gone.isr) == 1, f"the ISR was {list(case.gone.isr)}")


def _min_insync_one(case: FindingContext) -> Answer:
    value = case.facts.topic_config(case.topic, "min.insync.replicas")
    if value is None:
        return unknown("min.insync.replicas of the topic is not recorded")
    return Answer(value == "1", f"min.insync.replicas={value}")


def _elr(case: FindingContext) -> Answer:
    facts = case.facts
    if facts.mode == "zookeeper":
        return Answer(False, "ZooKeeper knows no eligible leader replicas")
    version = facts.version()
    if version is None:
        return unknown("the Kafka version is not recorded")
    if version < (4, 0):
        return Answer(False, f"Kafka {facts.kafka} has no eligible leader replicas")
    least = facts.topic_config(case.topic, "min.insync.replicas")
    if least is None:
        return unknown("min.insync.replicas of the topic is not recorded")
    hit = {broker for broker, times in facts.ended_uncleanly.items() if any(ns >= case.since for ns in times)}
    for fault in case.hits(DATA_LOSS):
        hit |= {broker_of(host) for host in fault.hosts}
    replicas = {broker for state in facts.states.get(case.where, ()) for broker in state.isr}
    hit &= replicas
    if len(hit) >= int(least):
        return Answer(False, f"{len(hit)} replicas shut down uncleanly, min.insync.replicas={least}")
    enabled = _elr_enabled(case)
    if enabled is None:
        return unknown("whether eligible leader replicas were enabled is not recorded")
    return Answer(enabled, "eligible leader replicas were " + ("enabled" if enabled else "disabled"))


def _elr_enabled(case: FindingContext) -> bool | None:
    """Whether the feature was on: as recorded, or because a view shows an empty ISR, which proves it."""
    levels = {key: value for (scope, _, key), value in case.facts.configs.items() if scope == "cluster"}
    if levels:  # a feature at level 0 may be left out
        return levels.get("eligible.leader.replicas.version", "0") != "0"
    states = case.facts.states.get(case.where, ())
    if any(not state.isr for state in states):
        return True
    return False if any(state.leader < 0 for state in states) else None


def _flushed_power_loss(case: FindingContext) -> Answer:
    if not case.hits(("power_cut",)):
        return Answer(False, "no replica lost power")
    if case.flushes is None:
        return unknown("flush.messages of the topic is not recorded")
    return Answer(case.flushes, f"flush.messages is {'' if case.flushes else 'not '}1")


def _lost_data(case: FindingContext) -> Answer:
    hit = case.hits(DATA_LOSS)
    return Answer(bool(hit), f"`{hit[0].name}`" if hit else "no replica lost data")


def _ended(case: FindingContext) -> Answer:
    broken = any(span.until_ns > case.since for spans in case.facts.down.values() for span in spans)
    return Answer(broken, "a broker's process ended" if broken else "no broker's process ended")


def _network(case: FindingContext) -> Answer:
    link_faults = [f for f in case.facts.faults if f.kind in _LINK_KINDS and f.until_ns >= case.since]
    return Answer(bool(link_faults), f"`{link_faults[0].name}`" if link_faults else "no fault of the network")


def _damaged(case: FindingContext) -> Answer:
    brokers, offset = tuple(case.finding["brokers"] or ()), case.finding["offset"]
    if case.finding["class"] == "diverged":  # the finding may name either of the replicas that differ
        brokers = ()
    hit = [
        fault
        for fault in case.hits(("damage", "truncate"), brokers or None)
        if offset is None or fault.first_offset <= offset
    ]
    if not hit and case.facts.attached:
        return unknown("whether somebody changed files of the brokers is not known")
    return Answer(bool(hit), f"`{hit[0].name}`" if hit else "no storage fault changed bytes there")


def _above_high_watermark(case: FindingContext) -> Answer:
    offset = case.finding["offset"]
    if case.detail.get("difference") not in _AT_THE_END or offset is None:
        return Answer(False, "both replicas have a record there")
    mark = case.facts.high_watermark(*case.where)
    if mark is None:
        return unknown("the leader's high watermark at the end is not recorded")
    return Answer(offset >= mark, f"the high watermark is {mark}")


def _before_log_start(case: FindingContext) -> Answer:
    """What retention, compaction or a request explains is no loss (`checkers.partition.removals`)."""
    offset, start = case.finding["offset"], case.facts.log_start(*case.where)
    if start is None:
        return unknown("the leader's log start offset at the end is not recorded")
    if offset is None or offset >= start:
        return NO
    return Answer(True, f"the log begins at offset {start}")


def _in_sync_disagree(case: FindingContext) -> Answer:
    replicas = case.facts.replicas.get(case.where, ())
    if case.detail:
        # The checker compares replicas of which nobody knows whether they were in sync, too.
        if all(replica.in_sync is None for replica in replicas):
            return unknown("whether the replicas that differ were in sync is not recorded")
        return Answer(True, "a replica in sync differs from the reference log")
    holders = set(case.finding["brokers"] or ())
    in_sync = [r.in_sync for r in replicas if r.broker in holders]
    if any(in_sync):
        return Answer(True, "an in-sync follower holds it")
    if not in_sync or None in in_sync:
        return unknown("whether the replicas that hold it were in sync is not recorded")
    return Answer(False, "only replicas out of sync hold it")


# ---- groups and the end of the run


def _below_log_start(case: FindingContext) -> Answer:
    below = went_ahead(case.finding)
    return Answer(below, f"its member continued {'above' if below else 'below'} its position")


def _removed_as_documented(case: FindingContext) -> Answer:
    """The finding's evidence names what removed the records (`checkers.removals.cause_of_start`)."""
    tables = {json_object(row, "evidence")["table"] for row in case.finding["evidence"] or ()}
    if tables & {"configs", "faults", "log_events"}:
        return Answer(True, f"the history shows why the log begins later: {case.cause.replace('_', ' ')}")
    settings = ("cleanup.policy", "retention.ms", "retention.bytes")
    if None in [case.facts.topic_config(case.topic, key) for key in settings]:
        return unknown("the retention of the topic is not recorded")
    return NO


def _offset_acks(case: FindingContext) -> Answer:
    value = case.facts.broker_config("offsets.commit.required.acks")
    if value is None:
        version = case.facts.version()
        if version is not None and version >= (4, 0):
            return Answer(False, "offsets.commit.required.acks was removed in 4.0")
        return unknown("offsets.commit.required.acks is not recorded")
    return Answer(value != "-1", f"offsets.commit.required.acks={value}")


def _committed_lost(log: str, case: FindingContext) -> Answer:
    """Something took committed messages from an internal topic."""
    undecided: Answer | None = None
    places = [place for place in case.facts.states if place[0] == log]
    if not places and not case.facts.faults:
        return Answer(False, "no fault was injected")
    for topic, partition in places or [(log, 0)]:
        blank = dict.fromkeys(case.finding)
        inner = FindingContext({**blank, "topic": topic, "partition": partition, "class": "lost"}, case.facts)
        for answer in (
            both(_unclean_seen(inner), _unclean_allowed(inner)),
            _unclean_by_operator(inner),
            _all_down_damaged(inner),
        ):
            if answer.holds:
                return answer
            undecided = answer if answer.holds is None else undecided
    what = "the offsets topic" if log == OFFSETS_LOG else log
    return undecided or Answer(False, f"nothing took committed messages from {what}")


def both(first: Answer, second: Answer) -> Answer:
    """Whether both hold: no, as soon as one does not."""
    for answer in (first, second):
        if answer.holds is False:
            return answer
    return first if first.holds is None else second if second.holds is None else Answer(True, first.why)


def _fault_stands(case: FindingContext) -> Answer:
    ends = [r.ns for r in case.facts.replicas.get(case.where, ()) if r.ns is not None]
    end = max(ends, default=FOREVER - 1)
    for fault in case.facts.faults:
        if fault.mechanism in HINDERS_REPLICATION and fault.until_ns > end:
            if fault.stated:
                return unknown(f"`{fault.name}` was stated, and nobody stated that it was healed")
            return Answer(True, f"`{fault.name}` was never healed")
    for broker in case.finding["brokers"] or ():
        if case.facts.is_down(broker, end):
            return Answer(True, f"broker{broker} was down")
        if case.facts.attached and case.facts.is_out_of_service(int(broker), end):
            return unknown(f"why broker{broker} did not answer at the end is not known")
    return Answer(False, "every fault was healed")


def _time_to_rejoin(case: FindingContext) -> Answer:
    ends = [r.ns for r in case.facts.replicas.get(case.where, ()) if r.ns is not None]
    if not ends:
        return unknown("when the replicas were read is not recorded")
    changes = [f.until_ns for f in case.facts.faults if f.until_ns < FOREVER]
    changes += [f.from_ns for f in case.facts.faults if f.kind == "operator"]
    changes += [span.until_ns for s in case.facts.down.values() for span in s if span.until_ns < FOREVER]
    if case.facts.attached:
        spans = (span for s in case.facts.silent.values() for span in s)
        changes += [span.until_ns for span in spans if span.until_ns < FOREVER]
        changes += [state.ns for state in case.facts.states.get(case.where, ())]
    passed = max(ends) - max(changes, default=0)
    seconds = round(passed / 1e9)
    if changes and passed < ISR_TIME_NS:
        return unknown(f"the run ended {seconds} s after the last change, too early to tell")
    return Answer(True, f"{seconds} s had passed since the last change" if changes else "nothing had changed")


# ---- known bugs


def _old_format(case: FindingContext) -> Answer:
    facts = case.facts
    settings = [facts.configs.get(("topic", case.topic, "message.format.version"))]
    settings += [facts.broker_config(key) for key in ("log.message.format.version", INTER_BROKER_PROTOCOL)]
    settings.append(facts.kafka)
    for value in settings:
        numbers = _numbers(value)
        if numbers and numbers < (0, 11):
            return Answer(True, f"version {value} has no leader epochs in its records")
    return Answer(False, "records have leader epochs")


def _numbers(value: str | None) -> tuple[int, ...]:
    text = (value or "").partition("-")[0].partition("@")[0]
    return tuple(number for part in text.split(".") if (number := whole_number(part)) is not None)


def _several_elections(case: FindingContext) -> Answer:
    inner = FindingContext({**case.finding, "acked_ns": None}, case.facts)
    return Answer(len(inner.elections) > 1, f"{len(inner.elections)} elections")


def _leaderless(case: FindingContext) -> Answer:
    states = case.facts.states.get(case.where, ())
    if not states:
        return unknown("no view names the partition's leader")
    epoch = next((state.epoch for state in states if state.leader < 0), None)
    return NO if epoch is None else Answer(True, f"it had no leader in epoch {epoch}")


def _zombie_controller(case: FindingContext) -> Answer:
    facts, by = case.facts, case.finding["acked_by"]
    if not facts.two_controllers:
        return Answer(False, "no two controllers claimed to lead")
    host = f"broker{by}"
    for fault in facts.faults:
        cut = host in fault.hosts or host in facts.linked.get(fault.fault, ())
        if cut and fault.from_ns <= case.since:
            return Answer(False, f"`{fault.name}` cut off {host}")
    return Answer(by is not None, f"two controllers led at the same time, and {host} was not cut off")


def _unanswered_isr(case: FindingContext) -> Answer:
    return Answer(case.cause in STUCK, "the leader's request was never answered")


def _markers_refused(case: FindingContext) -> Answer:
    if case.where not in case.facts.stuck:
        return NO
    least = whole_number(case.facts.topic_config(case.topic, "min.insync.replicas"))
    if least is None:
        return unknown("min.insync.replicas of the topic is not recorded")
    in_sync = sum(replica.in_sync is not False for replica in case.facts.replicas[case.where])
    return Answer(in_sync < least, f"{in_sync} replicas in sync, min.insync.replicas={least}")


def _no_offset(case: FindingContext) -> Answer:
    return Answer(case.finding["offset"] is None, "it was acknowledged without an offset")


def _librdkafka(case: FindingContext) -> Answer:
    return Answer(
        case.writer is not None and case.writer["client"] == "librdkafka", "the client is librdkafka"
    )


def _old_end_txn(case: FindingContext) -> Answer:
    version = case.facts.version()
    if _librdkafka(case).holds:
        return Answer(True, "librdkafka names no transaction when it ends one")
    return Answer(version is not None and version < (4, 0), "clients before 4.0 name no transaction")


# ---- transactions


def _cause_is(*kinds: str) -> Callable[[FindingContext], Answer]:
    def asked(case: FindingContext) -> Answer:
        return Answer(case.cause in kinds, f"its cause is known: {case.cause.replace('_', ' ')}")

    return asked


def _log_line_has(words: str) -> Callable[[FindingContext], Answer]:
    """Whether the line of Kafka's log that the finding is about has these words."""

    def asked(case: FindingContext) -> Answer:
        return Answer(words in str(case.detail.get("text", "")), words)

    return asked


@dataclass(frozen=True)
class Condition:
    """A condition: its meaning for the document, and how the facts decide it."""

    means: str
    asked: Callable[[FindingContext], Answer]


CONDITIONS: Mapping[str, Condition] = {
    "acks 0": Condition("the producer has `acks=0`", _acks(0)),
    "acks 1": Condition("the producer has `acks=1`", _acks(1)),
    "received by a reader": Condition("a consumer received the message, so it was committed", _read),
    "idempotent": Condition("the producer has `enable.idempotence=true`", _idempotent),
    "one attempt": Condition(
        "the client sends each message once (`retries=0`, not librdkafka)", _one_attempt
    ),
    "one request in flight": Condition(
        "`max.in.flight.requests.per.connection=1`, and the producer is not librdkafka", _one_in_flight
    ),
    "a connection for each message": Condition("the client is the raw one", _per_message_connection),
    "sent before the earlier one was answered": Condition(
        "the message with the lower offset was sent before this one was answered", _overlapped
    ),
    "written by two producer sessions": Condition("its copies name different producer ids", _sessions),
    "the producer id may have expired": Condition(
        "its answer took as long as `producer.id.expiration.ms` (in versions without it "
        "`transactional.id.expiration.ms`; one day if neither is recorded)",
        _expired,
    ),
    "written in two producer epochs": Condition("its copies name different producer epochs", _epochs),
    "the client reported a failure": Condition("the outcome is `fail`", _failed),
    "the transaction was aborted": Condition("the message belongs to an aborted transaction", _aborted),
    "the leader failed or was deposed": Condition(
        "after the acknowledgement another broker was elected, or the broker that acknowledged it crashed or "
        "lost data; or another broker already led",
        _leader_failed,
    ),
    "unclean election is enabled": Condition("`unclean.leader.election.enable=true`", _unclean_allowed),
    "an unclean leader was elected": Condition("a new leader was not in the ISR before", _unclean_seen),
    "an operator elected an unclean leader": Condition("the fault `elect_unclean`", _unclean_by_operator),
    "all in-sync replicas were down at once": Condition(
        "at some time after the acknowledgement no broker of the ISR was in service: each process had ended "
        "and was not ready again, or was paused for longer than its session",
        _all_down,
    ),
    "the in-sync replicas were down and lost data": Condition(
        "the same, and one of them lost data: `wipe`, `truncate`, `damage`, or `power_cut` without "
        "`flush.messages=1`",
        _all_down_damaged,
    ),
    "the ISR was one replica": Condition("the ISR had one member at that time", _isr_of_one),
    "min.insync.replicas is 1": Condition("`min.insync.replicas=1`", _min_insync_one),
    "eligible leader replicas protect it": Condition(
        "KRaft 4.0 or later with `eligible.leader.replicas.version=1`, and fewer than `min.insync.replicas` "
        "replicas were killed or lost data",
        _elr,
    ),
    "a power loss of replicas that flush every message": Condition(
        "a `power_cut` with `flush.messages=1`", _flushed_power_loss
    ),
    "a replica lost its data": Condition("a `power_cut`, `wipe`, `truncate` or `damage`", _lost_data),
    "a replica's process ended": Condition("a broker was killed, stopped or exited", _ended),
    "a fault of the network": Condition("links were cut, lossy or slow", _network),
    "damaged by a storage fault": Condition("the fault `damage` or `truncate` hit the replica", _damaged),
    "above the high watermark": Condition(
        "a replica lacks records at or above the leader's high watermark", _above_high_watermark
    ),
    "a broker's clock was ahead": Condition(
        "the finding's cause says so: the fault `clock_shift` explains where the log begins",
        _cause_is("clock_ahead"),
    ),
    "before the log start offset": Condition(
        "it was at an offset below the leader's log start offset at the end", _before_log_start
    ),
    "in-sync replicas disagree": Condition(
        "a replica in sync differs from the reference log", _in_sync_disagree
    ),
    "the position was below the log start": Condition(
        "the group's position was lower than the first offset that its member received", _below_log_start
    ),
    "a documented removal": Condition(
        "retention, a DeleteRecords request or the deletion of the topic explains where the log begins",
        _removed_as_documented,
    ),
    "offset commits do not wait for all replicas": Condition(
        "`offsets.commit.required.acks` is not -1", _offset_acks
    ),
    "committed offsets may be lost": Condition(
        "the offsets topic had an unclean election, or all its in-sync replicas were down and lost data",
        partial(_committed_lost, OFFSETS_LOG),
    ),
    "committed share states were lost": Condition(
        "the same for `__share_group_state`", partial(_committed_lost, SHARE_LOG)
    ),
    "a new leader took over the share partition": Condition(
        "the finding's cause says so: an election lies between the deliveries", _cause_is("new_share_leader")
    ),
    "a member of the share group was gone": Condition(
        "the finding's cause says so: a fault was in force between the deliveries",
        _cause_is("share_session_fault"),
    ),
    "the share group was done with the record": Condition(
        "the finding's cause says so: a member had accepted or rejected it before", _cause_is("done_before")
    ),
    "the record had reached its delivery limit": Condition(
        "the finding's cause says so", _cause_is("delivery_limit")
    ),
    "the partition's records were replaced": Condition(
        "the finding's cause says so: a storage fault took records, and others have their offsets",
        _cause_is("records_replaced"),
    ),
    "the application processes at least once": Condition(
        "the finding's cause says so: its processing.guarantee is at_least_once", _cause_is("at_least_once")
    ),
    "a topic lost what the application wrote": Condition(
        "the finding's cause says so: an unclean election, or a storage fault that hit the leader",
        _cause_is("unclean_election", "unflushed_data_lost", "last_replica_wiped", "storage_fault"),
    ),
    "a replaced coordinator answered": Condition(
        "the finding's cause says so: it asked a coordinator that another broker had replaced",
        _cause_is("stale_coordinator"),
    ),
    "two members owned the partition": Condition(
        "the finding's cause says so: both believed that they owned it",
        _cause_is("two_owners"),
    ),
    "a stale leader still led": Condition(
        "the finding's cause says so: a live broker named itself leader in an older epoch",
        _cause_is("stale_leader"),
    ),
    "an earlier leader had handed it out": Condition(
        "the finding's cause says so: a live broker named itself leader in an older epoch, or the next "
        "leader refused what the member acknowledged",
        _cause_is("stale_leader", "earlier_leader"),
    ),
    "a fault stands at the end": Condition(
        "a fault was not healed, or the replica's broker is down", _fault_stands
    ),
    "time to rejoin the ISR": Condition(
        f"{ISR_TIME_NS // 10**9} s have passed since the last fault was healed", _time_to_rejoin
    ),
    "records without leader epochs": Condition(
        "Kafka, the message format or the inter-broker protocol is older than 0.11", _old_format
    ),
    "several elections": Condition("the partition had more than one election", _several_elections),
    "the partition had no leader": Condition("a view names none in some epoch", _leaderless),
    "two controllers led at once": Condition(
        "two KRaft controllers claimed to lead, and no fault cut off the broker that acknowledged it",
        _zombie_controller,
    ),
    "an ISR change was never answered": Condition("the finding's cause says so", _unanswered_isr),
    "a stuck ISR refuses markers": Condition(
        "an ISR change of the partition was never answered, and its ISR is smaller than "
        "`min.insync.replicas`: the leader appends no marker then",
        _markers_refused,
    ),
    "acknowledged without an offset": Condition("the answer named no offset", _no_offset),
    "the client is librdkafka": Condition("the producer is librdkafka", _librdkafka),
    "a transaction's state was not pending": Condition(
        "the log line says so: `pendingState is not defined`", _log_line_has("pendingState is not defined")
    ),
    "a late marker ended the transaction": Condition(
        "the finding's cause says so: a delayed request to end an earlier transaction of the producer",
        _cause_is("late_marker"),
    ),
    "a write arrived after the transaction had ended": Condition(
        "the finding's cause says so", _cause_is("late_write")
    ),
    "the marker of the transaction is missing": Condition(
        "the finding's cause says so: the log lacks the marker that the coordinator wrote",
        _cause_is("own_marker_missing", "marker_missing", "marker_lost_in_unclean_election"),
    ),
    "the transaction waits for its marker": Condition(
        "the finding's cause says so: the marker is missing, the coordinator had not finished, or the "
        "time-out did not end the transaction",
        _cause_is("marker_missing", "coordinator_not_finished", "time_out_without_marker"),
    ),
    "an operator ended the transaction": Condition(
        "the marker has no coordinator epoch, as those of `kafka-transactions abort`",
        _cause_is("ended_by_operator"),
    ),
    "the client names no transaction when it ends one": Condition(
        "librdkafka, or a client before 4.0 (EndTxn before version 5)", _old_end_txn
    ),
}
"""Conditions by name."""


def ask(name: str, case: FindingContext) -> Answer:
    """The answer to a condition; a leading `not ` negates it."""
    if name.startswith("not "):
        return CONDITIONS[name.removeprefix("not ")].asked(case).negated()
    return CONDITIONS[name].asked(case)
