"""Why messages of a topic partition may have been removed: its configuration, and requests of clients.

Kafka removes records for these reasons alone: retention by time or size, compaction, a DeleteRecords request,
and the deletion of the topic. If none of them explains that a message is gone, the message is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from checkers.partition.messages import EMPTY, FOREVER, Flags, Ints

NONE = -1
TOPIC_DELETED, RECORDS_DELETED, BY_TIME, BY_SIZE, BY_TIME_OR_SIZE, COMPACTED, NOT_RECORDED = range(7)
"""Codes of reasons. `NOT_RECORDED`: the history lacks the configuration that would decide."""

CLOCKS_NS = 1_000_000_000
"""How far the clocks of clients and brokers may be apart: record timestamps are those of clients."""


@dataclass(frozen=True, kw_only=True)
class Removals:
    """The documented reasons for which a partition may lack messages; times and ages in ns."""

    recorded: bool = False
    """The topic's retention is known; if not, it may have removed all that is before the log start offset."""
    retention_ns: int = FOREVER
    """Age from which retention by time removes a record; `FOREVER`: never."""
    by_size: bool = False
    """Retention by size may have removed records."""
    deleted_below: int = 0
    """DeleteRecords requests removed the records below this offset."""
    topic_deleted_ns: int = -1
    """When the topic was last deleted; -1: never."""
    start_offset: Ints = field(default_factory=lambda: EMPTY)
    """Log start offsets of the reference that its broker reported, rising …"""
    start_ns: Ints = field(default_factory=lambda: EMPTY)
    """… and when it first reported each of them, or a later one."""
    read_ns: int = -1
    """When the reference was read; -1: not known."""
    stamped_by_broker: bool = False
    """The timestamp of a record is the time of its append; if not, its producer chose it."""
    dated: Ints = field(default_factory=lambda: EMPTY)
    """Writers whose timestamps are known, rising …"""
    age_ns: Ints = field(default_factory=lambda: EMPTY)
    """… and by how much they are older than the time of sending."""

    def reasons(
        self,
        offsets: Ints,
        occupied: Flags,
        sent_ns: Ints,
        writer: Ints,
        *,
        log_start: int,
        compacted_below: int,
    ) -> Ints:
        """The reason for which each absent message may have been removed; `NONE` if none explains it.

        ``offsets`` are where the messages stood (-1: not known), and ``occupied`` says that the log holds
        another record there. ``log_start`` is the log start offset, and below ``compacted_below`` the log is
        compacted (-1: it is not).
        """
        free = ~occupied | (offsets < 0)
        before = free & (offsets < log_start) & (log_start > 0)
        reasons = np.full(len(offsets), NONE, dtype=np.int8)
        reasons[free & (offsets < compacted_below)] = COMPACTED
        if not self.recorded:
            reasons[before & (reasons == NONE)] = NOT_RECORDED
        else:
            old = before & self._outlived(offsets, sent_ns, writer)
            if self.by_size:
                reasons[before] = BY_SIZE
            reasons[old] = BY_TIME_OR_SIZE if self.by_size else BY_TIME
        reasons[before & (offsets < self.deleted_below) & (self.deleted_below > 0)] = RECORDS_DELETED
        reasons[(sent_ns >= 0) & (sent_ns <= self.topic_deleted_ns)] = TOPIC_DELETED
        return reasons

    def _outlived(self, offsets: Ints, sent_ns: Ints, writer: Ints) -> Flags:
        """Whether each message had reached the age of retention by the time at which it was gone."""
        if self.retention_ns >= FOREVER:
            return np.zeros(len(offsets), dtype=bool)
        until = np.full(len(offsets), FOREVER if self.read_ns < 0 else self.read_ns, dtype=np.int64)
        if len(self.start_offset):
            place = np.searchsorted(self.start_offset, offsets, side="right")
            reported = np.append(self.start_ns, FOREVER)[place]
            # A log start that was reported before the message was sent concerns an earlier message there.
            until = np.where((offsets >= 0) & (reported >= sent_ns), np.minimum(until, reported), until)
        decidable = (until < FOREVER) & (sent_ns >= 0)
        youth_ns = np.full(len(offsets), self.retention_ns - CLOCKS_NS, dtype=np.int64)
        if not self.stamped_by_broker:
            decidable &= np.isin(writer, self.dated)
            if len(self.dated):
                place = np.minimum(np.searchsorted(self.dated, writer), len(self.dated) - 1)
                youth_ns -= self.age_ns[place]
        young = decidable & (until - sent_ns < youth_ns)
        old: Flags = ~young
        return old
