"""Hosts that acked did not set up, over SSH or as containers: `acked attach` and `acked heal`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harness.console import Console, echo, tell
from harness.errors import (
    EXIT_AS_DECLARED,
    EXIT_UNFIT,
    EXIT_UNKNOWN,
    AckedError,
    LabError,
    UnfitError,
    UsageError,
    quoted,
)

if TYPE_CHECKING:
    from harness.cluster.attached import AttachedCluster
    from harness.cluster.hosts_file import HostsFile
    from harness.lab.hosts.lab import HostsLab
    from nemesis.attached.abilities import Abilities

app = typer.Typer(help="Hosts that acked did not set up.", no_args_is_help=True, add_completion=False)
File = Annotated[Path | None, typer.Argument(metavar="<hosts.toml>", help="Hosts file (docs/attach.md).")]
ComposeProject = Annotated[
    str,
    typer.Option(
        "--compose-project",
        metavar="<name>",
        help="In the place of a hosts file: a running Compose project, by its name or its Compose file.",
    ),
]
_CANARY_LOCK_S, _RESTART_LOCK_S = 60.0, 480.0
T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.callback()
def _attached() -> None:
    """Hosts that acked did not set up (docs/attach.md)."""


@app.command()
def discover(
    bootstrap: Annotated[str, typer.Option(help="host:port,... of the running cluster; it is only read.")],
    client_config: Annotated[
        Path | None, typer.Option(help="Properties of a client of that cluster, with its TLS and SASL.")
    ] = None,
    *,
    look: Annotated[
        bool, typer.Option("--ssh", help="Also log in to each host, and look at what listens there.")
    ] = False,
    user: Annotated[str, typer.Option(help="Login on the hosts. Default: that of your ssh config.")] = "",
    become: Annotated[
        str, typer.Option(help="What becomes root there, such as 'sudo -n'. Default: the login is root's.")
    ] = "",
    ssh_config: Annotated[Path | None, typer.Option(help="Instead of your own ssh config.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the hosts file here. Default: print it.")] = None,
) -> None:
    """Propose a hosts file for a cluster that runs.

    Node ids, racks (as AZs), addresses and ports are those that the brokers
    tell; with --ssh, the systemd unit of each node is looked up on its host.
    Changes nothing. Compare the file before you use it.

    Exit code: 0 the file was written, 254 usage error.
    """
    import shlex

    from cli.record import answering
    from harness.cluster.attached import attach, bootstrap_endpoints, guarded
    from harness.lab.hosts.ssh import SshTarget
    from harness.plain_files import write_output
    from run.attached.discovering import discover as found_by
    from run.attached.discovering import hosts_file_text, looked_at
    from run.recording.user import user_clients

    if out is not None and out.exists():
        raise UsageError(f"--out {quoted(str(out), 160)} exists; name another file.")
    with guarded(), answering():
        security, _ = user_clients(client_config, tell)
        cluster = attach(bootstrap_endpoints(bootstrap, security))
        hosts = found_by(cluster)
    if look:
        target = SshTarget(destination="", user=user, become=tuple(shlex.split(become)), config=ssh_config)
        hosts = looked_at(hosts, target)
    text = hosts_file_text(
        cluster,
        hosts,
        bootstrap=bootstrap,
        client_config=str(client_config.absolute()) if client_config else "",
        user=user,
        become=become,
        config=str(ssh_config.absolute()) if ssh_config else "",
    )
    if out is None:
        echo(text, nl=False)
        return
    write_output(out, text, "--out")
    tell(f"{out}: compare it, then `acked attach check {out}`")


@app.command()
def check(
    hosts: File = None,
    *,
    compose_project: ComposeProject = "",
    canary: Annotated[
        bool,
        typer.Option(
            "--canary", help="Also load a rule without effect, and see that it vanishes by itself after 5 s."
        ),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Also stop and start each node that has a start command, one after the other."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --restart and --cluster-id: begin without asking.")
    ] = False,
    cluster_id: Annotated[str, typer.Option(metavar="<id>", help="The id that the cluster must have.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say for each host which faults are possible there, and why others are not.

    Asks the cluster whether ids, addresses and AZs of the file fit. Changes
    nothing, unless --canary or --restart is given. --restart begins when every
    ISR is full, asks first, and notes beside the file which start commands
    were seen to start a node; only those may be used by faults.

    Exit code: 0 all faults that the file allows are possible, 3 some are not,
    254 usage error.
    """
    from cli.record import answering
    from harness.cluster.attached import attach, bootstrap_endpoints, guarded
    from nemesis.attached.abilities import abilities, unanswered
    from nemesis.attached.safety import locked, prove_dead_man
    from run.attached.asking import Fit, fit
    from run.attached.hosts import of_each
    from run.recording.user import user_clients

    file = given_hosts(hosts, compose_project)
    if yes and not cluster_id:
        raise UsageError("--yes: also give --cluster-id, the id of the cluster whose nodes are restarted.")
    lived: Mapping[str, float] = {}
    started: Mapping[str, float] = {}
    silent: list[str] = []
    with _reached(file, file.allow) as lab:
        cluster: AttachedCluster | None = None
        try:
            with guarded(), answering():
                security, _ = user_clients(file.client_config, partial(echo, err=True))
                cluster = attach(bootstrap_endpoints(file.bootstrap, security))
                fits = fit(file, cluster)
        except AckedError as error:
            fits = Fit(problem=error.message.rstrip("."))
        each = of_each(file, lambda host: abilities(lab, host))
        able = not any(one.problem or "cut" in one.unfit for one in each)
        if restart and (fits.problem or not able or not file.starts):
            why = fits.problem or ("no host has `start`" if able else "a host is unfit, see the check")
            raise UnfitError(f"No node was restarted: {why.rstrip('.')}.")
        if restart:
            _require_allowed(file)
        if able:
            lab.up()
            try:
                silent = list(map(str, unanswered(lab)))
            except LabError as error:
                echo(f"Whether the hosts reach each other was not found out: {error.message}", err=True)
        if (canary or restart) and able:
            if restart and cluster is not None:
                _confirm_restarts(file, cluster.cluster_id, cluster_id, yes=yes)
            with locked(lab, _CANARY_LOCK_S + _RESTART_LOCK_S * len(file.starts) * restart):
                throttles = "throttle" in file.allow and not any("throttle" in one.unfit for one in each)
                lived = prove_dead_man(lab, throttles=throttles)
                if restart and cluster is not None:
                    with guarded(), answering():
                        started = _restarted(lab, cluster, file)
    rows = _with_trials(file, each)
    unfit = [one for one in rows if one.problem or set(one.unfit) & set(file.allow)]
    if as_json:
        listed = [
            {**asdict(one), "canary_s": lived.get(one.host), "started_s": started.get(one.host)}
            for one in rows
        ]
        echo(json.dumps({"cluster": asdict(fits), "hosts": listed, "unanswered": silent}, indent=2))
    else:
        _show(file, rows)
        for host, seconds in lived.items():
            echo(f"{host}: the canary rule vanished by itself after {seconds:g} s")
        for host, seconds in started.items():
            echo(f"{host}: stopped, and started by its command within {seconds:.0f} s")
        named = f"cluster {fits.cluster_id} ({fits.mode})" if fits.cluster_id else "cluster"
        echo(f"{named}: {fits.problem or 'ids and addresses fit'}")
        for note in fits.notes:
            echo(f"cluster: {note}")
        for call in silent:
            echo(f"{call}: no answer (a firewall? a node that is down?), and a run needs one")
    raise typer.Exit(EXIT_UNFIT if unfit or silent or fits.problem else EXIT_AS_DECLARED)


