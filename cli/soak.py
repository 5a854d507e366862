"""`acked soak`: load for hours, faults, and a judgement that keeps pace."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import (
    BuildOptions,
    ClientOptions,
    PlaceOptions,
    Quiet,
    SettingOptions,
    duration,
    message_rate,
)
from cli.pages import add_page
from harness.console import Progress, echo
from harness.errors import UnfitError, UsageError
from harness.lab.registry import lab_kind

if TYPE_CHECKING:
    from run.client_choice import ClientChoice
    from run.folder import RunFolder
    from run.runner import RunResult
    from run.soak.judge import Live
    from run.soak.soak import RollingRun
    from studies.assess.series import Target
    from studies.soak.body import SoakPlan

NAME = "soak"
METRICS = "metrics.txt"
_MOST_IN_TRANSACTION = 1_000_000
_LOG_REPLICAS = 3
"""Replicas of the logs of committed offsets and of transactions, as by default."""


@dataclass(frozen=True, kw_only=True)
class SoakOptions:
    """The load, and which faults come when."""

    rate: Annotated[
        float,
        typer.Option(parser=message_rate, metavar="<float>", help="Messages per second of all producers."),
    ] = 3000.0
    for_: Annotated[str, typer.Option("--for", metavar="<time>", help="How long (90s, 20m, 1h).")] = "10m"
    every: Annotated[
        str, typer.Option(metavar="<time>", help="Time from one fault to the next; quiet in between.")
    ] = "5m"
    faults: Annotated[
        str | None,
        typer.Option(help="Inject the faults whose names match one of these globs (a,b), or none."),
    ] = None
    schedule: Annotated[
        Path | None, typer.Option(help="Carry out the steps of a schedule.json, again and again.")
    ] = None
    search: Annotated[
        int | None, typer.Option(metavar="<seed>", help="Carry out random schedules of this seed.")
    ] = None
    readers: Annotated[
        bool, typer.Option("--readers", help="In each AZ, a group reads all topics and commits every second.")
    ] = False
    transactions: Annotated[
        int,
        typer.Option(
            metavar="<messages>",
            help="The described producer sends transactions of so many messages; one in ten is aborted.",
        ),
    ] = 0
    keep: Annotated[bool, typer.Option("--keep-records", help="Do not delete records that were judged.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class SoakTargetOptions:
    """The version and mode of the cluster."""

    kafka: Annotated[str | None, typer.Option(help="Kafka version. Default: the file's, else 2.7.1.")] = None
    mode: Annotated[
        str | None, typer.Option(help="zookeeper, kraft or kraft-combined. Default: the file's.")
    ] = None


_NOTHING = (SoakOptions(), SoakTargetOptions(), BuildOptions(), ClientOptions())


def soak(
    cluster: Annotated[
        Path | None, typer.Argument(help="Cluster file (TOML). Default: three AZs with one broker each.")
    ] = None,
    *,
    soak: SoakOptions,
    target: SoakTargetOptions,
    settings: SettingOptions,
    build: BuildOptions,
    client: ClientOptions,
    place: PlaceOptions,
    resume: Annotated[
        Path | None, typer.Option(help="Judge a soak whose command was killed: its folder, runs/soak/<time>.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the judgement as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Load a cluster for hours, break it again and again, and judge meanwhile.

    Every AZ writes with the described producer and with one that has acks=1.
    A fault comes every --every, and lasts as long as in `acked assess`.
    What all replicas hold is judged while the load goes on, compared again
    after each fault and at the end, and then deleted (DeleteRecords), so that
    memory and disk do not grow with the log. The journals of the producers
    stay: 40 bytes a message.

    Exit code: 1 if a promise of Kafka was broken, 2 if the judgement is
    unknown or a fault had no effect, else 0.
    """
    from harness.cluster.cluster_file import read_cluster_file
    from harness.kafka.versions import DEFAULT
    from studies.assess.series import describe

    given = settings.read()
    progress = Progress(quiet=as_json or quiet)
    if resume is not None:
        if cluster or given or (soak, target, build, client) != _NOTHING:
            raise UsageError("--resume judges a soak as it was; leave the other options out.")
        raise typer.Exit(_resume(resume, progress, as_json=as_json))
    file = read_cluster_file(cluster) if cluster else None
    version = build.version(target.kafka, (file and file.kafka) or DEFAULT, progress.say)
    described = describe(file, version, target.mode or "", given, force=build.force)
    _require_logs(described)
    if soak.transactions:
        _require_transactions(soak.transactions, described, client.read())
    plan = _plan(soak, described)
    raise typer.Exit(_carry_out(described, plan, soak, client, place, progress, as_json=as_json))


