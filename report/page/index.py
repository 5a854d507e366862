"""The page of a series: what is new, what is flaky, and all runs by scenario, Kafka version and mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from checkers.verdict import NOT_JUDGED, VERDICTS
from report.model.night import Case, CaseRun, Night
from report.night import disagreement, rate, slower_in_words
from report.page.frame import framed
from report.page.svg import picture, tag
from report.page.template import ICONS
from report.series import ReportedRun, job_name


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The runs of one scenario on one Kafka version in one mode."""

    verdicts: Sequence[tuple[str, str, int]]
    """Verdict, its sign, and how many runs had it; several if the runs of a job disagree."""
    claims: Sequence[str]
    """Claims to which the runs gave different answers, with the answers."""
    counts: Sequence[str]
    """The number of lost messages, and of findings about transactions and groups by class."""
    seconds: str
    runs: Sequence[tuple[str, str, str]]
    """Sign, verdict and link of each run; the link is empty where the run has no page."""
    strip: Sequence[tuple[str, str, str]]
    """Sign, verdict and day of earlier runs, oldest first."""
    trend: Markup | None
    """How long the same runs and these took."""

    @property
    def ran(self) -> bool:
        """Whether any run took place."""
        return any(name != "unfit" for name, _, _ in self.verdicts)


def index_page(
    night: Night,
    runs: Sequence[ReportedRun],
    link: Callable[[str], str] = lambda folder: "",
) -> str:
    """The page of a series as one self-contained HTML file.

    ``night`` is the model of ``runs``; ``link`` returns the address of a run folder's page, or nothing.
    """
    columns = sorted({(run.version, _mode(run)) for run in runs}, key=lambda one: (one[1], _order(one[0])))
    by_cell: dict[tuple[str, str, str], list[ReportedRun]] = {}
    for run in runs:
        by_cell.setdefault(_cell(run), []).append(run)
    cases = {case.name: case for case in night.cases}
    scenarios = sorted({run.scenario for run in runs})
    sparse = len(by_cell) * 2 < len(columns) * len(scenarios)

    def row(scenario: str) -> list[tuple[str, Entry | None]]:
        cells: list[tuple[str, Entry | None]] = []
        for version, mode in columns:
            of_cell = by_cell.get((scenario, version, mode))
            if of_cell is not None:
                entry = _entry(of_cell, cases[job_name(of_cell[0])], link)
                cells.append((f"{version} {mode}" if sparse else "", entry))
            elif not sparse:
                cells.append(("", None))
        return cells

    rows = [(scenario, row(scenario)) for scenario in scenarios]
    rows.sort(key=lambda one: min((_worst(entry) for _, entry in one[1] if entry), default=9))
    return framed(
        "index.html.j2",
        replace(night.opening, sign=ICONS.get(night.worst, "?")),
        night=night,
        columns=[] if sparse else columns,
        rows=rows,
        icons=ICONS,
        link=link,
        failures=[(title, _alike(some)) for title, some in _titled(night) if some],
        most=MOST,
        rate=rate,
        slower_in_words=slower_in_words,
        disagreement=disagreement,
        strips=any(entry is not None and entry.strip for _, cells in rows for _, entry in cells),
    )


MOST = 40
"""At most this many failures are listed, of each kind."""
_SEVERITY = tuple(VERDICTS)


def _titled(night: Night) -> list[tuple[str, Sequence[CaseRun]]]:
    titles = (
        ("New since the last series", "As in the last series") if night.compared else ("Not as declared", "")
    )
    return [*zip(titles, (night.new, night.old), strict=True), ("Could not be run here", night.unfit)]


def _alike(runs: Sequence[CaseRun]) -> list[list[CaseRun]]:
    """Runs with the same verdict, reasons and claims together, the worst verdict first."""
    groups: dict[object, list[CaseRun]] = {}
    for run in sorted(runs, key=lambda run: _severity(run.verdict)):
        why = run.why.removeprefix(f"{run.scenario} ")
        groups.setdefault((run.verdict, why, run.claims), []).append(run)
    return list(groups.values())


def _severity(verdict: str) -> int:
    return _SEVERITY.index(verdict) if verdict in _SEVERITY else 0


def _cell(run: ReportedRun) -> tuple[str, str, str]:
    return run.scenario, run.version, _mode(run)


def _mode(run: ReportedRun) -> str:
    """The metadata mode, with the client where one was named."""
    return f"{run.mode}, {run.client}" if run.client else run.mode


def _order(version: str) -> list[int]:
    return [int(part) for part in version.replace("@", ".").split(".") if part.isdigit()]


def _worst(entry: Entry) -> int:
    return min(_severity(name) for name, _, _ in entry.verdicts)


def _entry(runs: Sequence[ReportedRun], case: Case, link: Callable[[str], str]) -> Entry:
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.verdict] = counts.get(run.verdict, 0) + 1
    judged = [run for run in runs if run.verdict not in NOT_JUDGED]
    lost = sorted(run.lost for run in judged)
    classes = {
        name: sorted(run.findings.get(name, 0) for run in judged)
        for name in sorted({n for run in judged for n in run.findings})
    }
    seconds = sorted(run.seconds for run in runs)
    before = case.strip[: -case.runs]
    return Entry(
        verdicts=[(name, ICONS.get(name, "?"), counts[name]) for name in sorted(counts, key=_severity)],
        claims=_disagreeing(judged),
        counts=[
            f"{_span([str(values[0]), str(values[-1])])} {name.replace('_', ' ')}"
            for name, values in {"lost": lost, **classes}.items()
            if values
        ],
        seconds=_span([f"{seconds[0]:.0f}", f"{seconds[-1]:.0f}"]),
        runs=[(ICONS.get(run.verdict, "?"), run.verdict, link(run.folder)) for run in runs],
        strip=[(ICONS.get(verdict, "?"), verdict, day) for day, verdict in before],
        trend=_trend(case.seconds) if before else None,
    )


def _trend(seconds: Sequence[float]) -> Markup:
    """How long each of the runs took, as bars; the last ones are those of this series."""
    longest = max(seconds) or 1.0
    bars = [
        tag(
            "rect",
            x=7 * at,
            y=16 - max(1.0, 15 * one / longest),
            width=5,
            height=max(1.0, 15 * one / longest),
        )
        for at, one in enumerate(seconds)
    ]
    label = f"seconds of the last {len(seconds)} runs: {', '.join(f'{one:.0f}' for one in seconds)}"
    return picture(7 * len(seconds), 16, bars, label, "trend")


def _disagreeing(runs: Sequence[ReportedRun]) -> list[str]:
    answers: dict[str, dict[str, int]] = {}
    for run in runs:
        for name, status in run.claims.items():
            counts = answers.setdefault(name, {})
            counts[status] = counts.get(status, 0) + 1
    return [
        f"{name}: {', '.join(f'{count} {status}' for status, count in counts.items())}"
        for name, counts in answers.items()
        if len(counts) > 1
    ]


def _span(ends: Sequence[str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"
