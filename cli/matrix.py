"""`acked matrix`: scenario × version × mode, as the table to look at before an upgrade."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from cli.options import BuildOptions, From, PlaceOptions, Quiet, SeriesOptions, SettingOptions
from cli.series import (
    Night,
    SeriesCluster,
    exit_code,
    open_series,
    report_end,
    run_series,
    write_documents,
)
from harness.console import Console, Progress, echo
from harness.errors import UsageError
from harness.kafka.versions import KafkaVersion, kafka_version
from report import series as report
from run.catalogue import known_scenarios, select
from run.client_choice import parse_clients
from run.scenario import Scenario
from run.scenario_file import read_places
from studies.series.folder import SeriesFolder
from studies.series.plan import parse_modes, parse_versions, plan
from studies.series.planned import alone
from studies.series.summary import grid


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """On what each scenario is run."""

    versions: Annotated[
        str | None,
        typer.Option(
            help="Kafka versions, comma-separated; 2.7.1@2.6 for 2.7.1 with protocol 2.6. "
            "Default: each scenario's own."
        ),
    ] = None
    modes: Annotated[
        str | None, typer.Option(help="Metadata modes, comma-separated. Default: each scenario's own.")
    ] = None
    cluster: Annotated[
        Path | None, typer.Option(help="Cluster file (TOML): AZs, hosts and settings. Default: three AZs.")
    ] = None
    clients: Annotated[
        str | None,
        typer.Option(
            help="Client libraries, comma-separated: librdkafka, java, java@VERSION, a program. "
            "Default: librdkafka."
        ),
    ] = None


def matrix(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Scenarios, globs, or scenario files. Default: those that show how Kafka versions differ."
        ),
    ] = None,
    *,
    places: From = None,
    columns: ColumnOptions,
    settings: SettingOptions,
    build: BuildOptions,
    place: PlaceOptions,
    options: SeriesOptions,
    resume: Annotated[
        Path | None, typer.Option(help="Continue an interrupted matrix: its folder, runs/matrix/<time>.")
    ] = None,
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
    own = read_places(places or ())
    scenarios = select(names, own) if names else own or _that_differ()
    progress = Progress(quiet=as_json or quiet)
    cluster = SeriesCluster.read(place, settings.read(), columns.cluster, force=build.force)
    file = cluster.file
    versions, modes = columns.versions, columns.modes
    if file is not None:
        versions = versions if versions is not None else file.kafka or None
        modes = modes if modes is not None else file.mode or None
    chosen = () if versions is None else parse_versions(versions, force=build.force)
    chosen += _builds(build, chosen, progress)
    clients = () if columns.clients is None else parse_clients(columns.clients)
    jobs = plan(
        scenarios,
        chosen,
        () if modes is None else parse_modes(modes),
        options.repeat,
        [client.text for client in clients],
    )
    night = Night.read(options)
    old = None if resume is None else SeriesFolder.resume(resume)
    series = open_series("matrix", jobs, scenarios, cluster, night, options.parallel, progress, old)
    folder = series.folder
    with alone(folder.path):
        stopped = run_series(series, progress)
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
        console = Console(highlight=False)
        report.matrix(grid(done)).show(console)
        console.paragraph(report.MATRIX_LEGEND, style="dim")
        report.show_reasons(done, console)
        progress.say(f"kept in {folder.path}")
    report_end(series, progress, stopped=stopped)
    raise typer.Exit(exit_code(series))


def _that_differ() -> list[Scenario]:
    """The scenarios of the catalogue that show how Kafka versions differ."""
    return [one for one in known_scenarios().values() if one.versions]


def _builds(
    build: BuildOptions, versions: tuple[KafkaVersion, ...], progress: Progress
) -> tuple[KafkaVersion, ...]:
    """The user's builds as further columns; if only jars are given, each version with the jars in front."""
    if not build.given:
        return ()
    if build.kafka_home is None and not versions:
        raise UsageError(
            f"--kafka-jars {build.kafka_jars} replaces classes of a release: name one or more with "
            f"--versions."
        )
    bases = [""] if build.kafka_home else [version.name for version in versions]
    return tuple(kafka_version(build.label(base, progress.say)) for base in bases)
