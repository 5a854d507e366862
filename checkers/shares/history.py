"""The history of one share group and topic partition: deliveries, acknowledgements, and the stored state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from checkers.causes import PartitionEvent, or_minus_one, partition_events
from checkers.evidence import Evidence, Row, whole_number
from checkers.partition.messages import FOREVER
from harness.kafka.model import TopicPartition
from harness.kafka.share_state import DONE, ShareState

DEFAULT_LIMIT = 5
"""group.share.delivery.count.limit of Kafka 4.0 and later."""
LIMIT, LIMIT_OF_GROUP = "group.share.delivery.count.limit", "share.delivery.count.limit"
INVALID_RECORD_STATE = 121
"""Error code of a refused acknowledgement: the record is not, or no longer, the member's."""
NOT_LEADER_OR_FOLLOWER = 6
"""Error code of an acknowledgement of a record that the member had from an earlier leader."""


@dataclass(frozen=True, kw_only=True)
class Acknowledgement:
    """How a member acknowledged a delivery; ``ns`` is -1 if it learnt nothing of what came of that."""

    answer: str
    """`accept`, `release`, `reject` or `renew`."""
    asked_ns: int
    ns: int = -1
    error: int = 0

    @property
    def carried_out(self) -> bool:
        """Whether the broker says so."""
        return self.ns >= 0 and self.error == 0

    @property
    def refused(self) -> bool:
        """Whether the broker says that it has changed nothing: INVALID_RECORD_STATE."""
        return self.ns >= 0 and self.error == INVALID_RECORD_STATE


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A record in the hands of a member."""

    reader: int
    offset: int
    ns: int
    count: int
    """How often it was acquired, as the broker counts; -1: not known."""
    lock_ns: int
    """How long it is the member's; -1: not known."""
    acknowledgements: tuple[Acknowledgement, ...]
    """By the time of asking."""

    @property
    def held_until_ns(self) -> int:
        """When the broker has taken it back at the latest, unless it was acknowledged; -1: not known.

        The time counts from when it was acquired, which was before the member received it, or from when the
        broker renewed it (KIP-1222).
        """
        return self.held_until(FOREVER)

    def held_until(self, asked_ns: int) -> int:
        """The same by what the member had acknowledged before a time.

        A broker confirms renewals of records that are done, too; one that comes too late renews nothing.
        """
        if self.lock_ns < 0:
            return -1
        until_ns = self.ns + self.lock_ns
        for one in self.acknowledgements:
            if one.answer == "renew" and one.carried_out and one.asked_ns < min(until_ns, asked_ns):
                until_ns = one.ns + self.lock_ns
        return until_ns

    @property
    def given_up_ns(self) -> int:
        """When the member first acknowledged it otherwise than by renewing it; `FOREVER`: never."""
        return min((one.asked_ns for one in self.acknowledgements if one.answer != "renew"), default=FOREVER)

    def may_be(self, *answers: str) -> bool:
        """Whether an acknowledgement with one of these answers took effect, or may have."""
        return any(one.answer in answers and not one.refused for one in self.acknowledgements)


@dataclass(frozen=True, kw_only=True)
class Member:
    """When a member was in the group, as far as its program says."""

    reader: int
    from_ns: int
    until_ns: int
    """`FOREVER` if it was not stopped."""


