"""The kinds of results that consist of several runs: what each begins with, and the forms that it has.

Each keeps one JSON document in its folder, from which page, Markdown and JUnit XML come. A night and a matrix
keep lines of runs instead, and have forms of their own (`report.night`, `report.junit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import assessment as assessments
from report import search as searches
from report.bisect import bisect_table
from report.console import NONE, Column, RowTable
from report.junit import Outcome, outcomes_junit
from report.markdown import plain
from report.model.assessed import fault_costs
from report.model.assessed import opening as assessment_opening
from report.model.bisected import bisect_opening
from report.model.model import Tone
from report.model.opening import Opening
from report.model.repeated import replay_opening, shrink_opening
from report.model.searched import WEIGHT_TONES, comparison_opening, search_opening
from report.model.shapes import (
    ASSESSMENT,
    BISECT,
    COMPARE,
    REPLAY,
    SEARCH,
    SHRINK,
    AssessmentShape,
    BisectShape,
    CompareShape,
    ReplayShape,
    SearchShape,
    ShrinkShape,
    shaped,
)
from report.page.assessment import assessment_page
from report.page.bisect import bisect_page
from report.page.repeated import replay_page, shrink_page
from report.page.search import search_comparison_page, search_page
from report.words.found import finding_in_words

Document = Mapping[str, Any]
Link = Callable[[str], str]
"""From a run folder to the address of its page; empty if it has none."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of results, and what is made of its document."""

    file: str
    """The file of the document, in the folder of the result."""
    shape: Any
    opening: Callable[[Document], Opening]
    page: Callable[[Document, Link], str]
    tables: Callable[[Document], Iterable[tuple[str, RowTable]]]
    """Titles and rows."""
    outcomes: Callable[[Document], Iterable[Outcome]]
    """What a CI system shows as tests."""
    sentences: Callable[[Document], Iterable[str]] = lambda document: ()
    """What Markdown says below the tables."""

    def read(self, folder: Path) -> Document:
        """The document of a folder. Raises BadDataError if it is damaged."""
        return shaped(folder / self.file, self.shape)

    def markdown(self, document: Document) -> str:
        """The question, the answer, how sure it is, and the tables."""
        opening = self.opening(document)
        parts = [
            f"## acked: {opening.kind}",
            f"**{plain(opening.answer)}**",
            f"{plain(opening.asked)}\n\n{plain(opening.sure)}",
        ]
        parts += [
            f"### {title}\n\n{table.markdown()}" for title, table in self.tables(document) if table.rows
        ]
        if sentences := list(self.sentences(document)):
            parts.append("\n".join(f"- {plain(sentence)}" for sentence in sentences))
        return "\n\n".join(parts) + "\n"

    def junit(self, document: Document) -> str:
        """A test suite with a test for each outcome."""
        return outcomes_junit(self.opening(document).kind, self.outcomes(document))


def kind_of(folder: Path) -> Kind | None:
    """The kind of the result in a folder; None for a run, a night or a matrix."""
    return next((kind for kind in KINDS if (folder / kind.file).is_file()), None)


def _outcome_of_finding(finding: Mapping[str, Any], weight: str, text: str) -> Outcome:
    settings = f", with {finding['settings']}" if finding["settings"] else ""
    tone: Tone = "broken" if finding["promise"] == "broken" else WEIGHT_TONES[weight]
    return Outcome(name=f"{finding_in_words(finding)}{settings}", tone=tone, text=f"{weight}: {text}")


def _judged(document: Document) -> Outcome:
    left = document["schedules"] - document["judged"]
    return Outcome(
        name="every schedule is judged", tone="void" if left else "kept", text=f"{left} were not judged"
    )


def _of_search(document: Document) -> Iterator[Outcome]:
    yield _judged(document)
    for group in document["groups"]:
        text = f"in {group['runs']} of {group['of']} runs, first in {group['folder']}"
        yield _outcome_of_finding(group["finding"], group["finding"]["weight"], text)


