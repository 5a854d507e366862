"""`acked record` and `acked mark`: record a cluster that acked did not start, while somebody breaks it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import RUNS, Quiet, Runs, count, duration
from cli.pages import add_page
from harness.console import Progress, echo
from harness.errors import (
    EXIT_AS_DECLARED,
    EXIT_UNKNOWN,
    AckedError,
    UsageError,
    WaitTimeoutError,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from harness.cluster.attached import AttachedCluster
    from harness.kafka.security import ClientSecurity
    from run.clients import UserClients
    from run.folder import RunFolder
    from run.recording.plan import RecordingPlan
    from run.recording.preflight import Right
    from run.recording.stored import StoredRecording
    from run.recording.watching import WatchPlan

_SHORTEST_S, _LONGEST_H = 5, 7 * 24
_LEAST_WAIT_S = 60.0
"""How long `--resume` waits at least for a broker, also behind the planned end."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """What is written, and where to."""

    rate: Annotated[
        int,
        typer.Option(
            parser=count("--rate", least=2, most=100_000),
            metavar="<int>",
            help="Messages per second of all producers together.",
        ),
    ] = 60
    size: Annotated[
        int,
        typer.Option(
            parser=count("--size", least=100, most=100_000), metavar="<int>", help="Bytes of a message."
        ),
    ] = 100
    partitions: Annotated[
        int,
        typer.Option(
            parser=count("--partitions", least=0, most=100),
            metavar="<int>",
            help="Partitions of its topic; 0: each AZ leads one.",
        ),
    ] = 0
    replication_factor: Annotated[
        int,
        typer.Option(
            parser=count("--replication-factor", least=0, most=100),
            metavar="<int>",
            help="Replicas of each partition; 0: three, or as many as there are brokers.",
        ),
    ] = 0
    topic: Annotated[
        str, typer.Option(help="Name of its topic, which must begin with acked-. Default: a random one.")
    ] = ""
    transactions: Annotated[
        bool,
        typer.Option(
            "--transactions", help="Also copy the messages to a second topic, in transactions of a group."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """What is read of a topic of others, instead of writing to one of acked's own."""

    watch: Annotated[
        str,
        typer.Option(
            metavar="<topic>",
            help="Only compare the replicas of this topic, which others write. Nothing is produced.",
        ),
    ] = ""
    last: Annotated[
        int,
        typer.Option(
            parser=count("--last", least=0, most=100_000_000),
            metavar="<int>",
            help="With --watch: offsets before the end of each partition from which on it is read.",
        ),
    ] = 100_000


