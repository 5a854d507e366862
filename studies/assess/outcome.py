"""The judgement of an assessment: what the stored judgements of its runs add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.verdict import VERDICTS
from studies.series.summary import RunSummary

_OPEN = ("crashed", "invalid", "unknown")
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


class CrashWatch:
    """Two runs in a row that crash: the next ones would as well, so nothing further should start."""

    _MOST = 2

    def __init__(self) -> None:
        self._in_a_row: list[RunSummary] = []

    def ended(self, run: RunSummary) -> None:
        """Take note of how a run ended."""
        self._in_a_row = [*self._in_a_row, run] if run.verdict == "crashed" else []

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why they crashed, each reason once; empty as long as runs may start."""
        if len(self._in_a_row) < self._MOST:
            return ()
        return tuple(dict.fromkeys("; ".join(run.reasons) for run in self._in_a_row))


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
