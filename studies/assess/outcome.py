"""The judgement of an assessment: what the stored judgements of its runs add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.partition.fate import LOSSES
from checkers.verdict import VERDICTS
from harness.errors import InvalidRunError, json_file
from run.folder import MANIFEST
from studies.series.summary import RunSummary

_OPEN = ("crashed", "invalid", "unknown")
_TOO_LATE = ("WaitTimeoutError", "TimeoutError", "NoAnswerError", "LostClusterError")
_MOST_FAILURES = 2
_KILLED = "-9"
"""The status of a process that the kernel has ended, which it does if memory runs out."""
_KEPT, _BROKEN, _UNKNOWN = "as declared", "violated", "unknown"


@dataclass(frozen=True, kw_only=True)
class AssessmentOutcome:
    """The verdict of an assessment, and the runs that are not as declared."""

    verdict: str
    """`violated` if a run is; else `unknown` if a run is not judged or undecided, or if there is none."""
    runs: tuple[Mapping[str, Any], ...]
    """Of each run that is not as declared: `case`, `run` (its folder), `verdict` and `reasons`."""

    @property
    def exit_code(self) -> int:
        """The exit code of the verdict."""
        return VERDICTS[self.verdict]


@dataclass(frozen=True, kw_only=True)
class RepeatedFailure:
    """Runs that failed for one reason: further ones would as well."""

    cause: Mapping[str, str]
    """What they have in common (`harness.errors.cause_of`)."""
    runs: tuple[RunSummary, ...]

    def as_json(self) -> dict[str, Any]:
        """As `assessment.json` has it: the cause, the reasons of the last run in full, the run folders."""
        return {
            "cause": dict(self.cause),
            "reasons": list(self.runs[-1].reasons),
            "runs": [run.folder for run in self.runs],
        }

    @property
    def cluster(self) -> str:
        """The folder with the logs of the last run's cluster. Raises BadDataError."""
        folder = Path(self.runs[-1].folder)
        return str(json_file(folder / MANIFEST).get("cluster", folder))

    @property
    def side_by_side_matters(self) -> bool:
        """Whether fewer clusters at once may help: something took too long, or memory ran out."""
        status = self.cause.get("status", "")
        return status == _KILLED or (not status and self.cause.get("error") in _TOO_LATE)


def repeated_failure(runs: Iterable[RunSummary]) -> RepeatedFailure | None:
    """The runs that failed for one reason, if there are two of them: nothing further should start then.

    A run that is *invalid* counts if it failed before its fault, so that something else than the proof of the
    fault did.
    """
    by_cause: dict[object, list[RunSummary]] = {}
    for run in runs:
        if failed(run):
            alike = by_cause.setdefault(tuple(sorted(run.cause.items())), [])
            alike.append(run)
    for alike in by_cause.values():
        if len(alike) >= _MOST_FAILURES:
            return RepeatedFailure(cause=alike[0].cause, runs=tuple(alike))
    return None


def failed(run: RunSummary) -> bool:
    """Whether a run could not be carried out, so that it says nothing about its fault."""
    if run.verdict == "invalid":
        return bool(run.cause) and run.cause.get("error") != InvalidRunError.__name__
    return run.verdict == "crashed"


def lost_by_producer(run: RunSummary) -> dict[str, int]:
    """How many messages each producer setting has lost in a judged run.

    The names of producers end with those of their settings (`studies.assess.load`). Raises BadDataError.
    """
    lost: Counter[str] = Counter()
    for row in json_file(Path(run.folder) / "judgement.json")["fates_by_writer"]:
        lost[str(row["writer_name"]).rpartition("-")[2]] += row["count"] if row["fate"] in LOSSES else 0
    return dict(lost)


def outcome(runs: Sequence[RunSummary]) -> AssessmentOutcome:
    """The outcome of the runs that have ended; runs that this machine cannot carry out do not count."""
    return AssessmentOutcome(verdict=_verdict([run.verdict for run in runs]), runs=tuple(_others(runs)))


def _verdict(verdicts: Sequence[str]) -> str:
    if _BROKEN in verdicts:
        return _BROKEN
    return _KEPT if _KEPT in verdicts and not set(_OPEN) & set(verdicts) else _UNKNOWN


def _others(runs: Sequence[RunSummary]) -> Iterator[Mapping[str, Any]]:
    for run in runs:
        if run.verdict == _BROKEN or run.verdict in _OPEN:
            yield {
                "case": run.scenario,
                "run": run.folder,
                "verdict": run.verdict,
                "reasons": list(run.reasons),
            }
