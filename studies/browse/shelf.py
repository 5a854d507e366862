"""What a folder of runs holds, by address: runs and series, their headlines, the files that may be served.

A folder may come from anybody, and runs that are under way change while they are read. What is damaged is
listed with what can be read of it, and only plain files inside of the folder are served.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import msgspec

from harness.errors import AckedError, BadDataError, json_file
from report.kinds import kind_of
from report.model.headline import Headline, headline
from report.model.model import Tone
from report.model.shapes import ASSESSMENT
from studies.series.folder import KINDS
from studies.series.stored import (
    StoredRun,
    StoredSeries,
    read_run,
    read_series,
    run_folders,
    series_folders,
)

LISTED_S = 1.0
"""How long a listing is used, in seconds."""
MOST = 500
"""Entries in one list; a filter finds the others."""
PAGES = ("report.html", "index.html")
"""Pages that commands leave in the folders of runs and of series."""
DATA = {
    "run.json": "application/json",
    "judgement.json": "application/json",
    "claims.json": "application/json",
    "schedule.json": "application/json",
    "assessment.json": "application/json",
    "search.json": "application/json",
    "compare.json": "application/json",
    "bisect.json": "application/json",
    "matrix.json": "application/json",
    "shrink.json": "application/json",
    "night.json": "application/json",
    "replay.json": "application/json",
    "runs.jsonl": "application/x-ndjson",
    "junit.xml": "application/xml",
    "summary.md": "text/markdown",
    "assessment.md": "text/markdown",
    "matrix.md": "text/markdown",
}
"""Files of runs and of series that may be downloaded, with their types."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run or a series in the list."""

    address: str
    """`<scenario>/<UTC time>` or `<kind>/<UTC time>`, by which it is looked up."""
    folder: Path
    name: str
    """The scenario, or the kind of the series."""
    title: str
    """What a recording is of; empty for others, whose name says it."""
    time: str
    kafka: str
    mode: str
    outcome: str
    """The verdict, or the counts of a series, or how far a run has come."""
    headline: Headline
    findings: Sequence[str]
    """Classes of findings, in order."""
    lost: int
    size_bytes: int
    under_way: bool
    series: bool
    judged: bool
    comparable: bool
    """It can be compared with another one of its kind: a judged run, or an assessment."""
    tables: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    """By name, the files of each table, as parts of a path in the run's folder."""

    def shows(self, wanted: Selection) -> bool:
        """Whether a selection includes it."""
        return (
            (not wanted.name or wanted.name.lower() in f"{self.name} {self.title}".lower())
            and wanted.kafka in ("", self.kafka)
            and wanted.verdict in ("", self.outcome)
            and (not wanted.finding or wanted.finding in self.findings)
        )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which entries somebody wants to see; what is empty restricts nothing."""

    name: str = ""
    """Part of the scenario's name, of a recording's title, or of the kind of a series."""
    kafka: str = ""
    verdict: str = ""
    finding: str = ""


class _Judgement(msgspec.Struct):
    findings_by_class: dict[str, int] | None = None


class _Opening(msgspec.Struct):
    tone: Tone
    answer: str


class _Night(msgspec.Struct):
    opening: _Opening


class Shelf:
    """The entries of a folder, read again when they are older than `LISTED_S`. Thread-safe."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self._lock = threading.Lock()
        self._read_s = float("-inf")
        self._entries: dict[str, Entry] = {}
        self._kept: dict[Path, tuple[object, Entry]] = {}
        """Entries that are over, with what their folders looked like (`_look_of`)."""

    def entries(self) -> Mapping[str, Entry]:
        """By address, newest first. Raises UsageError if the folder has vanished."""
        with self._lock:
            if time.monotonic() - self._read_s > LISTED_S:
                now_s = time.time()
                inside = self.runs.resolve()
                folders: dict[Path, Callable[[Path], Entry]] = {
                    **dict.fromkeys(run_folders(self.runs), lambda folder: _of_run(read_run(folder), now_s)),
                    **dict.fromkeys(
                        series_folders(self.runs), lambda folder: _of_series(read_series(folder))
                    ),
                }
                every = [
                    self._entry(folder, read)
                    for folder, read in folders.items()
                    if folder.resolve().is_relative_to(inside)
                ]
                self._kept = {folder: self._kept[folder] for folder in folders if folder in self._kept}
                every.sort(key=lambda entry: (entry.folder.name, entry.series), reverse=True)
                self._entries = {entry.address: entry for entry in every}
                self._read_s = time.monotonic()
            return self._entries

    def entry(self, address: str) -> Entry:
        """The run or series of an address.

        `<kind>/<time>/runs/<name>/<time>` is a run of a series, `compare/<time>/1` a search of a comparison,
        which has runs as well. Raises BadDataError if nothing is stored there.
        """
        entries = self.entries()
        if address in entries:
            return entries[address]
        parts = address.split("/")
        series, inside = entries.get("/".join(parts[:2])), parts[2:]
        run = inside[1:] if inside and inside[0].isdecimal() else inside
        if series is not None and series.series and (not run or (len(run), run[0]) == (3, "runs")):
            folder = series.folder
            for name in inside:
                if name not in _names(folder) or (folder / name).is_symlink():
                    break
                folder = folder / name
            else:
                if run:
                    return replace(_of_run(read_run(folder), time.time()), address=address)
                return replace(_of_series(read_series(folder)), address=address, name="search")
        raise BadDataError("No run is stored under this address; the list shows those that are.")

    def around(self, entry: Entry) -> list[tuple[str, str]]:
        """Words and addresses of links: up to the list or the series, and to the ones before and after."""
        parts = entry.address.split("/")
        links = [("all results", "/")]
        if len(parts) > 2:
            links.append((f"its {KINDS.get(parts[0], parts[0])}", f"/runs/{quote('/'.join(parts[:2]))}/"))
            if parts[2].isdecimal() and len(parts) > 3:
                links.append(("its search", f"/runs/{quote('/'.join(parts[:3]))}/"))
            return links
        alike = [
            one for one in self.entries().values() if one.name == entry.name and one.series == entry.series
        ]
        place = next((at for at, one in enumerate(alike) if one.address == entry.address), None)
        if place is not None:
            before, after = alike[place + 1 : place + 2], alike[max(place - 1, 0) : place]
            links += [(f"← {one.time}", f"/runs/{quote(one.address)}/") for one in before]
            links += [(f"{one.time} →", f"/runs/{quote(one.address)}/") for one in after]
        return links

    def link(self, entry: Entry) -> Callable[[str], str]:
        """From a run folder that a series names to the address of its page; empty if it is not here."""

        def address(run: str) -> str:
            name, time_of = Path(run).parent.name, Path(run).name
            side = Path(run).parents[2].name if len(Path(run).parents) > 2 else ""
            places = [(entry.folder / "runs", f"{entry.address}/runs/"), (self.runs, "")]
            if side.isdecimal() and side in _names(entry.folder):
                places.insert(0, (entry.folder / side / "runs", f"{entry.address}/{side}/runs/"))
            for place, prefix in places:
                if name in _names(place) and time_of in _names(place / name):
                    return f"/runs/{quote(f'{prefix}{name}/{time_of}')}/"
            return ""

        return address

    def state(self) -> str:
        """A text that changes when the list does."""
        return str(
            hash(tuple((one.address, one.outcome, one.headline.text) for one in self.entries().values()))
        )

    def _entry(self, folder: Path, read: Callable[[Path], Entry]) -> Entry:
        """The entry of a folder, read anew unless it is over and looks as it did; asked every second."""
        look = _look_of(folder)
        if look is not None and folder in self._kept and self._kept[folder][0] == look:
            return self._kept[folder][1]
        entry = read(folder)
        if entry.judged:
            self._kept[folder] = look, entry
        return entry


