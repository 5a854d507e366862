"""The index page of a series: scenarios by Kafka version and mode, with links to the pages of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from checkers.verdict import NOT_JUDGED, VERDICTS
from report.page.render import ICONS, asset, digest, environment

NIGHTS = 14
"""At most this many earlier runs of a job are in its strip."""

SummaryLine = Mapping[str, Any]
"""A run of a series, as a line of `runs.jsonl`."""


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

    @property
    def ran(self) -> bool:
        """Whether any run took place."""
        return any(name != "unfit" for name, _, _ in self.verdicts)


def index_page(
    runs: Sequence[SummaryLine],
    *,
    title: str,
    earlier: Sequence[SummaryLine] = (),
    missing: int = 0,
    link: Callable[[str], str] = lambda folder: "",
) -> str:
    """The index of some runs as one self-contained HTML file.

    ``earlier`` are runs of other series, oldest first; ``missing`` runs were planned but did not take place.
    ``link`` returns the address of a run folder's page, or nothing.
    """
    columns = sorted({(run["version"], _mode(run)) for run in runs}, key=lambda one: (one[1], _order(one[0])))
    by_cell: dict[tuple[str, str, str], list[SummaryLine]] = {}
    before: dict[tuple[str, str, str], list[SummaryLine]] = {}
    for run in runs:
        by_cell.setdefault(_cell(run), []).append(run)
    own = {_identity(run) for run in runs}
    last = max((str(run.get("ended") or "") for run in runs), default="")
    for run in earlier:
        if _identity(run) not in own and str(run.get("ended") or "") <= last:
            before.setdefault(_cell(run), []).append(run)
    scenarios = sorted({run["scenario"] for run in runs})
    sparse = len(by_cell) * 2 < len(columns) * len(scenarios)

    def row(scenario: str) -> list[tuple[str, Entry | None]]:
        cells: list[tuple[str, Entry | None]] = []
        for version, mode in columns:
            key = (scenario, version, mode)
            if key in by_cell:
                entry = _entry(by_cell[key], before.get(key, []), link)
                cells.append((f"{version} {mode}" if sparse else "", entry))
            elif not sparse:
                cells.append(("", None))
        return cells

    rows = [(scenario, row(scenario)) for scenario in scenarios]
    rows.sort(key=lambda one: min((_worst(entry) for _, entry in one[1] if entry), default=9))
    counts: dict[str, int] = {}
    for run in runs:
        counts[run["verdict"]] = counts.get(run["verdict"], 0) + 1
    style = asset("page.css")
    return (
        environment()
        .get_template("index.html.j2")
        .render(
            title=title,
            columns=[] if sparse else columns,
            rows=rows,
            counts=[(name, ICONS.get(name, "?"), counts[name]) for name in _SEVERITY if name in counts],
            worst=next((name for name in _SEVERITY if name in counts), "unknown"),
            icons=ICONS,
            runs=len(runs),
            missing=missing,
            reasons=_reasons(runs, link),
            most_reasons=_REASONS,
            strips=any(entry is not None and entry.strip for _, cells in rows for _, entry in cells),
            ended=max((str(run.get("ended") or "") for run in runs), default=""),
            style=Markup(style),
            style_hash=digest(style),
        )
    )


_SEVERITY = tuple(VERDICTS)
_REASONS = 40
"""At most this many reasons are listed."""


def _reasons(runs: Sequence[SummaryLine], link: Callable[[str], str]) -> list[dict[str, Any]]:
    """Why runs were not as declared, the worst verdict first; runs with the same reason are grouped."""
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for run in sorted(runs, key=lambda run: _severity(run["verdict"])):
        if run["verdict"] == "as declared":
            continue
        why = "; ".join(run.get("reasons") or ()) or "no reason is recorded"
        cell = {
            "name": f"{run['scenario']} on {run['version']} {_mode(run)}",
            "href": link(str(run.get("folder") or "")),
        }
        why = why.removeprefix(f"{run['scenario']} ")
        new = {"verdict": run["verdict"], "why": why, "cells": []}
        entry = entries.setdefault((run["verdict"], why), new)
        entry["cells"].append(cell)
    return list(entries.values())


def _severity(verdict: str) -> int:
    return _SEVERITY.index(verdict) if verdict in _SEVERITY else 0


def _cell(run: SummaryLine) -> tuple[str, str, str]:
    return run["scenario"], run["version"], _mode(run)


def _mode(run: SummaryLine) -> str:
    """The metadata mode, with the client where one was named."""
    return f"{run['mode']}, {run['client']}" if run.get("client") else str(run["mode"])


def _identity(run: SummaryLine) -> tuple[str, str, str, str]:
    """What tells a run from all others, wherever its folder is now."""
    return (*_cell(run), str(run.get("ended") or ""))


def _order(version: str) -> list[int]:
    return [int(part) for part in version.replace("@", ".").split(".") if part.isdigit()]


def _worst(entry: Entry) -> int:
    return min(_severity(name) for name, _, _ in entry.verdicts)


def _entry(runs: Sequence[SummaryLine], before: Sequence[SummaryLine], link: Callable[[str], str]) -> Entry:
    counts: dict[str, int] = {}
    for run in runs:
        counts[run["verdict"]] = counts.get(run["verdict"], 0) + 1
    judged = [run for run in runs if run["verdict"] not in NOT_JUDGED]
    lost = sorted(int(run.get("lost") or 0) for run in judged)
    findings = [run.get("findings") or {} for run in judged]
    classes = {
        name: sorted(int(finding.get(name, 0)) for finding in findings)
        for name in sorted({n for finding in findings for n in finding})
    }
    seconds = sorted(float(run.get("seconds") or 0) for run in runs)
    return Entry(
        verdicts=[(name, ICONS.get(name, "?"), counts[name]) for name in sorted(counts, key=_severity)],
        claims=_disagreeing(judged),
        counts=[
            f"{_span([str(values[0]), str(values[-1])])} {name.replace('_', ' ')}"
            for name, values in {"lost": lost, **classes}.items()
            if values
        ],
        seconds=_span([f"{seconds[0]:.0f}", f"{seconds[-1]:.0f}"]),
        runs=[
            (ICONS.get(run["verdict"], "?"), run["verdict"], link(str(run.get("folder") or "")))
            for run in runs
        ],
        strip=[
            (ICONS.get(run["verdict"], "?"), run["verdict"], str(run.get("ended") or "")[:10])
            for run in before[-NIGHTS:]
        ],
    )


def _disagreeing(runs: Sequence[SummaryLine]) -> list[str]:
    answers: dict[str, dict[str, int]] = {}
    for run in runs:
        for name, status in (run.get("claims") or {}).items():
            counts = answers.setdefault(name, {})
            counts[status] = counts.get(status, 0) + 1
    return [
        f"{name}: {', '.join(f'{count} {status}' for status, count in counts.items())}"
        for name, counts in answers.items()
        if len(counts) > 1
    ]


def _span(ends: Sequence[str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"