def _require_logs(target: Target) -> None:
    """Raises UnfitError for a version whose followers do not show their logs."""
    from harness.kafka.wire.dialect import dialect

    if not dialect(target.version.version).own_log_by_fetch:
        raise UnfitError(
            f"Kafka {target.version.label} shows no follower's log over the wire, which a soak reads all the "
            "time; use 1.1.1 or newer."
        )


def _require_transactions(size: int, target: Target, client: ClientChoice) -> None:
    """Raises UsageError for transactions of so many messages that there cannot be."""
    from studies.assess.described import producers

    described = producers(target.settings)[0].name
    if not 0 < size <= _MOST_IN_TRANSACTION:
        raise UsageError(
            f"--transactions {size}: a transaction has between 1 and {_MOST_IN_TRANSACTION:,} messages."
        )
    if client.via != "librdkafka":
        raise UsageError(
            f"--transactions {size} with --client {client.name}: only streams of librdkafka have them; "
            "leave one of the two out."
        )
    if described != "acks=all":
        raise UsageError(
            f"--transactions {size}: the described producer has {described}, and transactions need acks=all; "
            "change the setting, or leave the option out."
        )


def _plan(options: SoakOptions, target: Target) -> SoakPlan:
    """What is to be done. Raises UsageError, BadDataError."""
    from studies.assess.battery import battery, select
    from studies.assess.series import timings
    from studies.search.rules import read, require_hosts
    from studies.search.space import space_of
    from studies.soak.body import SoakPlan, distinct, of_cases, of_schedule, of_seed

    if sum(one is not None for one in (options.faults, options.schedule, options.search)) > 1:
        raise UsageError("--faults, --schedule and --search each say which faults come; use one of them.")
    if options.rate < 1:
        raise UsageError(f"--rate {options.rate:g}: a soak needs at least one message per second.")
    if options.schedule is not None:
        schedule = read(options.schedule)
        require_hosts(schedule, target.topology, str(options.schedule))
        rounds = of_schedule(schedule)
    elif options.search is not None:
        space = space_of(
            kafka=target.version.label,
            mode=target.mode,
            topology=target.topology,
            timings=timings(target.settings, target.mode),
            safe=True,
            lacks=("transactions", "groups"),
        )
        rounds = of_seed(replace(space, coordinated=False), options.search)
    else:
        cases = battery(target.topology, target.mode)
        if options.faults not in (None, "none"):
            cases = select(cases, [glob.strip() for glob in str(options.faults).split(",")])
        cases = () if options.faults == "none" else distinct(cases)
        if not cases and options.faults != "none":
            raise UsageError(
                f"--faults {options.faults!r} matches only faults that need disks or clocks of their own, "
                "which a soak cannot give; use others, such as isolate-*."
            )
        rounds = of_cases(cases)
    return SoakPlan(
        for_s=duration("--for", options.for_),
        rate=options.rate,
        every_s=duration("--every", options.every),
        readers=options.readers,
        transaction=options.transactions,
        rounds=rounds,
    )


