"""`acked run`: build a cluster, break it, record, judge."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import (
    LAB,
    RUNS,
    BrokerConfig,
    BudgetOption,
    ClientName,
    ClientVersion,
    CompressTime,
    ConsumerConfig,
    Earlier,
    Force,
    Junit,
    KafkaHome,
    KafkaJars,
    KeepFailed,
    Lab,
    OneScenario,
    Parallel,
    ProducerConfig,
    Quiet,
    Rate,
    Repeat,
    Runs,
    Sets,
    ShardOption,
    Summary,
    TopicConfig,
    chosen_kafka,
    given_settings,
)
from cli.pages import add_page
from harness.cluster.settings import NO_SETTINGS, Settings
from harness.console import Progress, echo
from harness.errors import (
    EXIT_AS_DECLARED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EXIT_VIOLATED,
    AckedError,
    UsageError,
)
from harness.lab.embedded.namespaces import run_inside
from harness.lab.layout import THREE_AZS

if TYPE_CHECKING:
    from cli.series import Night


def run(
    name: OneScenario = None,
    lab: Lab = LAB,
    kafka: Annotated[str | None, typer.Option(help="Kafka version. Default: the scenario's own.")] = None,
    mode: Annotated[
        str | None,
        typer.Option(help="zookeeper, kraft, kraft-combined or migration. Default: the scenario's own."),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(help="Cluster file (TOML): AZs, hosts and settings. Default: three AZs."),
    ] = None,
    sets: Sets = None,
    broker_config: BrokerConfig = None,
    topic_config: TopicConfig = None,
    producer_config: ProducerConfig = None,
    consumer_config: ConsumerConfig = None,
    compress_time: CompressTime = 1.0,
    kafka_home: KafkaHome = None,
    kafka_jars: KafkaJars = None,
    client: ClientName = "librdkafka",
    client_version: ClientVersion = "",
    force: Force = False,
    rate: Rate = None,
    runs: Runs = RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False,
    git_bisect: Annotated[
        bool,
        typer.Option(
            "--git-bisect",
            help="Exit with the codes of `git bisect run`: 125 (skip) if nothing was proven.",
        ),
    ] = False,
    quiet: Quiet = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Run the whole catalogue, or all of --from.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--from", help="With --all or --filter: the scenarios in the files of this folder."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--filter", help="Run the scenarios that match one of these globs (a,b)."),
    ] = None,
    repeat: Repeat = 1,
    parallel: Parallel = 0,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Continue an interrupted series: its folder, runs/all/<time>. Without --all and --filter, "
            "with the scenarios and repeats that were planned."
        ),
    ] = None,
    budget: BudgetOption = None,
    shard: ShardOption = None,
    earlier: Earlier = None,
    junit: Junit = None,
    summary: Summary = None,
    keep_failed: KeepFailed = False,
) -> None:
    """Run one scenario on a real cluster and judge it, or many side by side.

    A series (--all, --filter, --repeat, and the options for CI jobs: --budget,
    --shard, --earlier, --junit, --summary, --keep-failed) adds a line to
    `runs.jsonl` in its folder as each run ends.

    Exit code: 0 as declared, 1 violated, 2 unknown or invalid, 3 this machine
    lacks something, 254 usage error, 255 crash. The worst verdict of a series
    decides.
    """
    settings = given_settings(
        sets,
        broker=broker_config,
        topic=topic_config,
        producer=producer_config,
        consumer=consumer_config,
        compress_time=compress_time,
    )
    if pattern is not None and not pattern.strip():
        raise UsageError("--filter is empty; give globs, such as 'kraft-*,no-fault', or use --all.")
    if folder and not (everything or pattern is not None):
        raise UsageError(f"--from {folder} chooses scenarios for --all or --filter; add one of them.")
    for_jobs = (budget, shard, earlier, junit, summary)
    if everything or pattern is not None or repeat != 1 or resume or keep_failed or any(for_jobs):
        if kafka_home or kafka_jars is not None:
            raise UsageError("--kafka-home and --kafka-jars are for a single run, and for `acked matrix`.")
        if kafka or mode or rate is not None:
            raise UsageError("--kafka, --mode and --rate are for a single run; `acked matrix` varies them.")
        if name and (everything or pattern is not None):
            raise UsageError(f"Use either the scenario {name!r} or --all with --filter, not both.")
        from cli.series import read_night

        if not (name or everything or pattern is not None or resume):
            raise UsageError("Name a scenario to run (`acked list` shows them), or use --all or --filter.")
        chosen = name or pattern or ("*" if everything or not resume else "")
        status = _run_many(
            [glob.strip() for glob in chosen.split(",") if chosen],
            folder_of_scenarios=folder,
            repeat=repeat,
            parallel=parallel,
            lab=lab,
            runs=runs,
            resume=resume,
            as_json=as_json,
            quiet=quiet,
            settings=settings,
            cluster=cluster,
            client=client,
            client_version=client_version,
            night=read_night(
                budget=budget,
                shard=shard,
                keep_failed=keep_failed,
                junit=junit,
                summary=summary,
                earlier=earlier,
            ),
        )
    elif not name:
        raise UsageError("Name a scenario to run (`acked list` shows them), or use --all.")
    else:
        try:
            status = _run_one(
                name,
                lab=lab,
                kafka=kafka,
                kafka_home=kafka_home,
                kafka_jars=kafka_jars,
                mode=mode,
                cluster=cluster,
                force=force,
                rate=rate,
                runs=runs,
                as_json=as_json,
                quiet=quiet,
                settings=settings,
                client=client,
                client_version=client_version,
            )
        except AckedError as error:
            if not git_bisect or isinstance(error, UsageError):
                raise
            from report import terminal

            terminal.show_error(error)
            status = error.exit_code
    raise typer.Exit(for_git_bisect(status) if git_bisect else status)


def for_git_bisect(status: int) -> int:
    """The exit code for `git bisect run`: 0 is good, 1 bad, and 125 skips a commit that cannot be tested.

    A wrong command line stays 254 and an interruption 130, which end the bisection.
    """
    return status if status in (EXIT_AS_DECLARED, EXIT_VIOLATED, EXIT_USAGE, EXIT_INTERRUPTED) else 125


def _run_one(
    name: str,
    *,
    lab: str,
    kafka: str | None,
    kafka_home: Path | None,
    kafka_jars: str | None,
    mode: str | None,
    cluster: Path | None,
    force: bool,
    rate: float | None,
    runs: Path,
    as_json: bool,
    quiet: bool,
    settings: Settings,
    client: str,
    client_version: str,
) -> int:
    from harness.cluster.cluster_file import read_cluster_file
    from report import terminal
    from report.model.blocked import blocked_in
    from report.model.judged import judged_model
    from run.catalogue import find
    from run.claims import require_sql
    from run.client_choice import parse_client
    from run.folder import RunFolder
    from run.session import RunOutcome, prepare, run_and_judge

    scenario = find(name)
    progress = Progress(quiet=as_json or quiet)
    described = read_cluster_file(cluster) if cluster else None
    default = (described and described.kafka) or scenario.kafka
    options = prepare(
        scenario,
        lab=lab,
        kafka=chosen_kafka(kafka, kafka_home, kafka_jars, default, progress.say),
        mode=mode or "",
        rate=rate,
        cluster=described,
        settings=settings,
        force=force,
        client=parse_client(client, client_version),
        say=progress.say,
    )
    require_sql([scenario], say=progress.say)
    folder = RunFolder.create(runs, scenario.name, scenario.file)

    def work() -> int:
        outcome: RunOutcome = run_and_judge(scenario, options, folder, progress)
        if outcome.problem is not None:
            terminal.show_error(outcome.problem)
        if outcome.judgement is not None and as_json:
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

    if lab != "embedded":
        return work()
    return run_inside(work)


def _run_many(
    globs: list[str],
    *,
    folder_of_scenarios: Path | None,
    repeat: int,
    parallel: int,
    lab: str,
    runs: Path,
    resume: Path | None,
    as_json: bool,
    quiet: bool,
    settings: Settings,
    cluster: Path | None,
    client: str,
    client_version: str,
    night: Night,
) -> int:
    from checkers.verdict import worst
    from cli.series import (
        exit_code,
        misfits,
        open_series,
        report_end,
        run_series,
        with_cluster,
        write_documents,
    )
    from harness.artifacts import resolve_all
    from harness.kafka.versions import kafka_version
    from report import series as report
    from run.catalogue import select
    from run.claims import require_sql
    from run.client_choice import LIBRDKAFKA, parse_client
    from run.scenario_file import read_folder
    from run.session import prepare, require_lab, require_settings
    from studies.series.folder import SeriesFolder
    from studies.series.plan import as_before, own_jobs
    from studies.series.summary import RunSummary, add_up, by_scenario

    old = None if resume is None else SeriesFolder.resume(resume)
    before = old.planned() if old and not globs else []
    globs = globs or sorted({job.scenario for job in before}) or ["*"]
    scenarios = select(globs, among=read_folder(folder_of_scenarios) if folder_of_scenarios else None)
    progress = Progress(quiet=as_json or quiet)
    file, settings = with_cluster(settings, cluster)
    kafka, mode = (file.kafka, file.mode) if file else ("", "")
    choice = parse_client(client, client_version)
    planned = own_jobs(scenarios, repeat, kafka, mode, "" if choice == LIBRDKAFKA else choice.text)
    if before and repeat == 1:
        planned, repeat = as_before(before, planned)
        night = replace(night, shard=None)  # what was planned is the share
    unfitting = misfits(planned, scenarios, file)
    unfit = {job.scenario for job in unfitting}
    scenarios = [one for one in scenarios if one.name not in unfit]
    layout = file.layout if file else THREE_AZS
    asked = [require_settings(one, settings, kafka=kafka, mode=mode, layout=layout) for one in scenarios]
    for sentence in dict.fromkeys(warning for warnings in asked for warning in warnings):
        progress.say(sentence)
    require_lab(lab)
    resolve_all([kafka_version(kafka or one.kafka) for one in scenarios], say=progress.say)
    for example in {(one.kafka, one.mode): one for one in scenarios}.values():
        prepare(
            example,
            lab=lab,
            cluster=file and replace(file, settings=NO_SETTINGS),
            client=choice,
            say=progress.say,
        )
    require_sql(scenarios, say=progress.say)
    series = open_series(
        "all",
        planned,
        runs=runs,
        old=old,
        parallel=parallel,
        lab=lab,
        progress=progress,
        settings=settings,
        cluster=file,
        misfits=unfitting,
        night=night,
    )
    folder = series.folder
    console = report.wide_console()

    def lines() -> list[report.Line]:
        ended = by_scenario(folder.runs)
        names = list(dict.fromkeys(job.scenario for job in series.planned))
        names += [name for name in ended if name not in names]
        return [(name, add_up(ended[name]) if name in ended else None) for name in names]

    live = console.is_terminal and not (as_json or quiet)
    with report.live(console, lambda: report.table(lines(), repeat), on=live) as redraw:

        def ended(run: RunSummary) -> None:
            redraw()
            if not live:
                progress.say(report.ended(run))

        stopped = run_series(series, ended)
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
    if as_json:
        echo(json.dumps([asdict(run) for run in done], indent=2))
    else:
        if not live:
            console.print(report.table(lines(), repeat))
        report.show_reasons(done, console)
        if done:
            progress.say(f"{report.number_of_runs(len(done))}, {worst_of}{verdict}; kept in {folder.path}")
    report_end(series, progress, stopped=stopped)
    return exit_code(series)
