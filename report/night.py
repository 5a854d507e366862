"""The summary of a night as Markdown, for the page of a CI job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from report.markdown import plain
from report.model.night import Case, CaseRun, Night, Slower, Unsteady
from report.series import number_of_runs, span

LIMIT_BYTES = 1 << 20
"""GitHub shows no larger summary."""
SIGNS = {
    "as declared": "✓",
    "violated": "✗",
    "unknown": "?",
    "invalid": "!",
    "crashed": "!",
    "unfit": "–",
}
_STRIP = 7
"""How many runs of a case the table shows."""
_LEGEND = "✓ as declared, ✗ violated, ? unknown, ! invalid or crashed, – unfit; newest run last"
_FAILED = "Not as declared"
_CUT = "\n\n(The rest is left out because a summary may have 1 MiB at most; the series' folder has all.)\n"
Link = Callable[[str], str]
"""From a run folder to the address of its page, relative to the document; empty if it has no page."""


def no_link(_folder: str) -> str:
    """For runs without pages."""
    return ""


def summary_markdown(night: Night, *, link: Link = no_link, limit: int = LIMIT_BYTES) -> str:
    """What failed, what is flaky, what was not run, and every case with its last runs.

    Failures that are new come first. The text has at most ``limit`` bytes.
    """
    flaky = [one for one in night.unsteady if one.now]
    counts = {
        "not run": sum(one.runs for one in night.not_run),
        "flaky": len(flaky),
        "new": len(night.new) if night.compared else 0,
        "as declared again": len(night.again),
    }
    parts = [_headline(night, [f"{count} {what}" for what, count in counts.items() if count])]
    titles = (f"{_FAILED}: new since the last night", f"{_FAILED}, as in the last night")
    titles = titles if night.compared else (_FAILED, "")
    for title, some in zip(titles, (night.new, night.old), strict=True):
        if some:
            parts.append(_section(title, [_failure(run, link) for run in some]))
    if night.again:
        parts.append(_section("As declared again", [f"- {plain(name)}" for name in night.again]))
    if flaky:
        parts.append(_section("Flaky: more than one outcome in this series", list(map(_flaky, flaky))))
    others = [one for one in night.unsteady if not one.now]
    if others:
        lines = [f"- {plain(one.name)}: {rate(one)}" for one in others]
        parts.append(_section("Flaky over the last series", lines))
    if night.slower:
        parts.append(_section("Slower", [f"- {plain(slower_in_words(one))}" for one in night.slower]))
    if night.not_run:
        lines = [f"- {one.name}" + (f" ({one.runs} runs)" if one.runs > 1 else "") for one in night.not_run]
        parts.append(_section("Not run", lines))
    parts.append(_table(night.cases))
    return _bounded("\n\n".join(parts) + "\n", limit)


def rate(case: Unsteady) -> str:
    """How often a case failed of late."""
    return f"{case.failed} of its last {case.of} runs failed"


def slower_in_words(case: Slower) -> str:
    """How much longer a case took."""
    return f"{case.name}: {case.seconds:.0f} s, usually {case.usual_s:.0f} s"


def disagreement(case: Unsteady) -> str:
    """The outcomes of a case in this series, and the answers to claims that differ."""
    differ = "".join(
        f"; claim {name}: {_counted(answers)}" + (f" ({case.says[name]})" if name in case.says else "")
        for name, answers in case.claims.items()
    )
    return f"{_counted(case.now)}{differ}"


def _headline(night: Night, also: Sequence[str]) -> str:
    counted = ", ".join(f"{night.counts[verdict]} {verdict}" for verdict in SIGNS if verdict in night.counts)
    head = f"## acked: {number_of_runs(len(night.runs))}"
    if not night.runs:
        return f"{head}; nothing was run"
    return f"{head}: {'; '.join((counted, *also))}\n\n{plain(night.opening.answer)}"


def _section(title: str, lines: Sequence[str]) -> str:
    return f"### {title}\n\n" + "\n".join(lines)


def _failure(run: CaseRun, link: Link) -> str:
    page = link(run.folder)
    facts = [f"{run.seconds:.0f} s"]
    facts += [f"commit {plain(run.commit)}"] if run.commit else []
    facts += [f"[page]({quote(page)})" if page else f"`{run.folder}`"]
    first = f"- **{plain(run.name)}: {run.verdict}**. {plain(run.why)} ({', '.join(facts)})"
    return "\n".join((first, *(f"  - {plain(line)}" for line in run.claims)))


def _flaky(case: Unsteady) -> str:
    often = f"; {rate(case)}" if case.failed and case.of > sum(case.now.values()) else ""
    return f"- {plain(case.name)}: {plain(disagreement(case))}{often}"


def _counted(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())


def _table(cases: Sequence[Case]) -> str:
    rows = ["| case | last runs | lost | duplicated | s |", "|---|---|---|---|---|"]
    for case in cases:
        strip = "".join(SIGNS.get(verdict, "!") for _, verdict in case.strip[-_STRIP:])
        own = [round(seconds) for seconds in case.seconds[-case.runs :]]
        counts = " | ".join("–" if pair is None else span(pair) for pair in (case.lost, case.duplicated))
        rows.append(f"| {plain(case.name)} | {strip} | {counts} | {span((min(own), max(own)))} |")
    return "### Cases\n\n" + "\n".join(rows) + f"\n\n{_LEGEND}"


def _bounded(text: str, limit: int) -> str:
    data = text.encode()
    if len(data) <= limit:
        return text
    kept = data[: limit - len(_CUT.encode())].decode(errors="ignore")
    return kept[: kept.rfind("\n")] + _CUT