def _require_allowed(file: HostsFile) -> None:
    """Raise UnfitError unless the file lets nodes be ended now."""
    from harness.clock import Anchor
    from harness.cluster.hosts_file import ENDING

    if not set(ENDING) & set(file.allow):
        why = f"limits.allow of {file.given} names neither kill nor restart"
        raise UnfitError(f"No node was restarted: {why}.")
    file.window_left_s(Anchor.take().wall_ns)


def confirm(cluster_id: str, nothing: str, *, yes: bool) -> None:
    """Raise UsageError unless the user means this cluster; ``nothing`` says what was not done then."""
    if yes:
        return
    typed = typer.prompt(f"Type the cluster's id ({cluster_id}) to begin", err=True)
    if typed.strip() != cluster_id:
        raise UsageError(f"{quoted(typed, 40)} is not the cluster's id; {nothing}.")


def _confirm_restarts(file: HostsFile, cluster_id: str, wanted: str, *, yes: bool) -> None:
    """Say what will be restarted. Raises UsageError unless the user means this cluster."""
    from run.attached.hosts import require_cluster

    nothing = "nothing was restarted"
    require_cluster("--cluster-id", wanted, cluster_id, nothing)
    echo(f"acked will restart nodes of the cluster {cluster_id}, each when every ISR is full:", err=True)
    for host, command in file.starts.items():
        echo(f"  {host} ({file.targets[host].title}): SIGTERM, then: {command}", err=True)
    confirm(cluster_id, nothing, yes=yes)


