"""`acked run NAME --hosts`: one fault on a cluster that acked did not set up, recorded and judged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.attach import lab_of
from cli.record import answering, plan_in_words, require_rights, shown, user_clients
from harness.console import Progress, echo
from harness.errors import EXIT_AS_DECLARED, UnfitError, UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.cluster.attached import AttachedCluster
    from harness.cluster.hosts_file import HostsFile
    from harness.lab.hosts.lab import HostsLab
    from run.attached.breaking import Breaking
    from run.attached.cases import Aim

_CLOSING_S = 60.0
"""How long healing may take, for which a lock outlives a fault."""
_RATE = 60.0


@dataclass(frozen=True, kw_only=True)
class HostsOptions:
    """A cluster that acked did not set up."""

    hosts: Annotated[
        Path | None,
        typer.Option(
            help="Hosts file (TOML) of a cluster that runs already: break that one (docs/attach.md)."
        ),
    ] = None
    plan: Annotated[bool, typer.Option("--plan", help="With --hosts: print what would be done, and end.")] = (
        False
    )
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --hosts and --cluster-id: begin without asking.")
    ] = False
    cluster_id: Annotated[
        str, typer.Option(metavar="<id>", help="With --hosts: the id that the cluster must have.")
    ] = ""

    def require_hosts(self) -> None:
        """Raise UsageError if only --hosts gives an option its meaning."""
        if self.hosts is None and (self.plan or self.yes or self.cluster_id):
            raise UsageError("--plan, --yes and --cluster-id are for a run with --hosts; leave them out.")


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
    from harness.cluster.attached import attach, bootstrap_endpoints, guarded
    from harness.cluster.hosts_file import in_azs_of, read_hosts_file
    from nemesis.attached.safety import locked, prove_dead_man
    from run.attached.breaking import LONGEST_FAULT_S, Breaking
    from run.attached.cases import aim_of, case_of
    from run.attached.guard import Guard
    from run.folder import RunFolder
    from run.recording.disk import require_room
    from run.recording.plan import plan_recording
    from run.recording.record import WARM_S, Recording
    from run.recording.stages import NAME
    from run.recording.stored import working_on
    from run.session import judged

    assert options.hosts is not None
    case, file = case_of(name), read_hosts_file(options.hosts)
    if options.yes and not options.cluster_id:
        raise UsageError("--yes: also give --cluster-id, the id of the cluster that is to be broken.")
    with guarded(), answering():
        security, user = user_clients(file.client_config, progress.say)
        cluster = attach(bootstrap_endpoints(file.bootstrap, security))
        _require_cluster(cluster, file, options)
        cluster.topology = in_azs_of(file, cluster.topology)
        aim = aim_of(name, file, cluster)
        guard = Guard(cluster)
        guard.require_whole()
        guard.require_room({host.node_id for host in aim.hosts if host.role == "broker"})
        fault_s = min(LONGEST_FAULT_S, float(file.max_s))
        lab = lab_of(file)
        breaking = Breaking(lab=lab, guard=guard, aim=aim, fault_s=fault_s, say=progress.say)
        lab.ttl_s = breaking.ttl_s
        plan = plan_recording(
            cluster,
            for_s=breaking.lasts_s,
            rate=_RATE if rate is None else rate,
            size_bytes=100,
            partitions=case.partitions,
        )
        require_room(runs, plan)
        require_rights(cluster, "", None, progress)
        try:
            lab.up()
            _require_able(lab, aim)
            for line in (*_in_words(name, file, aim, breaking), *plan_in_words(cluster, plan, user)):
                echo(line, err=not options.plan)
            if options.plan:
                for line in _commands(lab, aim, breaking.ttl_s):
                    echo(line)
                return EXIT_AS_DECLARED
            _confirm(cluster, options)
            with locked(lab, WARM_S + breaking.lasts_s + _CLOSING_S):
                lived = prove_dead_man(lab)
                progress.say(f"a rule of 5 s vanished by itself on {len(lived)} hosts")
                folder = RunFolder.create(runs, NAME)
                recording = Recording(
                    cluster=cluster,
                    folder=folder,
                    progress=progress,
                    user=user,
                    disturbance=breaking,
                    title=f"{name}: {case.says} ({aim.title})",
                )
                with working_on(folder):
                    outcome = judged(
                        folder, progress, lambda _started: recording.begin(plan, file.bootstrap), frugal=True
                    )
        finally:
            lab.down()
    return shown(folder, outcome, progress, as_json=as_json)


def _require_cluster(cluster: AttachedCluster, file: HostsFile, options: HostsOptions) -> None:
    """Raise UsageError if it is another cluster than the one that is meant."""
    for place, wanted in (
        (f"{file.path}: kafka.cluster-id", file.cluster_id),
        ("--cluster-id", options.cluster_id),
    ):
        if wanted and wanted != cluster.cluster_id:
            raise UsageError(
                f"{place} is {quoted(wanted, 40)}, and the cluster behind kafka.bootstrap is "
                f"{quoted(cluster.cluster_id, 40)}; nothing was broken."
            )


def _require_able(lab: HostsLab, aim: Aim) -> None:
    """Raise UnfitError if a host cannot have the fault."""
    from nemesis.attached.abilities import abilities

    with ThreadPoolExecutor(len(lab.topology.hosts)) as pool:
        each = list(pool.map(lambda host: abilities(lab, host), lab.topology.hosts))
    for one in each:
        if why := one.problem or one.unfit.get(aim.ability, ""):
            raise UnfitError(f"{one.host} is unfit for {aim.ability!r}: {why.rstrip('.')}.")


def _in_words(name: str, file: HostsFile, aim: Aim, breaking: Breaking) -> Iterator[str]:
    hosts = ", ".join(f"{host.name} ({file.targets[host.name].title})" for host in aim.hosts)
    yield f"acked will run {name} on hosts that it did not set up:"
    yield f"  {aim.title} for {breaking.fault_s:.0f} s: {hosts}"
    if aim.links:
        yield f"  drop packets on {len(aim.links)} links: {', '.join(map(str, aim.links[:12]))}"
    yield (
        f"  each rule and pause ends by itself {breaking.ttl_s:.0f} s after it began; `acked heal "
        f"{file.path}` ends it at once"
    )
    yield "  end it at once if a partition of others has no leader or fewer replicas than min.insync.replicas"


def _commands(lab: HostsLab, aim: Aim, ttl_s: float) -> Iterator[str]:
    """What would be run in the hosts, besides looking."""
    from nemesis.network.rules import cut_rules

    if not aim.links:
        for host in aim.hosts:
            yield f"{host.name}: kill -STOP {lab.pid(host.name)}; after {ttl_s:.0f} s at most: kill -CONT"
        return
    rules = cut_rules(lab.topology, "ACKED-xxxx-1", aim.links)
    for name in rules.hosts:
        yield f"{name}: iptables-restore --noflush"
        yield from (f"    {line}" for line in rules.load_text(name).splitlines())
        yield f"{name}: after {ttl_s:.0f} s at most: iptables-restore --noflush"
        yield from (f"    {line}" for line in rules.heal_text().splitlines())


def _confirm(cluster: AttachedCluster, options: HostsOptions) -> None:
    """Raise UsageError unless the user means this cluster."""
    if options.yes:
        return
    typed = typer.prompt(f"Type the cluster's id ({cluster.cluster_id}) to begin", err=True)
    if typed.strip() != cluster.cluster_id:
        raise UsageError(f"{quoted(typed, 40)} is not the cluster's id; nothing was broken.")
