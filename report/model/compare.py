"""Compares two runs of a scenario, aligned by their marks instead of their clocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import some
from report.model.model import Claim, ReportModel, Tone, counted
from report.model.opening import SEVERITY, Opening

SECTIONS = (
    ("facts", "Runs"),
    ("claims", "Claims with another result"),
    ("fates", "Fates of messages"),
    ("findings", "Findings"),
    ("failovers", "From the first fault's effect to the first node that states a new leader"),
    ("steps", "Steps of the scenario"),
    ("settings", "Settings in effect"),
)
"""Fields of a comparison and their headings, in the order in which they are shown."""
MINOR = (
    ("counts", "Numbers that differ by less than a third"),
    ("observed", "Claims with the same result, of which something else was observed"),
)
"""The same of what is folded on the page, as it changes no answer."""
_MINOR_SHARE = 1 / 3
_SLOWER_S = 2.0
_NODES = re.compile(r"[^\s,=]*/nodes/")
"""Folder of a run as its settings name it: where the run took place, though it may have been moved since."""


@dataclass(frozen=True)
class Difference:
    """A value that differs between the two runs; an absent value is empty."""

    what: str
    one: str
    other: str


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """What two runs have in common, and how they differ."""

    one: str
    other: str
    facts: tuple[Difference, ...]
    claims: tuple[Difference, ...]
    """Claims with another result."""
    observed: tuple[Difference, ...]
    """Claims with the same result, of which something else was observed."""
    fates: tuple[Difference, ...]
    """The largest differences first, as of findings and failovers."""
    findings: tuple[Difference, ...]
    """Without those that say the same as a fate."""
    counts: tuple[Difference, ...]
    """Fates and findings of both runs whose numbers differ by less than a third."""
    steps: tuple[Difference, ...]
    """Seconds from one mark to the next that both runs have, if they differ by more than half a second."""
    failovers: tuple[Difference, ...]
    """By partition: seconds from the first fault to the first election after it, if they differ."""
    settings: tuple[Difference, ...]
    same: Mapping[str, int]
    """How many claims, fates, findings, failovers, steps and settings are equal."""
    opening: Opening
    """The conclusion."""

    @property
    def equal(self) -> str:
        """What is equal, in words: `20 claims, 1 fate`."""
        counts = {name if count > 1 else name.removesuffix("s"): count for name, count in self.same.items()}
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return asdict(self)


def compare(one: ReportModel, other: ReportModel) -> RunComparison:
    """What differs between two runs."""
    facts = [
        ("scenario", one.run.scenario, other.run.scenario),
        ("Kafka", one.run.kafka, other.run.kafka),
        ("mode", one.run.mode, other.run.mode),
        ("lab", one.run.lab, other.run.lab),
        ("verdict", one.verdict.verdict, other.verdict.verdict),
        ("messages", str(one.verdict.messages), str(other.verdict.messages)),
    ]
    claims = [{claim.name: claim for claim in model.claims} for model in (one, other)]
    results = [{name: _result(claim) for name, claim in of.items()} for of in claims]
    changed = _differences(*results)
    same_result = [name for name in results[0] if results[0][name] == results[1].get(name)]
    observed = _differences(*({name: of[name].observed for name in same_result} for of in claims))
    fates = [model.verdict.fates for model in (one, other)]
    findings = [_by_class(model) for model in (one, other)]
    settings = [
        {f"{s.scope}: {s.key}": _NODES.sub("RUN/nodes/", s.value) for s in model.settings}
        for model in (one, other)
    ]
    steps, same_steps = _steps(one, other)
    failovers = list(_failovers(one, other))
    differing = [took for took in failovers if took.one != took.other]
    changed_fates = _numbers(*fates)
    told = {(row.what, row.one, row.other) for row in changed_fates}
    changed_findings = [
        row
        for row in _numbers(*findings)
        if (row.what.removesuffix(_UNEXPECTED), row.one, row.other) not in told
    ]
    counts = [row for row in (*changed_fates, *changed_findings) if row.share < _MINOR_SHARE]
    return RunComparison(
        one=one.run.folder,
        other=other.run.folder,
        facts=tuple(Difference(*fact) for fact in facts if fact[1] != fact[2]),
        claims=changed,
        observed=observed,
        fates=_by_size((row for row in changed_fates if row not in counts), _count),
        findings=_by_size((row for row in changed_findings if row not in counts), _count),
        counts=_by_size(counts, _count),
        steps=steps,
        failovers=_by_size(differing, _took),
        settings=_differences(*settings),
        opening=_opening(one, other, changed, len(claims[0].keys() & claims[1].keys()), differing),
        same={
            "claims": len(same_result),
            "fates": _equal(*fates),
            "findings": _equal(*findings),
            "failovers": sum(took.one == took.other for took in failovers),
            "steps": same_steps,
            "settings": _equal(*settings),
        },
    )


_UNEXPECTED = ", unexpected"


def _opening(
    one: ReportModel,
    other: ReportModel,
    claims: Sequence[Difference],
    of: int,
    failovers: Sequence[_NumberPair],
) -> Opening:
    """What the differences come to."""
    said = list(_conclusion(one, other, claims, of, failovers))
    alike = not said
    worse = SEVERITY.index(other.verdict.tone) - SEVERITY.index(one.verdict.tone)
    tone: Tone = "kept" if alike or worse < 0 else other.verdict.tone if worse > 0 else "undecided"
    return Opening(
        kind="comparison",
        tone=tone,
        sign="=" if alike else "≠",
        word="alike" if alike else "worse" if worse > 0 else "better" if worse < 0 else "different",
        answer=" ".join(said)
        or "No claim turns out otherwise, and no message fares otherwise; only times and counts differ.",
        asked=f"What differs from A to B? A: {_named(one)}. B: {_named(other)}.",
        sure="One run each: numbers of messages and seconds also vary between runs of the same kind; "
        "acked run --repeat shows how far.",
        more=[("what differs", "#differences"), ("timelines", "#timelines")],
    )


def _named(model: ReportModel) -> str:
    kafka = f"Kafka {model.run.kafka}" if model.run.kafka else model.run.title
    return ", ".join(part for part in (model.run.scenario, kafka, model.run.mode) if part)


def _conclusion(
    one: ReportModel,
    other: ReportModel,
    claims: Sequence[Difference],
    of: int,
    failovers: Sequence[_NumberPair],
) -> Iterable[str]:
    """What matters to the reader, a sentence each; nothing if only counts and seconds differ."""
    if one.verdict.verdict != other.verdict.verdict:
        yield f"A is {one.verdict.verdict}, B {other.verdict.verdict}."
    lost = one.verdict.lost, other.verdict.lost
    if _part(*lost) >= _MINOR_SHARE:
        first, second = (counted(number, "acknowledged message") if number else "none" for number in lost)
        yield f"A loses {first}, B {second if lost[0] == 0 or not lost[1] else lost[1]}."
    turned = [row.what for row in claims if row.one and row.other]
    if turned:
        named = some(turned, 3)
        turn = "claim turns" if len(turned) == 1 else "claims turn"
        yield f"{len(turned)} of {of} {turn} out otherwise: {named}."
    if alone := len(claims) - len(turned):
        yield f"{counted(alone, 'claim')} {'is' if alone == 1 else 'are'} made of one of them only."
    took = [(row.what, row.one, row.other) for row in failovers]
    known = [(abs(b - a), what, a, b) for what, a, b in took if a is not None and b is not None]
    slower_s, partition, first_s, second_s = max(known, default=(0.0, "", 0.0, 0.0))
    if slower_s >= _SLOWER_S:
        yield f"A new leader of {partition} takes {first_s:.1f} s in A and {second_s:.1f} s in B."


@dataclass(frozen=True)
class _NumberPair:
    """A number of each run; None: there is none."""

    what: str
    one: float | None
    other: float | None

    @property
    def share(self) -> float:
        """How much they differ, as a part of the larger; 1 if one of them is missing."""
        return 1.0 if self.one is None or self.other is None else _part(self.one, self.other)


def _numbers(one: Mapping[str, int], other: Mapping[str, int]) -> list[_NumberPair]:
    """Counts that differ."""
    names = dict.fromkeys([*one, *other])
    return [
        _NumberPair(name, one.get(name), other.get(name))
        for name in names
        if one.get(name) != other.get(name)
    ]


def _by_size(rows: Iterable[_NumberPair], show: Callable[[float | None], str]) -> tuple[Difference, ...]:
    ordered = sorted(rows, key=lambda row: -row.share)
    return tuple(Difference(row.what, show(row.one), show(row.other)) for row in ordered)


def _count(number: float | None) -> str:
    return "" if number is None else str(number)


def _took(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:.1f} s"


def _part(one: float, other: float) -> float:
    return abs(one - other) / max(one, other, 1e-9)


def _result(claim: Claim) -> str:
    return claim.status if claim.as_declared else f"{claim.status}, not as declared"


def _differences(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[Difference, ...]:
    names = dict.fromkeys([*one, *other])
    return tuple(
        Difference(name, one.get(name, ""), other.get(name, ""))
        for name in names
        if one.get(name) != other.get(name)
    )


def _equal(one: Mapping[str, object], other: Mapping[str, object]) -> int:
    return sum(value == other.get(name) for name, value in one.items())


def _by_class(model: ReportModel) -> dict[str, int]:
    counts: dict[str, int] = {}
    for group in model.groups:
        name = f"{group.name}{'' if group.expected else _UNEXPECTED}"
        counts[name] = counts.get(name, 0) + group.count
    return counts


def _steps(one: ReportModel, other: ReportModel) -> tuple[tuple[Difference, ...], int]:
    """The times from each mark to the next mark that both runs set, and how many of them are equal."""
    times = [{mark.name: mark.s for mark in model.marks} for model in (one, other)]
    common = [name for name in times[0] if name in times[1]]
    differences, same = [], 0
    for begin, end in zip(common, common[1:], strict=False):
        took = [of[end] - of[begin] for of in times]
        if abs(took[0] - took[1]) > 0.5:
            differences.append(Difference(f"{begin} to {end}", f"{took[0]:.1f} s", f"{took[1]:.1f} s"))
        else:
            same += 1
    missing = [
        Difference(f"mark {name}", "set" if name in times[0] else "", "set" if name in times[1] else "")
        for name in dict.fromkeys([*times[0], *times[1]])
        if (name in times[0]) != (name in times[1])
    ]
    return (*differences, *missing), same


def _failovers(one: ReportModel, other: ReportModel) -> Iterable[_NumberPair]:
    names = [{story.name for story in model.partitions} for model in (one, other)]
    for name in sorted(names[0] & names[1]):
        took = [failover_s(model, name) for model in (one, other)]
        if took != [None, None]:
            yield _NumberPair(name, *took)


def failover_s(model: ReportModel, name: str) -> float | None:
    """Seconds from the first fault to the first statement of a new leader in a later epoch; None without."""
    begins = [fault.from_s for fault in model.faults if fault.injected and fault.kind != "operator"]
    story = next((partition for partition in model.partitions if partition.name == name), None)
    if not begins or story is None:
        return None
    begin = min(begins)
    before = [
        (belief.epoch, belief.leader)
        for lane in story.lanes
        for belief in lane.beliefs
        if belief.epoch is not None and belief.from_s <= begin and not belief.error
    ]
    if not before:
        return None
    epoch, leader = max(before, key=lambda state: state[0])
    later = [
        belief.from_s
        for lane in story.lanes
        for belief in lane.beliefs
        if belief.epoch is not None
        and belief.epoch > epoch
        and belief.leader not in (None, -1, leader)
        and not belief.error
        and belief.from_s > begin
    ]
    return round(min(later) - begin, 1) if later else None
