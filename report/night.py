"""The summary of a night as Markdown, for the page of a CI job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from report.markdown import plain
from report.series import ReportedJob, ReportedRun, job_name, number_of_runs, span

LIMIT_BYTES = 1 << 20
"""GitHub shows no larger summary."""
NIGHTS = 7
"""How many earlier runs of a job the summary shows."""
SIGNS = {
    "as declared": "✓",
    "violated": "✗",
    "unknown": "?",
    "invalid": "!",
    "crashed": "!",
    "unfit": "–",
}
_LEGEND = "✓ as declared, ✗ violated, ? unknown, ! invalid or crashed, – unfit; newest run last"
_CUT = "\n\n(The rest is left out because a summary may have 1 MiB at most; the series' folder has all.)\n"


class ReportedDisagreement(Protocol):
    """How the runs of one case differ (`studies.series.summary.Disagreement`)."""

    @property
    def verdicts(self) -> Mapping[str, int]:
        """Runs by verdict."""

    @property
    def claims(self) -> Mapping[str, Mapping[str, int]]:
        """The claims that got different answers: runs by answer."""


def summary_markdown(
    runs: Sequence[ReportedRun],
    flaky: Mapping[Any, ReportedDisagreement],
    *,
    not_run: Sequence[ReportedJob] = (),
    earlier: Sequence[ReportedRun] = (),
    limit: int = LIMIT_BYTES,
) -> str:
    """What failed, what is flaky (by `Job`), what was not run, and every case with its last runs.

    ``earlier`` are runs of other nights, oldest first. The text has at most ``limit`` bytes.
    """
    failed = [run for run in runs if run.verdict not in ("as declared", "unfit")]
    parts = [_headline(runs, not_run, len(flaky))]
    if failed:
        parts.append(_section("Not as declared", [_failure(run) for run in failed]))
    if flaky:
        lines = [_flaky(job, how) for job, how in flaky.items()]
        parts.append(_section("Flaky: more than one outcome in this series", lines))
    if not_run:
        names = Counter(job_name(job) for job in not_run)
        lines = [f"- {name}" + (f" ({count} runs)" if count > 1 else "") for name, count in names.items()]
        parts.append(_section("Not run", lines))
    parts.append(_table(_by_job(runs), _by_job(earlier)))
    return _bounded("\n\n".join(parts) + "\n", limit)


def _headline(runs: Sequence[ReportedRun], not_run: Sequence[ReportedJob], flaky: int) -> str:
    counts = Counter(run.verdict for run in runs)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in SIGNS if counts[verdict])
    also = [f"{len(not_run)} not run"] if not_run else []
    also += [f"{flaky} flaky"] if flaky else []
    return f"## acked: {number_of_runs(len(runs))}" + (
        f": {'; '.join((counted, *also))}" if runs else "; nothing was run"
    )


def _section(title: str, lines: Sequence[str]) -> str:
    return f"### {title}\n\n" + "\n".join(lines)


def _failure(run: ReportedRun) -> str:
    reasons = "; ".join(run.reasons) or "no reason is recorded"
    return f"- **{plain(job_name(run))}: {run.verdict}**. {plain(reasons)} (`{run.folder}`)"


def _flaky(job: ReportedJob, how: ReportedDisagreement) -> str:
    differ = "".join(f"; claim {name}: {_counted(answers)}" for name, answers in how.claims.items())
    return f"- {plain(job_name(job))}: {_counted(how.verdicts)}{plain(differ)}"


def _counted(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())


def _table(jobs: dict[str, list[ReportedRun]], earlier: dict[str, list[ReportedRun]]) -> str:
    rows = ["| case | last runs | lost | duplicated | s |", "|---|---|---|---|---|"]
    for name, of_job in sorted(jobs.items()):
        strip = "".join(SIGNS.get(run.verdict, "!") for run in [*earlier.get(name, []), *of_job][-NIGHTS:])
        judged = [run for run in of_job if run.judged]
        lost, twice = _span(run.lost for run in judged), _span(run.duplicated for run in judged)
        rows.append(
            f"| {plain(name)} | {strip} | {lost} | {twice} | {_span(round(run.seconds) for run in of_job)} |"
        )
    return "### Cases\n\n" + "\n".join(rows) + f"\n\n{_LEGEND}"


def _span(values: Iterable[int]) -> str:
    ordered = sorted(values)
    if not ordered:
        return "–"
    return span((ordered[0], ordered[-1]))


def _by_job(runs: Iterable[ReportedRun]) -> dict[str, list[ReportedRun]]:
    by_job: dict[str, list[ReportedRun]] = {}
    for run in runs:
        by_job.setdefault(job_name(run), []).append(run)
    return by_job


def _bounded(text: str, limit: int) -> str:
    data = text.encode()
    if len(data) <= limit:
        return text
    kept = data[: limit - len(_CUT.encode())].decode(errors="ignore")
    return kept[: kept.rfind("\n")] + _CUT
