"""What a series of runs says beside those before it: what is new, what is flaky, what takes longer.

The page of a series, the summary for a CI job and the JUnit XML show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Protocol

from checkers.verdict import VERDICTS
from harness.errors import some
from report.model.model import Tone, counted
from report.model.opening import Opening
from report.series import ReportedJob, ReportedRun, deviations, job_name

NIGHTS = 14
"""How many runs of a case, those of this series included, its rate and its strip of verdicts cover."""
TONES: Mapping[str, Tone] = {
    "as declared": "kept",
    "violated": "broken",
    "unknown": "undecided",
    "invalid": "void",
    "crashed": "void",
    "unfit": "undecided",
}
"""How bad a verdict is for whoever wrote the claims."""
_SLOWER, _SLOWER_S = 1.5, 10.0
_CHANGES = 2
"""A case that has failed since some day, or that was mended, has changed once; a flaky one more often."""


class ReportedDisagreement(Protocol):
    """How the runs of one case differ (`studies.series.summary.Disagreement`)."""

    @property
    def verdicts(self) -> Mapping[str, int]:
        """Runs by verdict."""

    @property
    def claims(self) -> Mapping[str, Mapping[str, int]]:
        """The claims that got different answers: runs by answer."""


@dataclass(frozen=True, kw_only=True)
class CaseRun:
    """A run."""

    name: str
    """Its case: scenario, Kafka version and mode."""
    scenario: str
    mode: str
    verdict: str
    reasons: tuple[str, ...]
    claims: tuple[str, ...]
    """Of each claim that is not as declared: its sentence, what was observed, what was expected."""
    seconds: float
    commit: str
    folder: str

    @property
    def why(self) -> str:
        """The reasons why it is not as declared, in one line."""
        return "; ".join(self.reasons) or "no reason is recorded"


@dataclass(frozen=True, kw_only=True)
class Unsteady:
    """A case with more than one outcome, in this series or over the last ones."""

    name: str
    now: Mapping[str, int]
    """Runs of this series by verdict, if they disagree."""
    claims: Mapping[str, Mapping[str, int]]
    """Claims that got different answers in this series: runs by answer."""
    says: Mapping[str, str]
    """The sentences of such claims, as far as they are known."""
    failed: int
    of: int
    """How many of the last runs were judged or failed, and how many of these were not as declared."""


@dataclass(frozen=True, kw_only=True)
class Slower:
    """A case that takes longer than it did."""

    name: str
    seconds: float
    usual_s: float
    """The median of its runs in earlier series."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The runs of one scenario on one Kafka version in one mode."""

    name: str
    runs: int
    strip: tuple[tuple[str, str], ...]
    """Day and verdict of its last runs, this series' last."""
    lost: tuple[int, int] | None
    """The least and the most messages of the runs that were judged; None: none was."""
    duplicated: tuple[int, int] | None
    seconds: tuple[float, ...]
    """Of the same runs as the strip."""


