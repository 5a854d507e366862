"""`acked assess`: what each fault would cost a described cluster."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.attached_run import HostsOptions
from cli.attached_series import assessment_on_hosts, require_no_lab
from cli.options import (
    BuildOptions,
    Parallel,
    PartitionRate,
    PlaceOptions,
    Repeat,
    SettingOptions,
    duration,
    with_rate,
)
from cli.pages import INDEX, add_page, page_links, without_failing
from harness.console import Console, Progress, echo
from harness.errors import StoppedError, UsageError
from harness.kafka.versions import DEFAULT
from harness.processors import STARVED, Starvation
from studies.series.job import Job

if TYPE_CHECKING:
    from harness.cluster.settings import Settings
    from run.settings import AppliedSettings
    from studies.assess.battery import Case
    from studies.assess.outcome import RepeatedFailure
    from studies.assess.series import Assessment, AssessmentPlan, Target
    from studies.series.budget import Budget
    from studies.series.forecast import Forecast
    from studies.series.summary import RunSummary


_TWO_MINUTES_S = 120.0


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
    rate: PartitionRate = None
    repeat: Repeat = 1


@dataclass(frozen=True, kw_only=True)
class AssessTargetOptions:
    """The version and mode of the cluster to assess."""

    kafka: Annotated[str | None, typer.Option(help="Kafka version. Default: the file's, else 2.7.1.")] = None
    mode: Annotated[
        str | None, typer.Option(help="zookeeper, kraft or kraft-combined. Default: the file's.")
    ] = None
    upgrade_to: Annotated[
        str | None,
        typer.Option(
            metavar="<version>",
            help="Inject each fault at every third of a rolling upgrade to this Kafka version.",
        ),
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
    attached: HostsOptions,
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

    Injects a battery of faults into the described cluster, each in a run of
    its own; where it matters, one run hits the controller, and another one
    does not. The table says fault by fault what was lost, duplicated and out
    of order, how long each AZ could not write and could not read, and what
    an operator had to do.

    With --upgrade-to, the cluster is being upgraded to another version of
    Kafka, node by node, and each fault comes at every third of that.

    With --hosts, it breaks a cluster that runs already, one fault after the
    other, as far as its hosts file allows (docs/attach.md).

    The folder runs/assess/<time> keeps the table as `assessment.json` and
    `assessment.md`, with the runs.

    Exit code: 1 if a promise of Kafka was broken or something happened that
    no fault explains, 2 if a run was not judged or left a promise undecided,
    else 0. The pages of the runs and `assessment.json` say the same.
    """
    from studies.assess.measure import QUERIES
    from studies.assess.series import Assessment
    from studies.series.budget import Budget

    if queries:
        for name, text in QUERIES.items():
            echo(f"-- {name}\n{text};\n")
        return
    progress = Progress(quiet=as_json)
    given = settings.read()
    budget = Budget() if cases.budget is None else Budget(duration("--budget", cases.budget))
    attached.require_hosts()
    if attached.given:
        if cluster or given or (target, build) != (AssessTargetOptions(), BuildOptions()) or cases.topics:
            raise UsageError("--hosts: the cluster runs already; leave out what describes one.")
        on_hosts = assessment_on_hosts(
            attached,
            faults=cases.faults,
            repeat=cases.repeat,
            rate=cases.rate,
            list_only=list_only,
            resume=resume,
            runs=place.runs,
            progress=progress,
            as_json=as_json,
        )
        if on_hosts is not None:
            raise typer.Exit(_carry_out(on_hosts, 1, progress, budget=budget, as_json=as_json))
        return
    if resume is not None:
        defaults = (CaseOptions(), AssessTargetOptions(), BuildOptions())
        if cluster or given or (cases, target, build) != defaults:
            raise UsageError(
                "--resume continues an assessment as it was planned; leave the other options out."
            )
        work = Assessment.resume(resume)
        require_no_lab(work.plan.lab, resume)
    else:
        given = with_rate(given, cases.rate)
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
        target = describe(
            file,
            version,
            described.mode or "",
            settings,
            force=build.force,
            upgrade_to=described.upgrade_to or "",
        )
        if options.topics is not None:
            globs = [glob.strip() for glob in options.topics.split(",")]
            target = replace(target, settings=only_topics(target.settings, globs))
        cases = faults_of.battery(target.topology, target.mode, target.upgrade_to)
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
        from studies.assess.series import AssessmentPlan, check, forecast, timings
        from studies.series.capacity import Machine, choose

        target = self.target
        for sentence in self.applied.warnings:
            progress.say(sentence)
        check(target, self.cases[0], self.lab, progress.say)
        chosen = fitting = [case for case in self.cases if case.name not in self.misfits]
        choice = choose(parallel, len(fitting), Machine.here(), target.topology, usual=len(fitting))
        if math.isfinite(budget.seconds):
            times = timings(target.settings, target.mode)
            by_name = {case.name: case for case in fitting}
            slowdown = Starvation(from_start=True).slowdown()
            expected = forecast(by_name, target.topology, times, choice.clusters, slowdown)

            def needed_s(cases: Sequence[Case]) -> float:
                job = partial(Job, version=target.version.label, mode=target.mode)
                return expected.left_s([job(scenario=case.name) for case in cases])

            chosen = list(within_budget(fitting, needed_s, budget.seconds))
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
            upgrade_to=target.upgrade_to,
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
        from report.assessment import show_header
        from report.console import NONE, Column, RowTable

        console = Console(highlight=False)
        show_header(self.header, console)
        console.print()
        headings = ("fault", "controller", "name", "stands for", "unfit")
        prose = ("fault", "controller", "stands for", "unfit")
        rows = [
            (
                *(case.says, case.roles, case.name, ", ".join(case.stands_for) or NONE),
                self.misfits.get(case.name, NONE),
            )
            for case in self.cases
        ]
        columns = [Column(heading=heading, prose=heading in prose) for heading in headings]
        RowTable(columns=columns, rows=rows).show(console)
        console.print()
        console.paragraph(
            "controller: inside or outside of what the fault hits. name: for --faults. stands for: "
            "equivalent faults that are not run. Faults of single nodes hit the first node of each kind."
        )