def _restarted(lab: HostsLab, cluster: AttachedCluster, file: HostsFile) -> Mapping[str, float]:
    """Seconds from stop to start of each node, those of the metadata quorum's followers as they come."""
    from run.attached.starting import TRIAL_TTL_S, try_start

    lab.start_ttl_s = TRIAL_TTL_S
    seconds = {}
    for host in file.starts:
        seconds[host] = round(try_start(lab, cluster, file, host), 1)
        echo(f"{host}: started again, and every ISR is full", err=True)
    return seconds


def _with_trials(file: HostsFile, each: Sequence[Abilities]) -> list[Abilities]:
    """With start commands that were not tried among what is unfit."""
    from harness.cluster.hosts_file import ENDING
    from run.attached.starting import untried

    lacking = set(untried(file, file.starts))
    why = "its start command was not tried; see `acked attach check --restart`"
    return [
        replace(one, unfit={**dict.fromkeys(ENDING, why), **one.unfit}) if one.host in lacking else one
        for one in each
    ]


def heal(hosts: File = None, compose_project: ComposeProject = "", as_json: AsJson = False) -> None:
    """Remove whatever acked has left in these hosts, and prove that nothing is left.

    Removes rules, pauses and locks of acked alone, whichever machine has made
    them, and ends a run that is under way. Needs neither Python nor free disk
    in the hosts.

    Exit code: 0 nothing is left in any host, 2 a host could not be healed,
    254 usage error.
    """
    from harness.cluster.hosts_file import ALLOWABLE
    from nemesis.attached.safety import heal as heal_host
    from run.attached.hosts import of_each

    file = given_hosts(hosts, compose_project, roles=False)
    with _reached(file, ALLOWABLE) as lab:
        each = of_each(file, lambda host: heal_host(lab, host))
    if as_json:
        echo(json.dumps([asdict(one) for one in each], indent=2))
    else:
        for one in each:
            name = f"{one.host} ({file.targets[one.host].title})"
            if one.problem:
                tell(f"{name}: not healed: {one.problem}")
            else:
                found = f"{', '.join(one.removed)} removed" if one.removed else "nothing of acked was there"
                echo(f"{name}: {found}{'' if one.left else '; nothing is left'}")
            for left in one.left:
                tell(f"{name}: still there: {left}")
    raise typer.Exit(EXIT_UNKNOWN if any(one.problem or one.left for one in each) else EXIT_AS_DECLARED)


def given_hosts(hosts: Path | None, project: str, *, roles: bool = True) -> HostsFile:
    """The hosts of a file, or of a Compose project; ``roles`` as for `read_hosts_file`. Raises UsageError."""
    from harness.cluster.hosts_file import compose_project, read_hosts_file

    if (hosts is None) == (not project):
        raise UsageError("Name a hosts file or a Compose project (--compose-project), and only one of them.")
    return compose_project(project, roles=roles) if hosts is None else read_hosts_file(hosts, roles=roles)


@contextmanager
def _reached(file: HostsFile, abilities: Collection[str]) -> Iterator[HostsLab]:
    """The hosts of a file, whose connections are closed afterwards."""
    from run.attached.hosts import lab_of

    lab = lab_of(file, abilities)
    try:
        yield lab
    finally:
        lab.down()


def _show(file: HostsFile, each: Sequence[Abilities]) -> None:
    from harness.cluster.hosts_file import ALLOWABLE
    from report.console import Column, RowTable

    rows = []
    for one in each:
        host = file.topology.host(one.host)
        states = [
            "?"
            if one.problem
            else "not allowed"
            if name not in file.allow
            else "unfit"
            if name in one.unfit
            else "yes"
            for name in ALLOWABLE
        ]
        rows.append((one.host, file.targets[one.host].title, file.topology.az_name(host.az), *states))
    headings = ("host", "reached by", "AZ", *ALLOWABLE)
    RowTable(columns=[Column(heading=heading) for heading in headings], rows=rows).show(
        Console(highlight=False)
    )
    for one in each:
        reasons = dict.fromkeys(reason for name, reason in one.unfit.items() if name in file.allow)
        if one.problem:
            echo(one.problem)
        for text in (*reasons, *one.notes):
            echo(f"{one.host}: {text}")
