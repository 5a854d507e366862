"""`acked assess`: what each fault would cost a described cluster."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import (
    BuildOptions,
    Parallel,
    PlaceOptions,
    Repeat,
    SettingOptions,
)
from harness.console import Console, Progress, echo
from harness.errors import StoppedError, UsageError
from harness.kafka.versions import DEFAULT

if TYPE_CHECKING:
    from harness.cluster.settings import Settings
    from run.settings import AppliedSettings
    from studies.assess.battery import Case
    from studies.assess.series import Assessment, AssessmentPlan, Target
    from studies.series.budget import Budget
    from studies.series.job import Job
    from studies.series.summary import RunSummary


@dataclass(frozen=True, kw_only=True)
class CaseOptions:
    """Which faults are injected, and for how long."""

    faults: Annotated[
        str | None, typer.Option(help="Run the faults whose names match one of these globs (a,b).")
    ] = None
    topics: Annotated[
        str | None,
        typer.Option(help="Assess the described topics whose names match one of these globs (a,b)."),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="<time>",
            help="Run the most telling faults first, as many as fit into this time (90s, 20m, 1h).",
        ),
    ] = None
    repeat: Repeat = 1


@dataclass(frozen=True, kw_only=True)
class AssessTargetOptions:
    """The version and mode of the cluster to assess."""

    kafka: Annotated[str | None, typer.Option(help="Kafka version. Default: the file's, else 2.7.1.")] = None
    mode: Annotated[
        str | None, typer.Option(help="zookeeper, kraft or kraft-combined. Default: the file's.")
    ] = None


def assess(
    cluster: Annotated[
        Path | None, typer.Argument(help="Cluster file (TOML). Default: three AZs with one broker each.")
    ] = None,
    *,
    cases: CaseOptions,
    list_only: Annotated[bool, typer.Option("--list", help="Show the faults, and run none.")] = False,
    queries: Annotated[bool, typer.Option("--queries", help="Show the SQL of every number.")] = False,
    target: AssessTargetOptions,
    settings: SettingOptions,
    build: BuildOptions,
    parallel: Parallel = 0,
    resume: Annotated[
        Path | None, typer.Option(help="Continue an interrupted assessment: its folder, runs/assess/<time>.")
    ] = None,
    place: PlaceOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the assessment as JSON.")] = False,
) -> None:
    """Find out what each fault would cost a cluster.

    Injects a battery of faults into the described cluster, one run each, with
    the controller inside and outside of the fault. The table says fault by
    fault what was lost, duplicated and out of order, how long each AZ could
    neither write nor read, and what an operator had to do.

    The folder runs/assess/<time> keeps it as `assessment.json` and
    `assessment.md`, with the runs.

    Exit code: 1 if a promise of Kafka was broken or something happened that
    no fault explains, 2 if a run was not judged or left a promise undecided,
    else 0. The pages of the runs and `assessment.json` say the same.
    """
    from studies.assess.measure import QUERIES
    from studies.assess.series import Assessment
    from studies.series.budget import Budget, parse_duration

    if queries:
        for name, text in QUERIES.items():
            echo(f"-- {name}\n{text};\n")
        return
    progress = Progress(quiet=as_json)
    given = settings.read()
    budget = Budget() if cases.budget is None else Budget(parse_duration("--budget", cases.budget))
    if resume is not None:
        defaults = (CaseOptions(), AssessTargetOptions(), BuildOptions())
        if cluster or given or (cases, target, build) != defaults:
            raise UsageError(
                "--resume continues an assessment as it was planned; leave the other options out."
            )
        work = Assessment.resume(resume)
    else:
        planned = _Request.read(cluster, cases, target, given, build, place.lab, progress)
        if list_only:
            planned.show(as_json=as_json)
            return
        work = Assessment.create(place.runs, planned.plan(parallel, budget, progress), cluster)
    raise typer.Exit(_carry_out(work, parallel, progress, budget=budget, as_json=as_json))


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What the options ask for, before anything starts."""

    target: Target
    cases: Sequence[Case]
    misfits: Mapping[str, str]
    """Names of the cases that this machine cannot run, and why."""
    applied: AppliedSettings
    header: Mapping[str, str]
    lab: str
    repeat: int

    @classmethod
    def read(
        cls,
        cluster: Path | None,
        options: CaseOptions,
        described: AssessTargetOptions,
        settings: Settings,
        build: BuildOptions,
        lab: str,
        progress: Progress,
    ) -> _Request:
        """Raises UsageError."""
        from harness.cluster.cluster_file import read_cluster_file
        from studies.assess import battery as faults_of
        from studies.assess.described import only_topics
        from studies.assess.series import describe, header_of, understood, unfit

        file = read_cluster_file(cluster) if cluster else None
        version = build.version(described.kafka, (file and file.kafka) or DEFAULT, progress.say)
        target = describe(file, version, described.mode or "", settings, force=build.force)
        if options.topics is not None:
            globs = [glob.strip() for glob in options.topics.split(",")]
            target = replace(target, settings=only_topics(target.settings, globs))
        cases = faults_of.battery(target.topology, target.mode)
        if options.faults is not None:
            cases = faults_of.select(cases, [glob.strip() for glob in options.faults.split(",")])
        applied = understood(target, cases[0], lab)
        return cls(
            target=target,
            cases=cases,
            misfits=unfit(cases),
            applied=applied,
            header=header_of(target, applied),
            lab=lab,
            repeat=options.repeat,
        )

    def plan(self, parallel: int, budget: Budget, progress: Progress) -> AssessmentPlan:
        """The plan, with the cases that the budget allows. Raises UsageError, UnfitError."""
        from studies.assess.battery import within_budget
        from studies.assess.series import AssessmentPlan, check, seconds, timings
        from studies.series.capacity import side_by_side

        target = self.target
        for sentence in self.applied.warnings:
            progress.say(sentence)
        check(target, self.cases[0], self.lab, progress.say)
        fitting = [case for case in self.cases if case.name not in self.misfits]
        chosen = fitting
        if math.isfinite(budget.seconds):
            times = timings(target.settings, target.mode)
            at_once = parallel or side_by_side(target.topology)
            chosen = list(
                within_budget(
                    fitting, lambda case: seconds(case, target.topology, times), budget.seconds, at_once
                )
            )
        return AssessmentPlan(
            cases=tuple(case.name for case in chosen),
            version=target.version.label,
            mode=target.mode,
            lab=self.lab,
            settings=target.settings.as_json(),
            repeat=self.repeat,
            cluster=target.file is not None,
            left_out=tuple(case.name for case in fitting if case not in chosen),
            unfit=self.misfits,
            header=self.header,
        )

    def show(self, *, as_json: bool) -> None:
        """Print what would be assessed: the cluster, topics, producers and settings, and the faults."""
        if as_json:
            faults = [
                {
                    "case": case.name,
                    "says": case.says,
                    "controller": case.roles,
                    "unfit": self.misfits.get(case.name),
                    "stands_for": case.stands_for,
                }
                for case in self.cases
            ]
            echo(json.dumps({"header": self.header, "faults": faults}, indent=2))
            return
        width = max(map(len, self.header))
        for label, text in self.header.items():
            echo(f"{label:{width}}  {text}")
        echo("")
        for case in self.cases:
            echo(f"{case.name:45}  {case.says}; controller {case.roles}")
            if case.name in self.misfits:
                echo(f"    unfit: {self.misfits[case.name]}")
            if case.stands_for:
                echo(f"    stands for {', '.join(case.stands_for)}")
        echo("\nFaults of single nodes hit the first node of each kind.")


