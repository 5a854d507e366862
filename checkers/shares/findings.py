"""Findings about share groups, as rows of `findings`: one for each class and cause.

Each function looks at one record: what members were handed (`Delivery`), and what is stored about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.causes import (
    PartitionEvent,
    fault_facts,
    fault_row,
    partition_events,
    stale_leader,
    unclean_election,
)
from checkers.evidence import DATA_LOSS, Evidence
from checkers.partition.messages import FOREVER
from checkers.records import Cause, evidence_row, facts_text
from checkers.shares.history import (
    NOT_LEADER_OR_FOLLOWER,
    Acknowledgement,
    Delivery,
    ShareHistory,
    share_histories,
)
from harness.kafka.model import SHARE_LOG, TopicPartition
from harness.kafka.share_state import DONE

ACCEPT_LOST, NOT_DELIVERED, OVER_DELIVERED = "accept_lost", "not_delivered", "over_delivered"
HELD_TWICE, LOCK_OUTLIVED, ARCHIVED = "held_twice", "lock_outlived", "archived"
SHARE_CLASSES = (ACCEPT_LOST, NOT_DELIVERED, OVER_DELIVERED, HELD_TWICE, LOCK_OUTLIVED, ARCHIVED)

TIMER_NS = 10**9
"""How late a broker's timer may take a record back."""
PATIENCE_NS = 30 * 10**9
"""How long a record may be available, beyond the duration of a lock, until a member is handed it."""


@dataclass(frozen=True, kw_only=True)
class KeptMessage:
    """An acknowledged message outside of transactions, at its offset in the final log."""

    offset: int
    acked_ns: int


@dataclass(frozen=True, kw_only=True)
class _Found:
    name: str
    offset: int
    ns: int
    """When it showed; orders findings of one cause."""
    cause: Cause
    rows: tuple[str, ...]
    readers: tuple[int, ...] = ()
    deliveries: int


def share_findings(
    evidence: Evidence, where: TopicPartition, kept: Sequence[KeptMessage]
) -> list[dict[str, Any]]:
    """Rows of `findings` about the share groups of one topic partition.

    ``kept`` are messages of which the final log holds one copy, and which were acknowledged.
    """
    return [row for history in share_histories(evidence, where) for row in _of_group(history, kept)]


def _of_group(history: ShareHistory, kept: Sequence[KeptMessage]) -> Iterator[dict[str, Any]]:
    alike: dict[tuple[str, str, str | None], list[_Found]] = {}
    for found in (*_about_deliveries(history), *_about_messages(history, kept)):
        alike.setdefault((found.name, found.cause.kind, found.cause.text), []).append(found)
    for (name, kind, facts), several in alike.items():
        first = min(several, key=lambda one: (one.ns, one.offset))
        yield {
            "class": name,
            "topic": history.where.topic,
            "partition": history.where.partition,
            "offset": first.offset,
            "count": len({one.offset for one in several}),
            "reader": f"group {history.group}",
            "cause": kind,
            "cause_facts": facts,
            "evidence": [*first.rows, *first.cause.rows],
            "detail": facts_text(readers=list(first.readers), deliveries=first.deliveries),
        }


def _about_deliveries(history: ShareHistory) -> Iterator[_Found]:
    rules: Iterable[Callable[[ShareHistory, int, Sequence[Delivery]], _Found | None]] = (
        *(_accept_lost, _over_delivered, _held_twice, _lock_outlived),
    )
    for offset, deliveries in history.deliveries.items():
        for rule in rules:
            found = rule(history, offset, deliveries)
            if found is not None:
                yield found


# ---- accepted, and not done


