"""Markers that a coordinator still had to write by its last statement in `transaction_states`.

A coordinator answers a request to end a transaction when its log has the decision, and writes the markers
afterwards, as soon as it reaches the leaders. Until then it lists the partitions that lack theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PREPARED_STATES = {"committed": "PrepareCommit", "aborted": "PrepareAbort"}
"""What a coordinator states while it writes the markers of the end that it has reported."""


@dataclass(frozen=True, kw_only=True)
class Debt:
    """The last statement about a producer, if markers were still to be written."""

    transactional_id: str
    producer_id: int
    broker: int
    state: str
    """`PrepareCommit` or `PrepareAbort`."""
    partitions: frozenset[str]
    """`topic/partition` of those that lack their marker."""
    ns: int

    def fits(self, reported: str) -> bool:
        """Whether the markers are those of the end that was reported, if one was."""
        return self.state == PREPARED_STATES.get(reported, self.state)


def debts_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Debt, ...]:
    """What coordinators still had to do; ``rows`` are those of `transaction_states`."""
    last: dict[tuple[str, int], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (int(row["ns"]), int(row["broker"]))):
        if row["producer_id"] is not None:
            last[row["transactional_id"], row["producer_id"]] = row
    return tuple(
        Debt(
            transactional_id=name,
            producer_id=producer,
            broker=row["broker"],
            state=row["state"],
            partitions=frozenset((row["partitions"] or "").split(",")),
            ns=row["ns"],
        )
        for (name, producer), row in last.items()
        if row["state"] in PREPARED_STATES.values()
    )
