"""The record of one run in a series (a line of `runs.jsonl`), and what several runs add up to."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from checkers.verdict import NOT_JUDGED, VERDICTS, worst
from harness.errors import BadDataError, UsageError, json_object, shortened
from harness.kafka.versions import version_key
from studies.series.job import Job
from studies.series.plan import version_order

FILE = "runs.jsonl"


AS_SAID, OTHERWISE = "as said", "otherwise"
"""Which of the two outcomes that a claim allows occurred: its own, or the other one (`Claim.either`)."""


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The result of one run. Counts are messages; ``version`` may name a protocol: `2.7.1@2.6`."""

    scenario: str
    version: str
    mode: str
    verdict: str
    lost: int = 0
    duplicated: int = 0
    moved: int = 0
    kept: int = 0
    findings: Mapping[str, int] = field(default_factory=dict)
    """Findings about transactions and groups, by class (`checkers.verdict.TRANSACTIONS_AND_GROUPS`)."""
    seconds: float = 0.0
    """Wall time of the run, without its judgement."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """Status of each claim's own words (not of its erratum), by name."""
    observed: Mapping[str, str] = field(default_factory=dict)
    """What was observed for each claim, by name."""
    says: Mapping[str, str] = field(default_factory=dict)
    """The sentence of each claim that is not as declared, by name."""
    expected: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of the same claims: the sentences of which the scenario expects one to be true."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """Of each claim that allows a second outcome and is confirmed: `AS_SAID` or `OTHERWISE`."""
    reasons: tuple[str, ...] = ()
    cause: Mapping[str, str] = field(default_factory=dict)
    """Why the run failed, as `harness.errors.cause_of` has it, the same for all that fail for one reason."""
    folder: str = ""
    ended: str = ""
    """UTC, to the second."""
    client: str = ""
    """The client library of producers and consumers; empty: librdkafka."""
    commit: str = ""
    """The commit of acked that ran it, if it is known."""

    @property
    def job(self) -> Job:
        """The job that was run."""
        return Job(scenario=self.scenario, version=self.version, mode=self.mode, client=self.client)

    @property
    def judged(self) -> bool:
        """Whether the run says anything about Kafka."""
        return self.verdict not in NOT_JUDGED

    @property
    def claim_counts(self) -> tuple[int, int, int]:
        """Claims confirmed, refuted (even if an erratum predicts it), and left open."""
        states = Counter(self.claims.values())
        yes, no = states["confirmed"], states["refuted"]
        return yes, no, len(self.claims) - yes - no


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What several runs add up to; pairs are the least and the most of the runs that were judged."""

    runs: int
    verdicts: Mapping[str, int]
    """How many runs had each verdict, in the order in which the verdicts first occurred."""
    worst: str
    claims: tuple[tuple[int, int, int], ...]
    """The different `RunSummary.claim_counts`, sorted; empty if no run was judged."""
    lost: tuple[int, int] = (0, 0)
    duplicated: tuple[int, int] = (0, 0)
    moved: tuple[int, int] = (0, 0)
    findings: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By class; classes that no run has are left out."""
    seconds: tuple[int, int] = (0, 0)


def add_up(runs: Sequence[RunSummary]) -> Totals:
    """Totals of some runs."""
    judged = [run for run in runs if run.judged]
    ranges = {}
    classes = sorted({name for run in judged for name in run.findings})
    if judged:
        ranges = {
            "lost": _range(run.lost for run in judged),
            "duplicated": _range(run.duplicated for run in judged),
            "moved": _range(run.moved for run in judged),
            "seconds": _range(round(run.seconds) for run in judged),
        }
    return Totals(
        runs=len(runs),
        verdicts=Counter(run.verdict for run in runs),
        worst=worst(run.verdict for run in runs),
        claims=tuple(sorted({run.claim_counts for run in judged})),
        findings={name: _range(run.findings.get(name, 0) for run in judged) for name in classes},
        **ranges,
    )


def _range(values: Iterable[int]) -> tuple[int, int]:
    ordered = sorted(values)
    return ordered[0], ordered[-1]


@dataclass(frozen=True)
class Grid:
    """Totals by scenario, metadata mode (with the client, where one was named) and Kafka version."""

    versions: tuple[str, ...]
    """Oldest first."""
    lines: Mapping[tuple[str, str], Mapping[str, Totals]]
    """Totals by version, of each scenario and mode, sorted."""


def grid(runs: Sequence[RunSummary]) -> Grid:
    """Totals of some runs, as a table of versions."""
    cells: dict[tuple[str, str], dict[str, Totals]] = {}
    jobs = by_job(runs)
    for job in sorted(jobs, key=lambda job: (job.scenario, job.mode, job.client)):
        mode = f"{job.mode}, {job.client}" if job.client else job.mode
        cells.setdefault((job.scenario, mode), {})[job.version] = add_up(jobs[job])
    return Grid(tuple(sorted({run.version for run in runs}, key=version_order)), cells)


def by_job(runs: Iterable[RunSummary]) -> dict[Job, list[RunSummary]]:
    """Runs of each job, in the order in which they first ended."""
    runs_by_job: dict[Job, list[RunSummary]] = {}
    for run in runs:
        runs_by_job.setdefault(run.job, []).append(run)
    return runs_by_job


def by_scenario(runs: Iterable[RunSummary]) -> dict[str, list[RunSummary]]:
    """Runs of each scenario, in the order in which they first ended."""
    runs_by_scenario: dict[str, list[RunSummary]] = {}
    for run in runs:
        runs_by_scenario.setdefault(run.scenario, []).append(run)
    return runs_by_scenario


def seconds_by_job(runs: Iterable[RunSummary]) -> dict[Job, float]:
    """How long each job took when it last ran and was judged, in seconds of wall time."""
    return {run.job: run.seconds for run in runs if run.judged}


@dataclass(frozen=True)
class Disagreement:
    """How the runs of one job differ: runs by verdict, and the claims that got different answers."""

    verdicts: Mapping[str, int]
    claims: Mapping[str, Mapping[str, int]]
    """By name of the claim: how many runs gave each answer."""


def flaky(runs: Iterable[RunSummary]) -> dict[Job, Disagreement]:
    """Jobs whose runs ended in more than one verdict, or gave different answers to a claim."""
    disagreements: dict[Job, Disagreement] = {}
    for job, of_job in by_job(runs).items():
        verdicts = Counter(run.verdict for run in of_job)
        answers: dict[str, Counter[str]] = {}
        for run in of_job:
            for name, status in run.claims.items() if run.judged else ():
                answers.setdefault(name, Counter())[status] += 1
        differing = {name: dict(counts) for name, counts in answers.items() if len(counts) > 1}
        if len(verdicts) > 1 or differing:
            disagreements[job] = Disagreement(verdicts, differing)
    return disagreements


def same_claims(runs: Iterable[RunSummary]) -> bool:
    """Whether all runs that were judged agree on the status of every claim."""
    return len({tuple(sorted(run.claims.items())) for run in runs if run.judged}) <= 1


def outcome_counts(runs: Iterable[RunSummary]) -> dict[str, dict[str, int]]:
    """How many runs had each outcome of a claim that allows two, by name of the claim.

    Runs whose rows do not say it, as those of earlier releases, do not count.
    """
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for name, outcome in run.outcomes.items() if run.judged else ():
            counts.setdefault(name, Counter())[outcome] += 1
    return {name: dict(sorted(counts[name].items())) for name in sorted(counts)}


def same_at_the_end(runs: Iterable[RunSummary]) -> int:
    """How many of the latest runs in a row had the verdict and the claims of the very last run."""
    last_first = sorted(runs, key=lambda run: run.ended, reverse=True)
    outcomes = [(run.verdict, dict(run.claims)) for run in last_first]
    return next((n for n, outcome in enumerate(outcomes) if outcome != outcomes[0]), len(outcomes))


def append(file: Path, run: RunSummary) -> None:
    """Add a line; an interruption cannot damage the lines before it."""
    with file.open("a+b") as lines:
        end = lines.seek(0, os.SEEK_END)
        lines.seek(max(0, end - 1))
        if lines.read(1) not in (b"", b"\n"):  # half a line is left where a series was killed
            lines.seek(0)
            lines.truncate(lines.read().rfind(b"\n") + 1)
        lines.write((json.dumps(asdict(run)) + "\n").encode())


def read_summaries(files: Iterable[Path]) -> list[RunSummary]:
    """Runs of all files, each once. A last line without a newline was being written and is left out.

    Raises BadDataError with file and line.
    """
    by_run: dict[tuple[Job, str, str], RunSummary] = {}
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadDataError(f"{file} cannot be read ({error}); it should hold a line per run.") from error
        *lines, _ = text.split("\n")
        for number, line in enumerate(lines, 1):
            run = _parse(line, f"{file}, line {number}")
            by_run[(run.job, run.folder, run.ended)] = run
    return list(by_run.values())


def _parse(line: str, place: str) -> RunSummary:
    values = json_object(line, place, "correct or remove the line")
    fields: dict[str, Any] = {}
    for name, (kind, fits) in _COLUMNS.items():
        if name in values:
            if not fits(values[name]):
                value = shortened(json.dumps(values[name]), 40)
                raise BadDataError(f"{place}: {name} is {value}, not {kind}; correct or remove the line.")
            fields[name] = values[name]
        elif name in _REQUIRED:
            raise BadDataError(f"{place} lacks {name!r}; correct or remove the line.")
    return RunSummary(**{**fields, "reasons": tuple(fields.get("reasons", ()))})


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_version(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(version_key(value))
    except UsageError:
        return False


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_named_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _are_named_lists(value: object) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _are_named_counts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


_TEXT = ("a string", _is_text)
_COUNT = ("a number of messages", _is_count)
_STATUSES = ("an object of strings", _are_named_texts)
_COLUMNS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "scenario": _TEXT,
    "version": ("a Kafka version", _is_version),
    "mode": _TEXT,
    "verdict": (f"one of {', '.join(VERDICTS)}", lambda value: _is_text(value) and value in VERDICTS),
    "lost": _COUNT,
    "duplicated": _COUNT,
    "moved": _COUNT,
    "kept": _COUNT,
    "findings": ("an object of numbers", _are_named_counts),
    "seconds": ("a number of seconds", _is_seconds),
    "claims": _STATUSES,
    "observed": _STATUSES,
    "says": _STATUSES,
    "expected": ("an object of lists of strings", _are_named_lists),
    "outcomes": _STATUSES,
    "reasons": ("a list of strings", _are_texts),
    "cause": _STATUSES,
    "folder": _TEXT,
    "ended": _TEXT,
    "client": _TEXT,
    "commit": _TEXT,
}
"""What each column of a line holds: in words, and as a test. Columns not listed here are ignored."""
_REQUIRED = ("scenario", "version", "mode", "verdict")
