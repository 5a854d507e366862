"""What an assessment says fault by fault: the worst of all placements in every column.

Works on the document that `assessment.json` holds (`report.model.shapes.AssessmentShape`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.processors import BUSY_PERCENT
from report.model.model import Tone, counted, grouped
from report.model.opening import SEVERITY, Opening, worst

AssessmentDocument = Mapping[str, Any]
Line = Mapping[str, Any]
NOT_RUN = "not run"
"""Status of a line for whose fault there was no time, or not yet."""
_TONES: Mapping[str, Tone] = {"broken": "broken", "lost": "cost", "unknown": "undecided"}
"""By what became of the described producer's messages; any other outcome is *kept*."""
PROMISES = ("kept", "not promised", "unknown", "broken")


@dataclass(frozen=True, kw_only=True)
class Pause:
    """The longest time in which clients of an AZ could not write or read."""

    az: str
    """As the document names it in its lines."""
    name: str
    seconds: float
    until_heal: bool
    share: float
    """Of the longest pause of the assessment, from 0 to 1."""
    line: Line
    """The placement in which it was that long."""


_GROUP = "group"
"""Of a line: the pause of the consumer groups."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The most acknowledged messages that a producer setting lost in any placement."""

    setting: str
    lost: int | None
    """None: it is not known, or the setting did not write."""
    known: bool
    run: str
    """A run that lost so many; empty if none was measured."""

    def __str__(self) -> str:
        """For people."""
        return grouped(self.lost) if self.lost is not None else "–" if self.known else "?"


@dataclass(frozen=True, kw_only=True)
class FaultCost:
    """What a fault costs in its worst placement, column by column."""

    says: str
    tone: Tone
    losses: Sequence[Loss]
    """By producer setting, the described one first."""
    promise: str
    """The worst judgement of the described producer's messages."""
    writes: Sequence[Pause]
    reads: Sequence[Pause]
    groups: Sequence[Pause]
    """The one of the consumer groups; none if the runs had no group."""
    failover_s: float | None
    full_isr_s: float | None
    recovered: bool
    operator: Sequence[str]
    problems: Sequence[str]
    """Why placements were not measured."""
    lines: Sequence[Line]
    """The placements that were run."""
    pending: bool
    """No placement has been run."""

    @property
    def runs(self) -> list[str]:
        """The runs of all placements, each once."""
        return list(dict.fromkeys(run for line in self.lines for run in line["runs"]))

    @property
    def worst_write_s(self) -> float:
        """The longest time without a write in any AZ."""
        return max((one.seconds for one in self.writes), default=0.0)

    @property
    def worst_line(self) -> Line | None:
        """The placement with that time."""
        return max(self.writes, key=lambda one: one.seconds).line if self.writes else None


def fault_costs(document: AssessmentDocument) -> list[FaultCost]:
    """The faults, those that cost most first, and those that were not run last."""
    return sorted(
        _costs(document),
        key=lambda one: (one.pending, -SEVERITY.index(one.tone), -one.worst_write_s, one.says),
    )


def azs_of(document: AssessmentDocument) -> dict[str, str]:
    """Names of the AZs that have clients, by the names that lines use."""
    return {az: name for az, name in document["azs"].items() if az in document["clients"]}


def opening(document: AssessmentDocument, costs: Sequence[FaultCost]) -> Opening:
    """What the page begins with."""
    measured = [one for one in costs if one.writes]
    described = document["producers"][0]
    faults = counted(len({line["says"] for line in document["lines"]}), "fault")
    return Opening(
        kind="assessment",
        tone=worst([*(one.tone for one in measured), *_behaviour(document)]) if measured else "void",
        answer=" ".join((*_behaved(document), _answer(described, measured))) if measured else _NOTHING,
        asked=f"What does each of {faults} cost? {document['header'].get('cluster', document['kafka'])}",
        sure=" ".join(_sure(document)),
        more=[
            *([("what each fault costs", "#costs")] if measured else []),
            *([("in words", "#consequences")] if document["consequences"] else []),
            *([("all placements", "#placements")] if measured else []),
            ("the numbers as data", "assessment.json"),
        ],
    )


_NOTHING = "No fault was measured, so nothing is known."
_BEHAVED = {
    "as declared": "Kafka behaved as documented.",
    "violated": "Something happened that no fault explains.",
    "unknown": "The runs do not decide whether Kafka kept all its promises.",
}


def _behaved(document: AssessmentDocument) -> Iterator[str]:
    """What the runs say about Kafka."""
    if _broken(document):
        yield "Kafka broke a promise."
    elif document.get("verdict") in _BEHAVED:
        yield _BEHAVED[document["verdict"]]


def _behaviour(document: AssessmentDocument) -> Iterator[Tone]:
    """An assessment with runs that are not as declared is never green."""
    if _broken(document):
        yield "broken"
    elif document.get("verdict", "as declared") != "as declared":
        yield "undecided"


def _broken(document: AssessmentDocument) -> bool:
    """Whether a promise was broken, to any producer."""
    return any(one["promise"] == "broken" for line in document["lines"] for one in line["settings"].values())