class _Pace:
    """How long runs take on this machine now, compared with the estimate."""

    def __init__(self, expected: Mapping[str, float]) -> None:
        self._expected = expected
        self._planned_s = self._real_s = 0.0
        self.runs = 0

    def add(self, run: RunSummary) -> None:
        self.runs += 1
        self._real_s += run.seconds
        self._planned_s += self._expected[run.scenario]

    def seconds(self, case: str) -> float:
        pace = self._real_s / self._planned_s if self._planned_s else 1.0
        return self._expected[case] * pace


def _carry_out(work: Assessment, parallel: int, progress: Progress, *, budget: Budget, as_json: bool) -> int:
    from report import assessment as report
    from report.series import number_of_runs
    from studies.assess.outcome import CrashWatch
    from studies.assess.series import seconds
    from studies.series.capacity import side_by_side

    topology, cases = work.topology(), work.cases()
    at_once = parallel or side_by_side(topology)
    left = work.left()
    expected = {name: seconds(case, topology, work.timings()) for name, case in cases.items()}
    about = sum(expected[job.scenario] for job in left) / at_once
    progress.say(
        f"{number_of_runs(len(left))}, {at_once} side by side, about {about / 60:.0f} min; "
        f"{work.series.path} keeps them"
    )
    pace = _Pace(expected)
    crashes = CrashWatch()

    def ended(run: RunSummary) -> None:
        pace.add(run)
        crashes.ended(run)
        ahead_s = sum(pace.seconds(job.scenario) for job in work.left()) / at_once
        lost = f"{run.lost} lost by all producers" if run.lost else "nothing lost"
        outcome = lost if run.judged else f"{run.verdict}: {'; '.join(run.reasons)}"
        progress.say(
            f"{len(work.series.runs)} of {len(work.plan.jobs())}: {cases[run.scenario].says}: {outcome} "
            f"({run.seconds:.0f} s); about {ahead_s / 60:.1f} min left"
        )

    def may_start(job: Job) -> bool:
        if crashes.reasons:
            return False
        if pace.runs and not budget.allows(pace.seconds(job.scenario)):
            return False
        progress.say(f"starting: {cases[job.scenario].says}; controller {cases[job.scenario].roles}")
        return True

    text = f"running, about {about / 60:.0f} min in all"
    with progress.phase("runs", text):
        stopped = bool(left) and work.run(at_once, ended, may_start)
    if crashes.reasons and work.left():
        progress.say(
            f"nothing further was started, since runs crashed one after the other: "
            f"{' | '.join(crashes.reasons)} (once the cause is removed, --resume {work.series.path} goes on)"
        )
    if stopped and not work.series.runs:
        raise StoppedError(
            "interrupted before the first run had ended; everything that was started has been ended."
        )
    with progress.phase("measures", "measuring the runs"):
        document = work.document()
    work.keep(document, report.markdown(document))
    if as_json:
        echo(json.dumps(document, indent=2))
    else:
        report.show(document, Console(highlight=False))
        Console(stderr=True, highlight=False).print(f"kept in {work.series.path}", style="dim")
    if stopped:
        raise StoppedError(
            f"interrupted after {len(work.series.runs)} of {len(work.plan.jobs())} runs; everything that "
            f"was started has been ended. To continue, use --resume {work.series.path}."
        )
    return int(document["exit_code"])
