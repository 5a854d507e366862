"""The judgement of a run, and the rule that turns counts and claims into a verdict.

Pure Python, importable without Spark or Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from checkers.promises.table import UNEXPLAINED
from checkers.unobserved import clauses, decisive
from harness.errors import EXIT_AS_DECLARED, EXIT_CRASHED, EXIT_UNFIT, EXIT_UNKNOWN, EXIT_VIOLATED

if TYPE_CHECKING:
    from checkers.claims.evaluate import ClaimResult

VERDICTS: Mapping[str, int] = {
    "crashed": EXIT_CRASHED,
    "invalid": EXIT_UNKNOWN,
    "violated": EXIT_VIOLATED,
    "unknown": EXIT_UNKNOWN,
    "as declared": EXIT_AS_DECLARED,
    "unfit": EXIT_UNFIT,
}
"""Exit code of each verdict, worst verdict first.

`unfit` is last: this machine lacks something that the run needs, which is no fault of the other runs.
"""

NOT_JUDGED = ("crashed", "invalid", "unfit")
"""Verdicts of runs that say nothing about Kafka."""

_RANK = {verdict: rank for rank, verdict in enumerate(VERDICTS)}


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts; `unknown` when there is none."""
    return min(verdicts, key=_RANK.__getitem__, default="unknown")


SeenEvent = Literal[
    "broker-silent",
    "leader-changed",
    "no-leader",
    "isr-shrunk",
    "topic-deleted",
    "right-lost",
    "config-changed",
    "throttled",
    "interrupted",
]
"""What acked sees by itself to break or to change during a recording; the names of its marks."""

JudgedBy = Literal["declaration", "promises"]
"""What decides about the findings of a run: what its scenario declares, or what Kafka promises."""

TRANSACTIONS_AND_GROUPS = (
    "lost_transaction",
    "torn_transaction",
    "aborted_read",
    "hanging_transaction",
    "hung_transaction",
    "fenced_write_read",
    "precommitted_read",
    "circular_read",
    "commit_lost",
    "stale_offset",
    "offset_expired",
    "group_reset",
    "group_stalled",
    "offset_outside",
    "double_ownership",
    "accept_lost",
    "not_delivered",
    "over_delivered",
    "held_twice",
    "lock_outlived",
    "archived",
    "not_counted",
    "counted_twice",
    "store_differs",
    "skip",
    "replay",
)
"""Classes of findings about transactions and groups, which no fate of a message shows."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The judgement of a run; every value can be written as JSON."""

    verdict: str
    exit_code: int
    judged_by: JudgedBy = "declaration"
    """What decided about findings."""
    described: str = ""
    """Setting of the producers that the run is about; see `run.scenario.Scenario.described`."""
    reasons: tuple[str, ...] = ()
    """Why the verdict is not `as declared`, and what the run did not observe, one clause each."""
    scenario: str | None = None
    messages: int = 0
    claims: tuple[ClaimResult, ...] = ()
    fates: Mapping[str, int] = field(default_factory=dict)
    fates_by_writer: tuple[Mapping[str, Any], ...] = ()
    """Rows of writer, writer_name, az, acks, outcome, fate, count."""
    findings_by_class: Mapping[str, int] = field(default_factory=dict)
    expected_by_class: Mapping[str, int] = field(default_factory=dict)
    """How many of them the scenario expects."""
    promises: tuple[Mapping[str, Any], ...] = ()
    """Findings by promise: rows of promise (`broken`, `unknown`, `not promised`), row, class, known_bug, why,
    count; broken promises first."""
    unobserved: tuple[Mapping[str, Any], ...] = ()
    """Rows of the table `unobserved`: what the run should have observed and did not; at most 200."""
    seen: Mapping[str, int] | None = None
    """How often each `SeenEvent` was seen in a recording of a cluster that acked did not start; None for
    other runs. If all are 0, nothing was seen to break, and no loss says little."""
    findings: tuple[Mapping[str, Any], ...] = ()
    """At most 200 of them, unexpected ones first; all are in `findings.parquet`. ``acked_s`` counts from the
    first fault in force; without one, from the first event."""
    first_fault: str = ""
    """The name of the first fault in force; empty: there was none."""
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Duration of each phase of the judgement, in seconds."""
    run: str | None = None
    """The folder or URI that was judged."""

    def as_json(self) -> dict[str, Any]:
        """The judgement as plain values, ready to be written as JSON."""
        return asdict(self)


def decide(
    *,
    messages: int,
    findings: Mapping[str, int],
    expected: Mapping[str, int],
    claims: Sequence[ClaimResult],
    promises: Sequence[Mapping[str, Any]] | None = None,
    compared: int | None = None,
    unobserved: Sequence[Mapping[str, Any]] = (),
) -> tuple[str, tuple[str, ...]]:
    """The verdict and its reasons.

    ``messages`` is the number of sends; ``findings`` and ``expected`` count all findings, and those that the
    scenario expects, by class. ``promises`` (rows of `Judgement.promises`) are given if they decide about
    findings; None: the scenario's declaration decides. `violated`: a finding is not expected, a promise is
    broken, or a claim has another result than declared. `unknown`: something was left open. ``compared`` is
    the number of partitions of a watched topic whose replicas were compared; None: none was watched.

    What was ``unobserved`` (rows of that table) is always a reason; the verdict depends on it only where
    nothing else shows what happened (`decisive`), or through a claim.
    """
    unexpected = {name: count - expected.get(name, 0) for name, count in findings.items()}
    unread = unexpected.pop("undetermined", 0)
    undecided: list[str] = []
    if promises is None:
        violated = [
            f"{count} {name} that nothing declared" for name, count in unexpected.items() if count > 0
        ]
    else:
        violated = [*_broken(promises), *_unexplained(unexpected)]
        undecided = list(_undecided(promises))
    violated += [
        f"claim {claim.name!r} is {claim.status}"
        + (", although its erratum says otherwise" if claim.status == "confirmed" else "")
        for claim in claims
        if claim.status in ("refuted", "confirmed") and not claim.as_declared
    ]
    unknown = [
        f"claim {claim.name!r} is {claim.status}" + (f": {claim.observed}" if claim.observed else "")
        for claim in claims
        if claim.status in ("unknown", "not reproduced")
    ]
    unknown += undecided
    if compared == 0:
        unknown.append("no two replicas of the watched topic could be compared, so nothing was proven")
    if messages == 0 and compared is None:
        unknown.append("the history holds no send, so nothing was proven")
    if unread > 0:
        unknown.append(f"the final read of {unread} partition(s) did not reach the end")
    grave = decisive(unobserved, watched=compared is not None)
    missed = tuple(clauses(unobserved))
    if violated:
        return "violated", (*violated, *missed, *unknown)
    return ("unknown" if unknown or grave else "as declared"), (*missed, *unknown)


def _broken(promises: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in promises:
        if row["promise"] == "broken":
            bug = f"; known bug: {row['known_bug']}" if row["known_bug"] else ""
            yield f"{row['count']} {row['class']} that breaks a promise of Kafka ({row['row']}{bug})"


def _unexplained(unexpected: Mapping[str, int]) -> Iterator[str]:
    for name in UNEXPLAINED:
        if (count := unexpected.get(name, 0)) > 0:
            yield f"{count} {name} that no fault explains"


def _undecided(promises: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in promises:
        if row["promise"] == "unknown" and row["class"] not in ("undetermined", *UNEXPLAINED):
            yield f"{row['count']} {row['class']} that may break a promise of Kafka: {row['why']}"
