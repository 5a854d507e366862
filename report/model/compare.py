"""Compares two runs of a scenario, aligned by their marks instead of their clocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from report.model.model import Claim, ReportModel

SECTIONS = (
    ("facts", "Runs"),
    ("claims", "Claims with another result"),
    ("observed", "Claims with the same result, of which something else was observed"),
    ("fates", "Fates of messages"),
    ("findings", "Findings"),
    ("failovers", "From the first fault's effect to the first node that states a new leader"),
    ("steps", "Steps of the scenario"),
    ("settings", "Settings in effect"),
)
"""Fields of a comparison and their headings, in the order in which they are shown."""
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
    findings: tuple[Difference, ...]
    steps: tuple[Difference, ...]
    """Seconds from one mark to the next that both runs have, if they differ by more than half a second."""
    failovers: tuple[Difference, ...]
    """By partition: seconds from the first fault to the first election after it, if they differ."""
    settings: tuple[Difference, ...]
    same: Mapping[str, int]
    """How many claims, fates, findings, failovers, steps and settings are equal."""

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
    fates = [{name: str(count) for name, count in model.verdict.fates.items()} for model in (one, other)]
    findings = [_by_class(model) for model in (one, other)]
    settings = [
        {f"{s.scope}: {s.key}": _NODES.sub("RUN/nodes/", s.value) for s in model.settings}
        for model in (one, other)
    ]
    steps, same_steps = _steps(one, other)
    failovers = tuple(_failovers(one, other))
    changed_settings = _differences(*settings)
    return RunComparison(
        one=one.run.folder,
        other=other.run.folder,
        facts=tuple(Difference(*fact) for fact in facts if fact[1] != fact[2]),
        claims=changed,
        observed=observed,
        fates=_differences(*fates),
        findings=_differences(*findings),
        steps=steps,
        failovers=tuple(took for took in failovers if took.one != took.other),
        settings=changed_settings,
        same={
            "claims": len(same_result),
            "fates": _equal(*fates),
            "findings": _equal(*findings),
            "failovers": sum(took.one == took.other for took in failovers),
            "steps": same_steps,
            "settings": _equal(*settings),
        },
    )


def _result(claim: Claim) -> str:
    return claim.status if claim.as_declared else f"{claim.status}, not as declared"


def _differences(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[Difference, ...]:
    names = dict.fromkeys([*one, *other])
    return tuple(
        Difference(name, one.get(name, ""), other.get(name, ""))
        for name in names
        if one.get(name) != other.get(name)
    )


def _equal(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    return sum(value == other.get(name) for name, value in one.items())


def _by_class(model: ReportModel) -> dict[str, str]:
    counts: dict[str, int] = {}
    for group in model.groups:
        name = f"{group.name}{'' if group.expected else ', unexpected'}"
        counts[name] = counts.get(name, 0) + group.count
    return {name: str(count) for name, count in counts.items()}


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


def _failovers(one: ReportModel, other: ReportModel) -> Iterable[Difference]:
    names = [{story.name for story in model.partitions} for model in (one, other)]
    for name in sorted(names[0] & names[1]):
        took = [failover_s(model, name) for model in (one, other)]
        if took != [None, None]:
            shown = ["none" if seconds is None else f"{seconds:.1f} s" for seconds in took]
            yield Difference(name, *shown)


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
