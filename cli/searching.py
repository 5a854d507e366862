"""`acked search` at work: its progress, its limits, its outcome, and those of a comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import asdict
from rich.markup import escape

from cli.pages import INDEX, add_page, page_links, without_failing
from harness.console import Console, Progress, echo
from harness.errors import EXIT_AS_DECLARED, EXIT_UNKNOWN, EXIT_VIOLATED, StoppedError
from harness.plain_files import write_plain
from report import search as report
from report.page.search import search_comparison_page, search_page
from report.words.found import finding_in_words
from studies.search.comparison import SearchComparison, Side
from studies.search.hunt import Search, SearchPlan, TriedSchedule
from studies.search.schedule import Schedule
from studies.series.budget import Budget
from studies.series.planned import alone

_EXPECTED_S = 40.0
"""The length of a run in seconds, before any has been measured."""


@dataclass(kw_only=True)
class Limits:
    """How long to search, and on how many clusters side by side."""

    parallel: int
    budget: Budget
    most: int | None
    """Schedules."""
    _pace: list[float] = field(default_factory=list)

    def ran(self, record: TriedSchedule) -> None:
        """Learn how long a run takes."""
        self._pace.append(record.seconds)

    def may_start(self, begun: int, runs: int = 1) -> bool:
        """Whether another schedule may begin after ``begun`` others, if ``runs`` runs must follow it."""
        usual = sorted(self._pace)[len(self._pace) // 2] if self._pace else _EXPECTED_S
        in_time = self.budget.allows(usual * math.ceil(runs / self.parallel))
        return in_time and (self.most is None or begun < self.most)

    @property
    def left(self) -> str:
        """The time that is left, for the terminal."""
        left_s = self.budget.left_s
        return f", {left_s / 60:.0f} min left" if math.isfinite(left_s) else ""

    def described(self, plan: SearchPlan, path: Path) -> str:
        """The plan and its limits, in a sentence."""
        limits = (
            f"{self.most} schedules" if self.most else "",
            f"{self.budget.seconds / 60:.0f} min" if math.isfinite(self.budget.seconds) else "",
        )
        runs = f"{self.parallel} clusters side by side" if self.parallel > 1 else "one after the other"
        return (
            f"{plan.mode}, seed {plan.seed}: {' or '.join(filter(None, limits))}, {runs}; {path} keeps them"
        )


def search(
    work: Search, progress: Progress, limits: Limits, extra: Sequence[Schedule], *, as_json: bool
) -> int:
    """Search, and show the outcome. Returns the exit code; raises StoppedError after Ctrl-C."""
    progress.say(f"Kafka {work.plan.version}, {limits.described(work.plan, work.path)}")

    def ended(record: TriedSchedule) -> None:
        limits.ran(record)
        progress.say(_outcome_line(record, work))
        keep = partial(_keep, work, limits.budget.elapsed_s)
        without_failing("the page so far was not written", progress.say, keep)

    def lines() -> list[str]:
        groups = {finding.signature for record in work.records for finding in record.findings}
        return [
            f"{len(work.records)} schedules have ended{limits.left}; {len(groups)} different findings; "
            f"{len(work.known)} states reached; {len(work.corpus)} schedules to mutate"
        ]

    with alone(work.path):
        with progress.phase("runs", "searching", lines):
            stopped = work.run(limits.parallel, ended, limits.may_start, extra)
        _add_pages(work, progress)
        document = _keep(work, limits.budget.elapsed_s)
    _show(document, report.show_search, work.path, as_json=as_json)
    if stopped:
        raise _stopped(len(work.records), work.path)
    outcomes = ((group["finding"]["weight"], group["finding"]["promise"]) for group in document["groups"])
    return _exit_code(outcomes, bool(document["not_judged"]))


def _add_pages(work: Search, progress: Progress) -> None:
    """The pages of the runs that were the first to show something."""
    for folder in {Path(group.folder) for group in work.groups()}:
        if (folder / "history").is_dir() and not (folder / "report.html").is_file():
            add_page(folder, progress.say)


def _keep_comparison(work: SearchComparison, sides: Iterable[Side], seconds: float) -> dict[str, Any]:
    """Write what a comparison and the searches of some sides have come to; returns the former's document."""
    for side in sides:
        _keep(side.search, seconds)
    document, page = work.document(seconds), work.path / INDEX
    write_plain(page, search_comparison_page(document, page_links(page)))
    return document