@dataclass(kw_only=True)
class _Watch:
    """Lets runs begin, says how they end, and when all will have."""

    work: Assessment
    forecast: Forecast
    budget: Budget
    progress: Progress
    running: dict[Job, float] = field(default_factory=dict)
    """When each job began, by the budget's clock."""

    def left_s(self) -> float:
        """Seconds until all has ended, as far as is known now."""
        left, began, now = self.work.left(), dict(self.running), self.budget.clock()
        waiting = [job for job in left if job not in began]
        return self.forecast.left_s(waiting, [(job, now - began[job]) for job in left if job in began])

    def state(self) -> list[str]:
        """What a terminal shows meanwhile."""
        ended, planned = len(self.work.series.runs), len(self.work.plan.jobs())
        return [f"{ended} of {planned} runs have ended; about {in_words(self.left_s())} left"]

    def may_start(self, job: Job) -> bool:
        """Whether a run may begin now."""
        from studies.assess.outcome import repeated_failure

        ended = self.work.series.runs
        if repeated_failure(ended) or (ended and not self.budget.allows(self.forecast.seconds(job))):
            return False
        self.running[job] = self.budget.clock()
        case = self.work.cases()[job.scenario]
        self.progress.say(f"starting: {case.says}; controller {case.roles}")
        return True

    def ended(self, run: RunSummary) -> None:
        """Take note of a run, and say how it ended."""
        self.running.pop(run.job, None)
        self.forecast.ended(run)
        outcome = self._lost(run) if run.judged else f"{run.verdict}: {'; '.join(run.reasons)}"
        self.progress.say(
            f"{len(self.work.series.runs)} of {len(self.work.plan.jobs())}: "
            f"{self.work.cases()[run.scenario].says}: {outcome} ({run.seconds:.0f} s); "
            f"about {in_words(self.left_s())} left"
        )

    def _lost(self, run: RunSummary) -> str:
        """What each producer has lost, so that nobody takes the comparison's loss for their own."""
        from studies.assess.described import producers
        from studies.assess.outcome import lost_by_producer

        if not run.lost:
            return "nothing lost"
        by_producer = lost_by_producer(run)
        described, compared = (one.name for one in producers(self.work.settings()))
        return (
            f"{by_producer.get(described, 0)} lost with {described} (described), "
            f"{by_producer.get(compared, 0)} with {compared} (comparison)"
        )


