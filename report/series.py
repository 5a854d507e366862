"""Many runs as tables: scenarios with their verdicts, or scenario by Kafka version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rich.markup import escape
from rich.text import Text

from harness.console import Console
from report.console import NONE, Cell, Column, RowTable
from report.words.claims import deviation

_STYLES = {"as declared": "green", "unknown": "yellow"}
_SIGNS = {"as declared": "✓", "violated": "✗", "unknown": "?"}
HEADINGS = ("verdict", "lost", "duplicated", "moved", "claims confirmed / refuted", "s")


class ReportedJob(Protocol):
    """A run that can be made (`studies.series.job.Job`)."""

    @property
    def scenario(self) -> str:
        """Its scenario."""

    @property
    def version(self) -> str:
        """Its Kafka version."""

    @property
    def mode(self) -> str:
        """Its metadata mode."""

    @property
    def client(self) -> str:
        """The client library named for it; empty: none."""


class ReportedRun(ReportedJob, Protocol):
    """What tables show of one run (`studies.series.summary.RunSummary`)."""

    @property
    def verdict(self) -> str:
        """Its verdict."""

    @property
    def judged(self) -> bool:
        """Whether the verdict is about Kafka."""

    @property
    def lost(self) -> int:
        """Messages."""

    @property
    def duplicated(self) -> int:
        """Messages."""

    @property
    def findings(self) -> Mapping[str, int]:
        """Findings about transactions and groups, by class."""

    @property
    def seconds(self) -> float:
        """Wall time."""

    @property
    def claims(self) -> Mapping[str, str]:
        """Status of each claim."""

    @property
    def observed(self) -> Mapping[str, str]:
        """What was observed for each claim."""

    @property
    def says(self) -> Mapping[str, str]:
        """The sentence of each claim that is not as declared."""

    @property
    def expected(self) -> Mapping[str, Sequence[str]]:
        """Of these claims, the sentences of which one should be true."""

    @property
    def commit(self) -> str:
        """The commit of acked that ran it; empty if it is not known."""

    @property
    def folder(self) -> str:
        """Its run folder."""

    @property
    def ended(self) -> str:
        """When it ended, UTC; empty if it is not known."""

    @property
    def reasons(self) -> Sequence[str]:
        """Why the verdict is not *as declared*."""


class ReportedTotals(Protocol):
    """What tables show of several runs (`studies.series.summary.Totals`); pairs are minimum and maximum."""

    @property
    def runs(self) -> int:
        """Number of runs."""

    @property
    def verdicts(self) -> Mapping[str, int]:
        """How many runs had each verdict."""

    @property
    def worst(self) -> str:
        """The worst verdict."""

    @property
    def claims(self) -> Sequence[tuple[int, int, int]]:
        """Claims confirmed, refuted and left open; empty where no run was judged."""

    @property
    def lost(self) -> tuple[int, int]:
        """Messages."""

    @property
    def duplicated(self) -> tuple[int, int]:
        """Messages."""

    @property
    def moved(self) -> tuple[int, int]:
        """Messages."""

    @property
    def findings(self) -> Mapping[str, tuple[int, int]]:
        """Findings about transactions and groups, by class."""

    @property
    def seconds(self) -> tuple[int, int]:
        """Wall time."""


TotalsLine = tuple[str, ReportedTotals | None]
"""A scenario and its runs; None before the first run has ended."""


def number_of_runs(count: int) -> str:
    """The number with its noun."""
    return f"{count} run" if count == 1 else f"{count} runs"


def span(pair: tuple[int, int]) -> str:
    """A range, or a single number if both ends are equal."""
    low, high = pair
    return str(low) if low == high else f"{low}–{high}"


def verdicts(totals: ReportedTotals, planned: int = 0) -> str:
    """How many of the runs, or of the ``planned`` runs, had each verdict."""
    runs = max(planned, totals.runs)
    verdicts = totals.verdicts.items()
    return ", ".join(verdict if runs == 1 else f"{count}/{runs} {verdict}" for verdict, count in verdicts)


def claims(totals: ReportedTotals) -> str:
    """Claims confirmed and refuted, and those left open if there are any."""
    return "; ".join(f"{yes} / {no}" + (f" / {left} open" if left else "") for yes, no, left in totals.claims)


def job_name(job: ReportedJob) -> str:
    """The name of a job: scenario, Kafka version and metadata mode."""
    name = f"{job.scenario} on {job.version} {job.mode}"
    return f"{name} with {job.client}" if job.client else name


def deviations(run: ReportedRun) -> list[str]:
    """Each claim that is not as declared: its sentence, what was observed, what was expected."""
    return [
        deviation(says, run.claims.get(name, ""), run.observed.get(name, ""), run.expected.get(name, ()))
        for name, says in run.says.items()
    ]


def ended(run: ReportedRun) -> str:
    """A run that has just ended, in one line."""
    place = job_name(run)
    if not run.judged:
        return f"{place}: {run.verdict} ({run.seconds:.0f} s)"
    counts = [f"{run.lost} lost"] if run.lost else []
    counts += [f"{run.duplicated} duplicated"] if run.duplicated else []
    counts += [f"{count} {name}" for name, count in run.findings.items()]
    return f"{place}: {run.verdict}, {', '.join(counts) or 'nothing lost'} ({run.seconds:.0f} s)"


def left_out(jobs: Sequence[ReportedJob]) -> str:
    """The runs that a series left out because its time was over."""
    names = list(dict.fromkeys(map(job_name, jobs)))
    return f"left out, because the time was over: {', '.join(names)}; they come first in the next series"


def show_reasons(runs: Iterable[ReportedRun], console: Console) -> None:
    """Why runs are not as declared, a line each."""
    for run in runs:
        if run.verdict != "as declared":
            reasons = run.reasons if run.judged else run.reasons[:1]
            console.paragraph(escape(f"{job_name(run)}: {'; '.join(reasons)}"))


def table(lines: Iterable[TotalsLine], repeat: int = 1) -> RowTable:
    """A row per scenario; ``repeat`` is the number of runs planned for each."""
    columns = (
        *(Column(heading="scenario"), Column(heading="verdict", prose=True)),
        Column(heading="messages", parts=("lost", "duplicated", "moved"), right=True),
        Column(heading="claims", parts=("confirmed", "refuted", "open"), right=True),
        Column(heading="time (s)", right=True),
    )
    return RowTable(columns=columns, rows=[_row(name, totals, repeat) for name, totals in lines])


def _row(name: str, totals: ReportedTotals | None, repeat: int) -> tuple[Cell, ...]:
    if totals is None:
        return (name, Text("not run", "dim"), (NONE,) * 3, (NONE,) * 3, NONE)
    verdict = Text(verdicts(totals, repeat), _STYLES.get(totals.worst, "red"))
    if not totals.claims:
        return (name, verdict, (NONE,) * 3, (NONE,) * 3, NONE)
    messages = (span(totals.lost), span(totals.duplicated), span(totals.moved))
    claims = tuple(span((min(counts), max(counts))) for counts in zip(*totals.claims, strict=True))
    return (name, verdict, messages, claims, span(totals.seconds))


def markdown(lines: Iterable[TotalsLine]) -> str:
    """The same as Markdown, with the number of runs."""
    rows: list[tuple[str, ...]] = [("scenario", "runs", *HEADINGS)]
    rows += [(name, str(totals.runs if totals else 0), *_columns(totals)) for name, totals in lines]
    return _markdown(rows)


def _columns(totals: ReportedTotals | None) -> tuple[str, ...]:
    if totals is None:
        return ("not run", "", "", "", "", "")
    first = verdicts(totals)
    if not totals.claims:
        return (first, "–", "–", "–", "–", "–")
    return (
        first,
        span(totals.lost),
        span(totals.duplicated),
        span(totals.moved),
        claims(totals),
        span(totals.seconds),
    )


class ReportedGrid(Protocol):
    """Runs by scenario, metadata mode and Kafka version (`studies.series.summary.Grid`)."""

    @property
    def versions(self) -> Sequence[str]:
        """The columns."""

    @property
    def lines(self) -> Mapping[tuple[str, str], Mapping[str, ReportedTotals]]:
        """Totals by version for each scenario and mode."""


def matrix(grid: ReportedGrid) -> RowTable:
    """A row per scenario and mode, a column per version."""
    rows = [
        (name, mode, *(_in_signs(cells[one]) if one in cells else NONE for one in grid.versions))
        for (name, mode), cells in grid.lines.items()
    ]
    headings = ("scenario", "mode", *grid.versions)
    return RowTable(columns=[Column(heading=one) for one in headings], rows=rows, named_by=2)


MATRIX_LEGEND = (
    "✓ as declared, ✗ violated, ? unknown; numbers of messages, and of findings about transactions and groups"
)


def matrix_markdown(grid: ReportedGrid) -> str:
    """The same as Markdown, with verdicts in words."""
    rows: list[tuple[str, ...]] = [("scenario", "mode", *grid.versions)]
    for (name, mode), cells in grid.lines.items():
        texts = [_in_words(cells[version]) if version in cells else "–" for version in grid.versions]
        rows.append((name, mode, *texts))
    return _markdown(rows)


def _in_signs(totals: ReportedTotals) -> Text:
    style = _STYLES.get(totals.worst, "red")
    if totals.runs == 1:
        sign = _SIGNS.get(totals.worst)
        return Text(f"{sign} {', '.join(_counts(totals))}".strip() if sign else totals.worst, style)
    text = verdicts(totals)
    for verdict, sign in _SIGNS.items():
        text = text.replace(verdict, sign)
    return Text(", ".join((text, *_counts(totals))), style)


def _in_words(totals: ReportedTotals) -> str:
    text = verdicts(totals)
    return f"{text}, {', '.join(_counts(totals)) or 'nothing lost'}" if totals.claims else text


def _counts(totals: ReportedTotals) -> list[str]:
    counts = (("lost", totals.lost), ("duplicated", totals.duplicated), *totals.findings.items())
    return [f"{span(pair)} {name}" for name, pair in counts if any(pair)]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join((head, "|" + "---|" * len(rows[0]), *body)) + "\n"
