"""The sentence for each kind of cause (`checkers.records.CAUSES`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import msgspec

from harness.errors import BadDataError, json_object
from harness.history.time_zero import in_seconds
from report.words.lists import brokers_in_words
from report.words.stored import REMEDY, worded

CauseFacts = Mapping[str, Any]


class _Computed(TypedDict, total=False):
    """Types of the facts with which reports compute; the others are only shown."""

    broker: int
    leader: int
    epoch: int
    isr: list[int]
    truncated: list[int]
    fault: int
    fault_name: str


def facts_of(row: Mapping[str, Any]) -> CauseFacts:
    """The facts of the cause of a row of findings or of life. Raises BadDataError if they are malformed."""
    facts = json_object(row.get("cause_facts") or "{}", "cause_facts", REMEDY)
    try:
        msgspec.convert(facts, _Computed)
    except msgspec.ValidationError as error:
        raise BadDataError(f"cause_facts is malformed ({error}); {REMEDY}.") from error
    return facts


def cause_of(row: Mapping[str, Any]) -> str:
    """The cause of a row of findings or of life as a sentence; empty without a cause."""
    return cause_in_words(str(row["cause"]), facts_of(row)) if row.get("cause") else ""


def cause_in_words(kind: str, facts: CauseFacts) -> str:
    """A cause as a sentence. A kind that has no sentence here, of a later version, is shown as it is.

    Raises BadDataError if the facts are not those of this kind.
    """
    said = SENTENCES.get(kind)
    if said is None:
        return kind.replace("_", " ")
    with worded(f"cause_facts of {kind}"):
        return said(facts) if callable(said) else said.format(**facts)


def _unclean(facts: CauseFacts) -> str:
    of = f" of {facts['partition']}" if "partition" in facts else ""
    return f"unclean election: {_elected_unclean(facts, of)}{_truncated(facts)}"


def _elected_unclean(facts: CauseFacts, of: str = "") -> str:
    return (
        f"broker{facts['broker']} became leader{of} in epoch {facts['epoch']} although the in-sync replicas "
        f"were {facts['isr']}"
    )


def _truncated(facts: CauseFacts) -> str:
    brokers = facts.get("truncated") or ()
    logs = "its log" if len(brokers) == 1 else "their logs"
    done = f"; {brokers_in_words(brokers)} truncated {logs} to offset {facts.get('truncated_to')}"
    return done if brokers else ""


def _deposed(facts: CauseFacts) -> str:
    led = (
        f"acknowledged it while broker{facts['leader']} led in epoch {facts['epoch']}"
        if facts["elected"] == "before"
        else f"acknowledged it, then broker{facts['leader']} was elected in epoch {facts['epoch']}"
    )
    broker = f"broker{facts['broker']}" if facts["broker"] >= 0 else "a broker that is not known"
    return f"old leader truncated on rejoin: {broker} {led}{_truncated(facts)}"


def _zombie(facts: CauseFacts) -> str:
    return (
        f"zombie accepted after heal: broker{facts['broker']} acknowledged it after `{facts['fault_name']}` "
        f"was healed, while broker{facts['leader']} led in epoch {facts['epoch']}{_truncated(facts)}"
    )


def _late_write(facts: CauseFacts) -> str:
    by = facts.get("decided_by")
    decided = ", and no marker follows it"
    if by is not None:
        of = f" of transaction {by['txn']}" if "txn" in by else ""
        decided = f", and the {by['marker']} at offset {by['offset']}{of} decided it"
    return (
        f"late write: offset {facts['offset']} stands behind the marker at offset {facts['marker_offset']} "
        f"that ended the transaction{decided}"
    )


def _late_marker(facts: CauseFacts) -> str:
    of = f" of transaction {facts['txn']}" if "txn" in facts else ""
    return (
        f"late marker: a delayed request to {facts['marker']}{of} ended this transaction "
        f"(marker at offset {facts['marker_offset']} of {facts['partition']}, producer epoch "
        f"{facts.get('producer_epoch')}, coordinator epoch {facts.get('coordinator_epoch', 'unknown')})"
    )


def _own_marker_missing(facts: CauseFacts) -> str:
    lost = f" ({_elected_unclean(facts)})" if "isr" in facts else ""
    return (
        f"its own marker is not in the log{lost}: the marker at offset {facts['marker_offset']}, which ended "
        f"transaction {facts['txn']}, decided it"
    )


def _aborted_by_coordinator(facts: CauseFacts) -> str:
    who = {
        "had_producer_id": "another producer with its transactional id was given a producer id",
        "had_begun": "another producer with its transactional id began",
    }.get(
        facts.get("successor", ""),
        "it timed out or another producer initialised with its transactional id",
    )
    return f"aborted by the coordinator, which raised the producer epoch to {facts['producer_epoch']}: {who}"


def _fenced(facts: CauseFacts) -> str:
    did = {"had_producer_id": "been given a producer id", "had_begun": "begun a transaction"}
    return f"another producer with the same transactional id had {did[facts['successor']]} before it was sent"


def _stale_coordinator(facts: CauseFacts) -> str:
    if "leader" not in facts:
        return "stale coordinator: a later answer names the offset"
    return (
        f"stale coordinator: broker{facts['broker']} answered, which broker{facts['leader']} had replaced in "
        f"leader epoch {facts['epoch']} of {facts['partition']}"
    )


def _offset_retention(facts: CauseFacts) -> str:
    since = (
        f"group {facts['empty_group']} had no member any more"
        if "empty_group" in facts
        else f"offset {facts['committed_offset']} committed"
    )
    return f"offset retention: offsets.retention.minutes={facts['minutes']} had passed since {since}"


def _two_owners(facts: CauseFacts) -> str:
    one, other = facts["readers"]
    return f"rebalance: readers {one} and {other} both owned the partition"


SENTENCES: Mapping[str, str | Callable[[CauseFacts], str]] = {
    "unclean_election": _unclean,
    "high_watermark_truncation": "high-watermark truncation: broker{broker} truncated to its own high "
    "watermark {offset} instead of asking for the epoch's end",
    "deposed_leader": _deposed,
    "zombie_after_heal": _zombie,
    "truncated_without_election": "truncated: broker{broker} truncated its log to offset {offset}, although "
    "no election was seen",
    "later_epoch": "truncated under a later leader: epoch {epoch} begins at offset {offset} in the final "
    "log, and an earlier leader had acknowledged it",
    "unflushed_data_lost": "un-fsynced data lost: `{fault_name}` took what broker{broker} had acknowledged "
    "but not flushed",
    "last_replica_wiped": "last in-sync replica wiped: `{fault_name}` emptied broker{broker}, which then led "
    "again",
    "storage_fault": "storage fault: `{fault_name}` on broker{broker}",
    "clock_ahead": "retention by a clock that was ahead: retention.ms={retention_ms} had passed for a broker "
    "because of `{fault_name}`",
    "log_start_moved": "log start moved: neither retention, compaction nor a request explains that the log "
    "begins later",
    "never_seen": "not known: no replica was seen to hold it, and no log was seen to be truncated",
    "not_followed": "not known: the observer did not follow the log of broker{broker} at that time",
    "unexplained_loss": "not known: no election, truncation or fault in the history explains it",
    "topic_deleted": "topic deleted: {topic} was deleted",
    "records_deleted": "records deleted: a client's request deleted those before offset {offset}",
    "compaction": "compaction: the topic is compacted",
    "retention_by_time": "retention by time: retention.ms={retention_ms}",
    "retention_by_size": "retention by size: retention.bytes={retention_bytes}",
    "retention_by_time_or_size": "retention by time or size: retention.ms={retention_ms}, "
    "retention.bytes={retention_bytes}",
    "retention_not_recorded": "not known: retention may have removed it; the topic's configuration was not "
    "recorded",
    "retry_of_unknown_outcome": "client retry of an unknown outcome",
    "retry_of_acknowledged": "client retry: the acknowledged attempt was not the only one that was written",
    "idempotence_broken": "idempotence broken: an idempotent producer's message was written twice",
    "producer_id_expired": "producer id expired: the broker had forgotten the producer's sequence numbers",
    "single_request": "not known: the client sent it in one request, as far as the history tells",
    "requests_not_recorded": "not known: the history does not tell in how many requests the client sent it",
    "failed_yet_appended": "reported as definitely failed, yet appended",
    "refused_after_retry": "refused after a retry: an earlier one of the client's requests was appended",
    "transaction_timed_out": "transaction timed out: transaction.timeout.ms={timeout_ms}",
    "missing_message": lambda facts: (
        "missing message: nobody answered for it, and no log has it, although "
        f"{facts.get('client')} asks for a commit only when every message is acknowledged"
    ),
    "late_write": _late_write,
    "late_marker": _late_marker,
    "own_marker_missing": _own_marker_missing,
    "marker_lost_in_unclean_election": lambda facts: (
        f"unclean election: its marker is not in the log ({_elected_unclean(facts)})"
    ),
    "marker_missing": "the marker is missing: the application learned that it {reported}, and none follows "
    "offset {offset}",
    "time_out_without_marker": "not ended by its time-out: no marker follows although "
    "transaction.timeout.ms had passed",
    "coordinator_not_finished": lambda facts: (
        f"the coordinator had not finished: broker{facts['broker']} stated {facts['state']} at "
        f"{in_seconds(facts['at_s'])}, and {facts['partition']} still lacked its marker"
    ),
    "ended_by_operator": "ended by an operator: the marker at offset {marker_offset} has no coordinator "
    "epoch",
    "aborted_by_coordinator": _aborted_by_coordinator,
    "fenced_epoch": "a record of producer epoch {producer_epoch} stands behind one of a later epoch",
    "fenced_by_successor": _fenced,
    "unknown_to_coordinator": "the coordinator does not know of it: nobody but a later marker of the same "
    "producer, or an operator, ends it",
    "unexplained_transaction": "not known: neither the markers nor what was reported to applications "
    "explains it",
    "stale_coordinator": _stale_coordinator,
    "new_coordinator": "new coordinator: broker{broker} leads {partition} since epoch {epoch} and does not "
    "know it",
    "offset_retention": _offset_retention,
    "commit_lost": lambda facts: f"commit lost: {cause_in_words(facts['because'], facts)}",
    "commit_past_position": "commit past what was handed over: reader {reader} committed offset {offset}",
    "assigned_before_commit": "rebalance: reader {reader} was assigned the partition before offset {offset} "
    "was acknowledged",
    "two_owners": _two_owners,
    "stale_leader": "stale leader: broker{broker} still led in epoch {epoch}",
    "earlier_leader": "earlier leader: the member still had the record from the leader that broker{broker} "
    "replaced in epoch {epoch}",
    "late_notice": "late notice: reader {reader} learnt later that it had lost the partition",
    "late_revocation": "late revocation: reader {reader} gave the partition up later",
    "no_revocation": "reader {reader} is not known to have given the partition up",
    "truncated": "truncated: broker{broker} truncated its log to offset {offset}",
    "no_coordinator": "no coordinator: {partition} had no leader for {seconds:.1f} s",
    "coordinator_loading": "coordinator loading: __consumer_offsets was being loaded",
    "member_fenced": "member fenced",
    "slow_rebalance": "rebalance: {seconds:.1f} s passed from the first join until a member was assigned it",
    "share_state_fault": "stored states lost: `{fault_name}` took records of __share_group_state",
    "records_replaced": "records replaced: `{fault_name}` took records of the partition, with whose offsets "
    "the group was done, and others have them since",
    "new_share_leader": "new leader: broker{broker} was elected in epoch {epoch}, and knows of no record "
    "in a member's hands",
    "share_session_fault": "member gone: `{fault_name}` was in force, and a leader takes records back from a "
    "member that is gone",
    "done_before": "done before: reader {reader} had acknowledged it with {answer}, and a leader confirms "
    "whatever is before the start offset",
    "delivery_limit": "delivery limit: it was delivered {limit} times",
    "at_least_once": "at least once: what an instance had not committed when it failed is processed again",
    "unexplained": "not known: nothing in the history explains it",
    "isr_change_unanswered": "ISR change never answered",
    "isr_never_expanded": "ISR never expanded",
}
"""By the kind of a cause: its sentence with the names of facts, or a function that makes it of them."""
