"""What the documents leave open: one switch each; its default is the reading that the truth takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Each field quotes the sentence that leaves room, and says what the default reading is and why."""

    follower_proves_what_leader_lacks: bool = False
    """`If the final read did not reach the end, absence proves nothing`. The leader is known but was not
    read whole, a follower was. A message that is on neither may stand in the unread part of the
    leader's log, so it is undetermined.
    """

    unknown_below_the_start_is_retired: bool = False
    """`unknown_dropped: outcome unknown; it is not in the final log` and `retired: absent because
    retention … took it` both fit a message of unknown outcome that may have stood before the log's
    start. The first says no more than is known.
    """

    unknown_is_in_sync: bool = True
    """`in-sync replicas disagree at an offset`, and `null means "not known"`. Where nothing says whether a
    replica was in sync (no table of replicas, or null), it is compared: a history of sends and copies
    alone would show no disagreement otherwise. Only a replica that is known to be outside the ISR is
    not.
    """

    end_outside_the_isr_is_one_finding: bool = False
    """`a log that ends early is one finding, where it ends` is said of in-sync replicas. Acknowledged
    messages that stand only on a replica outside the ISR, behind the reference's end, are one finding
    each, as lost ones are (`diverged: acknowledged, on a follower, but not in the reference log`: a
    finding).
    """

    later_one_is_acknowledged: bool = True
    """`an acknowledged message stands behind a later one of its writer`: a later *acknowledged* one."""

    unknown_transaction_is_committed: bool = False
    """`a reader jumped over messages that are in the final log`. A reader of committed messages is not
    handed those of a transaction whose end the producer does not know: it may have been aborted."""

    incomplete_read_is_a_finding: bool = False
    """`undetermined: absent as far as was read, but the read was not complete; one per partition`: where
    the read was not complete and no message is absent, there is none.
    """

    misrouted_is_placed_where_it_stands: bool = False
    """`misrouted: a record of another partition's message`: `topic` and `partition` of the finding may be
    those of the record or those of its home; the truth asks only for the message.
    """

    unsent_delivery: str = "aborted_read"
    """A reader was handed a record that nobody sent and that is not in the log. `aborted_read: a reader
    was handed a message that … never became part of the log`; `foreign: a record that nobody sent` fits
    as well.
    """

    newest_commit_counts: bool = True
    """`a consumer group was handed again what it had committed`. A later commit of a lower offset moves a
    group back in Kafka: what counts is the newest commit, not the furthest.
    """

    conflict_with_nothing: bool = False
    """`offset_conflict: … at an offset that is another message's`: where nothing stands at the offset,
    there is no other message.
    """

    dropped_in_sync_is_aborted_read: bool = False
    dropped_outside_is_aborted_read: bool = True
    """`aborted_read: … or never became part of the log`. A message of unknown outcome was read, the
    reference does not hold it, a follower does. In the ISR that is one `diverged`, which tells of it
    already; outside of the ISR only the reader tells that a message was handed out that is not in the
    log.
    """

    conflict_per_reader: bool = False
    """`offset_conflict: a reader was handed a message at an offset that is another message's`: one finding
    for a message and an offset, whoever read it there.
    """

    aborted_read_per_reader: bool = False
    """`aborted_read: a reader was handed a message that …`: one finding a message, whoever read it."""


DEFAULT = Choices()