def _carry_out(work: Assessment, parallel: int, progress: Progress, *, budget: Budget, as_json: bool) -> int:
    from report import assessment as report
    from report.series import number_of_runs
    from studies.assess.outcome import repeated_failure
    from studies.assess.series import forecast
    from studies.series.capacity import Machine, choose
    from studies.series.planned import alone

    topology, cases, left = work.topology(), work.cases(), work.left()
    choice = choose(parallel, len(left), Machine.here(), topology, usual=len(left))
    if choice.warning:
        progress.say(choice.warning)
    slowdown = Starvation(from_start=True).slowdown()
    expected = forecast(cases, topology, work.timings(), choice.clusters, slowdown)
    for run in work.series.runs:
        expected.ended(run)
    watch = _Watch(work=work, forecast=expected, budget=budget, progress=progress)
    about = in_words(watch.left_s())
    busy = ", as other programs keep the processors busy" if slowdown > STARVED else ""
    planned = f"{number_of_runs(len(left))}, {choice.clusters} side by side, about {about}{busy}"
    progress.say(f"{planned}; {work.series.path} keeps them")

    def ended(run: RunSummary) -> None:
        watch.ended(run)
        if run.judged:
            add_page(Path(run.folder), progress.say)
        if work.left():
            keep = partial(_keep, work, choice.clusters)
            without_failing("the page so far was not written", progress.say, keep)

    with alone(work.series.path):
        with progress.phase("runs", "running", watch.state):
            stopped = bool(left) and work.run(choice.clusters, ended, watch.may_start)
        repeated = repeated_failure(work.series.runs)
        if repeated and work.left() and not stopped:
            for sentence in _stopped(repeated, work, choice.clusters):
                progress.say(sentence)
        if stopped and not work.series.runs:
            raise StoppedError(
                "interrupted before the first run had ended; everything that was started has been ended."
            )
        with progress.phase("measures", "measuring the runs"):
            document = _keep(work, choice.clusters)
    page = work.series.path / INDEX
    if as_json:
        echo(json.dumps(document, indent=2))
    else:
        report.show(document, Console(highlight=False))
        Console(stderr=True, highlight=False).paragraph(f"page: {page}", style="dim")
    if stopped:
        raise StoppedError(
            f"interrupted after {len(work.series.runs)} of {len(work.plan.jobs())} runs; everything that "
            f"was started has been ended. To continue, use --resume {work.series.path}."
        )
    return int(document["exit_code"])


def _keep(work: Assessment, parallel: int) -> dict[str, Any]:
    """Write what is known by now as JSON, Markdown and page; returns the document."""
    from report.kinds import ASSESSMENTS

    document = work.document(parallel)
    page = ASSESSMENTS.page(document, page_links(work.series.path / INDEX))
    work.keep(document, {"assessment.md": ASSESSMENTS.markdown(document), INDEX: page})
    return document


def _stopped(repeated: RepeatedFailure, work: Assessment, at_once: int) -> Iterator[str]:
    """Why nothing further was started, the reason in full, and what to do about it."""
    yield (
        f"nothing further was started, since {len(repeated.runs)} runs failed for one reason; "
        f"{len(work.left())} of {len(work.plan.jobs())} runs are left"
    )
    yield f"reason: {'; '.join(repeated.runs[-1].reasons)}"
    logs = f"the logs of the last cluster are below {repeated.cluster}"
    first = f"remove the cause ({logs})"
    fewer = ""
    if repeated.side_by_side_matters and at_once > 1:
        first, fewer = f"run one cluster at a time, or end other programs ({logs})", " --parallel 1"
    resume = f"acked assess --resume {work.series.path}{fewer}"
    yield f"remedy: {first}; then `{resume}` makes the failed runs again"


def in_words(seconds: float) -> str:
    """A time that is about right: seconds below two minutes, minutes above."""
    if seconds < _TWO_MINUTES_S:
        return f"{max(5, round(seconds / 5) * 5)} s"
    return f"{seconds / 60:.0f} min"
