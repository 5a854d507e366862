"""`acked matrix`: scenario × version × mode, as the table to look at before an upgrade."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from cli.options import (
    LAB,
    RUNS,
    BrokerConfig,
    BudgetOption,
    CompressTime,
    ConsumerConfig,
    Earlier,
    Force,
    Junit,
    KafkaHome,
    KafkaJars,
    KeepFailed,
    Lab,
    Parallel,
    ProducerConfig,
    Quiet,
    Repeat,
    Runs,
    Sets,
    ShardOption,
    Summary,
    TopicConfig,
    build_label,
    given_settings,
)
from cli.series import (
    exit_code,
    misfits,
    open_series,
    read_night,
    report_end,
    run_series,
    with_cluster,
    write_documents,
)
from harness.cluster.settings import NO_SETTINGS
from harness.console import Progress, echo
from harness.errors import UsageError
from harness.kafka.versions import KafkaVersion, kafka_version
from harness.lab.layout import THREE_AZS
from report import series as report
from run.catalogue import known_scenarios, select
from studies.series.plan import parse_modes, parse_versions, plan
from studies.series.summary import grid


def matrix(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Scenarios, globs, or scenario files. Default: those that show how Kafka versions differ."
        ),
    ] = None,
    versions: Annotated[
        str | None,
        typer.Option(
            help="Kafka versions, comma-separated; 2.7.1@2.6 for 2.7.1 with protocol 2.6. "
            "Default: each scenario's own."
        ),
    ] = None,
    modes: Annotated[
        str | None, typer.Option(help="Metadata modes, comma-separated. Default: each scenario's own.")
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option(help="Cluster file (TOML): AZs, hosts and settings. Default: three AZs.")
    ] = None,
    clients: Annotated[
        str | None,
        typer.Option(
            help="Client libraries, comma-separated: librdkafka, java, java@VERSION, a program. "
            "Default: librdkafka."
        ),
    ] = None,
    sets: Sets = None,
    broker_config: BrokerConfig = None,
    topic_config: TopicConfig = None,
    producer_config: ProducerConfig = None,
    consumer_config: ConsumerConfig = None,
    compress_time: CompressTime = 1.0,
    parallel: Parallel = 0,
    lab: Lab = LAB,
    runs: Runs = RUNS,
    kafka_home: KafkaHome = None,
    kafka_jars: KafkaJars = None,
    force: Force = False,
    repeat: Repeat = 1,
    resume: Annotated[
        Path | None, typer.Option(help="Continue an interrupted matrix: its folder, runs/matrix/<time>.")
    ] = None,
    budget: BudgetOption = None,
    shard: ShardOption = None,
    earlier: Earlier = None,
    junit: Junit = None,
    summary: Summary = None,
    keep_failed: KeepFailed = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the runs as JSON.")] = False,
) -> None:
    """Run scenarios on several Kafka versions and compare the results.

    The table shows verdicts, the numbers of lost and duplicated messages, and
    findings about transactions and groups.
    The folder runs/matrix/<time> keeps it as Markdown and JSON, beside
    `runs.jsonl`, to which each run adds a line as it ends.

    Exit code: that of the worst verdict.
    """
    from harness.artifacts import resolve_all
    from run.claims import require_sql
    from run.client_choice import client_of, parse_clients
    from run.session import prepare, require_lab, require_settings
    from studies.series.folder import SeriesFolder

    settings = given_settings(
        sets,
        broker=broker_config,
        topic=topic_config,
        producer=producer_config,
        consumer=consumer_config,
        compress_time=compress_time,
    )
    scenarios = {one.name: one for one in (select(names) if names else known_scenarios().values())}
    if not names:
        scenarios = {name: one for name, one in scenarios.items() if one.versions}
    progress = Progress(quiet=as_json or quiet)
    file, settings = with_cluster(settings, cluster)
    if file is not None:
        versions = versions if versions is not None else file.kafka or None
        modes = modes if modes is not None else file.mode or None
    asked = () if versions is None else parse_versions(versions, force=force)
    asked += _builds(kafka_home, kafka_jars, asked, progress)
    chosen = () if clients is None else parse_clients(clients)
    jobs = plan(
        scenarios.values(),
        asked,
        () if modes is None else parse_modes(modes),
        repeat,
        [client.text for client in chosen],
    )
    unfitting = misfits(jobs, scenarios.values(), file)
    fitting = [job for job in dict.fromkeys(jobs) if job not in unfitting]
    night = read_night(
        budget=budget,
        shard=shard,
        keep_failed=keep_failed,
        junit=junit,
        summary=summary,
        earlier=earlier,
    )
    layout = file.layout if file else THREE_AZS
    asked_for = [
        require_settings(
            scenarios[job.scenario],
            settings,
            kafka=job.version,
            mode=job.mode,
            layout=layout,
            force=force,
        )
        for job in fitting
    ]
    for sentence in dict.fromkeys(warning for warnings in asked_for for warning in warnings):
        progress.say(sentence)
    require_lab(lab)
    old = None if resume is None else SeriesFolder.resume(resume)
    resolve_all(
        [kafka_version(name, force=force) for name in {job.version: 0 for job in fitting}], say=progress.say
    )
    for example in {(job.version, job.client): job for job in reversed(fitting)}.values():
        prepare(
            scenarios[example.scenario],
            lab=lab,
            kafka=example.version,
            mode=example.mode,
            cluster=file and replace(file, settings=NO_SETTINGS),
            force=force,
            client=client_of(example.client),
            say=progress.say,
        )
    require_sql({job.scenario: scenarios[job.scenario] for job in fitting}.values(), say=progress.say)
    series = open_series(
        "matrix",
        jobs,
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
    stopped = run_series(series, lambda run: progress.say(report.ended(run)))
    done = folder.runs
    document = json.dumps([asdict(run) for run in done], indent=2)
    if done:
        folder.keep("matrix.json", document)
        folder.keep("matrix.md", report.matrix_markdown(grid(done)))
    write_documents(series)
    folder.remove_if_empty(stopped=stopped)
    if as_json:
        echo(document)
    elif done:
        console = report.wide_console()
        console.print(report.matrix(grid(done)))
        console.print(report.MATRIX_LEGEND, style="dim")
        report.show_reasons(done, console)
        progress.say(f"kept in {folder.path}")
    report_end(series, progress, stopped=stopped)
    raise typer.Exit(exit_code(series))


def _builds(
    home: Path | None, jars: str | None, versions: tuple[KafkaVersion, ...], progress: Progress
) -> tuple[KafkaVersion, ...]:
    """The user's builds as further columns; if only jars are given, each version with the jars in front."""
    if home is None and jars is None:
        return ()
    if home is None and not versions:
        raise UsageError(
            f"--kafka-jars {jars} replaces classes of a release: name one or more with --versions."
        )
    bases = [""] if home else [version.name for version in versions]
    return tuple(kafka_version(build_label(home, jars, base, progress.say)) for base in bases)
