"""The page of two results: the conclusion, what differs by size, and what is equal in a sentence.

Two runs have timelines, aligned by a mark that both set; two assessments have pictures of the outages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from report.model.assessed import AssessmentDocument, fault_costs, opening
from report.model.compare import MINOR, SECTIONS, Difference, RunComparison
from report.model.compare_assessments import (
    AssessmentComparison,
    azs_compared,
    compared_lines,
    equal_in_words,
)
from report.model.model import ReportModel, Tone, counted
from report.page.frame import framed
from report.page.outage import Window, outage, shown
from report.page.svg import PATTERNS
from report.page.timeline import partition_timeline

FOLDED = 15
"""A table with more rows is folded, because two runs of different layouts differ in every setting."""
LETTERS = ("A", "B")
Links = tuple[str, str]
"""The addresses of the pages of both results; empty where there is none."""


@dataclass(frozen=True)
class Alignment:
    """The time around a common mark that shows all of both runs."""

    mark: str
    before_s: float
    after_s: float

    def window(self, model: ReportModel) -> tuple[float, float, float]:
        """From when to when a run is drawn, and the time of the mark, in seconds of the run."""
        zero = _time_of(model, self.mark)
        return zero - self.before_s, zero + self.after_s, zero


@dataclass(frozen=True, kw_only=True)
class _Side:
    """One of the two results."""

    letter: str
    name: str
    tone: Tone
    lines: Sequence[str]
    facts: Sequence[str]
    folder: str
    href: str


@dataclass(frozen=True, kw_only=True)
class _Section:
    """A table of differences."""

    title: str
    rows: Sequence[Difference]
    notes: Mapping[str, str] = field(default_factory=dict)
    """What a row is about, in a sentence, by its name."""
    folded: bool = False
    pictures: Sequence[tuple[str, Markup]] = ()


def comparison_page(
    comparison: RunComparison, one: ReportModel, other: ReportModel, links: Links = ("", "")
) -> str:
    """The page of two runs as one self-contained HTML file."""
    says = {claim.name: claim.says for model in (other, one) for claim in model.claims}
    sections = [
        _Section(
            title=title,
            rows=rows,
            notes=says if name in ("claims", "observed") else {},
            folded=len(rows) > FOLDED or (name, title) in MINOR,
        )
        for name, title in (*SECTIONS, *MINOR)
        if (rows := getattr(comparison, name))
    ]
    scenarios = " and ".join(dict.fromkeys(model.run.scenario for model in (one, other)))
    return framed(
        "compare.html.j2",
        comparison.opening,
        title=f"{scenarios}: {_versions(one, other)}",
        sides=[_run_side(*side) for side in zip(LETTERS, (one, other), links, strict=True)],
        sections=sections,
        same=f"Equal in both runs: {comparison.equal}.",
        timelines=_pictures(one, other),
        patterns=PATTERNS,
    )


def assessments_page(
    comparison: AssessmentComparison,
    one: AssessmentDocument,
    other: AssessmentDocument,
    links: Links = ("", ""),
) -> str:
    """The page of two assessments as one self-contained HTML file."""
    documents = (one, other)
    sections = [
        _Section(title=fault.says, rows=fault.cells, pictures=list(_outages(documents, fault.says)))
        for fault in comparison.faults
    ]
    if comparison.alone:
        sections.append(_Section(title="Measured in one of them", rows=comparison.alone))
    if comparison.settings:
        sections.append(_Section(title="What was assessed", rows=comparison.settings))
    sides = zip(LETTERS, documents, (comparison.one, comparison.other), links, strict=True)
    return framed(
        "compare.html.j2",
        comparison.opening,
        title="two assessments",
        sides=[_assessment_side(*side) for side in sides],
        sections=sections,
        same=equal_in_words(comparison),
        timelines=None,
        patterns="",
    )


def _versions(one: ReportModel, other: ReportModel) -> str:
    if not one.run.kafka:
        return "two recordings"
    return f"Kafka {' and '.join(dict.fromkeys(model.run.kafka for model in (one, other)))}"


def _run_side(letter: str, model: ReportModel, href: str) -> _Side:
    run, verdict = model.run, model.verdict
    started = [run.started.replace("T", " ").replace("+00:00", " UTC")] if run.started else []
    facts = [
        f"{run.lab} lab",
        f"the scenario took {run.duration_s} s",
        f"{counted(verdict.messages, 'message')} judged",
    ]
    version = f"Kafka {run.kafka}" if run.kafka else run.title
    return _Side(
        letter=letter,
        name=", ".join(part for part in (run.scenario, version, run.mode) if part),
        tone=verdict.tone,
        lines=[line for line in (verdict.headline, f"Verdict: {verdict.verdict}") if line],
        facts=[" · ".join([*facts, *started])],
        folder=run.folder,
        href=href,
    )


def _assessment_side(letter: str, document: AssessmentDocument, folder: str, href: str) -> _Side:
    said = opening(document, fault_costs(document))
    return _Side(
        letter=letter,
        name=f"Kafka {document['kafka']}, {document['mode']}",
        tone=said.tone,
        lines=[said.answer],
        facts=[said.sure],
        folder=folder,
        href=href,
    )


def _outages(documents: Sequence[AssessmentDocument], says: str) -> Sequence[tuple[str, Markup]]:
    """The outage of a fault in one placement, in both assessments, drawn to one scale."""
    lines = compared_lines(documents, says)
    drawn = [line for line in lines if line is not None and shown(line)]
    window = Window.of(drawn)
    return [
        (letter, outage(line, azs, window, f"{letter}: acknowledged writes in each second, {says}"))
        for letter, line, azs in zip(LETTERS, lines, azs_compared(documents), strict=True)
        if line is not None and shown(line)
    ]


def alignment(one: ReportModel, other: ReportModel) -> Alignment:
    """How to align two runs: by the last common mark before the first fault, else by the first common mark.

    Without a common mark, they are aligned by the beginning of their pictures.
    """
    begins = [fault.from_s for fault in one.faults if fault.injected]
    names = {mark.name for mark in other.marks}
    common = [mark for mark in one.marks if mark.name in names]
    until = [mark for mark in common if begins and mark.s <= min(begins) + 1.0]
    chosen = until[-1] if until else common[0] if common else None
    name = chosen.name if chosen else ""
    zeros = [_time_of(model, name) for model in (one, other)]
    pairs = list(zip((one, other), zeros, strict=True))
    return Alignment(
        name,
        max(zero - model.from_s for model, zero in pairs),
        max(model.to_s - zero for model, zero in pairs),
    )


def _time_of(model: ReportModel, mark: str) -> float:
    return next((one.s for one in model.marks if one.name == mark), model.from_s)


def _pictures(one: ReportModel, other: ReportModel) -> list[tuple[str, str, list[tuple[str, Markup]]]]:
    """For each partition that both runs draw: its name, the mark, and the timelines of both runs."""
    aligned = alignment(one, other)
    pictures = []
    for story in one.partitions:
        twin = next((two for two in other.partitions if two.name == story.name), None)
        if twin is None:
            continue
        drawn = []
        for label, model, of in (("A", one, story), ("B", other, twin)):
            from_s, to_s, zero_s = aligned.window(model)
            since = f"“{aligned.mark}”" if aligned.mark else "the pictures begin"
            picture = partition_timeline(of, model.faults, model.marks, from_s, to_s, zero_s, since=since)
            drawn.append((label, picture))
        pictures.append((story.name, aligned.mark, drawn))
    return pictures
