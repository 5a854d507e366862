"""Carries out one schedule again and again, to measure how often a finding comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from harness.cluster.settings import NO_SETTINGS, Settings
from harness.errors import DAMAGED, BadDataError, UsageError, json_file
from run.folder import RunFolder
from studies.search.findings import RunFinding, findings_of, is_judged, select, weightiest
from studies.search.rates import Decision, Sequential, wilson
from studies.search.rules import read
from studies.search.runs import thin
from studies.search.schedule import FILE, Schedule
from studies.series.fleet import Fleet, JudgedRun
from studies.series.job import Job


@dataclass(frozen=True, kw_only=True)
class RepeatedSchedule:
    """A schedule to repeat, and what it showed."""

    schedule: Schedule
    finding: RunFinding | None
    """What is to come back; None: the schedule comes without a run."""
    folder: Path | None = None
    """The run that it is from."""


def source_of(path: Path, signature_part: str = "") -> RepeatedSchedule:
    """The schedule of a run folder or of a file, and the finding to look for.

    The finding is the one whose signature contains ``signature_part``, or else the most important one. Raises
    BadDataError, and UsageError if the run does not have the wanted finding.
    """
    if path.is_file() or path.suffix == ".json":
        return RepeatedSchedule(schedule=read(path), finding=None)
    folder = RunFolder.open(path).path
    schedule = read(folder / FILE)
    if not is_judged(folder):
        raise BadDataError(f"{path} is not judged; judge it with `acked check {path}`.")
    if not (folder / "history").is_dir():
        return RepeatedSchedule(schedule=schedule, finding=None, folder=folder)
    findings = findings_of(folder, schedule)
    if not signature_part:
        return RepeatedSchedule(schedule=schedule, finding=weightiest(findings), folder=folder)
    chosen = next(select(findings, signature_part), None)
    if chosen is None:
        shown = "; ".join(one.signature for one in findings) or "nothing"
        raise UsageError(f"--finding {signature_part!r}: {path} found {shown}; name a part of one of these.")
    return RepeatedSchedule(schedule=schedule, finding=chosen, folder=folder)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a schedule ran, or is meant to run."""

    kafka: str
    mode: str
    settings: Settings = NO_SETTINGS
    cluster_file: Path | None = None
    client: str = ""


class _PlaceRecord(msgspec.Struct):
    """What `run.json` keeps of a run's place and job (`studies.series.fleet`)."""

    kafka: str | None = None
    settings: Settings | None = None
    cluster_file: str | None = None
    client: str | None = None


class _Manifest(msgspec.Struct):
    mode: str | None = None
    place: _PlaceRecord | None = None


def origin_of(source: RepeatedSchedule) -> Origin:
    """Where the schedule ran; for a file without a run, where it was made to run. Raises BadDataError."""
    schedule = source.schedule
    if source.folder is None:
        return Origin(kafka=schedule.kafka, mode=schedule.mode)
    file = source.folder / "run.json"
    try:
        manifest = msgspec.convert(json_file(file), _Manifest)
    except msgspec.ValidationError as error:
        raise BadDataError(f"{file} is malformed ({error}); {DAMAGED}.") from error
    kept = manifest.place or _PlaceRecord()
    return Origin(
        kafka=kept.kafka or schedule.kafka,
        mode=manifest.mode or schedule.mode,
        settings=kept.settings or NO_SETTINGS,
        cluster_file=Path(kept.cluster_file) if kept.cluster_file else None,
        client=kept.client or "",
    )


@dataclass(kw_only=True)
class Tally:
    """How often a finding came back so far."""

    hits: int = 0
    runs: int = 0
    """Runs that were judged."""
    unjudged: int = 0
    decision: Decision = ""
    findings: dict[str, RunFinding] = field(default_factory=dict)
    """An example of each signature."""
    counts: Counter[str] = field(default_factory=Counter)
    """Runs by signature."""
    shown: Path | None = None
    """A run that showed it."""

    def add(self, ended: JudgedRun[RunFinding], kind: str) -> bool:
        """Count a run. Returns whether it showed the kind of finding, or that essence."""
        if not ended.summary.judged:
            self.unjudged += 1
            return False
        self.runs += 1
        for one in ended.findings:
            self.findings.setdefault(one.signature, one)
            self.counts[one.signature] += 1
        hit = any(kind in (one.kind, one.essence) for one in ended.findings)
        self.hits += hit
        if hit:
            self.shown = ended.folder
        return hit

    def document(self, kind: str) -> dict[str, object]:
        """The tally as data."""
        low, high = wilson(self.hits, self.runs)
        return {
            "finding": kind,
            "hits": self.hits,
            "runs": self.runs,
            "not_judged": self.unjudged,
            "rate": self.hits / self.runs if self.runs else None,
            "interval": [low, high],
            "decision": self.decision or "undecided",
            "run": str(self.shown or ""),
            "findings": [
                {
                    "signature": name,
                    "weight": self.findings[name].weight,
                    "runs": count,
                    "interval": list(wilson(count, self.runs)),
                    "example": msgspec.to_builtins(self.findings[name]),
                }
                for name, count in self.counts.most_common()
            ],
        }


def repeat(
    fleet: Fleet[RunFinding],
    job: Job,
    *,
    parallel: int,
    most: int,
    enough: Callable[[Tally], bool],
    kind: str = "",
    ended: Callable[[JudgedRun[RunFinding], bool, Tally], None] = lambda ended, hit, tally: None,
    keep: bool = True,
) -> Tally:
    """Carry out the schedule of a job up to ``most`` times, until it is ``enough``.

    Runs of jobs with another number, which an earlier call has begun, may still be under way: these do not
    count. Without ``keep``, runs that do not show the kind of finding are thinned.
    """
    tally = Tally()
    begun = 0
    while tally.runs + tally.unjudged < most and not enough(tally):
        while begun < most and begun - tally.runs - tally.unjudged < parallel:
            fleet.submit(job)
            begun += 1
        run = fleet.next()
        if run is None or run.job.number != job.number:
            continue
        hit = tally.add(run, kind)
        if run.summary.judged and not hit and not keep:
            thin(run.folder)
        ended(run, hit, tally)
    fleet.forget_waiting()
    return tally


def until_decided(test: Sequential | None = None) -> Callable[[Tally], bool]:
    """A test for ``enough``: true when a sequential test decides. The tally gets the decision."""
    chosen = test or Sequential()

    def enough(tally: Tally) -> bool:
        tally.decision = chosen.decide(tally.hits, tally.runs)
        return tally.decision != ""

    return enough