def _accept_lost(history: ShareHistory, offset: int, deliveries: Sequence[Delivery]) -> _Found | None:
    """An accept that a broker had carried out, and then another delivery, or a stored state without it."""
    accepts = [
        (given, one)
        for one in deliveries
        for given in one.acknowledgements
        if given.answer == "accept" and given.carried_out
    ]
    for given, accepted in sorted(accepts, key=lambda pair: pair[0].ns):
        again = next(
            (
                one
                for one in deliveries
                if one.ns > given.ns
                and 0 <= accepted.count <= one.count
                and not _was_under_way(history, accepted, one)
            ),
            None,
        )
        if again is not None:
            rows = (_answer_row(accepted, given), _delivery_row(again))
            cause = _deposed(history, accepted, given, again) or _state_lost(history, given.ns, again.ns)
            readers = (accepted.reader, again.reader)
            return _found(ACCEPT_LOST, offset, again.ns, cause, rows, deliveries, readers)
    stored = history.stored
    if stored is None or not accepts or stored.state(offset) in DONE or stored.start < 0:
        return None
    given, accepted = max(accepts, key=lambda pair: pair[0].ns)
    if given.ns >= history.stored_ns:
        return None
    rows = (_answer_row(accepted, given), evidence_row("share_states", None, f"offset {offset} available"))
    cause = _state_lost(history, given.ns, FOREVER)
    return _found(ACCEPT_LOST, offset, given.ns, cause, rows, deliveries, (accepted.reader,))


def _was_under_way(history: ShareHistory, accepted: Delivery, again: Delivery) -> bool:
    """Whether the accept was carried out for a later delivery to the same member, which it had not received.

    The lock of the first delivery had ended, and the broker had handed the record to the member again. The
    accept is stored with the count of that delivery, and what the member answers to it is refused.
    """
    return (
        again.reader == accepted.reader
        and any(given.refused for given in again.acknowledgements)
        and history.first_done(again.offset) == ("acknowledged", again.count)
    )


def _deposed(
    history: ShareHistory, accepted: Delivery, given: Acknowledgement, again: Delivery
) -> Cause | None:
    """A leader that was deposed before the accept had handed the record out; the accept is stored.

    It still does so, because it cannot have its own states stored, and learns of none that others store. Or a
    member's client kept the record until the next poll, and the next leader refuses what it acknowledges.
    """
    stored = history.stored
    if stored is None or stored.state(again.offset) not in DONE:
        return None
    stale = stale_leader(history.evidence, history.where, known_ns=given.ns, ns=again.ns)
    later_elections = [one for one in history.elections[1:] if one.ns <= accepted.ns]
    refused = any(one.error == NOT_LEADER_OR_FOLLOWER for one in again.acknowledgements)
    if stale is not None or not later_elections or not refused:
        return stale
    newest = later_elections[-1]
    facts: Mapping[str, object] = {"broker": newest.broker, "epoch": newest.epoch}
    return Cause(kind="earlier_leader", facts=facts, rows=(newest.row(),))


def _state_lost(history: ShareHistory, after_ns: int, until_ns: int) -> Cause:
    """What happened to the log of stored states after an acknowledgement."""
    evidence = history.evidence
    for partition in evidence.partitions_of(SHARE_LOG):
        for event in partition_events(evidence, SHARE_LOG, partition)[1]:
            unclean = unclean_election(event, partition=f"{SHARE_LOG}/{partition}")
            if after_ns < event.ns <= until_ns and unclean is not None:
                return unclean
    for fault in evidence.faults:
        named = not fault.partitions or any(name.startswith(f"{SHARE_LOG}/") for name in fault.partitions)
        if fault.mechanism in DATA_LOSS and named and after_ns < fault.from_ns <= until_ns:
            return Cause(kind="share_state_fault", facts=fault_facts(fault), rows=(fault_row(fault),))
    return Cause(kind="unexplained")


# ---- handed out too often, or to two


