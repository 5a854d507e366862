"""`acked search`: random schedules of faults, judged by what Kafka promises."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.attached_run import HostsOptions
from cli.attached_series import require_no_lab, search_on_hosts
from cli.options import (
    MOST_PARALLEL,
    MOST_RUNS,
    BuildOptions,
    ClientOptions,
    PartitionRate,
    PlaceOptions,
    SettingOptions,
    Trust,
    count,
    duration,
    with_rate,
)
from harness.console import Progress
from harness.errors import UnfitError, UsageError
from harness.kafka.versions import DEFAULT

if TYPE_CHECKING:
    from cli.searching import Limits
    from harness.cluster.cluster_file import ClusterFile
    from harness.cluster.settings import Settings
    from run.client_choice import ClientChoice
    from studies.assess.series import Target
    from studies.search.hunt import SearchPlan
    from studies.search.schedule import Schedule

PARALLEL = 2
LARGEST_SEED = (1 << 63) - 1
_USUAL_BUDGET = "30m"

ClusterOption = Annotated[
    Path | None, typer.Option(help="Cluster file (TOML). Default: three AZs with one broker each.")
]
SearchParallel = Annotated[
    int,
    typer.Option(
        "--parallel",
        parser=count("--parallel", least=1, most=MOST_PARALLEL),
        metavar="<int>",
        help="Number of clusters to run side by side.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


@dataclass(frozen=True, kw_only=True)
class SearchTargetOptions:
    """The cluster to search."""

    cluster: ClusterOption = None
    kafka: Annotated[
        str | None, typer.Option(help="Kafka version. Default: the cluster file's, else 2.7.1.")
    ] = None
    mode: Annotated[
        str | None, typer.Option(help="zookeeper, kraft or kraft-combined. Default: the cluster file's.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class SpaceOptions:
    """What schedules are made from."""

    seed: Annotated[
        int | None,
        typer.Option(
            parser=count("--seed", least=0, most=LARGEST_SEED), metavar="<int>", help="Default: a random one."
        ),
    ] = None
    faults: Annotated[
        str | None,
        typer.Option(help="Kinds of faults that match one of these globs (cut,kill*), or no-fault."),
    ] = None
    producers: Annotated[
        str | None,
        typer.Option(help="Kinds of producers that match one of these globs: transactional, acks-*."),
    ] = None
    groups: Annotated[
        str | None,
        typer.Option(
            help="A group in every schedule, of the kinds that match one of these globs: consumer, share."
        ),
    ] = None
    safe: Annotated[
        bool,
        typer.Option("--safe", help="Only settings under which Kafka promises to keep every message."),
    ] = False
    rate: PartitionRate = None


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """How long to search, and on how many clusters."""

    budget: Annotated[
        str | None,
        typer.Option(
            metavar="<time>", help="How long to search: 90s, 30m, 8h. Default: 30m, unless --count."
        ),
    ] = None
    schedules: Annotated[
        int | None,
        typer.Option(
            "--count",
            parser=count("--count", least=1, most=MOST_RUNS),
            metavar="<int>",
            help="How many schedules to run at most.",
        ),
    ] = None
    parallel: SearchParallel = PARALLEL

    def read(self) -> Limits:
        """The limits, from now on. Raises UsageError."""
        from cli.searching import Limits
        from studies.series.budget import Budget

        timed = self.budget or not self.schedules
        budget = Budget(duration("--budget", self.budget or _USUAL_BUDGET)) if timed else Budget()
        return Limits(parallel=self.parallel, budget=budget, most=self.schedules)


def search(
    *,
    target: SearchTargetOptions,
    attached: HostsOptions,
    space: SpaceOptions,
    limits: LimitOptions,
    corpus: Annotated[
        Path | None, typer.Option(help="Begin with the schedules of this folder, or of another search.")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="<a,b,...>",
            help="Run the same schedules on several Kafka versions, or with several clients.",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Continue a search or a comparison: its folder, runs/search/<time>."),
    ] = None,
    settings: SettingOptions,
    client: ClientOptions,
    build: BuildOptions,
    trust: Trust = False,
    place: PlaceOptions,
    as_json: AsJson = False,
) -> None:
    """Search for broken promises with random schedules of faults.

    A schedule is made from the seed: faults and operator actions on hosts and
    roles, at times or on events such as leader-elected, with producers of
    several settings. Each run is judged by what Kafka promises. A schedule
    that reached something new is kept in the corpus, and mutated.

    The folder runs/search/<time> keeps the runs with findings, a line for
    each schedule, the corpus, and the outcome (search.json).

    With --hosts, it breaks a cluster that runs already, one schedule after
    the other, with the faults that its hosts file allows (docs/attach.md).

    With --compare, several versions or clients run the same schedules, and
    the differences come first; runs/compare/<time> keeps a search for each.

    Exit code: 1 if a promise was broken or something is unexplained, 2 if a
    run was not judged or left a promise undecided, else 0.
    """
    from cli import searching
    from run.client_choice import require_trusted
    from studies.search.comparison import SIDES, SearchComparison
    from studies.search.hunt import Search, corpus_of

    progress = Progress(quiet=as_json)
    limits.read()  # a budget that cannot be read is refused before anything else
    given = settings.read()
    attached.require_hosts()
    if attached.given:
        others = (target, client, build, compare, corpus)
        if given or others != (SearchTargetOptions(), ClientOptions(), BuildOptions(), None, None):
            raise UsageError("--hosts: the cluster runs already; leave out what describes one.")
        if resume is not None and space.seed is not None:
            raise UsageError("--resume continues a search as it was planned; leave --seed out.")
        if space.faults or space.producers or space.groups or space.safe:
            raise UsageError("--hosts: the file's limits.allow chooses the faults; leave --faults out.")
        on_hosts = search_on_hosts(
            attached,
            seed=secrets.randbelow(1_000_000) if space.seed is None else space.seed,
            rate=space.rate,
            resume=resume,
            runs=place.runs,
            progress=progress,
        )
        if on_hosts is not None:
            one_cluster = replace(limits, parallel=1).read()
            raise typer.Exit(searching.search(on_hosts, progress, one_cluster, [], as_json=as_json))
        return
    extra = corpus_of(corpus) if corpus else []
    work: Search | SearchComparison
    if resume is not None:
        defaults = (SearchTargetOptions(), SpaceOptions(), ClientOptions(), BuildOptions())
        if given or compare is not None or (target, space, client, build) != defaults:
            raise UsageError("--resume continues a search as it was planned; leave the other options out.")
        work = (SearchComparison if (resume / SIDES).exists() else Search).resume(resume)
        searches = [work] if isinstance(work, Search) else [side.search for side in work.sides]
        for resumed in searches:
            require_no_lab(resumed.plan.lab, resume)
            require_trusted(resumed.plan.client, resume, trust=trust)
    else:
        from harness.cluster.cluster_file import read_cluster_file

        file = read_cluster_file(target.cluster) if target.cluster else None
        version = build.version(target.kafka, (file and file.kafka) or DEFAULT, progress.say)
        choice = client.read()
        sides = sides_of(compare, version, choice) if compare is not None else [("", version, choice)]
        mode = target.mode or (file.mode if file else "")
        common = _Common(
            file=file,
            mode=mode or _common_mode([version for _, version, _ in sides], force=build.force),
            settings=with_rate(given, space.rate),
            space=replace(space, seed=secrets.randbelow(1_000_000) if space.seed is None else space.seed),
            lab=place.lab,
            force=build.force,
        )
        plans = _plans(sides, common, extra, progress)
        if compare is None:
            work = Search.create(place.runs, plans[0][1], target.cluster)
        else:
            work = SearchComparison.create(place.runs, plans, target.cluster)
    if isinstance(work, Search):
        raise typer.Exit(searching.search(work, progress, limits.read(), extra, as_json=as_json))
    raise typer.Exit(searching.compare(work, progress, limits.read(), extra, as_json=as_json))


@dataclass(frozen=True, kw_only=True)
class _Common:
    """What applies to every side."""

    file: ClusterFile | None
    mode: str
    settings: Settings
    space: SpaceOptions
    """With a seed."""
    lab: str
    force: bool
    """Accept Kafka versions that are not known."""


def sides_of(text: str, kafka: str, client: ClientChoice) -> list[tuple[str, str, ClientChoice]]:
    """The sides of `--compare`: name, Kafka version and client library of each. Raises UsageError."""
    from run.client_choice import LIBRDKAFKA, parse_client

    words = [word.strip() for word in text.split(",") if word.strip()]
    versions = [word for word in words if word[0].isdigit()]
    if len(set(words)) < max(2, len(words)):
        raise UsageError(f"--compare {text!r}: name two or more different versions, or clients: 3.6.2,4.3.1.")
    if versions and len(versions) < len(words):
        raise UsageError(
            f"--compare {text!r} mixes versions and clients; name versions (and a client with --client) or "
            f"clients (and a version with --kafka)."
        )
    if versions and kafka:
        raise UsageError("--compare names the versions; leave --kafka, --kafka-home and --kafka-jars out.")
    if versions:
        return [(word, word, client) for word in words]
    if client != LIBRDKAFKA:
        raise UsageError("--compare names the clients; leave --client out.")
    choices = [parse_client(word) for word in words]
    return [(choice.label, kafka, choice) for choice in choices]


def _common_mode(versions: list[str], *, force: bool) -> str:
    """The first mode that all versions have; empty for one version: its default. Raises UsageError."""
    from harness.kafka.versions import LASTING, kafka_version

    if len(set(versions)) == 1:
        return ""
    for mode in LASTING:
        if all(mode in kafka_version(version, force=force).modes for version in versions):
            return mode
    raise UsageError(f"--compare {','.join(versions)}: no metadata mode is common to these versions.")


def _plans(
    sides: list[tuple[str, str, ClientChoice]], common: _Common, extra: list[Schedule], progress: Progress
) -> list[tuple[str, SearchPlan]]:
    """A plan for each side, with what the clients of all sides can do. Raises UsageError, UnfitError."""
    from msgspec.structs import replace

    from run.client_choice import LIBRDKAFKA
    from studies.assess.series import describe, unfit_faults
    from studies.search.hunt import plan_of, space_for

    targeted: list[tuple[str, SearchPlan, Target]] = []
    lacks: set[str] = set()
    for name, version, choice in sides:
        target = describe(common.file, version, common.mode, common.settings, force=common.force)
        plan = plan_of(
            target,
            seed=common.space.seed or 0,
            faults=common.space.faults,
            producers=common.space.producers,
            groups=common.space.groups,
            safe=common.space.safe,
            lab=common.lab,
            client="" if choice == LIBRDKAFKA else choice.text,
        )
        lacking = unfit_faults(space_for(plan, target.topology).faults)
        if lacking:
            raise UnfitError(f"--faults {plan.faults!r}: {'; '.join(lacking.values())}; name others.")
        lacks.update(check_place(target, common.lab, progress, client=choice))
        _require_fitting(extra, target)
        targeted.append((name, plan, target))
    plans = [(name, replace(plan, lacks=tuple(sorted(lacks)))) for name, plan, _ in targeted]
    for (_, plan), (_, _, target) in zip(plans, targeted, strict=True):
        space_for(plan, target.topology)
    return plans


def check_place(target: Target, lab: str, progress: Progress, *, client: ClientChoice) -> tuple[str, ...]:
    """Check what can be checked before anything starts; returns what clients and brokers cannot do.

    Raises UsageError, UnfitError.
    """
    from dataclasses import replace

    from harness.cluster.settings import NO_SETTINGS
    from harness.kafka.wire.dialect import dialect
    from run.client_choice import ClientChoice, greet, program
    from run.runner import applied_to
    from run.session import prepare
    from studies.search.grammar import fresh
    from studies.search.hunt import plan_of, space_for
    from studies.search.process import for_runs
    from studies.search.scenario import scenario_of
    from workloads.protocol.lines import FEATURES

    space = space_for(plan_of(target, seed=0), target.topology)
    example = scenario_of(fresh(space, 0, 0), target.topology, target.mode)
    options = prepare(
        example,
        lab=lab,
        kafka=target.version.label,
        mode=target.mode,
        cluster=target.file and replace(target.file, settings=NO_SETTINGS),
        settings=for_runs(target.settings),
        force=True,
        client=client,
        say=progress.say,
    )
    for sentence in applied_to(example, options).warnings:
        progress.say(sentence)
    without_shares: tuple[str, ...] = () if options.version.share_groups else ("shares",)
    if not dialect(options.version.version).idempotence:
        return ("idempotence", "transactions", *without_shares)
    if space.shared:
        try:
            program(ClientChoice(name="java"), options.version, progress.say)
        except UnfitError as error:
            progress.say(f"no share groups, whose members are Java clients: {error.message}")
            without_shares = ("shares",)
    client_program = program(client, options.version, progress.say)
    if client_program is None:
        return without_shares
    hello = greet(client_program)
    if "assign" in hello.lacks:
        raise UsageError(
            f"--client {client.label} cannot read partitions that are assigned to it, as the consumers of a "
            f"search do; use librdkafka, java, or a program that can."
        )
    return tuple({*without_shares, *(name for name in FEATURES if name not in hello.features)})


def _require_fitting(schedules: list[Schedule], target: Target) -> None:
    from studies.search.rules import require_hosts

    for schedule in schedules:
        require_version(schedule, target)
        require_hosts(schedule, target.topology, f"--corpus, {schedule.made_by or schedule.digest}")


def require_version(schedule: Schedule, target: Target) -> None:
    """Raise UsageError for what a version or mode does not have, UnfitError for what this machine lacks."""
    from nemesis.catalogue import FAULTS, possible
    from studies.assess.series import unfit_faults

    if lacking := unfit_faults(FAULTS[step.fault] for step in schedule.steps):
        raise UnfitError(f"The schedule cannot run here: {'; '.join(lacking.values())}.")
    for step in schedule.steps:
        if not possible(FAULTS[step.fault], target.version, target.mode):
            raise UsageError(
                f"The schedule has a step {step.fault}, which Kafka {target.version.label} does not have in "
                f"mode {target.mode}."
            )
    if schedule.shared and not target.version.share_groups:
        raise UsageError(
            f"The schedule has a share group, which Kafka {target.version.label} does not have; use 4.2.0 or "
            "newer."
        )
