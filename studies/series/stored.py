"""The runs that a folder keeps: listing them, and removing old ones."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from checkers.partition.fate import LOSSES
from harness.errors import BadDataError, UsageError, json_file
from studies.series.folder import PLAN, PLANNED
from studies.series.planned import worked_in
from studies.series.summary import FILE as SUMMARIES
from studies.series.summary import read_summaries

QUIET_S = 600.0
"""A run that is not over and was written to within this time may still be running: no run takes longer."""
SETTLED_S = 30.0
"""A run that is over and judged was written to within this time: its page may still be made."""
_UNFINISHED = ("", "running")


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run folder, as far as its manifest and judgement tell."""

    folder: Path
    scenario: str
    title: str
    kafka: str
    mode: str
    status: str
    """`run.json`'s, or empty."""
    verdict: str
    """The verdict of the judgement; empty if the run has not been judged."""
    lost: int
    size_bytes: int
    written_s: float
    """Seconds since the epoch at which anything in the folder was last written."""
    page: bool

    def busy(self, now_s: float) -> bool:
        """Whether somebody may still write to it."""
        unfinished = self.status in _UNFINISHED or not self.verdict
        return now_s - self.written_s < (QUIET_S if unfinished else SETTLED_S)


def stored_runs(runs: Path) -> list[StoredRun]:
    """The runs below ``runs``, newest first. Raises UsageError if there is no such folder."""
    stored = [read_run(folder) for folder in run_folders(runs)]
    return sorted(stored, key=lambda run: (run.folder.name, run.scenario), reverse=True)


def run_folders(runs: Path) -> Iterator[Path]:
    """The folders of the runs below ``runs``. Raises UsageError if there is no such folder."""
    if not runs.is_dir():
        raise UsageError(f"There is no folder {runs}; name the one that holds the runs with --runs.")
    for scenario in sorted(path for path in runs.iterdir() if path.is_dir()):
        for folder in scenario.iterdir():
            if folder.is_symlink() or not folder.is_dir():
                continue
            if (folder / "run.json").is_file() or (folder / "journal").is_dir():
                yield folder


def read_run(folder: Path) -> StoredRun:
    """What a run folder says of itself; what is damaged is left out."""
    manifest = _stored(folder / "run.json", _Manifest)
    judgement = _stored(folder / "judgement.json", _Judgement)
    size, written = _written(folder)
    return StoredRun(
        folder=folder,
        scenario=manifest.scenario or folder.parent.name,
        title=manifest.title or "",
        kafka=manifest.kafka or "",
        mode=manifest.mode or "",
        status=manifest.status or "",
        verdict=judgement.verdict or "",
        lost=sum((judgement.fates or {}).get(name, 0) for name in LOSSES),
        size_bytes=size,
        written_s=written,
        page=(folder / "report.html").is_file(),
    )


@dataclass(frozen=True, kw_only=True)
class StoredSeries:
    """The folder of a command of many runs: `<runs>/<kind>/<UTC time>`."""

    folder: Path
    kafka: str
    """Empty for a series of several versions."""
    mode: str
    ended: int
    """Runs that have ended."""
    planned: int
    """Runs of the plan; 0 if a budget or a statistical test ends it."""
    outcomes: Mapping[str, int]
    """Counts of what came of it: verdicts, broken promises, groups of findings, or steps that are left."""
    size_bytes: int
    verdict: str = ""
    """That of an assessment; empty for other kinds, and until it is over."""
    under_way: bool = False
    """A process works in the folder now."""

    @property
    def kind(self) -> str:
        """`all`, `matrix`, `assess`, `search`, `compare`, `replay`, `shrink` or `bisect`."""
        return self.folder.parent.name


def stored_series(runs: Path) -> list[StoredSeries]:
    """The nights, matrices, assessments, searches and so on below ``runs``, newest first."""
    ordered = sorted(series_folders(runs), key=lambda folder: (folder.name, folder.parent.name), reverse=True)
    return [read_series(folder) for folder in ordered]


def series_folders(runs: Path) -> set[Path]:
    """Their folders."""
    folders = {file.parent for name in _OF_SERIES for file in runs.glob(f"*/*/{name}")}
    return {folder for folder in folders if not folder.is_symlink()}


_LINES = (SUMMARIES, "schedules.jsonl", "tests.jsonl")
"""Files with a line for each run that has ended: of a series, a search, a shrinking."""
_OF_SERIES = (*_LINES, PLANNED, PLAN, "replay.json", "comparison.json")


def read_series(folder: Path) -> StoredSeries:
    """What the folder of a series says of itself; what is damaged is left out."""
    plan = _stored(folder / PLAN, _Plan)
    planned = len(plan.cases or []) * (plan.repeat or 1) or _lines(folder / PLANNED)
    replayed = _stored(folder / "replay.json", _Replay)
    assessment = _stored(folder / "assessment.json", _Assessment)
    return StoredSeries(
        folder=folder,
        kafka=plan.version or "",
        mode=plan.mode or "",
        ended=sum(map(_lines, _files_of_runs(folder))) or replayed.runs or 0,
        planned=planned,
        outcomes=dict(_outcomes(folder, assessment, replayed)),
        size_bytes=_written(folder)[0],
        verdict=assessment.verdict or "",
        under_way=worked_in(folder),
    )