def _over_delivered(history: ShareHistory, offset: int, deliveries: Sequence[Delivery]) -> _Found | None:
    """More deliveries than the limit allows, by their number or by the broker's own count."""
    limit = history.limit
    if len(deliveries) <= limit and max(one.count for one in deliveries) <= limit:
        return None
    beyond = deliveries[limit] if len(deliveries) > limit else max(deliveries, key=lambda one: one.count)
    cause = _led_anew(history, deliveries[0].ns, beyond.ns) or Cause(kind="unexplained")
    rows = (_delivery_row(deliveries[0]), _delivery_row(beyond))
    return _found(OVER_DELIVERED, offset, beyond.ns, cause, rows, deliveries, (beyond.reader,))


def _held_twice(history: ShareHistory, offset: int, deliveries: Sequence[Delivery]) -> _Found | None:
    """Another member was handed the record while the first one still had it."""
    ends = {member.reader: member.until_ns for member in history.members}
    for place, one in enumerate(deliveries):
        until_ns = min(one.given_up_ns, ends.get(one.reader, FOREVER), one.held_until_ns - TIMER_NS)
        for other in deliveries[place + 1 :]:
            if other.reader == one.reader or other.ns >= until_ns:
                continue
            anew = _led_anew(history, one.ns, other.ns)
            if anew is None and not 0 <= one.count < other.count:
                continue  # The other one may have been acquired first, and have arrived late.
            cause = anew or _member_cut(history, one, other.ns) or Cause(kind="unexplained")
            rows = (_delivery_row(one), _delivery_row(other))
            return _found(HELD_TWICE, offset, other.ns, cause, rows, deliveries, (one.reader, other.reader))
    return None


def _led_anew(history: ShareHistory, after_ns: int, until_ns: int) -> Cause | None:
    """An election between two deliveries: a new leader knows of no record that is in a member's hands."""
    event: PartitionEvent | None = next(
        (one for one in history.elections if after_ns < one.ns <= until_ns), None
    )
    if event is None:
        return None
    facts: Mapping[str, object] = {"broker": event.broker, "epoch": event.epoch}
    return Cause(kind="new_share_leader", facts=facts, rows=(event.row(),))


def _member_cut(history: ShareHistory, one: Delivery, until_ns: int) -> Cause | None:
    """A fault in force between two deliveries: a leader takes back what a member has, once it is gone."""
    for fault in history.evidence.faults:
        if fault.from_ns <= until_ns and fault.until_ns >= one.ns:
            return Cause(kind="share_session_fault", facts=fault_facts(fault), rows=(fault_row(fault),))
    return None


def _lock_outlived(history: ShareHistory, offset: int, deliveries: Sequence[Delivery]) -> _Found | None:
    """An acknowledgement that was carried out although the record was no longer the member's."""
    for one in deliveries:
        for given in one.acknowledgements:
            ends_ns = one.held_until(given.asked_ns)
            if given.carried_out and 0 <= ends_ns < given.asked_ns - TIMER_NS:
                rows = (_delivery_row(one), _answer_row(one, given))
                cause = _done_before(deliveries, one, given) or Cause(kind="unexplained")
                return _found(LOCK_OUTLIVED, offset, given.ns, cause, rows, deliveries, (one.reader,))
    return None


def _done_before(deliveries: Sequence[Delivery], late: Delivery, given: Acknowledgement) -> Cause | None:
    """Another member had settled the record: a leader confirms whatever is before the start offset."""
    for one in deliveries:
        for other in one.acknowledgements:
            settled = other.answer in ("accept", "reject") and other.carried_out
            if one is not late and settled and other.asked_ns < given.ns:
                facts: Mapping[str, object] = {"reader": one.reader, "answer": other.answer}
                return Cause(kind="done_before", facts=facts, rows=(_answer_row(one, other),))
    return None


# ---- done without an answer, or not handed out