def _of_run(run: StoredRun, now_s: float) -> Entry:
    judged = run.folder / "judgement.json"
    said, findings = _read_judgement(judged) if run.verdict else (Headline("undecided", ""), ())
    under_way = not run.verdict and run.busy(now_s)
    return Entry(
        address=_address(run.folder),
        folder=run.folder,
        name=run.scenario,
        title="" if run.kafka else run.title,
        time=_time(run.folder.name),
        kafka=run.kafka,
        mode=run.mode,
        outcome=run.verdict or ("under way" if under_way else run.status or "not over"),
        headline=said,
        findings=findings,
        lost=run.lost,
        size_bytes=run.size_bytes,
        under_way=under_way,
        series=False,
        judged=bool(run.verdict),
        comparable=bool(run.verdict),
        tables=_tables(run.folder),
    )


def _of_series(series: StoredSeries) -> Entry:
    counts = ", ".join(f"{count} {name}" for name, count in series.outcomes.items())
    ended = f"{series.ended} of {series.planned}" if series.ended < series.planned else str(series.ended)
    return Entry(
        address=_address(series.folder),
        folder=series.folder,
        name=series.kind,
        title="",
        time=_time(series.folder.name),
        kafka=series.kafka,
        mode=series.mode,
        outcome="under way" if series.under_way else series.verdict or counts or "not over",
        headline=_first_sentence(series.folder)
        or Headline("undecided", f"{ended} runs" + (f": {counts}" if counts else "")),
        findings=(),
        lost=0,
        size_bytes=series.size_bytes,
        under_way=series.under_way,
        series=True,
        judged=not series.under_way,
        comparable=(series.folder / ASSESSMENT).is_file(),
    )


