"""Compares two assessments, as before and after a change of settings: which cells of the table changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import some
from report.model.assessed import (
    PROMISES,
    AssessmentDocument,
    FaultCost,
    Line,
    Pause,
    azs_of,
    fault_costs,
)
from report.model.compare import Difference
from report.model.model import Tone, counted
from report.model.opening import SEVERITY, Opening, worst
from report.words.lists import listed

_NOTICED_S, _NOTICED_SHARE = 2.0, 0.25
"""Times that differ by less vary so much from run to run."""
_NOTICED_LOSS = 0.5
"""The same for numbers of lost messages, which depend on how long the fault lasts and on the rate."""
_PROMISE = "promise"


@dataclass(frozen=True, kw_only=True)
class FaultDifference:
    """A fault that costs something else."""

    says: str
    size: int
    """How much it matters: 3, a promise was broken in one of them; 2, messages were lost in one of them; 1,
    clients waited until the heal, or an operator had to act, in one of them; 0, times or numbers."""
    worse: bool | None
    """Whether it costs more in the second one; None: more in some cells, and less in others."""
    cells: tuple[Difference, ...]
    """The cells that differ, by the heading of the column and the AZ."""

    @property
    def only_promised(self) -> bool:
        """Whether what Kafka promises is all that differs."""
        return {cell.what for cell in self.cells} == {_PROMISE}


@dataclass(frozen=True, kw_only=True)
class AssessmentComparison:
    """What two assessments have in common, and how they differ."""

    one: str
    other: str
    opening: Opening
    """The conclusion."""
    settings: tuple[Difference, ...]
    """What was assessed, where that differs."""
    faults: tuple[FaultDifference, ...]
    """Those that matter most first."""
    equal: tuple[str, ...]
    """Faults that cost the same in both."""
    alone: tuple[Difference, ...]
    """Faults that only one of them measured."""

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return asdict(self)


def compare_assessments(
    one: AssessmentDocument, other: AssessmentDocument, names: tuple[str, str]
) -> AssessmentComparison:
    """What differs between two documents; ``names`` are their folders."""
    costs = [{cost.says: cost for cost in fault_costs(document) if cost.writes} for document in (one, other)]
    both = [says for says in costs[0] if says in costs[1]]
    differing = [d for says in both if (d := _difference(costs[0][says], costs[1][says])) is not None]
    differing.sort(key=lambda one: (-one.size, one.worse is False, one.says))
    changed = {difference.says for difference in differing}
    headers = [document["header"] for document in (one, other)]
    return AssessmentComparison(
        one=names[0],
        other=names[1],
        opening=_opening((one, other), costs, differing, len(both)),
        settings=tuple(
            Difference(label, headers[0].get(label, ""), headers[1].get(label, ""))
            for label in dict.fromkeys([*headers[0], *headers[1]])
            if headers[0].get(label) != headers[1].get(label)
        ),
        faults=tuple(differing),
        equal=tuple(says for says in both if says not in changed),
        alone=tuple(
            Difference(says, *("measured" if says in of else "" for of in costs))
            for says in dict.fromkeys([*costs[0], *costs[1]])
            if says not in both
        ),
    )


def equal_in_words(comparison: AssessmentComparison) -> str:
    """The faults that cost the same, in a sentence."""
    if not comparison.equal:
        return "No fault costs the same in both."
    return f"Equal in both: {listed(comparison.equal)}."


def compared_lines(documents: Sequence[AssessmentDocument], says: str) -> list[Line | None]:
    """The placement of a fault in which clients of the last document waited longest, in each document."""
    costs = next((cost for cost in fault_costs(documents[-1]) if cost.says == says), None)
    worst_line = costs.worst_line if costs is not None else None
    if worst_line is None:
        return [None for _ in documents]
    place = worst_line["case"], worst_line["led"]
    return [
        next((line for line in document["lines"] if (line["case"], line["led"]) == place), None)
        for document in documents
    ]


def azs_compared(documents: Sequence[AssessmentDocument]) -> list[Mapping[str, str]]:
    """Names of the AZs with clients, in each document."""
    return [azs_of(document) for document in documents]


def _opening(
    documents: tuple[AssessmentDocument, AssessmentDocument],
    costs: Sequence[Mapping[str, FaultCost]],
    differing: Sequence[FaultDifference],
    both: int,
) -> Opening:
    sides = [f"Kafka {of['kafka']}, {of['mode']}, {of['producers'][0]}" for of in documents]
    runs = [sum(len(cost.runs) for cost in of.values()) for of in costs]
    tone, word = _kind(differing, worst([cost.tone for cost in costs[1].values()]))
    return Opening(
        kind="comparison",
        tone=tone,
        sign="≠" if differing else "=",
        word=word,
        answer=" ".join(_conclusion(costs, differing, both)),
        asked=f"Which of {counted(both, 'fault')} costs something else in B than in A? "
        + (f"Both: {sides[0]}." if sides[0] == sides[1] else f"A: {sides[0]}. B: {sides[1]}."),
        sure=f"A rests on {counted(runs[0], 'run')}, B on {runs[1]}. Times count as equal if they differ by "
        f"less than {_NOTICED_S:.0f} s or a quarter, numbers of lost messages if by less than a half.",
        more=[("what differs", "#differences")],
    )


def _kind(differing: Sequence[FaultDifference], second: Tone) -> tuple[Tone, str]:
    """The tone and the word for a comparison; ``second`` is the tone of the second assessment."""
    if not differing:
        return "kept", "alike"
    weighty = [one.worse for one in differing if one.size]
    ways = set(weighty or [one.worse for one in differing])
    if ways == {True}:
        return ("undecided", "slower") if not weighty else (max(second, "cost", key=SEVERITY.index), "worse")
    if ways == {False}:
        return "kept", "better" if weighty else "faster"
    return "undecided", "mixed"


def _conclusion(
    costs: Sequence[Mapping[str, FaultCost]],
    differing: Sequence[FaultDifference],
    both: int,
) -> Iterator[str]:
    if not both:
        yield "The assessments have no measured fault in common."
        return
    losing = [{says for says, cost in of.items() if cost.tone in ("cost", "broken")} for of in costs]
    common = set(costs[0]) & set(costs[1])
    ended, began = (sorted(one & common - other) for one, other in (losing, losing[::-1]))
    stay = losing[0] & losing[1]
    if ended:
        yield f"B loses no acknowledged message where A does: {some(ended)}."
    if began:
        yield f"B loses acknowledged messages where A does not: {some(began)}."
    if stay:
        yield f"Both lose acknowledged messages: {some(sorted(stay))}."
    if not losing[0] and not losing[1]:
        yield f"Neither loses an acknowledged message in any of {counted(both, 'fault')}."
    rest = [one for one in differing if one.says not in (*ended, *began)]
    for way, more in ((True, "less"), (False, "more")):
        if promised := [one.says for one in rest if one.worse is way and one.only_promised]:
            yield f"Kafka promises {more} in B: {some(promised)}."
    for way, more in ((True, "more"), (False, "less")):
        if timed := [one.says for one in rest if one.worse is way and not one.only_promised]:
            yield f"B costs {more} time: {some(timed)}."
    if not differing:
        yield "No cell of the table differs by more than runs do."
    elif both > len(differing):
        yield f"{both - len(differing)} of {counted(both, 'fault')} cost the same."


def _difference(one: FaultCost, other: FaultCost) -> FaultDifference | None:
    """The cells that differ; None if the fault costs the same."""
    cells = list(_cells(one, other))
    if not cells:
        return None
    ways = {worse for _, _, worse in cells}
    size = max(size for _, size, _ in cells)
    # What matters most decides; times do not outweigh a loss.
    ways = {worse for _, its, worse in cells if its == size}
    return FaultDifference(
        says=one.says,
        size=size,
        worse=ways.pop() if len(ways) == 1 else None,
        cells=tuple(cell for cell, _, _ in cells),
    )


def _cells(one: FaultCost, other: FaultCost) -> Iterator[tuple[Difference, int, bool]]:
    """Each cell that differs, how much it matters, and whether it is worse in the second assessment."""
    first, second = one.losses[0], other.losses[0]
    if _losses_differ(first.lost, second.lost):
        shown = [f"{loss} ({loss.setting})" for loss in (first, second)]
        worse = (second.lost or 0) > (first.lost or 0) if first.lost is not None else False
        size = 2 if not (first.lost and second.lost) else 0
        yield Difference("lost messages", *shown), size, worse
    if one.promise != other.promise:
        ranks = [PROMISES.index(cost.promise) for cost in (one, other)]
        size = 3 if "broken" in (one.promise, other.promise) else 0
        yield Difference(_PROMISE, one.promise, other.promise), size, ranks[1] > ranks[0]
    for heading, pauses in (
        ("no write", (one.writes, other.writes)),
        ("no read", (one.reads, other.reads)),
        ("no read", (one.groups, other.groups)),
    ):
        by_az = [{pause.name: pause for pause in of} for of in pauses]
        for az in by_az[0]:
            if az in by_az[1]:
                yield from _pauses(f"{heading}, {az}", by_az[0][az], by_az[1][az])
    for heading, first_s, second_s in (
        ("failover", one.failover_s, other.failover_s),
        ("full ISR", one.full_isr_s, other.full_isr_s),
    ):
        if first_s is not None and second_s is not None and _times_differ(first_s, second_s):
            yield Difference(heading, f"{first_s:.1f} s", f"{second_s:.1f} s"), 0, second_s > first_s
    if one.recovered != other.recovered:
        shown = ["by itself" if cost.recovered else "never" for cost in (one, other)]
        yield Difference("full ISR", *shown), 1, not other.recovered
    if list(one.operator) != list(other.operator):
        shown = [", ".join(cost.operator) or "nothing" for cost in (one, other)]
        yield Difference("an operator has to", *shown), 1, len(other.operator) > len(one.operator)


def _pauses(heading: str, one: Pause, other: Pause) -> Iterator[tuple[Difference, int, bool]]:
    if one.until_heal != other.until_heal or _times_differ(one.seconds, other.seconds):
        shown = [
            f"{pause.seconds:.0f} s{', until the heal' if pause.until_heal else ''}" for pause in (one, other)
        ]
        worse = other.until_heal if one.until_heal != other.until_heal else other.seconds > one.seconds
        yield Difference(heading, *shown), int(one.until_heal != other.until_heal), worse


def _losses_differ(one: int | None, other: int | None) -> bool:
    if not one or not other:
        return one != other
    return abs(one - other) / max(one, other) >= _NOTICED_LOSS


def _times_differ(one_s: float, other_s: float) -> bool:
    return abs(one_s - other_s) >= max(_NOTICED_S, _NOTICED_SHARE * max(one_s, other_s))