@dataclass(frozen=True, kw_only=True)
class PlannedCase:
    """A case of which runs were planned and did not take place."""

    name: str
    mode: str
    runs: int


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What a series says beside those before it."""

    kind: str
    """`night` or `matrix`."""
    time: str
    """That of its folder; empty for several series."""
    runs: tuple[CaseRun, ...]
    """In the order in which they ended."""
    worst: str
    """The worst verdict."""
    counts: Mapping[str, int]
    """Runs by verdict, the worst first."""
    compared: int
    """How many runs of earlier series there are to compare with; 0: nothing can be new."""
    new: tuple[CaseRun, ...]
    """Failures of cases whose last run before was as declared, or that had not run before."""
    old: tuple[CaseRun, ...]
    """Failures of cases that had failed in their last run before."""
    again: tuple[str, ...]
    """Cases that failed in their last run before and are as declared now."""
    unsteady: tuple[Unsteady, ...]
    slower: tuple[Slower, ...]
    """The most by which a case takes longer first."""
    not_run: tuple[PlannedCase, ...]
    """Planned runs that did not take place."""
    unfit: tuple[CaseRun, ...]
    """Runs that their cluster or version cannot carry out."""
    cases: tuple[Case, ...]
    """By name."""


@dataclass(frozen=True, kw_only=True)
class Night(_Told):
    """A series, beside those before it."""

    opening: Opening

    def as_json(self) -> dict[str, Any]:
        """The night as plain values."""
        return asdict(self)


def night_of(
    runs: Sequence[ReportedRun],
    flaky: Mapping[Any, ReportedDisagreement],
    *,
    not_run: Sequence[ReportedJob] = (),
    earlier: Sequence[ReportedRun] = (),
    kind: str = "night",
    time: str = "",
) -> Night:
    """The model of a series.

    ``flaky`` has the jobs whose runs disagree; ``earlier`` are runs of other series, oldest first, of which
    those of this series, and those that ended later, do not count.
    """
    before = by_case(_before(runs, earlier))
    now = by_case(runs)
    failed = [run for run in runs if _failed(run)]
    new = [run for run in failed if not any(map(_failed, before.get(job_name(run), [])[-1:]))]
    again = [name for name, of in now.items() if _passed_again(of, before.get(name, []))]
    worst_verdict = max((run.verdict for run in runs), key=_badness, default="unknown")
    counts = Counter(run.verdict for run in runs)
    compared = sum(map(len, before.values()))
    told = _Told(
        kind=kind,
        time=time,
        runs=tuple(map(_run, runs)),
        worst=worst_verdict,
        counts={verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        compared=compared,
        new=tuple(map(_run, new)),
        old=tuple(_run(run) for run in failed if run not in new),
        again=tuple(again),
        unsteady=tuple(_unsteady(now, before, flaky)),
        slower=tuple(sorted(_slower(now, before), key=lambda one: one.usual_s - one.seconds)),
        not_run=tuple(
            PlannedCase(name=name, mode=mode, runs=count)
            for (name, mode), count in Counter((job_name(job), job.mode) for job in not_run).items()
        ),
        unfit=tuple(_run(run) for run in runs if run.verdict == "unfit"),
        cases=tuple(_case(name, now[name], before.get(name, [])) for name in sorted(now)),
    )
    ended = max((run.ended for run in runs), default="")
    return Night(opening=_opening(told, ended), **vars(told))


def by_case(runs: Iterable[ReportedRun]) -> dict[str, list[ReportedRun]]:
    """Runs by the name of their case, in their order."""
    cases: dict[str, list[ReportedRun]] = {}
    for run in runs:
        cases.setdefault(job_name(run), []).append(run)
    return cases


def _before(runs: Sequence[ReportedRun], earlier: Sequence[ReportedRun]) -> Iterator[ReportedRun]:
    own = {(job_name(run), run.ended) for run in runs if run.ended}
    last = max((run.ended for run in runs), default="")
    for run in earlier:
        if (job_name(run), run.ended) not in own and (not last or run.ended <= last):
            yield run


def _opening(told: _Told, ended: str) -> Opening:
    planned = sum(one.runs for one in told.not_run)
    when = f"ended {ended.replace('T', ' ').replace('+00:00', ' UTC')}" if ended else ""
    which = ", ".join(filter(None, (f"{told.kind} {told.time}" if told.time else "", when)))
    sure = [f"{counted(len(told.runs), 'run')}{f'; {planned} planned and not run' if planned else ''}."]
    sure.append(
        f"Compared with {counted(told.compared, 'run')} of earlier series."
        if told.compared
        else "There is no earlier series to compare with."
    )
    if told.unsteady:
        sure.append(f"{counted(len(told.unsteady), 'case')} had more than one outcome.")
    cases = len(told.cases)
    asked = "Does the case" if cases == 1 else f"Does each of {cases} cases"
    return Opening(
        kind=told.kind,
        tone=TONES.get(told.worst, "undecided"),
        word=told.worst,
        answer=" ".join(_answer(told)),
        asked=f"{asked} turn out as declared?{f' ({which})' if which else ''}",
        sure=" ".join(sure),
        more=[("all runs", "#runs"), ("the runs as data", "runs.jsonl")],
    )


_ENDINGS = (
    (("violated",), "fails", "fail"),
    (("unknown",), "is not decided", "are not decided"),
    (("invalid", "crashed"), "has no result", "have no result"),
)
"""What came of cases that are not as declared: only those that are violated have failed."""


def _answer(told: _Told) -> Iterator[str]:
    """What is new first."""
    if not told.runs:
        yield "Nothing was run."
        return
    for runs, before in ((told.new, False), (told.old, True)):
        for verdicts, one, several in _ENDINGS:
            names = list(dict.fromkeys(run.name for run in runs if run.verdict in verdicts))
            if names:
                were = "was" if len(names) == 1 else "were"
                since = ", as before" if before else f" that {were} as declared before" * bool(told.compared)
                yield f"{_cases(len(names), one, several)}{since}: {some(names, 3)}."
    if told.compared and not told.new:
        yield "Nothing is new."
    if told.again:
        yield f"{_cases(len(told.again), 'is', 'are')} as declared again: {some(told.again, 3)}."
    left_out = {one.name for one in (*told.new, *told.old, *told.unfit)}
    good = len(told.cases) - len(left_out)
    rest = " other" if told.new or told.old else ""
    if good:
        yield f"{f'{good}{rest} cases are' if good > 1 else f'One{rest} case is'} as declared."


def _cases(count: int, one: str, several: str) -> str:
    return f"One case {one}" if count == 1 else f"{count} cases {several}"


def _badness(verdict: str) -> int:
    order = list(VERDICTS)
    return -order.index(verdict) if verdict in order else 1


def _failed(run: ReportedRun) -> bool:
    return run.verdict not in ("as declared", "unfit")


def _run(run: ReportedRun) -> CaseRun:
    return CaseRun(
        name=job_name(run),
        scenario=run.scenario,
        mode=run.mode,
        verdict=run.verdict,
        reasons=tuple(run.reasons),
        claims=tuple(deviations(run)),
        seconds=run.seconds,
        commit=run.commit,
        folder=run.folder,
    )


def _passed_again(runs: Sequence[ReportedRun], before: Sequence[ReportedRun]) -> bool:
    """Whether a case whose last run in an earlier series failed is now as declared in every run."""
    return any(map(_failed, before[-1:])) and all(run.verdict == "as declared" for run in runs)


def _unsteady(
    now: Mapping[str, Sequence[ReportedRun]],
    before: Mapping[str, Sequence[ReportedRun]],
    flaky: Mapping[Any, ReportedDisagreement],
) -> Iterator[Unsteady]:
    """Those that disagree in this series first, then those that fail most often."""
    disagreeing = {job_name(job): how for job, how in flaky.items()}
    found = []
    for name, runs in now.items():
        last = [run for run in (*before.get(name, ()), *runs) if run.verdict != "unfit"][-NIGHTS:]
        failed = sum(map(_failed, last))
        how = disagreeing.get(name)
        changes = sum(_failed(one) != _failed(other) for one, other in pairwise(last))
        if how is None and changes < _CHANGES:
            continue
        claims = how.claims if how is not None else {}
        found.append(
            Unsteady(
                name=name,
                now=dict(how.verdicts) if how is not None else {},
                claims=claims,
                says={claim: text for run in runs for claim, text in run.says.items() if claim in claims},
                failed=failed,
                of=len(last),
            )
        )
    yield from sorted(found, key=lambda one: (not one.now, -one.failed / max(one.of, 1), one.name))


def _slower(
    now: Mapping[str, Sequence[ReportedRun]], before: Mapping[str, Sequence[ReportedRun]]
) -> Iterator[Slower]:
    for name, runs in now.items():
        usual = [run.seconds for run in before.get(name, ())[-NIGHTS:] if run.judged]
        own = [run.seconds for run in runs if run.judged]
        if usual and own:
            seconds, usual_s = max(own), float(median(usual))
            if seconds > max(_SLOWER * usual_s, usual_s + _SLOWER_S):
                yield Slower(name=name, seconds=seconds, usual_s=usual_s)


def _case(name: str, runs: Sequence[ReportedRun], before: Sequence[ReportedRun]) -> Case:
    judged = [run for run in runs if run.judged]
    last = [*before, *runs][-NIGHTS:]
    return Case(
        name=name,
        runs=len(runs),
        strip=tuple((run.ended[:10], run.verdict) for run in last),
        lost=_span([run.lost for run in judged]),
        duplicated=_span([run.duplicated for run in judged]),
        seconds=tuple(run.seconds for run in last),
    )


def _span(values: Sequence[int]) -> tuple[int, int] | None:
    return (min(values), max(values)) if values else None
