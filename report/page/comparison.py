"""The page of two runs: their differences, and their timelines aligned by a mark that both set."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from report.model.compare import SECTIONS, RunComparison
from report.model.model import ReportModel
from report.page.render import ICONS, asset, digest, environment
from report.page.svg import PATTERNS
from report.page.timeline import partition_timeline

FOLDED = 15
"""A table with more rows is folded, because two runs of different layouts differ in every setting."""


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


def comparison_page(comparison: RunComparison, one: ReportModel, other: ReportModel) -> str:
    """The page as one self-contained HTML file."""
    style = asset("page.css")
    says = {claim.name: claim.says for model in (other, one) for claim in model.claims}
    sections = [
        (title, rows, says if name in ("claims", "observed") else {})
        for name, title in SECTIONS
        if (rows := getattr(comparison, name))
    ]
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            comparison=comparison,
            runs=[("A", one), ("B", other)],
            icons=ICONS,
            sections=sections,
            most=FOLDED,
            pictures=_pictures(one, other),
            patterns=PATTERNS,
            style=Markup(style),
            style_hash=digest(style),
        )
    )


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
            picture = partition_timeline(of, model.faults, model.marks, from_s, to_s, zero_s, since)
            drawn.append((label, picture))
        pictures.append((story.name, aligned.mark, drawn))
    return pictures
