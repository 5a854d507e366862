"""`acked run`: build a cluster, break it, record, judge."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.attached_run import HostsOptions, run_on_hosts
from cli.options import (
    BuildOptions,
    ClientOptions,
    From,
    OneScenario,
    PlaceOptions,
    Quiet,
    SeriesOptions,
    SettingOptions,
    message_rate,
)
from cli.pages import add_page
from harness.console import Console, Progress, echo
from harness.errors import (
    EXIT_AS_DECLARED,
    EXIT_INTERRUPTED,
    EXIT_UNFIT,
    EXIT_USAGE,
    EXIT_VIOLATED,
    AckedError,
    UsageError,
)
from harness.lab.registry import EMBEDDED, lab_kind

if TYPE_CHECKING:
    from cli.series import SeriesCluster
    from harness.cluster.settings import Settings
    from harness.kafka.versions import KafkaVersion
    from run.client_choice import ClientChoice


@dataclass(frozen=True, kw_only=True)
class RunTargetOptions:
    """The cluster of a single run."""

    kafka: Annotated[str | None, typer.Option(help="Kafka version. Default: the scenario's own.")] = None
    mode: Annotated[
        str | None,
        typer.Option(help="zookeeper, kraft, kraft-combined or migration. Default: the scenario's own."),
    ] = None
    cluster: Annotated[
        Path | None,
        typer.Option(help="Cluster file (TOML): AZs, hosts and settings. Default: three AZs."),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            parser=message_rate,
            metavar="<float>",
            help="Background messages per second in each AZ; 0: none. Default: the scenario's own.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """Which scenarios a series runs."""

    everything: Annotated[
        bool, typer.Option("--all", help="Run the whole catalogue, and the scenarios of --from.")
    ] = False
    places: From = None
    pattern: Annotated[
        str | None,
        typer.Option("--filter", help="Run the scenarios that match one of these globs (a,b)."),
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Continue an interrupted series: its folder, runs/all/<time>. Without --all and --filter, "
            "with the scenarios and repeats that were planned."
        ),
    ] = None

    @property
    def several(self) -> bool:
        """Whether they choose by themselves what to run."""
        return self.everything or self.pattern is not None or bool(self.places)

    def globs(self, name: str | None) -> list[str]:
        """The globs of the scenarios; none: those of the series that is resumed, or else all of --from."""
        chosen = name or self.pattern or ("*" if self.everything else "")
        return [glob.strip() for glob in chosen.split(",") if chosen]


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What a run prints, and how it exits."""

    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False
    git_bisect: Annotated[
        bool,
        typer.Option(
            "--git-bisect",
            help="Exit with the codes of `git bisect run`: 125 (skip) if nothing was proven.",
        ),
    ] = False
    quiet: Quiet = False

    def progress(self) -> Progress:
        """The progress of the command, on the terminal."""
        return Progress(quiet=self.as_json or self.quiet)


