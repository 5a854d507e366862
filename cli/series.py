"""What `acked run --all` and `acked matrix` have in common: run the jobs of a plan and record each run."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.verdict import VERDICTS, worst
from cli.options import PlaceOptions, SeriesOptions, duration
from cli.pages import INDEX, add_page, page_links
from harness.cluster.settings import NO_SETTINGS, Settings
from harness.console import Progress, echo
from harness.errors import EXIT_AS_DECLARED, StoppedError, UsageError
from harness.kafka.versions import kafka_version
from harness.lab.layout import THREE_AZS
from harness.plain_files import write_output
from report import series as report
from report.junit import junit
from report.model.night import night_of
from report.night import summary_markdown
from run.scenario import Scenario
from studies.series.budget import Budget, as_before
from studies.series.capacity import THREE_AZ_TOPOLOGY, Machine, choose, nodes
from studies.series.fleet import SCENARIOS, Fleet
from studies.series.folder import SeriesFolder, runs_before
from studies.series.job import Job, Place
from studies.series.judging import unfit
from studies.series.night import Shard, longest_unseen_first, remove_folder
from studies.series.plan import longest_first, remaining
from studies.series.planned import alone
from studies.series.summary import FILE, RunSummary, flaky, read_summaries, seconds_by_job

if TYPE_CHECKING:
    from harness.cluster.cluster_file import ClusterFile


@dataclass(frozen=True, kw_only=True)
class Night:
    """Options for jobs that run unattended."""

    budget_s: float = math.inf
    """Wall time in seconds."""
    shard: Shard | None = None
    keep_failed: bool = False
    """Keep the run folders only of runs that are not as declared."""
    junit: Path | None = None
    summary: Path | None = None
    earlier: Sequence[RunSummary] = ()
    """Runs of other nights, oldest first."""

    @classmethod
    def read(cls, options: SeriesOptions) -> Night:
        """Check the options. Raises UsageError, BadDataError."""
        require_files(("--junit", options.junit), ("--summary", options.summary))
        return cls(
            budget_s=duration("--budget", options.budget) if options.budget is not None else math.inf,
            shard=Shard.parse(options.shard) if options.shard is not None else None,
            keep_failed=options.keep_failed,
            junit=options.junit,
            summary=options.summary,
            earlier=read_runs("--earlier", options.earlier or ()),
        )


def require_files(*outputs: tuple[str, Path | None]) -> None:
    """Raise UsageError for an option, of several with their values, that names no file in a folder."""
    for option, file in outputs:
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise UsageError(f"{option} {file}: give a file in a folder that exists.")


def read_runs(option: str, places: Sequence[Path]) -> list[RunSummary]:
    """The runs of some series, oldest first. Raises UsageError, BadDataError."""
    files = [place / FILE if place.is_dir() else place for place in places]
    for file in files:
        if not file.is_file():
            raise UsageError(f"{option} {file}: no such file; give a {FILE} or the folder of a series.")
    return sorted(read_summaries(files), key=lambda run: run.ended)


@dataclass(frozen=True, kw_only=True)
class SeriesCluster:
    """Where the runs of a series are made, and on what."""

    place: PlaceOptions
    settings: Settings
    """The user's and the file's; the user's take precedence."""
    file: ClusterFile | None
    force: bool = False
    """Accept Kafka versions that have not been tested."""

    @classmethod
    def read(
        cls, place: PlaceOptions, settings: Settings, path: Path | None, *, force: bool
    ) -> SeriesCluster:
        """Read the cluster file at ``path``, if there is one. Raises UsageError."""
        if path is None:
            return cls(place=place, settings=settings, file=None, force=force)
        from harness.cluster.cluster_file import read_cluster_file

        file = read_cluster_file(path)
        return cls(place=place, settings=settings.over(file.settings), file=file, force=force)

    def as_place(self) -> Place:
        """The place of the jobs."""
        return Place(
            lab=self.place.lab,
            settings=self.settings.as_json(),
            cluster_file=self.file.path if self.file else None,
        )


