"""What a claim's query is about, as its builder states it: partitions, hosts, marks, producers, tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class TimeBound(NamedTuple):
    """A begin or an end of a window: a mark, and how much later it is."""

    mark: str
    later_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class ClaimSubject:
    """The part of a history that a query asks for; empty where its builder does not say."""

    since: tuple[TimeBound, ...] = ()
    """The window begins with the earliest of these; with none, the run does."""
    until: tuple[TimeBound, ...] = ()
    """The window ends with the latest of these; with none, the run does."""
    counts_from: tuple[str, ...] = ()
    """Marks from which the sentence counts a time."""
    hosts: tuple[str, ...] = ()
    """Hosts whose statements or logs are asked: `broker1`."""
    partitions: tuple[str, ...] = ()
    """As `topic/partition`."""
    offsets: tuple[int, ...] = ()
    writers: tuple[str, ...] = ()
    """Names of producers; `%` stands for any text."""
    tables: tuple[str, ...] = ()
    """Tables of the history that the query reads, `life` and `findings`."""


NO_SUBJECT = ClaimSubject()


class ClaimQuery(str):
    """A query of a claim, with what it is about."""

    subject: ClaimSubject

    def __new__(cls, query: str, subject: ClaimSubject = NO_SUBJECT) -> ClaimQuery:
        """``query`` is its SQL."""
        made = super().__new__(cls, query)
        made.subject = subject
        return made


def subject_of(item: object) -> ClaimSubject:
    """What a query, a partition, a broker or messages are about; nothing, for SQL that does not say."""
    subject = getattr(item, "subject", NO_SUBJECT)
    return subject if isinstance(subject, ClaimSubject) else NO_SUBJECT


def merged(subjects: Iterable[ClaimSubject]) -> ClaimSubject:
    """All of these together, each thing once."""
    parts = list(subjects)
    return ClaimSubject(
        **{
            name: tuple(dict.fromkeys(item for part in parts for item in getattr(part, name)))
            for name in ClaimSubject.__dataclass_fields__
        }
    )