def _keep(work: Search, seconds: float) -> dict[str, Any]:
    """Write what a search has come to as JSON and as a page; returns the document."""
    document, page = work.document(seconds), work.path / INDEX
    write_plain(page, search_page(document, page_links(page)))
    return document


def compare(
    work: SearchComparison, progress: Progress, limits: Limits, extra: Sequence[Schedule], *, as_json: bool
) -> int:
    """Carry out the same schedules on all sides, and show the differences. Returns the exit code.

    Raises StoppedError after Ctrl-C.
    """
    names = " and ".join(side.name for side in work.sides)
    progress.say(f"{names}, {limits.described(work.sides[0].search.plan, work.path)}")

    def ended(side: Side, record: TriedSchedule) -> None:
        limits.ran(record)
        progress.say(f"{side.name}: {_outcome_line(record, side.search)}")
        keep = partial(_keep_comparison, work, (side,), limits.budget.elapsed_s)
        without_failing("the page so far was not written", progress.say, keep)

    def lines() -> list[str]:
        counts = ", ".join(f"{side.name}: {len(side.search.records)}" for side in work.sides)
        return [f"schedules of {counts}{limits.left}"]

    with alone(work.path):
        with progress.phase("runs", "comparing", lines):
            stopped = work.run(limits.parallel, ended, limits.may_start, extra)
        for side in work.sides:
            _add_pages(side.search, progress)
        document = _keep_comparison(work, work.sides, limits.budget.elapsed_s)
    _show(document, report.show_comparison, work.path, as_json=as_json)
    if stopped:
        raise _stopped(document["schedules"], work.path)
    outcomes = ((group["weight"], group["promise"]) for group in document["groups"])
    return _exit_code(outcomes, document["judged"] < document["schedules"])


def _outcome_line(record: TriedSchedule, work: Search) -> str:
    """A record as a line of text."""
    fresh = [finding for finding in record.findings if work.is_new(finding, record)]
    what = "; ".join(f"{one.weight}: {finding_in_words(asdict(one))} ({one.count})" for one in fresh)
    if not record.judged:
        what = f"{record.verdict}: {next(iter(record.reasons), '')}"
    origin = f"mutated from {record.parent}" if record.parent else "fresh"
    repeated = len(record.findings) - len(fresh)
    again = f"{repeated} finding{'s' if repeated != 1 else ''} as before" if repeated else ""
    states = f"{len(record.new)} new state{'' if len(record.new) == 1 else 's'}"
    sentence = "; ".join(filter(None, (what, again))) or "nothing found"
    run = Path(record.folder).name
    return f"schedule {record.number} ({origin}, {record.seconds:.0f} s, run {run}): {sentence}; {states}"


def _show(
    document: Mapping[str, Any],
    show: Callable[[Mapping[str, Any], Console], None],
    path: Path,
    *,
    as_json: bool,
) -> None:
    """Show an outcome, as JSON or for a person."""
    if as_json:
        echo(json.dumps(document, indent=2))
        return
    show(document, Console(highlight=False))
    Console(stderr=True, highlight=False).paragraph(escape(f"kept in {path}"), style="dim")


def _stopped(schedules: int, path: Path) -> StoppedError:
    return StoppedError(
        f"interrupted after {schedules} schedules; everything that was started has been ended. "
        f"To continue, use --resume {path}."
    )


def _exit_code(outcomes: Iterator[tuple[str, str]], unjudged: bool) -> int:
    """The exit code for groups of findings, by weight and promise."""
    groups = list(outcomes)
    if any(weight == "new" or promise == "broken" for weight, promise in groups):
        return EXIT_VIOLATED
    open_end = unjudged or any(weight == "unknown" for weight, _ in groups)
    return EXIT_UNKNOWN if open_end else EXIT_AS_DECLARED
