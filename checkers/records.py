"""Causes and details of findings as records: a kind, and facts as a JSON object. Sentences are `report`'s.

Facts are JSON text, as `targets` and `evidence` are in the history: rows with the same cause have the same
text, so ten million rows of `life` are grouped by it without being read. Imports neither Arrow nor Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

CAUSES: Mapping[str, str] = MappingProxyType(
    {
        # Losses
        "unclean_election": "`broker` was elected in `epoch` although it was not in the `isr`",
        "high_watermark_truncation": "`broker` truncated its log to its own high watermark, `offset`",
        "deposed_leader": "`broker` acknowledged it and lost it when it followed the `leader` of `epoch`",
        "zombie_after_heal": "the same, after the `fault` that hid the election had been healed",
        "truncated_without_election": "`broker` truncated its log to `offset`, and no election was seen",
        "later_epoch": "the final log has another record there, of `epoch`, which begins at `offset`",
        "unflushed_data_lost": "the power cut `fault` took what `broker` had not flushed",
        "last_replica_wiped": "`fault` emptied `broker`, which then led as the only member of the ISR",
        "storage_fault": "`fault` took it from `broker`",
        "clock_ahead": "`retention_ms` had passed by a broker's clock, which `fault` put `ahead_s` ahead",
        "log_start_moved": "the log begins later, and nothing explains that",
        "never_seen": "not known: no replica was seen to hold it, and no log was seen to be truncated",
        "not_followed": "not known: the observer did not follow the log of `broker` at that time",
        "unexplained_loss": "not known: no election, truncation or fault explains it",
        # Removals that Kafka documents
        "topic_deleted": "`topic` was deleted",
        "records_deleted": "a client's request deleted those before `offset`",
        "compaction": "the topic is compacted",
        "retention_by_time": "`retention_ms` had passed",
        "retention_by_size": "the log had more than `retention_bytes`",
        "retention_by_time_or_size": "`retention_ms` or `retention_bytes`",
        "retention_not_recorded": "not known: the topic's configuration was not recorded",
        # Copies and failures of messages
        "retry_of_unknown_outcome": "the client sent it again without an answer",
        "retry_of_acknowledged": "more than the acknowledged request was written",
        "idempotence_broken": "an idempotent producer's message was written twice",
        "producer_id_expired": "the broker had forgotten the producer's sequence numbers",
        "single_request": "not known: the client sent it in one request",
        "requests_not_recorded": "not known: the history does not tell in how many requests it was sent",
        "failed_yet_appended": "its failure was reported as definite",
        "refused_after_retry": "an earlier one of the client's requests was appended",
        # Transactions
        "transaction_timed_out": "it was open for `timeout_ms`",
        "missing_message": "`client` asked for a commit, and nobody had answered for a message",
        "late_write": "`offset` stands behind the marker at `marker_offset` that ended the transaction",
        "late_marker": "a delayed `marker` (of the earlier `txn`) ended the transaction",
        "own_marker_missing": "the marker of the later `txn` decided it",
        "marker_lost_in_unclean_election": "`broker` was elected in `epoch` without the marker",
        "marker_missing": "no marker follows `offset`, although the end was `reported`",
        "time_out_without_marker": "no marker follows, although transaction.timeout.ms had passed",
        "coordinator_not_finished": "`broker` stated `state` at `at_s`, and `partition` lacked its marker",
        "ended_by_operator": "the marker at `marker_offset` has no coordinator epoch",
        "aborted_by_coordinator": "the coordinator raised the producer epoch; `successor` says why",
        "fenced_epoch": "a record of `producer_epoch` stands behind one of a later epoch",
        "fenced_by_successor": "another producer with its transactional id preceded it; see `successor`",
        "unknown_to_coordinator": "the coordinator does not know of the open transaction",
        "unexplained_transaction": "not known: neither markers nor what was reported explain it",
        # Groups and readers
        "stale_coordinator": "`broker` answered after `leader` had replaced it in `epoch` of `partition`",
        "new_coordinator": "`broker` leads `partition` since `epoch` and does not know the commit",
        "offset_retention": "offsets.retention.minutes=`minutes` had passed since `committed_offset` was "
        "committed, or since `empty_group` lost its last member",
        "commit_lost": "`because` names the cause of the finding about the lost commit",
        "commit_past_position": "`reader` committed `offset`, which is past what it had received",
        "assigned_before_commit": "`reader` was assigned the partition before `offset` was committed",
        "two_owners": "`readers` both owned the partition",
        "stale_leader": "`broker` still led in `epoch`",
        "earlier_leader": "the member still had the record from the leader that `broker` replaced in `epoch`",
        "late_notice": "`reader` learnt later that it had lost the partition",
        "late_revocation": "`reader` gave the partition up later",
        "no_revocation": "`reader` is not known to have given the partition up",
        "truncated": "`broker` truncated its log to `offset`",
        "no_coordinator": "`partition` had no leader for `seconds`",
        "coordinator_loading": "the coordinator was loading the offsets log",
        "member_fenced": "a member was fenced",
        "slow_rebalance": "`seconds` passed from the first join until a member was assigned the partition",
        # Share groups
        "share_state_fault": "`fault` took records of the log of stored states",
        "new_share_leader": "`broker` was elected in `epoch`, and knows of no record in a member's hands",
        "share_session_fault": "`fault` was in force: a leader takes records back from a member that is gone",
        "done_before": "`reader` had settled it with `answer`, and a leader confirms whatever is done",
        "delivery_limit": "it was delivered `limit` times",
        "records_replaced": "`fault` took records of the partition, and others have their offsets since",
        # Applications of Kafka Streams
        "at_least_once": "the application processes at least once",
        "unexplained": "not known: nothing in the history explains it",
        # The end of the run
        "isr_change_unanswered": "the leader's request to change the ISR never took effect",
        "isr_never_expanded": "the leader never asked to expand the ISR, although the logs are equal",
    }
)
"""Kinds of causes. Words in backquotes are facts."""

NOT_KNOWN = frozenset(
    (
        *("never_seen", "not_followed", "unexplained_loss", "retention_not_recorded", "single_request"),
        *("requests_not_recorded", "unexplained_transaction", "unexplained"),
    )
)
"""Kinds that say that the history does not show the cause."""


CauseWords = Callable[[Mapping[str, Any]], str]
"""Makes a sentence of the cause in a row of `life` or `findings`; empty: the row has none."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why something happened, and the rows of the history that this rests on."""

    kind: str
    """One of `CAUSES`."""
    facts: Mapping[str, object] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    """Entries of a finding's `evidence`."""

    @property
    def text(self) -> str | None:
        """The facts as the column `cause_facts` holds them."""
        return facts_text(**self.facts)


def facts_text(**facts: object) -> str | None:
    """A JSON object of the facts that are known; None if none is."""
    stated = {name: value for name, value in facts.items() if value is not None}
    return json.dumps(stated) if stated else None


def evidence_row(table: str, ns: int | None, what: str) -> str:
    """A row of the history that a cause rests on, as an entry of a finding's `evidence`."""
    return json.dumps({"table": table, "ns": ns, "what": what})
