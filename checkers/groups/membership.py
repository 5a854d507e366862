"""When a group had members, by what its members recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from checkers.evidence import Evidence, Row

JOINING, LEAVING = ("joined", "assigned"), ("revoked", "lost")


@dataclass(frozen=True, kw_only=True)
class GroupMembership:
    """A member's time in its group: until it gave its last partition up, or until its last sign."""

    reader: int
    from_ns: int
    until_ns: int


@dataclass(frozen=True, kw_only=True)
class Vacancy:
    """A time in which a group had no members."""

    from_ns: int
    until_ns: int


def rows_of_group(evidence: Evidence, group: str) -> list[Row]:
    """The rows of `groups` about a group, by time."""
    rows = (row for row in evidence.rows("groups") if row["group"] == group)
    return sorted(rows, key=lambda row: int(row["ns"]))


def memberships(rows: Iterable[Row]) -> list[GroupMembership]:
    """The memberships that rows of one group show, by their beginning. ``rows`` are sorted by time.

    A client that commits without joining is no member.
    """
    owned: dict[int, set[tuple[str, int]]] = {}
    entered: dict[int, int] = {}
    last_sign: dict[int, int] = {}
    ended: list[GroupMembership] = []
    for row in rows:
        reader, ns = int(row["reader"]), int(row["ns"])
        if row["event"] in JOINING:
            entered.setdefault(reader, ns)
        if reader not in entered:
            continue
        last_sign[reader] = ns
        place = (row["topic"], row["partition"])
        if row["event"] == "assigned":
            owned.setdefault(reader, set()).add(place)
        elif row["event"] in LEAVING:
            owned.setdefault(reader, set()).discard(place)
            if not owned[reader]:
                ended.append(GroupMembership(reader=reader, from_ns=entered.pop(reader), until_ns=ns))
    ended += [
        GroupMembership(reader=reader, from_ns=from_ns, until_ns=last_sign[reader])
        for reader, from_ns in entered.items()
    ]
    return sorted(ended, key=lambda one: (one.from_ns, one.reader))


def vacancies(members: Sequence[GroupMembership], from_ns: int, until_ns: int) -> list[Vacancy]:
    """The times between two moments in which the group had no member."""
    vacant: list[Vacancy] = []
    at = from_ns
    for member in members:
        if member.from_ns > at:
            vacant.append(Vacancy(from_ns=at, until_ns=min(member.from_ns, until_ns)))
        at = max(at, member.until_ns)
        if at >= until_ns:
            return [vacancy for vacancy in vacant if vacancy.until_ns > vacancy.from_ns]
    return [
        *(vacancy for vacancy in vacant if vacancy.until_ns > vacancy.from_ns),
        Vacancy(from_ns=at, until_ns=until_ns),
    ]