@dataclass(frozen=True, kw_only=True)
class Series:
    """A series that is about to start, or to be resumed."""

    folder: SeriesFolder
    planned: Sequence[Job]
    left: Sequence[Job]
    """The jobs that have not run yet."""
    clusters: int
    """How many to run side by side."""
    cluster: SeriesCluster
    night: Night
    misfits: Mapping[Job, str] = field(default_factory=dict)
    """Jobs that the cluster cannot run, and why."""

    @property
    def runs(self) -> Path:
        """The folder for the run folders."""
        return self.cluster.place.runs


def open_series(
    kind: str,
    jobs: Sequence[Job],
    scenarios: Iterable[Scenario],
    cluster: SeriesCluster,
    night: Night,
    parallel: int,
    progress: Progress,
    old: SeriesFolder | None,
) -> Series:
    """Check what can be checked, make the folder of a series unless ``old`` is resumed, and say what follows.

    Raises UsageError, UnfitError.
    """
    by_name = {scenario.name: scenario for scenario in scenarios}
    unfitting = misfits(jobs, by_name, cluster)
    require([job for job in dict.fromkeys(jobs) if job not in unfitting], by_name, cluster, progress)
    if night.shard is not None:
        jobs = night.shard.share(jobs)
    left = jobs if old is None else remaining(jobs, [run.job for run in old.runs])
    modes = {job.mode for job in jobs} if cluster.file else ()
    topologies = [cluster.file.layout.topology(mode) for mode in modes if cluster.file]
    largest = max(topologies, key=nodes, default=THREE_AZ_TOPOLOGY)
    choice = choose(parallel, len(left), Machine.here(), largest)
    folder = old or SeriesFolder.create(cluster.place.runs, kind)
    if (before := folder.planned()) and Counter(before) != Counter(jobs):
        progress.say(
            f"{folder.path} was to have {report.number_of_runs(len(before))}, and this command plans "
            f"{report.number_of_runs(len(jobs))}; give the same options as then if that is not intended"
        )
    if choice.warning:
        progress.say(choice.warning)
    if jobs:
        count = report.number_of_runs(len(left))
        progress.say(f"{count}, {choice.clusters} side by side; {folder.file} gets a line for each")
    else:
        progress.say("nothing to run in this share: there are more shares than cases")
    return Series(
        folder=folder,
        planned=jobs,
        left=left,
        clusters=choice.clusters,
        cluster=cluster,
        misfits=unfitting,
        night=night,
    )


def require(
    jobs: Iterable[Job], scenarios: Mapping[str, Scenario], cluster: SeriesCluster, progress: Progress
) -> None:
    """Check jobs that fit their cluster, before anything starts. Raises UsageError, UnfitError."""
    from harness.artifacts import resolve_all
    from run import session
    from run.claims import require_sql
    from run.client_choice import client_of

    jobs, lab, file, force = list(jobs), cluster.place.lab, cluster.file, cluster.force
    warnings: dict[str, None] = {}
    for job in jobs:
        asked = session.require_settings(
            scenarios[job.scenario],
            cluster.settings,
            kafka=job.version,
            mode=job.mode,
            layout=file.layout if file else THREE_AZS,
            force=force,
        )
        warnings.update(dict.fromkeys(asked))
    for sentence in warnings:
        progress.say(sentence)
    session.require_lab(lab)
    later = (scenarios[job.scenario].setup.upgrade_to for job in jobs)
    versions = dict.fromkeys([*(job.version for job in jobs), *filter(None, later)])
    resolve_all([kafka_version(version, force=force) for version in versions], say=progress.say)
    for example in {(job.version, job.mode, job.client): job for job in reversed(jobs)}.values():
        session.prepare(
            scenarios[example.scenario],
            lab=lab,
            kafka=example.version,
            mode=example.mode,
            cluster=file and replace(file, settings=NO_SETTINGS),
            force=force,
            client=client_of(example.client),
            say=progress.say,
        )
    require_sql({job.scenario: scenarios[job.scenario] for job in jobs}.values(), say=progress.say)


def misfits(jobs: Iterable[Job], scenarios: Mapping[str, Scenario], cluster: SeriesCluster) -> dict[Job, str]:
    """The jobs that a described cluster or their Kafka version cannot run, and a sentence that says why."""
    from run.session import ignores, misfit
    from run.settings import unsecurable

    file = cluster.file

    def reason(job: Job) -> str:
        scenario, version = scenarios[job.scenario], kafka_version(job.version, force=True)
        missing = misfit(scenario, file.layout, kafka=job.version, mode=job.mode) if file else ""
        return missing or ignores(scenario, version) or unsecurable(cluster.settings, version)

    reasons = {job: reason(job) for job in jobs}
    return {job: sentence for job, sentence in reasons.items() if sentence}


