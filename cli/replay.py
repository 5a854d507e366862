"""`acked replay` repeats a schedule; `acked shrink` makes it smaller."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import MOST_RUNS, PlaceOptions, Trust, count
from cli.pages import INDEX, add_page, page_links, without_failing
from cli.search import (
    PARALLEL,
    AsJson,
    ClusterOption,
    SearchParallel,
    check_place,
    require_version,
)
from harness.console import Console, Progress, echo, tell
from harness.errors import (
    EXIT_AS_DECLARED,
    EXIT_UNKNOWN,
    EXIT_VIOLATED,
    INTERRUPTED,
    BadDataError,
    StoppedError,
    UsageError,
)
from harness.plain_files import write_plain

if TYPE_CHECKING:
    from studies.search.findings import RunFinding
    from studies.search.repeat import RepeatedSchedule, Tally
    from studies.search.schedule import Schedule
    from studies.search.shrinking import Shrinking, Test
    from studies.series.fleet import JudgedRun
    from studies.series.job import Job, Place

SignaturePart = Annotated[
    str,
    typer.Option(
        "--finding",
        metavar="<text>",
        help="Part of the finding's signature. Default: the most important finding.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """On what a schedule is repeated, if not on what it ran on."""

    cluster: ClusterOption = None
    kafka: Annotated[str | None, typer.Option(help="Kafka version. Default: that of the run.")] = None
    mode: Annotated[str | None, typer.Option(help="Metadata mode. Default: that of the run.")] = None


def _job_of(
    source: RepeatedSchedule, changes: ChangeOptions, lab: str, progress: Progress, *, trust: bool
) -> tuple[Job, Place]:
    """The job that repeats a schedule, and where: as it ran, unless options change that.

    Checks that it is possible.     Raises UsageError, BadDataError, UnfitError.
    """
    from harness.cluster.cluster_file import read_cluster_file
    from run.client_choice import client_of, require_trusted
    from studies.assess.series import describe
    from studies.search.repeat import origin_of
    from studies.search.rules import require_hosts
    from studies.search.scenario import NAME
    from studies.search.schedule import FILE
    from studies.series.job import Job, Place

    origin = origin_of(source)
    require_trusted(origin.client, source.folder, trust=trust)
    file = changes.cluster or origin.cluster_file
    if file is not None and not file.is_file():
        raise BadDataError(f"{file}, the cluster file of the run, is gone; name one with --cluster.")
    described = read_cluster_file(file) if file else None
    target = describe(
        described,
        changes.kafka or origin.kafka,
        changes.mode or origin.mode,
        origin.settings,
        force=not changes.kafka,
    )
    require_version(source.schedule, target)
    require_hosts(source.schedule, target.topology, "the schedule")
    check_place(target, lab, progress, client=client_of(origin.client))
    job = Job(
        scenario=NAME,
        version=target.version.label,
        mode=target.mode,
        client=origin.client,
        files={FILE: source.schedule.encode()},
    )
    return job, Place(lab=lab, settings=target.settings.as_json(), cluster_file=file)


def replay(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A run of a search, or a schedule.json.")],
    repeat: Annotated[
        int,
        typer.Option(
            "--repeat",
            parser=count("--repeat", least=1, most=MOST_RUNS),
            metavar="<int>",
            help="How many runs at most.",
        ),
    ] = 20,
    signature_part: SignaturePart = "",
    *,
    changes: ChangeOptions,
    every: Annotated[
        bool, typer.Option("--all", help="Make all runs, even if the answer is clear earlier.")
    ] = False,
    times: Annotated[
        bool,
        typer.Option(
            "--times", help="Begin and end steps at the times of the run, instead of waiting for events."
        ),
    ] = False,
    parallel: SearchParallel = PARALLEL,
    trust: Trust = False,
    where: PlaceOptions,
    as_json: AsJson = False,
) -> None:
    """Repeat a schedule: how often does its finding come back?

    Stops as soon as a sequential test has decided whether the finding comes
    back (in at least half of the runs) or not (in at most one of twenty), and
    gives the rate with Wilson's interval.

    Exit code: 1 if a promise was broken or something is unexplained, 2 if a
    run was not judged or nothing was decided, else 0.
    """
    from report import search as report
    from report.model.shapes import REPLAY
    from report.page.repeated import replay_page
    from studies.search.repeat import repeat as repeated
    from studies.search.repeat import source_of, until_decided
    from studies.search.runs import SCHEDULES
    from studies.search.schedule import FILE
    from studies.search.score import score
    from studies.search.timed import timed
    from studies.series.fleet import Fleet
    from studies.series.folder import SeriesFolder
    from studies.series.planned import alone

    progress = Progress(quiet=as_json)
    source = source_of(path, signature_part)
    if times:
        if source.folder is None or source.finding is None:
            raise UsageError(f"--times needs a run with a finding, which has the times; {path} has none.")
        source = replace(source, schedule=timed(source.schedule, source.folder))
    job, place = _job_of(source, changes, where.lab, progress, trust=trust)
    folder = SeriesFolder.create(where.runs, "replay").path
    (folder / FILE).write_bytes(source.schedule.encode())
    kind = source.finding.kind if source.finding else ""
    progress.say(f"Kafka {job.version}, {job.mode}: up to {repeat} runs; {folder} keeps them")
    if kind:
        progress.say(f"the finding: {kind}")

    def keep(tally: Tally) -> dict[str, Any]:
        document = tally.document(kind) | {"score": score(source.schedule)}
        write_plain(folder / REPLAY, json.dumps(document, indent=2) + "\n")
        write_plain(folder / INDEX, replay_page(document, page_links(folder / INDEX)))
        return document

    def ended(one: JudgedRun[RunFinding], hit: bool, tally: Tally) -> None:
        outcome = f"{len(one.findings)} groups of findings"
        if kind:
            outcome = "it came back" if hit else "it did not come back"
        if not one.summary.judged:
            outcome = f"{one.summary.verdict}: {next(iter(one.summary.reasons), '')}"
        progress.say(f"{tally.runs + tally.unjudged} ({one.summary.seconds:.0f} s): {outcome}")
        without_failing("the page so far was not written", progress.say, partial(keep, tally))

    decide = until_decided()

    def enough(tally: Tally) -> bool:
        return bool(kind) and decide(tally) and not every

    with alone(folder):
        try:
            with (
                progress.phase("runs", "repeating the schedule"),
                Fleet(SCHEDULES, place, folder / "runs", parallel) as fleet,
            ):
                tally = repeated(
                    fleet,
                    job,
                    parallel=parallel,
                    most=repeat,
                    enough=enough,
                    kind=kind,
                    ended=ended,
                )
        except KeyboardInterrupt:
            raise StoppedError(INTERRUPTED) from None
        if tally.shown is not None:
            add_page(tally.shown, progress.say)
        document = keep(tally)
    if as_json:
        echo(json.dumps(document, indent=2))
    else:
        report.show_replay(document, Console(highlight=False))
    findings = tally.findings.values()
    if any(finding.weight == "new" or finding.promise == "broken" for finding in findings):
        raise typer.Exit(EXIT_VIOLATED)
    open_end = bool(kind) and not tally.decision
    raise typer.Exit(EXIT_UNKNOWN if tally.unjudged or not tally.runs or open_end else EXIT_AS_DECLARED)


def shrink(
    path: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run of a search that found something.")
    ] = None,
    signature_part: SignaturePart = "",
    *,
    parallel: SearchParallel = PARALLEL,
    resume: Annotated[
        Path | None, typer.Option(help="Continue an interrupted shrinking: its folder, runs/shrink/<time>.")
    ] = None,
    steps_only: Annotated[
        bool,
        typer.Option("--steps", help="Remove steps only. To make the rest smaller, use --resume without it."),
    ] = False,
    trust: Trust = False,
    where: PlaceOptions,
    as_json: AsJson = False,
) -> None:
    """Find the smallest schedule that still shows a finding.

    Removes steps, then hosts, durations, producers and settings, and repeats
    each candidate as often as the rate of the finding demands. At the end,
    the schedule is a scenario file for `acked run`.

    Exit code: 0 if it was shrunk, 2 if the finding did not come back.
    """
    from run.client_choice import require_trusted
    from studies.search.repeat import source_of
    from studies.search.shrinking import Shrinking, ShrinkPlan

    progress = Progress(quiet=as_json)
    if (path is None) == (resume is None):
        raise UsageError("Name a run to shrink, or --resume the folder of an interrupted shrinking.")
    if resume is not None:
        work = Shrinking.resume(resume)
        require_trusted(work.plan.client, resume, trust=trust)
    else:
        assert path is not None
        source = source_of(path, signature_part)
        if source.finding is None:
            raise UsageError(
                f"{path} shows no finding to shrink; name a run of a search that found something."
            )
        job, place = _job_of(source, ChangeOptions(), where.lab, progress, trust=trust)
        plan = ShrinkPlan(
            finding=source.finding,
            version=job.version,
            mode=job.mode,
            settings=place.settings,
            lab=where.lab,
            client=job.client,
            cluster=place.cluster_file is not None,
        )
        work = Shrinking.create(where.runs, plan, source.schedule, place.cluster_file)
    raise typer.Exit(_shrink(work, progress, parallel, steps_only=steps_only, as_json=as_json))


def _shrink(work: Shrinking, progress: Progress, parallel: int, *, steps_only: bool, as_json: bool) -> int:
    from studies.search.shrinking import finish
    from studies.series.planned import alone
    from studies.steps.step import described

    progress.say(f"the finding: {work.plan.finding.kind}")
    progress.say(f"{len(work.original.steps)} steps; {work.path} keeps everything")

    def tried(test: Test, schedule: Schedule) -> None:
        answer = "still shows it" if test.passes else "does not show it"
        many = len(schedule.producers)
        parts = f"{_of(test.steps, 'step')}, {_of(many, 'producer')}, "
        progress.say(f"{parts}size {test.size}: {answer} ({test.hits} of {test.runs})")
        keep = partial(_keep, work, work.smallest(), progress)
        without_failing("the page so far was not written", progress.say, keep)

    with alone(work.path):
        try:
            with progress.phase("runs", "making the schedule smaller"):
                smallest = work.run(parallel, tried, steps_only=steps_only)
        except KeyboardInterrupt:
            smallest = work.smallest()
            if smallest.digest in work.tests:
                progress.say(f"the smallest so far: {finish(work, smallest, with_story=False)}")
            raise StoppedError(
                f"interrupted after {len(work.tests)} schedules; everything that was started has been ended. "
                f"To continue, use --resume {work.path}."
            ) from None
        file = finish(work, smallest)
        document = _keep(work, smallest, progress, file)
    if as_json:
        echo(json.dumps(document, indent=2))
    else:
        tell(
            f"from {len(work.original.steps)} steps to {len(smallest.steps)}, with {document['tried']} "
            f"schedules and {document['runs']} runs in {work.seconds / 60:.0f} min"
        )
        for number, step in enumerate(smallest.steps, start=1):
            tell(described(step), lead=f"  {number}. ")
        echo(f"acked run {file}")
    return EXIT_AS_DECLARED


def _keep(
    work: Shrinking, smallest: Schedule, progress: Progress, scenario: Path | None = None
) -> dict[str, Any]:
    """Write what a shrinking has come to as JSON and as a page; returns the document."""
    from report.model.shapes import SHRINK
    from report.page.repeated import shrink_page
    from studies.search.shrinking import document

    told = document(work, smallest, scenario)
    run = Path(told["run"]) if told["run"] else None
    if scenario is not None and run is not None and (run / "history").is_dir():
        add_page(run, progress.say)
    write_plain(work.path / SHRINK, json.dumps(told, indent=2) + "\n")
    write_plain(work.path / INDEX, shrink_page(told, page_links(work.path / INDEX)))
    return told


def _of(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"