def _files_of_runs(folder: Path) -> Iterator[Path]:
    """The files with a line for each run; each side of a comparison has one."""
    yield from (folder / name for name in _LINES)
    if (folder / "comparison.json").is_file():
        yield from (side / "schedules.jsonl" for side in folder.iterdir() if side.name.isdecimal())


def _outcomes(folder: Path, assessment: _Assessment, replayed: _Replay) -> Iterator[tuple[str, int]]:
    if assessment.lines is not None:
        promises = [{one.promise for one in line.settings.values()} for line in assessment.lines]
        yield "broken promises", sum("broken" in of_line for of_line in promises)
    searched = [group.finding for group in _stored(folder / "search.json", _Search).groups or ()]
    compared = _stored(folder / "compare.json", _Comparison).groups or []
    for weight, count in sorted(Counter(one.weight for one in (*searched, *compared)).items()):
        yield f"{weight} findings", count
    if replayed.hits is not None:
        yield "came back", replayed.hits
    smallest = _stored(folder / "smallest.json", _Schedule)
    if smallest.steps is not None:
        yield "steps left", len(smallest.steps)
    if assessment.lines is None and folder.parent.name != "assess":
        with suppress(BadDataError, UsageError):
            yield from Counter(run.verdict for run in read_summaries([folder / SUMMARIES])).most_common()


def _lines(file: Path) -> int:
    try:
        return len(file.read_bytes().splitlines())
    except OSError:
        return 0


def _written(folder: Path) -> tuple[int, float]:
    """Size of a folder, and when anything in it was last written."""
    size, written = 0, 0.0
    for path in (folder, *folder.rglob("*")):
        with suppress(OSError):  # a run that is in progress removes files
            status = path.lstat()
            written = max(written, status.st_mtime)
            size += status.st_blocks * 512  # segments and indexes are sparse
    return size, written


class _Manifest(msgspec.Struct, kw_only=True):
    """What the list shows of `run.json`."""

    scenario: str | None = None
    title: str | None = None
    kafka: str | None = None
    mode: str | None = None
    status: str | None = None


class _Judgement(msgspec.Struct):
    """What it shows of `judgement.json`."""

    verdict: str | None = None
    fates: dict[str, int] | None = None


class _Plan(msgspec.Struct):
    """What it shows of the `plan.json` of an assessment."""

    version: str | None = None
    mode: str | None = None
    cases: list[Any] | None = None
    repeat: int | None = None


class _Setting(msgspec.Struct):
    promise: str


class _Line(msgspec.Struct):
    settings: dict[str, _Setting]


class _Assessment(msgspec.Struct):
    """What it shows of `assessment.json`."""

    lines: list[_Line] | None = None
    verdict: str | None = None


class _Weighted(msgspec.Struct):
    weight: str


class _Group(msgspec.Struct):
    finding: _Weighted


class _Search(msgspec.Struct):
    """What it shows of `search.json`."""

    groups: list[_Group] | None = None


class _Comparison(msgspec.Struct):
    """What it shows of `compare.json`."""

    groups: list[_Weighted] | None = None


class _Replay(msgspec.Struct):
    """What it shows of `replay.json`."""

    runs: int | None = None
    hits: int | None = None


class _Schedule(msgspec.Struct):
    """What it shows of `smallest.json`."""

    steps: list[Any] | None = None


_Shape = TypeVar("_Shape", bound=msgspec.Struct)


def _stored(file: Path, shape: type[_Shape]) -> _Shape:
    """What a JSON file says; nothing if it is absent or damaged, so that all other runs are listed."""
    try:
        return msgspec.convert(json_file(file), shape)
    except (BadDataError, msgspec.ValidationError):
        return shape()


def to_remove(
    stored: Sequence[StoredRun],
    *,
    keep: int,
    keep_failed: bool,
    max_bytes: int | None = None,
    now_s: float | None = None,
) -> list[StoredRun]:
    """The runs to remove, oldest first: all but the newest ``keep`` of each scenario.

    With ``keep_failed``, a run that is not `as declared` stays. If what is left is larger than ``max_bytes``,
    the oldest of it goes too, except each scenario's newest run. A run that may be in progress always stays.
    """
    now = time.time() if now_s is None else now_s
    seen: dict[Path, int] = {}
    removed, left = [], []
    for run in sorted(stored, key=lambda run: run.folder.name, reverse=True):
        number = seen[run.folder.parent] = seen.get(run.folder.parent, 0) + 1
        stays = run.busy(now) or (keep_failed and run.verdict != "as declared")
        if number > keep and not stays:
            removed.append(run)
        else:
            left.append((run, stays or number == 1))
    size = sum(run.size_bytes for run, _ in left)
    for run, stays in reversed(left):
        if max_bytes is not None and size > max_bytes and not stays:
            removed.append(run)
            size -= run.size_bytes
    return sorted(removed, key=lambda run: run.folder.name)


def remove(run: StoredRun) -> None:
    """Remove a run folder, and a link `latest` that points to it. Raises UsageError."""
    latest = run.folder.parent / "latest"
    try:
        shutil.rmtree(run.folder)
        if latest.is_symlink() and not latest.exists():
            latest.unlink()
            others = sorted(path for path in run.folder.parent.iterdir() if path.is_dir())
            if others:
                latest.symlink_to(others[-1].name)
        if not any(run.folder.parent.iterdir()):
            run.folder.parent.rmdir()
    except OSError as error:
        raise UsageError(f"{run.folder} cannot be removed ({error.strerror}).") from error