def run_series(series: Series, progress: Progress) -> bool:
    """Run and judge what is left; each run is recorded in the folder, and gets a line when it has ended.

    Returns whether Ctrl-C ended the series early. Raises UsageError if another process works in the folder.
    """

    def ended(run: RunSummary) -> None:
        progress.say(report.ended(run))

    def state() -> list[str]:
        return [f"{len(series.folder.runs)} of {report.number_of_runs(len(series.planned))} have ended"]

    with alone(series.folder.path), progress.phase("runs", "running", state):
        series.folder.plan(series.planned)
        return _run_left(series, ended)


def _run_left(series: Series, ended: Callable[[RunSummary], None]) -> bool:
    night = series.night
    unfitting = [unfit(job, series.misfits[job]) for job in series.left if job in series.misfits]
    for summary in unfitting:
        series.folder.add(summary)
        ended(summary)
    left = [job for job in series.left if job not in series.misfits]
    if not left:
        return False
    earlier = runs_before(series.runs, night.earlier)
    took = seconds_by_job(earlier)
    budget, expected_s = Budget(night.budget_s), as_before(took)
    limited = math.isfinite(night.budget_s)
    ordered = longest_unseen_first(left, earlier) if limited else longest_first(left, took)

    def may_start(job: Job) -> bool:
        return budget.allows(expected_s(job))

    try:
        place = series.cluster.as_place()
        with Fleet(SCENARIOS, place, series.runs, series.clusters, may_start) as fleet:
            fleet.submit(*ordered)
            for run in fleet.judged_runs():
                summary = run.summary
                series.folder.add(summary)
                ended(summary)
                if night.keep_failed and summary.verdict == "as declared":
                    remove_folder(summary)
                else:
                    add_page(Path(summary.folder), partial(echo, err=True))
    except KeyboardInterrupt:
        return True
    except Exception:
        write_documents(series)  # what ended before is not lost to the job
        raise
    finally:
        for summary in series.folder.runs[-1:]:
            if night.keep_failed and summary.verdict == "as declared":
                remove_folder(summary)  # an interruption may have come between the end of a run and this
    return False


def exit_code(series: Series) -> int:
    """That of the worst verdict; success for a share of a plan that has nothing in it."""
    if not series.planned:
        return EXIT_AS_DECLARED
    return VERDICTS[worst(run.verdict for run in series.folder.runs)]


def not_run(series: Series) -> list[Job]:
    """The jobs of the plan that have not run, because the time ran out or the series was interrupted."""
    return remaining(series.planned, [run.job for run in series.folder.runs])


def write_documents(series: Series) -> None:
    """Write the page and the files of `--junit` and `--summary`, also for a series that was interrupted."""
    from report.page.index import index_page

    options, runs = series.night, series.folder.runs
    earlier = runs_before(series.runs, options.earlier)
    night = night_of(
        runs,
        flaky(runs),
        not_run=not_run(series),
        earlier=earlier,
        kind=series.folder.kind,
        time=series.folder.time,
    )
    if options.junit is not None:
        write_output(options.junit, junit(night, link=page_links(options.junit)), "--junit")
    if runs:
        page = index_page(night, runs, page_links(series.folder.path / INDEX))
        series.folder.keep(INDEX, page)
        series.folder.keep("night.json", json.dumps(night.as_json(), indent=1))
    if options.summary is not None:
        write_output(options.summary, summary_markdown(night, link=page_links(options.summary)), "--summary")


def report_end(series: Series, progress: Progress, *, stopped: bool) -> None:
    """Say what was left out for lack of time. Raises StoppedError for a series that Ctrl-C has ended."""
    done, folder = len(series.folder.runs), series.folder.path
    if stopped:
        hint = f" To continue, add --resume {folder} to the same command." if done else ""
        raise StoppedError(
            f"interrupted after {done} of {len(series.planned)} runs; everything that was started has been "
            f"ended.{hint}"
        )
    if left_out := not_run(series):
        progress.say(report.left_out(left_out))
