"""Findings other than losses, in plain sentences for readers who do not know the checker's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from report.model.messages import LOST
from report.model.model import FindingGroup, grouped
from report.words.lists import listed

MOST = 3
"""At most this many causes get a sentence, and at most this many messages are named."""

SAID: Mapping[str, tuple[str, str]] = {
    "duplicated": ("{} message was written more than once", "{} messages were written more than once"),
    "moved": (
        "{} message is at another offset than its acknowledgement named",
        "{} messages are at other offsets than their acknowledgements named",
    ),
    "corrupt": ("{} record is damaged", "{} records are damaged"),
    "misrouted": ("{} message is in a wrong partition", "{} messages are in wrong partitions"),
    "phantom": (
        "{} message was written although its producer had learned that it failed",
        "{} messages were written although their producers had learned that they failed",
    ),
    "undetermined": (
        "{} partition could not be read to its end",
        "{} partitions could not be read to their ends",
    ),
    "diverged": ("replicas in sync differ at {} place", "replicas in sync differ at {} places"),
    "truncated": (
        "committed records of a watched topic are gone in {} place",
        "committed records of a watched topic are gone in {} places",
    ),
    "foreign": ("nobody sent {} record that is in the log", "nobody sent {} records that are in the log"),
    "out_of_order": (
        "{} message comes after a later one of its producer",
        "{} messages come after later ones of their producers",
    ),
    "aborted_read": (
        "{} message can be read although it failed or was aborted",
        "{} messages can be read although they failed or were aborted",
    ),
    "offset_conflict": (
        "a reader received {} message at a wrong offset",
        "readers received {} messages at wrong offsets",
    ),
    "skip": ("a reader skipped records {} time", "readers skipped records {} times"),
    "non_monotonic": ("a reader went back {} time", "readers went back {} times"),
    "replay": (
        "a group received again what it had committed, {} time",
        "groups received again what they had committed, {} times",
    ),
    "commit_lost": (
        "{} offset that a group had committed was gone later",
        "{} offsets that groups had committed were gone later",
    ),
    "stale_offset": (
        "a replaced coordinator answered with an old offset {} time",
        "replaced coordinators answered with old offsets {} times",
    ),
    "offset_expired": (
        "{} committed offset of a group had expired",
        "{} committed offsets of groups had expired",
    ),
    "group_reset": (
        "a group's position was no longer in the log, and it continued elsewhere, {} time",
        "groups' positions were no longer in the log, and they continued elsewhere, {} times",
    ),
    "offset_outside": (
        "{} committed offset of a group is outside of the log",
        "{} committed offsets of groups are outside of their logs",
    ),
    "group_stalled": (
        "a group stood still for {} partition although there were messages to read",
        "groups stood still for {} partitions although there were messages to read",
    ),
    "double_ownership": (
        "two members of a group owned {} partition at the same time",
        "two members of a group owned a partition at the same time, {} times",
    ),
    "accept_lost": (
        "records that a member had accepted were available to their share group again, {} time",
        "records that a member had accepted were available to their share groups again, {} times",
    ),
    "not_delivered": (
        "a share group was not handed records that were available, {} time",
        "share groups were not handed records that were available, {} times",
    ),
    "over_delivered": (
        "a share group was handed records more often than its limit allows, {} time",
        "share groups were handed records more often than their limits allow, {} times",
    ),
    "held_twice": (
        "two members of a share group had the same records in their hands, {} time",
        "two members of a share group had the same records in their hands, {} times",
    ),
    "lock_outlived": (
        "a member acknowledged records after its time with them had ended, and nobody refused, {} time",
        "members acknowledged records after their time with them had ended, and nobody refused, {} times",
    ),
    "archived": (
        "a share group is done with records that no member accepted or rejected, {} time",
        "share groups are done with records that no member accepted or rejected, {} times",
    ),
    "not_counted": (
        "an application of Kafka Streams did not count {} message",
        "applications of Kafka Streams did not count messages, {} times",
    ),
    "counted_twice": (
        "an application of Kafka Streams counted {} message more than once",
        "applications of Kafka Streams counted messages more than once, {} times",
    ),
    "store_differs": (
        "a store of an application of Kafka Streams has a wrong count of {} word",
        "stores of applications of Kafka Streams have wrong counts of words, {} times",
    ),
    "lost_transaction": (
        "{} transaction that was reported as committed was aborted",
        "{} transactions that were reported as committed were aborted",
    ),
    "torn_transaction": (
        "{} transaction was not committed as a whole",
        "{} transactions were not committed as a whole",
    ),
    "hanging_transaction": (
        "{} transaction was neither committed nor aborted",
        "{} transactions were neither committed nor aborted",
    ),
    "hung_transaction": (
        "{} transaction stayed open in a partition after its coordinator had ended it",
        "{} transactions stayed open in a partition after their coordinators had ended them",
    ),
    "fenced_write_read": (
        "{} write of a fenced producer can be read",
        "{} writes of fenced producers can be read",
    ),
    "precommitted_read": (
        "{} transaction read its own message",
        "{} transactions read their own messages",
    ),
    "circular_read": (
        "{} circle of transactions read each other's messages",
        "{} circles of transactions read each other's messages",
    ),
    "process_exit": ("{} process ended by itself", "{} processes ended by themselves"),
    "server_error": (
        "a log has {} error that no fault explains",
        "logs have {} errors that no fault explains",
    ),
    "not_converged": (
        "{} partition was not in sync at the end",
        "{} partitions were not in sync at the end",
    ),
    "config_mismatch": (
        "{} setting did not take effect",
        "{} settings did not take effect",
    ),
}
"""By class of finding: what happened, once and several times."""

_BECAUSE: Mapping[str, str] = {
    "retry_of_unknown_outcome": "The producer got no answer and sent again; more than one of its "
    "attempts arrived.",
    "retry_of_acknowledged": "The producer sent again because an attempt had got no answer, and that attempt "
    "had arrived as well.",
    "idempotence_broken": "The producer is idempotent, so the broker should have refused the second copy.",
    "refused_after_retry": "The last attempt was refused, but an earlier one had arrived.",
    "failed_yet_appended": "",
}
"""A sentence by the kind of the cause. Other causes are quoted."""


def in_words(name: str, count: int) -> str:
    """What a number of findings of one class mean, as a clause: `2 messages were written more than once`."""
    single, several = SAID.get(name, (f"{{}} finding of class {name}", f"{{}} findings of class {name}"))
    return (single if count == 1 else several).format(grouped(count))


def others(groups: Iterable[FindingGroup], lost: int) -> list[FindingGroup]:
    """The groups that are no losses. ``diverged`` is one where acknowledged messages are lost."""
    return [group for group in groups if group.name not in LOST or (group.name == "diverged" and not lost)]


def clauses(groups: Iterable[FindingGroup]) -> list[str]:
    """A clause for each class, the most frequent first."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.name] = counts.get(group.name, 0) + group.count
    return [in_words(name, counts[name]) for name in sorted(counts, key=lambda name: (-counts[name], name))]


def explanations(groups: Sequence[FindingGroup], lost: int) -> tuple[str, ...]:
    """What happened besides losses and why, the most frequent cause first."""
    explained = sorted(
        (other for other in others(groups, lost) if other.cause_kind), key=lambda one: (-one.count, *one.rank)
    )
    return tuple(_explanation(one) for one in explained[:MOST])


def _explanation(group: FindingGroup) -> str:
    places = sorted({one.place for one in group.shown if one.place})
    labels = [one.label for one in group.shown if one.label]
    what = in_words(group.name, group.count)
    copies = [one.copies for one in group.shown if one.copies is not None]
    more = [listed(labels)] if len(labels) == group.count <= MOST else []
    more += [f"{grouped(sum(copies))} copies"] if len(copies) == group.count else []
    which = f" ({', '.join(more)})" if more else ""
    because = _BECAUSE.get(group.cause_kind)
    if because is None:
        because = f"Cause: {group.cause}."
    begin = f"{places[0]}: " if len(places) == 1 else ""
    return f"{begin}{what[:1].upper()}{what[1:]}{which}. {because}".rstrip()