def run(
    name: OneScenario = None,
    *,
    target: RunTargetOptions,
    attached: HostsOptions,
    settings: SettingOptions,
    build: BuildOptions,
    client: ClientOptions,
    place: PlaceOptions,
    scenarios: ScenarioOptions,
    series: SeriesOptions,
    output: OutputOptions,
) -> None:
    """Run one scenario on a real cluster and judge it, or many side by side.

    A series (--all, --filter, --repeat, and the options for CI jobs: --budget,
    --shard, --earlier, --junit, --summary, --keep-failed) adds a line to
    `runs.jsonl` in its folder as each run ends.

    Exit code: 0 as declared, 1 violated, 2 unknown or invalid, 3 this machine
    lacks something, 254 usage error, 255 crash. The worst verdict of a series
    decides.
    """
    given = settings.read()
    attached.require_hosts()
    if attached.given:
        if not name or scenarios.several or scenarios.resume or series.given:
            raise UsageError(
                "--hosts, --compose-project: name one scenario, such as leader-az-isolated; they are "
                "for a single run."
            )
        described = target.cluster or target.kafka or target.mode or build.given
        if described or (settings, client) != (SettingOptions(), ClientOptions()) or place.lab != EMBEDDED:
            raise UsageError(
                "--hosts, --compose-project: the cluster runs already, so options of clusters, labs and "
                "clients mean nothing; leave them out. Settings of clients are in client-config of the "
                "hosts file."
            )
        raise typer.Exit(
            run_on_hosts(
                name,
                attached,
                rate=target.rate,
                runs=place.runs,
                progress=output.progress(),
                as_json=output.as_json,
            )
        )
    if scenarios.pattern is not None and not scenarios.pattern.strip():
        raise UsageError("--filter is empty; give globs, such as 'kraft-*,no-fault', or use --all.")
    if scenarios.several or scenarios.resume or series.given:
        if build.given:
            raise UsageError("--kafka-home and --kafka-jars are for a single run, and for `acked matrix`.")
        if target.kafka or target.mode or target.rate is not None:
            raise UsageError("--kafka, --mode and --rate are for a single run; `acked matrix` varies them.")
        if name and scenarios.several:
            raise UsageError(
                f"Use either the scenario {name!r} or --all, --filter and --from; --filter may name it."
            )
        if not (name or scenarios.several or scenarios.resume):
            raise UsageError("Name a scenario to run (`acked list` shows them), or use --all or --filter.")
        from cli.series import SeriesCluster

        status = _run_many(
            scenarios.globs(name),
            scenarios,
            series,
            output,
            SeriesCluster.read(place, given, target.cluster, force=build.force),
            client.read(),
        )
    elif not name:
        raise UsageError("Name a scenario to run (`acked list` shows them), or use --all.")
    else:
        try:
            status = _run_one(name, target, given, build, client, place, output)
        except AckedError as error:
            if not output.git_bisect or isinstance(error, UsageError):
                raise
            from report import terminal

            terminal.show_error(error)
            status = error.exit_code
    raise typer.Exit(for_git_bisect(status) if output.git_bisect else status)


def for_git_bisect(status: int) -> int:
    """The exit code for `git bisect run`: 0 is good, 1 bad, and 125 skips a commit that cannot be tested.

    A wrong command line stays 254 and an interruption 130, which end the bisection.
    """
    return status if status in (EXIT_AS_DECLARED, EXIT_VIOLATED, EXIT_USAGE, EXIT_INTERRUPTED) else 125


def _run_one(
    name: str,
    target: RunTargetOptions,
    settings: Settings,
    build: BuildOptions,
    client: ClientOptions,
    place: PlaceOptions,
    output: OutputOptions,
) -> int:
    from harness.cluster.cluster_file import read_cluster_file
    from report import terminal
    from report.model.blocked import blocked_in
    from report.model.judged import judged_model
    from run.catalogue import find
    from run.claims import require_sql
    from run.folder import RunFolder
    from run.session import RunOutcome, prepare, run_and_judge

    scenario = find(name)
    progress = output.progress()
    described = read_cluster_file(target.cluster) if target.cluster else None
    default = (described and described.kafka) or scenario.kafka
    options = prepare(
        scenario,
        lab=place.lab,
        kafka=build.version(target.kafka, default, progress.say),
        mode=target.mode or "",
        rate=target.rate,
        cluster=described,
        settings=settings,
        force=build.force,
        client=client.read(),
        make_archives=False,
        say=progress.say,
    )
    require_sql([scenario], say=progress.say)
    folder = RunFolder.create(place.runs, scenario.name, scenario.file)

    def work() -> int:
        outcome: RunOutcome = run_and_judge(scenario, options, folder, progress)
        if outcome.problem is not None:
            terminal.show_error(outcome.problem)
        if outcome.judgement is not None and output.as_json:
            echo(json.dumps(outcome.judgement.as_json(), indent=2, default=str))
        elif outcome.judgement is not None:
            blocked = blocked_in(str(folder.path))
            terminal.show(judged_model(outcome.judgement.as_json()), blocked=blocked)
            terminal.show_durations(outcome.durations)
        if outcome.judgement is not None:
            page = add_page(folder.path, progress.say)
            if page is not None:
                progress.say(f"page: {page}")
        return outcome.exit_code

    status = lab_kind(place.lab).enter(work)
    if status not in (EXIT_INTERRUPTED, EXIT_UNFIT) and not output.git_bisect:
        _make_archives(options.version, progress.say)
    return status


