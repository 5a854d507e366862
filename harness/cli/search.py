"""`acked search`: random schedules of faults, judged by what Kafka promises."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from harness.cli.options import (
    LAB,
    RUNS,
    BrokerConfig,
    ClientName,
    ClientVersion,
    CompressTime,
    ConsumerConfig,
    KafkaHome,
    KafkaJars,
    Lab,
    ProducerConfig,
    Runs,
    Sets,
    TopicConfig,
    chosen_kafka,
    count,
    given_settings,
)
from harness.console import Progress
from harness.errors import (
    EXIT_AS_DECLARED,
    EXIT_UNKNOWN,
    EXIT_VIOLATED,
    StoppedError,
    UsageError,
)
from harness.kafka.versions import DEFAULT

if TYPE_CHECKING:
    from harness.assess.series import Target
    from harness.run.client_choice import ClientChoice
    from harness.search.hunt import Record, Search
    from harness.search.schedule import Schedule

PARALLEL = 2
_EXPECTED_S = 40.0
"""A run, before any has been measured."""
_USUAL_BUDGET = "30m"

Cluster = Annotated[
    Path | None, typer.Option(help="Cluster file (TOML). Default: three AZs with one broker each.")
]
KafkaVersion = Annotated[
    str | None, typer.Option(help="Kafka version. Default: the cluster file's, else 2.7.1.")
]
Mode = Annotated[
    str | None, typer.Option(help="zookeeper, kraft or kraft-combined. Default: the cluster file's.")
]
Parallel = Annotated[
    int,
    typer.Option(
        "--parallel",
        parser=count("--parallel", least=1),
        metavar="<int>",
        help="Number of clusters to run side by side.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def search(
    cluster: Cluster = None,
    kafka: KafkaVersion = None,
    mode: Mode = None,
    seed: Annotated[
        int | None,
        typer.Option(parser=count("--seed", least=0), metavar="<int>", help="Default: a random one."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="<time>", help="How long to search: 90s, 30m, 8h. Default: 30m, unless --count."
        ),
    ] = None,
    schedules: Annotated[
        int | None,
        typer.Option(
            "--count",
            parser=count("--count", least=1),
            metavar="<int>",
            help="How many schedules to run at most.",
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(help="Kinds of faults that match one of these globs (cut,kill*), or no-fault."),
    ] = None,
    producers: Annotated[
        str | None,
        typer.Option(help="Kinds of producers that match one of these globs: transactional, acks-*."),
    ] = None,
    safe: Annotated[
        bool,
        typer.Option("--safe", help="Only settings under which Kafka promises to keep every message."),
    ] = False,
    parallel: Parallel = PARALLEL,
    corpus: Annotated[
        Path | None, typer.Option(help="Begin with the schedules of this folder, or of another search.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Continue a search: its folder, runs/search/<time>.")
    ] = None,
    sets: Sets = None,
    broker_config: BrokerConfig = None,
    topic_config: TopicConfig = None,
    producer_config: ProducerConfig = None,
    consumer_config: ConsumerConfig = None,
    compress_time: CompressTime = 1.0,
    client: ClientName = "librdkafka",
    client_version: ClientVersion = "",
    kafka_home: KafkaHome = None,
    kafka_jars: KafkaJars = None,
    lab: Lab = LAB,
    runs: Runs = RUNS,
    as_json: AsJson = False,
) -> None:
    """Search for broken promises with random schedules of faults.

    A schedule is made from the seed: faults and operator actions on hosts and
    roles, at times or on events such as leader-elected, with producers of
    several settings. Each run is judged by what Kafka promises. A schedule
    that reached something new is kept in the corpus, and mutated.

    The folder runs/search/<time> keeps the runs with findings, a line for
    each schedule, the corpus, and the outcome (search.json).

    Exit code: 1 if a promise was broken or something is unexplained, 2 if a
    run was not judged or left a promise undecided, else 0.
    """
    from msgspec.structs import replace

    from harness.run.client_choice import LIBRDKAFKA, parse_client
    from harness.search.hunt import Search, corpus_of, plan_of, space_for
    from harness.series.night import parse_duration

    progress = Progress(quiet=as_json)
    budget_s = parse_duration("--budget", budget or _USUAL_BUDGET) if budget or not schedules else None
    settings = given_settings(
        sets,
        broker=broker_config,
        topic=topic_config,
        producer=producer_config,
        consumer=consumer_config,
        compress_time=compress_time,
    )
    extra = corpus_of(corpus) if corpus else []
    if resume is not None:
        others = (cluster, kafka, mode, faults, producers, kafka_home, kafka_jars)
        given = safe or settings or client != "librdkafka" or client_version
        if any(one is not None for one in (*others, seed)) or given:
            raise UsageError("--resume continues a search as it was planned; leave the others out.")
        work = Search.resume(resume)
    else:
        from harness.assess.series import describe
        from harness.cluster.cluster_file import read_cluster_file

        file = read_cluster_file(cluster) if cluster else None
        default = (file and file.kafka) or DEFAULT
        version = chosen_kafka(kafka, kafka_home, kafka_jars, default, progress.say)
        target = describe(file, version, mode or "", settings)
        chosen = secrets.randbelow(1_000_000) if seed is None else seed
        choice = parse_client(client, client_version)
        plan = plan_of(
            target,
            seed=chosen,
            faults=faults,
            producers=producers,
            safe=safe,
            lab=lab,
            client="" if choice == LIBRDKAFKA else choice.text,
        )
        space_for(plan, target.topology)
        plan = replace(plan, lacks=check_place(target, lab, progress, client=choice))
        space_for(plan, target.topology)
        _require_fitting(extra, target)
        work = Search.create(runs, plan, cluster)
    raise typer.Exit(
        _search(work, progress, parallel, budget_s=budget_s, most=schedules, extra=extra, as_json=as_json)
    )


def check_place(target: Target, lab: str, progress: Progress, *, client: ClientChoice) -> tuple[str, ...]:
    """Check what can be checked before anything starts; returns what the client library cannot do.

    Raises UsageError, UnfitError.
    """
    from dataclasses import replace

    from harness.assess.series import timings
    from harness.cluster.settings import NO_SETTINGS
    from harness.run.client_choice import greet, program
    from harness.run.session import prepare
    from harness.search.cell import for_runs
    from harness.search.grammar import fresh, space_of
    from harness.search.scenario import scenario_of
    from workloads.protocol.lines import FEATURES

    space = space_of(
        kafka=target.version.label,
        mode=target.mode,
        topology=target.topology,
        timings=timings(target.settings, target.mode),
    )
    options = prepare(
        scenario_of(fresh(space, 0, 0), target.topology, target.mode),
        lab=lab,
        kafka=target.version.label,
        mode=target.mode,
        cluster=target.file and replace(target.file, settings=NO_SETTINGS),
        settings=for_runs(target.settings),
        force=True,
        client=client,
        say=progress.say,
    )
    found = program(client, options.version, progress.say)
    if found is None:
        return ()
    hello = greet(found)
    if "assign" in hello.lacks:
        raise UsageError(
            f"--client {client.label} cannot read partitions that are assigned to it, as the consumers of a "
            f"search do; use librdkafka, java, or a program that can."
        )
    return tuple(name for name in FEATURES if name not in hello.features)


def client_of(text: str) -> ClientChoice:
    """The client library that a plan or a run names; empty: librdkafka. Raises UsageError."""
    from harness.run.client_choice import LIBRDKAFKA, parse_client

    return parse_client(text) if text else LIBRDKAFKA


def _require_fitting(schedules: list[Schedule], target: Target) -> None:
    from harness.search.schedule import require_hosts

    for one in schedules:
        require_mode(one, target.mode)
        require_hosts(one, target.topology, f"--corpus, {one.made_by or one.digest}")


def require_mode(schedule: Schedule, mode: str) -> None:
    """Raise UsageError for a schedule that names roles of another mode."""
    from harness.search.faults import KINDS

    for step in schedule.steps:
        modes = KINDS[step.fault].modes
        if modes and mode not in modes:
            raise UsageError(f"The schedule has a step {step.fault}, which mode {mode} does not have.")


def _search(
    work: Search,
    progress: Progress,
    parallel: int,
    *,
    budget_s: float | None,
    most: int | None,
    extra: list[Schedule],
    as_json: bool,
) -> int:
    from report import search as report

    began = time.monotonic()
    pace: list[float] = []
    limits = [f"{most} schedules" if most else "", f"{budget_s / 60:.0f} min" if budget_s else ""]
    progress.say(
        f"Kafka {work.plan.version}, {work.plan.mode}, seed {work.plan.seed}: "
        f"{' or '.join(filter(None, limits))}, {parallel} clusters side by side; {work.path} keeps them"
    )

    def may_start(begun: int) -> bool:
        usual = sorted(pace)[len(pace) // 2] if pace else _EXPECTED_S
        in_time = budget_s is None or time.monotonic() - began + usual <= budget_s
        return in_time and (most is None or begun < most)

    def ended(record: Record) -> None:
        pace.append(record.seconds)
        fresh = [one for one in record.findings if work.is_new(one, record)]
        what = "; ".join(f"{one.weight}: {one.signature} ({one.count})" for one in fresh)
        if not record.judged:
            what = f"{record.verdict}: {next(iter(record.reasons), '')}"
        origin = f"mutated from {record.parent}" if record.parent else "fresh"
        known = len(record.findings) - len(fresh)
        again = f"{known} known group{'s' if known != 1 else ''} of findings" if known else ""
        progress.say(
            f"{record.number} ({origin}, {record.seconds:.0f} s): "
            f"{'; '.join(filter(None, (what, again))) or 'clean'}; {_states(len(record.new))}"
        )

    state = _State(work, began, budget_s, most)
    with progress.phase("runs", "searching", state.lines):
        stopped = work.run(parallel, ended, may_start, extra)
    document = work.document(time.monotonic() - began)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        console = report.console()
        if document["groups"]:
            console.print(report.findings(document))
        else:
            console.print("no findings")
        console.print()
        for sentence in report.summary(document):
            console.print(f"• {sentence}", soft_wrap=True, markup=False)
        Console(stderr=True, highlight=False).print(f"kept in {work.path}", style="dim")
    if stopped:
        raise StoppedError(
            f"interrupted after {len(work.records)} schedules; everything that was started has been ended. "
            f"To continue, use --resume {work.path}."
        )
    weights = [group["finding"]["weight"] for group in document["groups"]]
    if "new" in weights or any(group["finding"]["promise"] == "broken" for group in document["groups"]):
        return EXIT_VIOLATED
    return EXIT_UNKNOWN if document["not_judged"] or "unknown" in weights else EXIT_AS_DECLARED


def _states(count: int) -> str:
    return f"{count} new state{'' if count == 1 else 's'}"


class _State:
    """How a search stands, for the terminal."""

    def __init__(self, work: Search, began: float, budget_s: float | None, most: int | None) -> None:
        self._work, self._began, self._budget_s, self._most = work, began, budget_s, most

    def lines(self) -> list[str]:
        records = self._work.records
        elapsed_s = time.monotonic() - self._began
        left = f", {max(0.0, self._budget_s - elapsed_s) / 60:.0f} min left" if self._budget_s else ""
        groups = {one.signature for record in records for one in record.findings}
        return [
            f"{len(records)} schedules{left}; {len(groups)} groups of findings, "
            f"{len(self._work.known)} states, corpus {len(self._work.corpus)}"
        ]