def _carry_out(
    target: Target,
    plan: SoakPlan,
    options: SoakOptions,
    client: ClientOptions,
    place: PlaceOptions,
    progress: Progress,
    *,
    as_json: bool,
) -> int:
    from harness.cluster.settings import NO_SETTINGS
    from run.folder import RunFolder
    from run.scenario import Scenario
    from run.session import prepare
    from studies.assess.battery import battery
    from studies.assess.described import for_runs, producers, setup

    first = next(case for case in battery(target.topology, target.mode) if not case.preparations)
    compared = producers(target.settings)
    made = setup(first, target.topology, target.settings)
    replicas = made.brokers[:_LOG_REPLICAS]
    made = replace(
        made,
        offsets_log=replicas if plan.readers else (),
        transaction_log=replicas if plan.transaction else (),
        without=(
            *(() if plan.readers else ("groups",)),
            *(() if plan.transaction else ("transactions",)),
        ),
    )
    scenario = Scenario(
        name=NAME,
        title=f"{plan.rate:g} messages/s for {plan.for_s:g} s",
        article="soak",
        section="",
        body=lambda stage: None,
        setup=made,
        modes=(target.mode,),
        judged_by="promises",
        described=compared[0].name,
    )
    run_options = prepare(
        scenario,
        lab=place.lab,
        kafka=target.version.label,
        mode=target.mode,
        cluster=target.file and replace(target.file, settings=NO_SETTINGS),
        settings=for_runs(target.settings),
        force=True,
        client=client.read(),
        make_archives=False,
        say=progress.say,
    )
    folder = RunFolder.create(place.runs, NAME)

    def work() -> int:
        from report.soak import live_lines, openmetrics
        from run.runner import run_scenario
        from run.soak.soak import RollingRun
        from studies.series.planned import alone
        from studies.soak.body import Soak

        def seen(live: Live) -> None:
            from harness.plain_files import write_plain

            write_plain(folder.path / METRICS, openmetrics(live))

        rolling = RollingRun(
            folder, for_s=plan.for_s, delete=not options.keep, readers=plan.readers, seen=seen
        )
        body = Soak(plan=plan, settings=compared, rolling=rolling)

        def soaked(stage: Any) -> None:
            with progress.phase("soak", "soaking", lambda: live_lines(rolling.live)):
                body.run(stage)

        def run(_: object) -> RunResult:
            return run_scenario(
                replace(scenario, body=soaked), run_options, folder, progress, rolling=rolling
            )

        with alone(folder.path):
            return _judge(folder, progress, run, rolling, as_json=as_json)

    return lab_kind(place.lab).enter(work)


def _resume(path: Path, progress: Progress, *, as_json: bool) -> int:
    """Judge what a killed soak has left. Raises BadDataError, UsageError."""
    from run.folder import RunFolder
    from run.runner import ended
    from run.soak.soak import RollingRun
    from studies.series.planned import alone

    folder = RunFolder.open(path)
    with alone(folder.path):
        if folder.manifest().get("status") != "running":
            raise UsageError(f"{path} holds a soak that has ended; `acked check {path}` judges it again.")
        rolling = RollingRun(folder)

        def run(_: object) -> RunResult:
            with progress.phase("judgement of the files", "judging what is left"):
                progress.say(rolling.resume())
            rolling.close()
            rolling.set_aside()
            return ended(folder, progress, "complete", None, more=rolling.write)

        return _judge(folder, progress, run, rolling, as_json=as_json)


def _judge(
    folder: RunFolder,
    progress: Progress,
    run: Callable[[object], RunResult],
    rolling: RollingRun,
    *,
    as_json: bool,
) -> int:
    """Carry out a run, judge it and show the judgement; returns the exit code."""
    from report import terminal
    from report.model.judged import judged_model
    from report.soak import show
    from run.session import judged

    outcome = judged(folder, progress, run)
    if outcome.problem is not None:
        terminal.show_error(outcome.problem)
    if outcome.judgement is None:
        return outcome.exit_code
    if as_json:
        echo(json.dumps(outcome.judgement.as_json(), indent=2, default=str))
    else:
        terminal.show(judged_model(outcome.judgement.as_json()))
        show(rolling.live)
        terminal.show_durations(outcome.durations)
    page = add_page(folder.path, progress.say)
    if page is not None:
        progress.say(f"page: {page}")
    return outcome.exit_code