def _make_archives(version: KafkaVersion, say: Callable[[str], None]) -> None:
    """Make the class-data archives with which later runs start faster, if there are none.

    The first verdict does not wait for them. A failure is reported, and changes nothing else.
    """
    from checkers.spark import class_data
    from checkers.spark.session import archive_path, cache_dir
    from harness import artifacts
    from harness.lab.embedded.namespaces import with_parent

    try:
        artifacts.resolve(version, say=say)
    except AckedError as error:
        say(f"there are no class-data archives: {error.message}")
    if not class_data.needed(cache_dir()):
        return
    say("creating Spark's class-data archive, once for this Java; some 20 s")
    command = with_parent((sys.executable, "-m", class_data.__name__))
    nowhere = subprocess.DEVNULL
    subprocess.run(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, check=False)
    if archive_path(cache_dir()).exists():
        say("later runs start faster")
    else:
        say("Spark's class-data archive could not be made, so Spark starts more slowly")


def _run_many(
    globs: list[str],
    scenarios: ScenarioOptions,
    options: SeriesOptions,
    output: OutputOptions,
    cluster: SeriesCluster,
    client: ClientChoice,
) -> int:
    from checkers.verdict import worst
    from cli.series import Night, exit_code, open_series, report_end, run_series, write_documents
    from report import series as report
    from run.catalogue import select
    from run.client_choice import LIBRDKAFKA
    from run.scenario_file import read_places
    from studies.series.folder import SeriesFolder
    from studies.series.plan import as_before, own_jobs
    from studies.series.planned import alone
    from studies.series.summary import add_up, by_scenario

    night, repeat = Night.read(options), options.repeat
    old = None if scenarios.resume is None else SeriesFolder.resume(scenarios.resume)
    before = old.planned() if old and not globs else []
    own = read_places(scenarios.places or ())
    names = {job.scenario for job in before} or {one.name for one in own}
    chosen = select(globs or sorted(names) or ["*"], own)
    progress = output.progress()
    file = cluster.file
    kafka, mode = (file.kafka, file.mode) if file else ("", "")
    jobs = own_jobs(chosen, repeat, kafka, mode, "" if client == LIBRDKAFKA else client.text)
    if before and repeat == 1:
        jobs, repeat = as_before(before, jobs)
        night = replace(night, shard=None)  # what was planned is the share
    series = open_series("all", jobs, chosen, cluster, night, options.parallel, progress, old)
    folder = series.folder
    console = Console(highlight=False)

    def lines() -> list[report.TotalsLine]:
        ended = by_scenario(folder.runs)
        names = list(dict.fromkeys(job.scenario for job in series.planned))
        names += [name for name in ended if name not in names]
        return [(name, add_up(ended[name]) if name in ended else None) for name in names]

    with alone(folder.path):
        stopped = run_series(series, progress)
        done = folder.runs
        verdict = worst(run.verdict for run in done)
        worst_of = "worst verdict: " if len(done) > 1 else ""
        if done:
            facts = {
                "parallel": series.clusters,
                "repeat": repeat,
                "interrupted": stopped,
                "seconds": round(time.monotonic() - progress.started, 1),
            }
            folder.keep("all.json", json.dumps({**facts, "runs": [asdict(run) for run in done]}, indent=2))
            folder.keep("all.md", report.markdown([line for line in lines() if line[1] is not None]))
        write_documents(series)
    folder.remove_if_empty(stopped=stopped)
    if output.as_json:
        echo(json.dumps([asdict(run) for run in done], indent=2))
    else:
        report.table(lines(), repeat).show(console)
        report.show_reasons(done, console)
        if done:
            progress.say(f"{report.number_of_runs(len(done))}, {worst_of}{verdict}; kept in {folder.path}")
    report_end(series, progress, stopped=stopped)
    return exit_code(series)