def _of_comparison(document: Document) -> Iterator[Outcome]:
    yield _judged(document)
    for group in document["groups"]:
        rates = ", ".join(f"{rate['runs']} of {rate['of']} with {rate['side']}" for rate in group["sides"])
        yield _outcome_of_finding(group["finding"], group["weight"], f"runs: {rates}")


def _of_replay(document: Document) -> Iterator[Outcome]:
    left = document["not_judged"]
    yield Outcome(name="every run is judged", tone="void" if left else "kept", text=f"{left} were not judged")
    for one in document["findings"]:
        text = f"in {one['runs']} of {document['runs']} runs"
        yield _outcome_of_finding(one["example"], one["weight"], text)


def _of_shrink(document: Document) -> Iterator[Outcome]:
    text = shrink_opening(document).answer
    yield Outcome(
        name=f"a smaller schedule shows it: {document['finding']}",
        tone="kept" if document["scenario"] else "undecided",
        text=text,
    )


def _of_bisect(document: Document) -> Iterator[Outcome]:
    opening = bisect_opening(document)
    yield Outcome(
        name=f"the version in which {document['claim']} changes", tone=opening.tone, text=opening.answer
    )


def _of_assessment(document: Document) -> Iterator[Outcome]:
    for cost in fault_costs(document):
        losses = ", ".join(f"{loss.setting} lost {loss}" for loss in cost.losses)
        text = "; ".join((f"promise {cost.promise}", losses, *cost.problems))
        tone: Tone = "void" if cost.problems and not cost.writes else cost.tone
        yield Outcome(name=cost.says, tone=tone, text=text, skipped=cost.pending)


def _steps(document: Document) -> Iterator[tuple[str, RowTable]]:
    for title, key in (("What is left", "score"), ("The schedule before", "score_before")):
        yield (
            title,
            RowTable(
                columns=[Column(heading="step"), Column(heading="what", prose=True), Column(heading="note")],
                rows=[
                    (str(number), step["says"], "removed" if step.get("removed") else NONE)
                    for number, step in enumerate(document[key], start=1)
                ],
            ),
        )


def _assessment_sentences(document: Document) -> Sequence[str]:
    return (
        *(f"{label}: {text}" for label, text in document["header"].items()),
        *document["consequences"],
        *assessments.verdict(document),
        *assessments.legend(document),
    )


ASSESSMENTS = Kind(
    file=ASSESSMENT,
    shape=AssessmentShape,
    opening=lambda document: assessment_opening(document, fault_costs(document)),
    page=assessment_page,
    tables=lambda document: [("What each fault costs", assessments.table(document, whole=True))],
    sentences=_assessment_sentences,
    outcomes=_of_assessment,
)
KINDS = (
    ASSESSMENTS,
    Kind(
        file=SEARCH,
        shape=SearchShape,
        opening=search_opening,
        page=search_page,
        tables=lambda document: [("Findings", searches.findings(document))],
        sentences=searches.summary,
        outcomes=_of_search,
    ),
    Kind(
        file=COMPARE,
        shape=CompareShape,
        opening=comparison_opening,
        page=search_comparison_page,
        tables=lambda document: [("Findings", searches.compared(document))],
        sentences=searches.differences,
        outcomes=_of_comparison,
    ),
    Kind(
        file=SHRINK,
        shape=ShrinkShape,
        opening=shrink_opening,
        page=shrink_page,
        tables=_steps,
        outcomes=_of_shrink,
    ),
    Kind(
        file=REPLAY,
        shape=ReplayShape,
        opening=replay_opening,
        page=replay_page,
        tables=lambda document: [("What was found", searches.replayed(document))],
        outcomes=_of_replay,
    ),
    Kind(
        file=BISECT,
        shape=BisectShape,
        opening=bisect_opening,
        page=bisect_page,
        tables=lambda document: [("Versions", bisect_table(document))],
        outcomes=_of_bisect,
    ),
)
"""All of them, in the order in which a folder is asked for their documents."""