def _about_messages(history: ShareHistory, kept: Sequence[KeptMessage]) -> Iterator[_Found]:
    stored = history.stored
    if stored is None or stored.start < 0:
        return
    known = {message.offset: message for message in kept}
    for offset in sorted(known.keys() | history.deliveries.keys()):
        deliveries = history.deliveries.get(offset, ())
        if not deliveries and offset < history.begin:
            continue
        if stored.state(offset) in DONE:
            found = _archived(history, offset, deliveries)
        else:
            found = _not_delivered(history, offset, deliveries, known.get(offset))
        if found is not None:
            yield found


def _archived(history: ShareHistory, offset: int, deliveries: Sequence[Delivery]) -> _Found | None:
    """The group is done with a record that no member accepted or rejected."""
    if any(one.may_be("accept", "reject") for one in deliveries):
        return None
    limit = history.limit
    counted = max((one.count for one in deliveries), default=-1)
    reached = max(counted, len(deliveries)) >= limit
    limited = Cause(kind="delivery_limit", facts={"limit": limit})
    cause = limited if reached else _replaced(history) or Cause(kind="unexplained")
    rows = (
        *(_delivery_row(one) for one in deliveries[-1:]),
        evidence_row("share_states", None, f"offset {offset} is done"),
    )
    at_ns = deliveries[-1].ns if deliveries else history.stored_ns
    readers = tuple(one.reader for one in deliveries[-1:])
    return _found(ARCHIVED, offset, at_ns, cause, rows, deliveries, readers)


def _replaced(history: ShareHistory) -> Cause | None:
    """A fault that took records of the partition: others have their offsets, with which the group is done."""
    faults = history.evidence.data_losses(history.where)
    if not faults:
        return None
    fault = faults[0]
    return Cause(kind="records_replaced", facts=fault_facts(fault), rows=(fault_row(fault),))


def _not_delivered(
    history: ShareHistory, offset: int, deliveries: Sequence[Delivery], message: KeptMessage | None
) -> _Found | None:
    """A record that has been available for long, although the group had a member all the time."""
    if any(one.may_be("accept", "reject") for one in deliveries):
        return None
    if deliveries:
        last = deliveries[-1]
        if last.held_until_ns < 0:
            return None
        since_ns, patience_ns = last.held_until_ns, last.lock_ns + PATIENCE_NS
    elif message is not None:
        lock_ns = max((one.lock_ns for some in history.deliveries.values() for one in some), default=-1)
        if lock_ns < 0:
            return None
        since_ns, patience_ns = message.acked_ns, lock_ns + PATIENCE_NS
    else:
        return None
    end_ns = history.stored_ns
    if end_ns == FOREVER:
        return None
    waiting = next(
        (
            member
            for member in history.members
            if member.from_ns <= since_ns
            and min(member.until_ns, end_ns) > since_ns + patience_ns
            and history.polls_on(member.reader)
        ),
        None,
    )
    if waiting is None:
        return None
    rows = (
        *(_delivery_row(one) for one in deliveries[-1:]),
        evidence_row("share_states", history.stored_ns, f"offset {offset} available"),
    )
    cause = Cause(kind="unexplained")
    return _found(NOT_DELIVERED, offset, since_ns, cause, rows, deliveries, (waiting.reader,))


# ---- rows


def _found(
    name: str,
    offset: int,
    ns: int,
    cause: Cause,
    rows: tuple[str, ...],
    deliveries: Sequence[Delivery],
    readers: tuple[int, ...],
) -> _Found:
    return _Found(
        name=name,
        offset=offset,
        ns=ns,
        cause=cause,
        rows=rows,
        readers=readers,
        deliveries=len(deliveries),
    )


def _delivery_row(one: Delivery) -> str:
    counted = f", delivery count {one.count}" if one.count >= 0 else ""
    return evidence_row("shares", one.ns, f"reader {one.reader} was handed offset {one.offset}{counted}")


def _answer_row(one: Delivery, given: Acknowledgement) -> str:
    what = f"reader {one.reader}: {given.answer} of offset {one.offset} carried out"
    return evidence_row("shares", given.ns, what)
