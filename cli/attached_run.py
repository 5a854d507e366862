"""`acked run NAME --hosts`: one fault on a cluster that acked did not set up, recorded and judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.attach import ComposeProject, confirm, given_hosts
from cli.record import answering, plan_in_words, require_rights, shown
from harness.console import Progress, echo
from harness.errors import EXIT_AS_DECLARED, UsageError

if TYPE_CHECKING:
    from harness.cluster.hosts_file import HostsFile
    from run.attached.breaking import Breaking
    from run.attached.cases import Aim
    from run.attached.hosts import AttachedHosts


@dataclass(frozen=True, kw_only=True)
class HostsOptions:
    """A cluster that acked did not set up."""

    hosts: Annotated[
        Path | None,
        typer.Option(
            help="Hosts file (TOML) of a cluster that runs already: break that one (docs/attach.md)."
        ),
    ] = None
    compose_project: ComposeProject = ""
    plan: Annotated[bool, typer.Option("--plan", help="With --hosts: print what would be done, and end.")] = (
        False
    )
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --hosts and --cluster-id: begin without asking.")
    ] = False
    cluster_id: Annotated[
        str, typer.Option(metavar="<id>", help="With --hosts: the id that the cluster must have.")
    ] = ""

    @property
    def given(self) -> bool:
        """Whether something is to be broken that acked did not set up."""
        return self.hosts is not None or bool(self.compose_project)

    def require_hosts(self) -> None:
        """Raise UsageError if only --hosts or --compose-project gives an option its meaning."""
        if not self.given and (self.plan or self.yes or self.cluster_id):
            raise UsageError(
                "--plan, --yes and --cluster-id go with --hosts or --compose-project; leave them out."
            )


def run_on_hosts(
    name: str,
    options: HostsOptions,
    *,
    rate: float | None,
    runs: Path,
    progress: Progress,
    as_json: bool,
) -> int:
    """Break a cluster of others once, record it, and judge it. Returns the exit code."""
    from harness.cluster.attached import guarded
    from run.attached.cases import acts_of, case_of, in_force_together
    from run.attached.hosts import NOTHING
    from run.folder import RunFolder
    from run.recording.disk import require_room
    from run.recording.record import WARM_S
    from run.recording.stages import NAME
    from run.recording.stored import working_on
    from run.session import judged

    case = case_of(name)
    with guarded(), answering():
        hosts = read_hosts(options, rate=rate, progress=progress)
        acts = acts_of(name, hosts.file, hosts.cluster, hosts.fault_s())
        aims = [act.aim() for act in acts]
        hosts = hosts.limited(aims)
        breaking = hosts.breaking(acts)
        for together in in_force_together(acts):
            breaking.guard.require_room_for(together)
        plan = hosts.recording_plan(breaking, case.partitions)
        require_room(runs, plan)
        require_rights(hosts.cluster, "", None, progress)
        try:
            hosts.lab.up()
            hosts.require_able(aims)
            recorded = plan_in_words(hosts.cluster, plan, hosts.user)
            for line in (*in_words(f"run {name}", hosts.file, aims, breaking), *recorded):
                echo(line, err=not options.plan)
            if options.plan:
                for line in commands(hosts, aims, *breaking.times_to_live_s):
                    echo(line)
                return EXIT_AS_DECLARED
            confirm(hosts.cluster.cluster_id, NOTHING, yes=options.yes)
            with hosts.locked(WARM_S + breaking.lasts_s, throttles=False):  # no case has one
                folder = RunFolder.create(runs, NAME)
                title = f"{name}: {case.says} ({aims[0].title})"
                recording = hosts.recording(folder, breaking, title)
                with working_on(folder):
                    outcome = judged(
                        folder,
                        progress,
                        lambda _started: recording.begin(plan, hosts.file.bootstrap),
                        frugal=True,
                    )
        finally:
            hosts.lab.down()
    return shown(folder, outcome, progress, as_json=as_json)


def read_hosts(options: HostsOptions, *, rate: float | None, progress: Progress) -> AttachedHosts:
    """The cluster behind --hosts or --compose-project. Raises UsageError, UnfitError."""
    from run.attached.hosts import RATE, AttachedHosts

    if options.yes and not options.cluster_id:
        raise UsageError("--yes: also give --cluster-id, the id of the cluster that is to be broken.")
    file = given_hosts(options.hosts, options.compose_project)
    return AttachedHosts.of(file, options.cluster_id, rate=RATE if rate is None else rate, progress=progress)


def in_words(what: str, file: HostsFile, aims: Sequence[Aim], breaking: Breaking) -> Iterator[str]:
    """The plan: what would be broken, and how it ends."""
    yield f"acked will {what} on hosts that it did not set up:"
    for aim, act in zip(aims, breaking.acts, strict=True):
        hosts = ", ".join(f"{host.name} ({file.targets[host.name].title})" for host in aim.hosts)
        lasts = f"for {act.lasts_s:.0f} s" if act.lasts_s else "and start it again"
        yield f"  {aim.title} {lasts}: {hosts}"
        if aim.links:
            yield f"  drop packets on {len(aim.links)} links: {', '.join(map(str, aim.links[:12]))}"
    yield from how_it_ends(file, *breaking.times_to_live_s)
    partitions, topics = breaking.guard.watched
    yield f"  partitions of others that it may see, and so spares: {partitions}, of topics: {topics}"


def how_it_ends(file: HostsFile, ttl_s: float, start_ttl_s: float) -> Iterator[str]:
    """What makes it safe, for the plan. ``start_ttl_s``: that of a node which was ended."""
    yield (
        f"  each fault ends by itself {ttl_s:.0f} s after it began; `acked heal {file.given}` ends it at once"
    )
    if start_ttl_s > ttl_s:
        yield f"  a node that is being restarted is started by its host after {start_ttl_s:.0f} s"
    yield "  end it at once if a partition of others has no leader or fewer replicas than min.insync.replicas"
    if file.window is not None:
        yield f"  end it when the window of the day is over ({file.window})"


def commands(hosts: AttachedHosts, aims: Iterable[Aim], ttl_s: float, start_ttl_s: float) -> Iterator[str]:
    """What would be run in the hosts, besides looking.

    Before the first fault, each host has the lock and the canary besides.
    """
    from nemesis.attached.safety import CANARY_S, LOCK, NOWHERE
    from nemesis.network.chains import clock_s
    from nemesis.network.disciplines import Discipline
    from nemesis.network.queues import token_bucket
    from nemesis.network.rules import CLASS_MINOR, classify_rules, cut_rules

    lab = hosts.lab
    ends, at_most = f"<{clock_s(ttl_s)} s later, UTC>", f"after {ttl_s:.0f} s at most"
    yield f"every host: iptables -N {LOCK}; a rule {NOWHERE}, which must vanish after {CANARY_S:g} s"
    for aim in aims:
        if aim.takes == "process":
            number = {"pause": "STOP", "kill": "KILL", "restart": "TERM"}[aim.ability]
            for host in aim.hosts:
                undo = "kill -CONT" if aim.ability == "pause" else hosts.file.starts[host.name]
                within_s = ttl_s if aim.ability == "pause" else start_ttl_s
                killed = f"kill -{number} {lab.pid(host.name)}"
                yield f"{host.name}: {killed}; after {within_s:.0f} s at most: {undo}"
            continue
        rules = cut_rules(lab.topology, "ACKED-xxxx-1", aim.links)
        if aim.takes == "interface":
            words = token_bucket(aim.value)
            limit = Discipline(lab=lab, title=aim.title, number=1, words=words, ttl_s=ttl_s)
            for host in aim.hosts:
                adding, undo = limit.commands(limit.device(host))
                yield f"{host.name}: {adding}; {at_most}: {undo}"
            to_class = f"{limit.root}{CLASS_MINOR}"
            rules = classify_rules(lab.topology, "ACKED-xxxx-1", aim.hosts, to_class)
        for name in rules.hosts:
            yield f"{name}: iptables-restore --noflush"
            yield from (f"    {line}" for line in rules.load_text(name, ends).splitlines())
            yield f"{name}: {at_most}: iptables-restore --noflush"
            yield from (f"    {line}" for line in rules.heal_text().splitlines())
