"""The summary of a night as Markdown, for the page of a CI job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from report.markdown import plain
from report.series import ReportedJob, ReportedRun, deviations, job_name, number_of_runs, span

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
_FAILED = "Not as declared"
_CUT = "\n\n(The rest is left out because a summary may have 1 MiB at most; the series' folder has all.)\n"


class ReportedDisagreement(Protocol):
    """How the runs of one case differ (`studies.series.summary.Disagreement`)."""

    @property
    def verdicts(self) -> Mapping[str, int]:
        """Runs by verdict."""

    @property
    def claims(self) -> Mapping[str, Mapping[str, int]]:
        """The claims that got different answers: runs by answer."""


Link = Callable[[str], str]
"""From a run folder to the address of its page, relative to the document; empty if it has no page."""


def no_link(_folder: str) -> str:
    """For runs without pages."""
    return ""


def summary_markdown(
    runs: Sequence[ReportedRun],
    flaky: Mapping[Any, ReportedDisagreement],
    *,
    not_run: Sequence[ReportedJob] = (),
    earlier: Sequence[ReportedRun] = (),
    link: Link = no_link,
    limit: int = LIMIT_BYTES,
) -> str:
    """What failed, what is flaky (by `Job`), what was not run, and every case with its last runs.

    ``earlier`` are runs of other nights, oldest first; with them, failures that are new come first. The text
    has at most ``limit`` bytes.
    """
    before = _by_job(earlier)
    failed = [run for run in runs if _failed(run)]
    new = [run for run in failed if not any(map(_failed, before.get(job_name(run), [])[-1:]))]
    old = [run for run in failed if run not in new]
    by_job = _by_job(runs)
    passed = [name for name, of_job in by_job.items() if _passed_again(of_job, before.get(name, []))]
    counts = {
        "not run": len(not_run),
        "flaky": len(flaky),
        "new": len(new) if earlier else 0,
        "as declared again": len(passed),
    }
    parts = [_headline(runs, [f"{count} {what}" for what, count in counts.items() if count])]
    titles = (f"{_FAILED}: new since the last night", f"{_FAILED}, as in the last night")
    titles = titles if earlier else (_FAILED, "")
    for title, some in zip(titles, (new, old), strict=True):
        if some:
            parts.append(_section(title, [_failure(run, link) for run in some]))
    if passed:
        parts.append(_section("As declared again", [f"- {plain(name)}" for name in passed]))
    if flaky:
        lines = [_flaky(job, how, by_job.get(job_name(job), [])) for job, how in flaky.items()]
        parts.append(_section("Flaky: more than one outcome in this series", lines))
    if not_run:
        names = Counter(job_name(job) for job in not_run)
        lines = [f"- {name}" + (f" ({count} runs)" if count > 1 else "") for name, count in names.items()]
        parts.append(_section("Not run", lines))
    parts.append(_table(by_job, before))
    return _bounded("\n\n".join(parts) + "\n", limit)


def _failed(run: ReportedRun) -> bool:
    return run.verdict not in ("as declared", "unfit")


def _passed_again(runs: Sequence[ReportedRun], before: Sequence[ReportedRun]) -> bool:
    """Whether a job whose last run in an earlier night failed is now as declared in every run."""
    return any(map(_failed, before[-1:])) and all(run.verdict == "as declared" for run in runs)


def _headline(runs: Sequence[ReportedRun], also: Sequence[str]) -> str:
    counts = Counter(run.verdict for run in runs)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in SIGNS if counts[verdict])
    return f"## acked: {number_of_runs(len(runs))}" + (
        f": {'; '.join((counted, *also))}" if runs else "; nothing was run"
    )


def _section(title: str, lines: Sequence[str]) -> str:
    return f"### {title}\n\n" + "\n".join(lines)


def _failure(run: ReportedRun, link: Link) -> str:
    reasons = "; ".join(run.reasons) or "no reason is recorded"
    page = link(run.folder)
    facts = [f"{run.seconds:.0f} s"]
    facts += [f"commit {plain(run.commit)}"] if run.commit else []
    facts += [f"[page]({quote(page)})" if page else f"`{run.folder}`"]
    first = f"- **{plain(job_name(run))}: {run.verdict}**. {plain(reasons)} ({', '.join(facts)})"
    return "\n".join((first, *(f"  - {plain(line)}" for line in deviations(run))))


def _flaky(job: ReportedJob, how: ReportedDisagreement, runs: Sequence[ReportedRun]) -> str:
    says = {name: text for run in runs for name, text in run.says.items()}
    differ = "".join(
        f"; claim {name}: {_counted(answers)}" + (f" ({says[name]})" if name in says else "")
        for name, answers in how.claims.items()
    )
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