class ShareHistory:
    """The rows of `shares` and `share_states` about one group and partition."""

    def __init__(self, evidence: Evidence, group: str, where: TopicPartition, rows: Sequence[Row]) -> None:
        """``rows`` are those of `shares` about the group, also those that name no partition."""
        self.evidence, self.group, self.where = evidence, group, where
        self.rows = sorted((row for row in rows if row["group"] == group), key=lambda row: int(row["ns"]))

    @cached_property
    def deliveries(self) -> Mapping[int, Sequence[Delivery]]:
        """By offset, in the order in which members received them."""
        found: dict[int, list[Delivery]] = {}
        given = self._acknowledgements()
        for row in self.rows:
            if row["event"] != "acquired":
                continue
            offset, reader, ns = int(row["offset"]), int(row["reader"]), int(row["ns"])
            found.setdefault(offset, []).append(
                Delivery(
                    reader=reader,
                    offset=offset,
                    ns=ns,
                    count=-1 if row["delivery_count"] is None else int(row["delivery_count"]),
                    lock_ns=-1 if row["lock_ms"] is None else int(row["lock_ms"]) * 10**6,
                    acknowledgements=tuple(given.get((reader, offset, ns), ())),
                )
            )
        return found

    def _acknowledgements(self) -> dict[tuple[int, int, int], list[Acknowledgement]]:
        """Those of each delivery, by its reader, offset and time: the newest one before they were given."""
        newest: dict[tuple[int, int], int] = {}
        places: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        found: dict[tuple[int, int, int], dict[int, Acknowledgement]] = {}
        for row in self.rows:
            if row["offset"] is None:
                continue
            reader, offset, ns = int(row["reader"]), int(row["offset"]), int(row["ns"])
            if row["event"] == "acquired":
                newest[reader, offset] = ns
            elif row["event"] == "acknowledged" and (reader, offset) in newest:
                place = reader, offset, newest[reader, offset]
                places[reader, offset, ns] = place
                found.setdefault(place, {})[ns] = Acknowledgement(answer=row["answer"], asked_ns=ns)
            elif row["event"] == "answered" and row["asked_ns"] is not None:
                asked_ns = int(row["asked_ns"])
                known = places.get((reader, offset, asked_ns))
                if known is not None:
                    found[known][asked_ns] = Acknowledgement(
                        answer=row["answer"], asked_ns=asked_ns, ns=ns, error=row["error"] or 0
                    )
        return {place: list(by_time.values()) for place, by_time in found.items()}

    @cached_property
    def members(self) -> Sequence[Member]:
        """All members."""
        stopped = {row["reader"]: int(row["ns"]) for row in self.rows if row["event"] == "stopped"}
        return [
            Member(
                reader=row["reader"],
                from_ns=int(row["ns"]),
                until_ns=stopped.get(row["reader"], FOREVER),
            )
            for row in self.rows
            if row["event"] == "started"
        ]

    def polls_on(self, reader: int) -> bool:
        """Whether a member has acknowledged all that it was handed last; otherwise it may hold that."""
        own = [one for some in self.deliveries.values() for one in some if one.reader == reader]
        newest_ns = max((one.ns for one in own), default=-1)
        return all(one.acknowledgements for one in own if one.ns == newest_ns)

    @cached_property
    def _stored_rows(self) -> Sequence[Row]:
        about = self.evidence.rows_about("share_states", self.where)
        return sorted((row for row in about if row["group"] == self.group), key=lambda row: row["log_offset"])

    @cached_property
    def stored(self) -> ShareState | None:
        """What is stored at the end; None if the history does not say."""
        state = ShareState()
        for _, record in groupby(self._stored_rows, key=lambda row: row["log_offset"]):
            rows = list(record)
            state.store(
                snapshot=bool(rows[0]["snapshot"]),
                start_offset=or_minus_one(rows[0]["start_offset"]),
                batches=[
                    (int(row["first_offset"]), int(row["last_offset"]), str(row["state"]))
                    for row in rows
                    if row["first_offset"] is not None and row["last_offset"] is not None
                ],
            )
        return state if self._stored_rows else None

    def first_done(self, offset: int) -> tuple[str, int] | None:
        """The first stored state in which the group is done with a record, and its delivery count.

        None: nothing of that is stored; -1: the count is not known.
        """
        for row in self._stored_rows:
            first, last = row["first_offset"], row["last_offset"]
            if first is not None and last is not None and first <= offset <= last and row["state"] in DONE:
                return str(row["state"]), or_minus_one(row["delivery_count"])
        return None

    @cached_property
    def begin(self) -> int:
        """The lowest start offset that is stored: the group is handed no record before it; -1: not known."""
        starts = (or_minus_one(row["start_offset"]) for row in self._stored_rows)
        return min((offset for offset in starts if offset >= 0), default=-1)

    @cached_property
    def stored_ns(self) -> int:
        """When the stored state was read; `FOREVER` if that is not known."""
        return min((int(row["ns"]) for row in self._stored_rows if row["ns"] is not None), default=FOREVER)

    @cached_property
    def elections(self) -> Sequence[PartitionEvent]:
        """Elections of the partition's leader, which manages the deliveries."""
        return partition_events(self.evidence, *self.where)[1]

    @cached_property
    def limit(self) -> int:
        """How often a record is delivered at most; the default if no configuration was recorded."""
        stated: dict[str, int] = {}
        for row in self.evidence.rows("configs"):
            value = whole_number(row["asked"] if row["value"] is None else row["value"])
            of_group = (row["scope"], row["name"], row["key"]) == ("group", self.group, LIMIT_OF_GROUP)
            if value is not None and (of_group or (row["scope"], row["key"]) == ("broker", LIMIT)):
                stated[str(row["scope"])] = value
        return stated.get("group", stated.get("broker", DEFAULT_LIMIT))


def share_histories(evidence: Evidence, where: TopicPartition) -> list[ShareHistory]:
    """The history of each share group that was handed records of a partition, or has a state there."""
    rows = evidence.rows_about("shares", where, or_all=True)
    groups = {row["group"] for row in rows if row["topic"] is not None}
    groups |= {row["group"] for row in evidence.rows_about("share_states", where)}
    return [ShareHistory(evidence, group, where, rows) for group in sorted(groups)]