def _first_sentence(folder: Path) -> Headline | None:
    """What the page of a series begins with, as far as its document has been written; None: not at all."""
    with suppress(AckedError, msgspec.ValidationError, LookupError, TypeError, ValueError, AttributeError):
        if kind := kind_of(folder):
            opening = kind.opening(kind.read(folder))
            return Headline(opening.tone, opening.answer)
        stored = msgspec.convert(json_file(folder / "night.json"), _Night).opening
        return Headline(stored.tone, stored.answer)
    return None


def selected(entries: Iterable[Entry], wanted: Selection) -> list[Entry]:
    """The entries that a selection includes, in their order."""
    return [entry for entry in entries if entry.shows(wanted)]


def plain_file(entry: Entry, *parts: str) -> Path:
    """A file of an entry's folder, which is no link and lies below no link.

    Raises BadDataError if there is none. ``parts`` come from this program, never from a request.
    """
    place = entry.folder
    for depth, part in enumerate(parts, start=1):
        place = place / part
        with suppress(OSError):
            mode = os.lstat(place).st_mode
            if stat.S_ISREG(mode) if depth == len(parts) else stat.S_ISDIR(mode):
                continue
        raise BadDataError(f"{entry.address} has no file {'/'.join(parts)}.")
    return place


def _tables(run: Path) -> Mapping[str, Sequence[tuple[str, ...]]]:
    stored: dict[str, Sequence[tuple[str, ...]]] = {}
    for at in ((), ("history",)):
        folder = run.joinpath(*at)
        for name in _names(folder):
            if name.endswith(".parquet"):
                inner = sorted(part for part in _names(folder / name) if part.endswith(".parquet"))
                files = [(*at, name, part) for part in inner] or [(*at, name)]
                stored[name.removesuffix(".parquet")] = files
    return dict(sorted(stored.items()))


def _names(folder: Path) -> list[str]:
    if folder.is_symlink() or not folder.is_dir():
        return []
    with suppress(OSError):
        return [entry.name for entry in folder.iterdir()]
    return []


def _look_of(folder: Path) -> object:
    """What changes when somebody writes into a folder that is over, or into a file of it; None: not known."""
    with suppress(OSError), os.scandir(folder) as files:
        return folder.stat().st_mtime_ns, sorted(
            (one.name, one.stat(follow_symlinks=False).st_mtime_ns) for one in files
        )
    return None


def _read_judgement(file: Path) -> tuple[Headline, tuple[str, ...]]:
    with suppress(AckedError, msgspec.ValidationError, TypeError, ValueError, AttributeError):
        judgement = json_file(file)
        classes = msgspec.convert(judgement, _Judgement).findings_by_class or {}
        return headline(judgement), tuple(sorted(classes))
    return Headline("undecided", "The judgement is damaged."), ()


def _address(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def _time(name: str) -> str:
    """A folder's name as a time for people; the name if it is none."""
    with suppress(ValueError):
        parsed = datetime.strptime(name[:19], "%Y-%m-%dT%H-%M-%S").replace(tzinfo=UTC)
        return f"{parsed:%Y-%m-%d %H:%M:%S}"
    return name