def record(
    *,
    bootstrap: Annotated[
        str, typer.Option(metavar="<host:port,...>", help="Listeners of the cluster's brokers for clients.")
    ] = "",
    client_config: Annotated[
        Path | None,
        typer.Option(
            help="Java properties file of your clients: how they reach the cluster, and their settings."
        ),
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check-only", help="Only say what you may do there, and what each right is for.")
    ] = False,
    for_: Annotated[
        str, typer.Option("--for", metavar="<time>", help="How long to record: 90s, 30m, 2h.")
    ] = "",
    load: LoadOptions,
    watching: WatchOptions,
    listen: Annotated[
        str,
        typer.Option(metavar="<host:port>", help="Where marks are taken. Default: any port of 127.0.0.1."),
    ] = "127.0.0.1:0",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    no_caps: Annotated[
        bool, typer.Option("--no-caps", help="Allow more than 1,000 messages/s and 1 MB/s.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="<path>", help="Carry on the recording of a killed process: its run folder."),
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Delete the topics that killed recordings have left there.")
    ] = False,
    runs: Runs = RUNS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Record a cluster that acked did not start, while somebody breaks it, and judge it.

    Producers write to a topic of their own (acked-…), which is removed at the
    end; the logs of its replicas are compared with what was acknowledged. It
    ends by itself after --for, or with Ctrl-C. Meanwhile `acked mark` notes what
    people do. Nothing is written before the plan was shown and confirmed.
    With --watch it writes nothing at all.

    Exit code: 0 as declared, 1 violated, 2 unknown, 254 usage error.
    """
    from harness.cluster.attached import attach, bootstrap_endpoints, guarded
    from run.recording.marks import loopback

    chosen = [bool(for_), check_only, clean, resume is not None]
    if sum(chosen) != 1:
        raise UsageError("Give one of --check-only, --for, --resume and --clean, such as --for 10m.")
    for_s = duration("--for", for_, least_s=_SHORTEST_S, most_h=_LONGEST_H) if for_ else 0.0
    address = loopback(listen)
    progress = Progress(quiet=as_json or quiet)
    if watching.watch and (not for_ or load != LoadOptions()):
        raise UsageError(
            f"--watch {quoted(watching.watch, 60)}: it writes nothing; give it with --for, such as --for "
            "10m, and without the options of what is written, such as --rate and --topic."
        )
    with guarded(_requests(watching, load, resume, check_only=check_only, clean=clean)), answering():
        from run.recording.user import user_clients

        security, user = user_clients(client_config, progress.say)
        if resume is not None:
            raise typer.Exit(_resume(resume, bootstrap, security, user, address, progress, as_json=as_json))
        cluster = attach(bootstrap_endpoints(bootstrap, security))
        if check_only:
            raise typer.Exit(_check(cluster, load, as_json=as_json))
        if clean:
            raise typer.Exit(_clean(cluster, runs, as_json=as_json))
        if watching.watch:
            raise typer.Exit(
                _watch(cluster, watching, for_s, address, bootstrap, runs, progress, yes=yes, as_json=as_json)
            )
        from run.recording.disk import require_room
        from run.recording.plan import plan_recording

        plan = plan_recording(
            cluster,
            for_s=for_s,
            rate=float(load.rate),
            size_bytes=load.size,
            partitions=load.partitions,
            replication_factor=load.replication_factor,
            topic=load.topic,
            uncapped=no_caps,
            transactions=load.transactions,
        )
        require_room(runs, plan)
        require_rights(cluster, plan.topic if load.topic else "", load.transactions or None, progress)
        for topic in plan.topics:
            _require_new(cluster, topic.name)
        for line in plan_in_words(cluster, plan, user):
            echo(line, err=True)
        if not yes and not typer.confirm("Begin?", err=True):
            raise typer.Exit(EXIT_AS_DECLARED)
        raise typer.Exit(_record(cluster, plan, user, address, bootstrap, runs, progress, as_json=as_json))


def mark(
    text: Annotated[str, typer.Argument(help="What happened, for people.")],
    fault: Annotated[
        str,
        typer.Option(help="The kind of fault that begins with it, such as cut, kill, pause, power_cut."),
    ] = "",
    hosts: Annotated[str, typer.Option(metavar="<a,b>", help="Its hosts, such as broker1.")] = "",
    healed: Annotated[
        bool, typer.Option("--healed", help="The faults that were stated, of --hosts or all, are over.")
    ] = False,
    run: Annotated[
        Path | None, typer.Option(metavar="<path>", help="The recording's folder. Default: the latest.")
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Note what people do in the recording that is under way.

    A fault that is noted so is stated, not proven: acked did not inject it.
    """
    from run.recording.marks import Statement, send
    from run.recording.stages import NAME

    names = tuple(name.strip() for name in hosts.split(",") if name.strip())
    statement = Statement(text=text.strip(), fault=fault, hosts=names, healed=healed).checked(names)
    echo(send(run or runs / NAME / "latest", statement))


def _check(cluster: AttachedCluster, load: LoadOptions, *, as_json: bool) -> int:
    from run.recording.plan import require_own_name
    from run.recording.preflight import preflight

    rights = preflight(cluster, load.topic and require_own_name(load.topic), transactions=load.transactions)
    brokers = [
        {
            "id": host.node_id,
            "address": str(host.broker_endpoint),
            "az": cluster.topology.az_name(host.az),
        }
        for host in cluster.brokers
    ]
    if as_json:
        shown: dict[str, Any] = {"cluster": cluster.cluster_id, "mode": cluster.mode, "brokers": brokers}
        echo(json.dumps({**shown, "rights": [asdict(one) for one in rights]}, indent=2))
    else:
        _show_rights(cluster, brokers, rights)
    return EXIT_UNKNOWN if any(one.needed and one.presence == "no" for one in rights) else EXIT_AS_DECLARED


def _show_rights(
    cluster: AttachedCluster, brokers: Sequence[dict[str, Any]], rights: Sequence[Right]
) -> None:
    from rich.markup import escape

    from harness.console import Console
    from report.console import Column, RowTable

    console = Console(highlight=False)
    mode = {"kraft": "KRaft", "zookeeper": "ZooKeeper"}[cluster.mode]
    console.print(f"Cluster {escape(cluster.cluster_id)}, {mode}, {len(brokers)} brokers")
    RowTable(
        columns=[Column(heading=heading) for heading in ("broker", "address", "AZ (broker.rack)")],
        rows=[(str(one["id"]), one["address"], one["az"]) for one in brokers],
    ).show(console)
    console.print()
    RowTable(
        columns=[
            *(Column(heading=heading) for heading in ("right or feature", "on")),
            *(Column(heading=heading, prose=True) for heading in ("there", "without it")),
        ],
        rows=[
            (one.name, one.on, one.presence + (f" ({one.why})" if one.why else ""), one.lost)
            for one in rights
        ],
        named_by=2,
    ).show(console)


def _clean(cluster: AttachedCluster, runs: Path, *, as_json: bool) -> int:
    from run.recording.stored import clean

    cleaned = clean(cluster, runs)
    if as_json:
        echo(json.dumps(asdict(cleaned), indent=2))
    else:
        for name in cleaned.deleted:
            echo(f"deleted {name}")
        for why in cleaned.failed:
            echo(f"not deleted: {why}", err=True)
        for name in cleaned.strangers:
            echo(f"left alone: {name}, because no recording in {runs} has made it", err=True)
        if not (cleaned.deleted or cleaned.failed or cleaned.strangers):
            echo("There is nothing to delete.")
    return EXIT_UNKNOWN if cleaned.failed else EXIT_AS_DECLARED


def require_rights(
    cluster: AttachedCluster, topic: str, transactions: bool | None, progress: Progress
) -> None:
    """Say what will not be proven. Raises UsageError if nothing can be recorded."""
    from run.recording.preflight import preflight

    for right in preflight(cluster, topic, transactions=transactions):
        if right.presence == "no" and right.needed:
            raise UsageError(f"You lack {right.name} on {right.on}, so {right.lost}; grant it ({right.why}).")
        if right.presence == "no":
            progress.say(f"without {right.name} on {right.on}: {right.lost} ({right.why})")


@contextmanager
def answering() -> Iterator[None]:
    """Raises AckedError, as one sentence, if the cluster stops answering meanwhile."""
    try:
        yield
    except (ConnectionError, TimeoutError) as error:
        raise AckedError(
            f"The cluster stopped answering ({error}); see whether its brokers are up, and try again."
        ) from None


def _require_new(cluster: AttachedCluster, topic: str) -> None:
    """Raise UsageError if the topic exists: whatever is in it belongs to somebody."""
    if topic in cluster.topic_ids([topic]):
        raise UsageError(
            f"--topic {topic} exists already, and acked writes only to topics that it has made; choose "
            "another name."
        )


def _transactions_in_words(plan: RecordingPlan) -> list[str]:
    if not plan.transactions:
        return []
    return [
        f"  copy them to a second topic, {plan.output}, in transactions of the group {plan.topic}, which are "
        "deleted at the end as well; the transactional id of the same name expires by itself",
    ]


def _requests(
    watching: WatchOptions, load: LoadOptions, resume: Path | None, *, check_only: bool, clean: bool
) -> Collection[type]:
    """What acked may send to the cluster for what it is asked to do."""
    from harness.cluster.attached import ALLOWED, CLEANING, READING, TRANSACTIONAL
    from run.folder import RunFolder
    from run.recording.stored import StoredRecording

    if watching.watch:
        return READING
    if clean:
        return CLEANING
    resumed = resume is not None and StoredRecording.of(RunFolder.open(resume)).plan.transactions
    return TRANSACTIONAL if check_only or load.transactions or resumed else ALLOWED


def plan_in_words(cluster: AttachedCluster, plan: RecordingPlan, user: UserClients) -> list[str]:
    """What a recording will do, before it begins."""
    from run.recording.plan import settings_of

    names = " and ".join(setting.name for setting in settings_of(user))
    leaders = ", ".join(f"{number}: {'-'.join(map(str, one))}" for number, one in enumerate(plan.assignment))
    return [
        f"acked will record the cluster {cluster.cluster_id} ({len(cluster.brokers)} brokers) for "
        f"{plan.for_s:.0f} s:",
        f"  create the topic {plan.topic} ({len(plan.assignment)} partitions, replication factor "
        f"{plan.replication_factor}; replicas {leaders}), and delete it at the end",
        f"  write {plan.rate:g} messages/s of {plan.size_bytes} bytes by producers with {names}, and read "
        f"them (client.id acked-…): {plan.broker_bytes_per_hour / 1e6:.0f} MB an hour on all brokers",
        *_transactions_in_words(plan),
        "  read the log of each replica, the metadata and the settings that you may describe; change nothing "
        "else",
        f"  write about {plan.own_bytes_per_hour / 1e6:.0f} MB an hour to its run folder, and "
        f"end early beyond {plan.most_own_bytes / 1e6:.0f} MB",
        *_expiry_in_words(cluster, plan),
    ]


def _expiry_in_words(cluster: AttachedCluster, plan: RecordingPlan) -> list[str]:
    """Whether the user's certificate expires while the recording lasts."""
    from harness.kafka.wire.authentication import valid_for_s

    chain = cluster.brokers[0].security.certificate
    if not chain or (left_s := valid_for_s(chain)) > plan.for_s:
        return []
    return [
        f"  be refused in {left_s:.0f} s, when your certificate expires, so that the final logs cannot be "
        "read and nothing is proven: name one in --client-config that is valid for longer",
    ]


def _record(
    cluster: AttachedCluster,
    plan: RecordingPlan,
    user: UserClients,
    address: tuple[str, int],
    bootstrap: str,
    runs: Path,
    progress: Progress,
    *,
    as_json: bool,
) -> int:
    from run.folder import RunFolder
    from run.recording.record import Recording
    from run.recording.stages import NAME
    from run.recording.stored import working_on
    from run.session import judged

    folder = RunFolder.create(runs, NAME)
    recording = Recording(cluster=cluster, folder=folder, progress=progress, user=user, listen=address)
    with working_on(folder):
        outcome = judged(folder, progress, lambda _started: recording.begin(plan, bootstrap), frugal=True)
    return shown(folder, outcome, progress, as_json=as_json)


def _watch(
    cluster: AttachedCluster,
    watching: WatchOptions,
    for_s: float,
    address: tuple[str, int],
    bootstrap: str,
    runs: Path,
    progress: Progress,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    from run.folder import RunFolder
    from run.recording.stages import NAME
    from run.recording.stored import working_on
    from run.recording.watching import Watching, plan_watch
    from run.session import judged

    plan = plan_watch(cluster, watching.watch, for_s=for_s, last=watching.last)
    for line in watch_in_words(cluster, plan):
        echo(line, err=True)
    if not yes and not typer.confirm("Begin?", err=True):
        return EXIT_AS_DECLARED
    folder = RunFolder.create(runs, NAME)
    begun = Watching(cluster=cluster, folder=folder, progress=progress, listen=address)
    with working_on(folder):
        outcome = judged(folder, progress, lambda _started: begun.begin(plan, bootstrap))
    return shown(folder, outcome, progress, as_json=as_json)


def watch_in_words(cluster: AttachedCluster, plan: WatchPlan) -> list[str]:
    """What watching will do, before it begins."""
    from report.words.seen import limits_of_watching

    starts = ", ".join(f"{key.partition}: {offset}" for key, offset in list(plan.first.items())[:12])
    more = len(plan.first) - 12
    topic = plan.topic
    compared = ("compare what its in-sync replicas hold from there to the high watermark at the end",)
    return [
        f"acked will watch the topic {topic.name} of the cluster {cluster.cluster_id} "
        f"({len(cluster.brokers)} brokers) for {plan.for_s:.0f} s, and write nothing to the cluster:",
        f"  read the log of each of {sum(map(len, topic.assignment))} replicas from these offsets on "
        f"({starts}{f' and {more} more' if more > 0 else ''}); of a batch it keeps offset, leader epoch, CRC "
        "and times, but no key and no value",
        *(f"  {line}" for line in (limits_of_watching(plan.as_json()) or compared)),
        "  compare the offsets that groups have committed, as far as you may describe them, with the logs",
    ]


def _attached_again(
    stored: StoredRecording, bootstrap: str, security: ClientSecurity, progress: Progress
) -> AttachedCluster:
    """The cluster of a recording. As long as all brokers are down, wait, to the planned end of the recording.

    Raises UsageError if none answers then.
    """
    from harness.clock import now_ns
    from harness.cluster.attached import SilentClusterError, attach, bootstrap_endpoints
    from harness.waiting import wait_until

    endpoints = bootstrap_endpoints(bootstrap or stored.bootstrap, security)
    silent: list[SilentClusterError] = []

    def attached() -> AttachedCluster | None:
        try:
            return attach(endpoints, stored.listeners)
        except SilentClusterError as error:
            if not silent:
                progress.say("no broker answers; waiting for one until the planned end of the recording")
            silent[:] = [error]
            return None

    left_s = (stored.end_ns - now_ns()) / 1e9
    try:
        cluster = wait_until(
            attached, within_s=max(_LEAST_WAIT_S, left_s), poll_s=1.0, awaiting="a broker to answer"
        )
    except WaitTimeoutError:
        raise silent[0] from None
    assert cluster is not None
    return cluster


def _resume(
    path: Path,
    bootstrap: str,
    security: ClientSecurity,
    user: UserClients,
    address: tuple[str, int],
    progress: Progress,
    *,
    as_json: bool,
) -> int:
    from run.folder import RunFolder
    from run.recording.record import Recording
    from run.recording.stored import StoredRecording, working_on
    from run.session import judged

    folder = RunFolder.open(path)
    stored = StoredRecording.of(folder)
    if folder.manifest().get("status") == "complete":
        raise UsageError(f"The recording in {path} has ended; acked check {path} judges it.")
    if not stored.made or (stored.deleted and not stored.read):
        raise UsageError(f"The recording in {path} has no topic; record anew.")
    stored.require_same_boot(path)
    cluster = _attached_again(stored, bootstrap, security, progress)
    if stored.cluster_id != cluster.cluster_id:
        raise UsageError(
            f"{path} was recorded on the cluster {stored.cluster_id}, and this is {cluster.cluster_id}; name "
            "its listeners with --bootstrap."
        )
    recording = Recording(cluster=cluster, folder=folder, progress=progress, user=user, listen=address)
    with working_on(folder):
        outcome = judged(folder, progress, lambda _started: recording.go_on(), frugal=True)
    return shown(folder, outcome, progress, as_json=as_json)


def shown(folder: RunFolder, outcome: Any, progress: Progress, *, as_json: bool) -> int:
    """Print how a recording ended; returns the exit code."""
    from checkers.spark.session import forget_session
    from report import terminal
    from report.model.judged import judged_model
    from report.model.recorded import recorded_availability

    if outcome.problem is not None:
        terminal.show_error(outcome.problem)
    available = None if outcome.judgement is None else recorded_availability(folder.path)
    if outcome.judgement is not None and as_json:
        shown = outcome.judgement.as_json()
        shown["availability"] = None if available is None else asdict(available)
        echo(json.dumps(shown, indent=2, default=str))
    elif outcome.judgement is not None:
        if available is not None:
            terminal.show_availability(available)
        terminal.show(judged_model(outcome.judgement.as_json()))
        terminal.show_durations(outcome.durations)
    if outcome.judgement is not None:
        forget_session()  # Spark has nothing to do any more, and the page of a long recording needs memory
        page = add_page(folder.path, progress.say)
        if page is not None:
            progress.say(f"page: {page}")
    return int(outcome.exit_code)