def _answer(described: str, measured: Sequence[FaultCost]) -> str:
    """What the described producer loses, and how long it waits."""
    losing = sorted((one for one in measured if one.losses[0].lost), key=lambda one: one.losses[0].lost or 0)
    if len(measured) == 1:
        losses = f"{measured[0].says} loses {losing[0].losses[0] if losing else 'no'} acknowledged messages"
    elif not losing:
        losses = f"none of {len(measured)} faults loses acknowledged messages"
    else:
        lose = "loses" if len(losing) == 1 else "lose"
        losses = (
            f"{len(losing)} of {len(measured)} faults {lose} acknowledged messages, up to "
            f"{losing[-1].losses[0]} ({losing[-1].says})"
        )
    longest = max(measured, key=lambda one: one.worst_write_s)
    until = any(one.until_heal and one.seconds == longest.worst_write_s for one in longest.writes)
    ending = ", until the fault was healed" if until else ""
    return (
        f"With {described} (your setting), {losses}. The longest time without a write "
        f"is {longest.worst_write_s:.0f} s ({longest.says}){ending}."
    )


def _sure(document: AssessmentDocument) -> Iterator[str]:
    """How many runs the numbers rest on, and what is missing."""
    by_case: dict[str, tuple[str, int]] = {}
    for line in document["lines"]:
        by_case[line["case"]] = line["status"], len(line["runs"])
    measured = [runs for status, runs in by_case.values() if status == "measured"]
    each = f", {max(measured)} for each placement" if max(measured, default=0) > 1 else ""
    yield f"{counted(sum(measured), 'run')} measured{each}."
    ended, planned = document.get("ended", 0), document.get("planned", 0)
    if ended < planned:
        yield f"{ended} of {planned} runs have ended."
    if measured and max(measured) == 1:
        yield "One run shows one outcome of a placement: --repeat N shows how far outcomes vary."
    busy = {line["case"] for line in document["lines"] if (line.get("busy_percent") or 0) >= BUSY_PERCENT}
    if busy:
        yield f"Processors were busy during {len(busy)} of {sum(measured)} runs, which makes times longer."
    other = [status for status, _ in by_case.values() if status not in ("measured", NOT_RUN)]
    if other:
        kinds = ", ".join(f"{other.count(kind)} {kind}" for kind in dict.fromkeys(other))
        yield f"Without numbers: {kinds}."


def _costs(document: AssessmentDocument) -> Iterator[FaultCost]:
    described, *compared = document["producers"]
    azs = azs_of(document)
    longest_s = max(
        (
            gap["seconds"]
            for line in document["lines"]
            for gaps in (line["reads"], *(one["writes"] for one in line["settings"].values()))
            for gap in (*gaps.values(), *([line[_GROUP]] if line.get(_GROUP) else []))
        ),
        default=0.0,
    )
    by_fault: dict[str, list[Line]] = {}
    for line in document["lines"]:
        by_fault.setdefault(line["says"], []).append(line)
    for says, lines in by_fault.items():
        measured = [line for line in lines if line["status"] == "measured"]
        own = [line["settings"][described] for line in measured]
        states = ["broken" if one["promise"] == "broken" else one["outcome"] for one in own]
        recoveries = [line["recovery_s"] for line in measured]
        others = [line for line in lines if line["status"] not in ("measured", NOT_RUN)]
        yield FaultCost(
            says=says,
            tone=worst([_TONES.get(state, "kept") for state in states]),
            losses=[_most_lost(measured, name) for name in (described, *compared)],
            promise=max((one["promise"] for one in own), key=PROMISES.index, default="–"),
            writes=_pauses(measured, [one["writes"] for one in own], azs, longest_s),
            reads=_pauses(measured, [line["reads"] for line in measured], azs, longest_s),
            groups=_pauses(
                measured,
                [{_GROUP: group} if (group := line.get(_GROUP)) else {} for line in measured],
                {_GROUP: "a group"},
                longest_s,
            ),
            failover_s=max((s for line in measured if (s := line["failover_s"]) is not None), default=None),
            full_isr_s=max((s for s in recoveries if s is not None), default=None),
            recovered=None not in recoveries,
            operator=sorted({what for line in measured for what in line["operator"]}),
            problems=sorted({f"{line['status']}: {line['reason']}" for line in others}),
            lines=[line for line in lines if line["status"] != NOT_RUN],
            pending=all(line["status"] == NOT_RUN for line in lines),
        )


def _most_lost(lines: Sequence[Line], setting: str) -> Loss:
    of_setting = [line for line in lines if setting in line["settings"]]
    known = all(line["settings"][setting]["outcome"] != "unknown" for line in of_setting)
    most = max(of_setting, key=lambda line: line["settings"][setting]["lost"], default=None)
    return Loss(
        setting=setting,
        lost=most["settings"][setting]["lost"] if most is not None and known else None,
        known=known,
        run=next(iter(most["runs"]), "") if most is not None else "",
    )


def _pauses(
    lines: Sequence[Line],
    by_line: Sequence[Mapping[str, Mapping[str, Any]]],
    azs: Mapping[str, str],
    longest_s: float,
) -> list[Pause]:
    """The longest pause of each AZ over all placements; ``by_line`` has those of each line by AZ."""
    pauses = []
    for az, name in azs.items():
        gaps = [(gaps[az], line) for line, gaps in zip(lines, by_line, strict=True) if az in gaps]
        if gaps:
            gap, line = max(gaps, key=lambda one: float(one[0]["seconds"]))
            pauses.append(
                Pause(
                    az=az,
                    name=name,
                    seconds=gap["seconds"],
                    until_heal=gap["until_heal"],
                    share=gap["seconds"] / longest_s if longest_s else 0.0,
                    line=line,
                )
            )
    return pauses
