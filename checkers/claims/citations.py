"""Where in a history a claim's answer comes from: time range, sources, partitions, offsets, writers, tables.

It follows from what the claim's builder says that it is about (`checkers.claims.subject`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from checkers.claims.moments import Moments
from checkers.claims.subject import ClaimSubject

_BEHIND = {"truth": "views", "controllers": "views", "life": "sends"}


@dataclass(frozen=True, kw_only=True)
class Citation:
    """The part of a history that a claim is decided by; empty where its builder does not say."""

    from_ns: int | None = None
    """Begin of the window; None: the begin of the run."""
    to_ns: int | None = None
    """End of the window; None: the end of the run."""
    marks: tuple[str, ...] = ()
    counts_from: tuple[str, ...] = ()
    """Marks from which the claim counts a time."""
    sources: tuple[str, ...] = ()
    """Hosts whose statements or logs are asked: `broker1`."""
    partitions: tuple[str, ...] = ()
    """As `topic/partition`."""
    offsets: tuple[int, ...] = ()
    writers: tuple[str, ...] = ()
    """Names of producers; `%` stands for any text."""
    tables: tuple[str, ...] = ()
    """Tables of the history, `life` and `findings`."""


def cite(subject: ClaimSubject, moments: Moments) -> Citation:
    """Where in a history to look for what a claim is about."""
    begins, ends = (
        [at + bound.later_ns for bound in bounds if (at := moments.of("mark", bound.mark)) is not None]
        for bounds in (subject.since, subject.until)
    )
    return Citation(
        from_ns=min(begins, default=None),
        to_ns=max(ends, default=None),
        marks=tuple(dict.fromkeys(bound.mark for bound in (*subject.since, *subject.until))),
        counts_from=subject.counts_from,
        sources=tuple(sorted(subject.hosts)),
        partitions=subject.partitions,
        offsets=tuple(sorted(subject.offsets)),
        writers=subject.writers,
        tables=tuple(dict.fromkeys(_BEHIND.get(name, name) for name in subject.tables)),
    )


def subject_of_claim(claim: Mapping[str, Any]) -> ClaimSubject:
    """What a claim of `claims.json` is about; nothing, if its queries do not say."""
    stored: ClaimSubject = msgspec.convert(claim.get("subject") or {}, ClaimSubject)
    return stored
