"""`acked attach check` and `acked heal`: hosts that acked did not set up, over SSH."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harness.console import Console, echo, tell
from harness.errors import EXIT_AS_DECLARED, EXIT_UNFIT, EXIT_UNKNOWN

if TYPE_CHECKING:
    from harness.cluster.hosts_file import HostsFile
    from harness.lab.hosts.lab import HostsLab
    from harness.lab.model import Host
    from nemesis.attached.abilities import Abilities

app = typer.Typer(help="Hosts that acked did not set up.", no_args_is_help=True, add_completion=False)
File = Annotated[Path, typer.Argument(metavar="<hosts.toml>", help="Hosts file (docs/attach.md).")]
_CANARY_LOCK_S = 60.0
T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.callback()
def _attached() -> None:
    """Hosts that acked did not set up (docs/attach.md)."""


@app.command()
def check(
    hosts: File,
    canary: Annotated[
        bool,
        typer.Option(
            "--canary", help="Also load a rule without effect, and see that it vanishes by itself after 5 s."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say for each host which faults are possible there, and why others are not.

    Changes nothing, unless --canary is given.

    Exit code: 0 all faults that the file allows are possible, 3 some are not,
    254 usage error.
    """
    from harness.cluster.hosts_file import read_hosts_file
    from nemesis.attached.abilities import abilities
    from nemesis.attached.safety import locked, prove_dead_man

    file = read_hosts_file(hosts)
    lived: Mapping[str, float] = {}
    with _reached(file) as lab:
        each = _of_each(file, lambda host: abilities(lab, host))
        if canary and not any(one.problem or "cut" in one.unfit for one in each):
            lab.up()
            with locked(lab, _CANARY_LOCK_S):
                lived = prove_dead_man(lab)
    unfit = [one for one in each if one.problem or set(one.unfit) & set(file.allow)]
    if as_json:
        echo(json.dumps([{**asdict(one), "canary_s": lived.get(one.host)} for one in each], indent=2))
    else:
        _show(file, each)
        for host, seconds in lived.items():
            echo(f"{host}: the canary rule vanished by itself after {seconds:g} s")
    raise typer.Exit(EXIT_UNFIT if unfit else EXIT_AS_DECLARED)


def heal(hosts: File, as_json: AsJson = False) -> None:
    """Remove whatever acked has left in these hosts, and prove that nothing is left.

    Removes rules, pauses and locks of acked alone, whichever machine has made
    them, and ends a run that is under way. Needs neither Python nor free disk
    in the hosts.

    Exit code: 0 nothing is left in any host, 2 a host could not be healed,
    254 usage error.
    """
    from harness.cluster.hosts_file import read_hosts_file
    from nemesis.attached.safety import heal as heal_host

    file = read_hosts_file(hosts)
    with _reached(file) as lab:
        each = _of_each(file, lambda host: heal_host(lab, host))
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


@contextmanager
def _reached(file: HostsFile) -> Iterator[HostsLab]:
    """The hosts of a file, whose connections are closed afterwards."""
    lab = lab_of(file)
    try:
        yield lab
    finally:
        lab.down()


def _of_each(file: HostsFile, ask: Callable[[Host], T]) -> list[T]:
    """The answers of all hosts, asked at the same time."""
    with ThreadPoolExecutor(len(file.topology.hosts)) as pool:
        return list(pool.map(ask, file.topology.hosts))


def lab_of(file: HostsFile, run_dir: Path = Path(), ttl_s: float = 0.0) -> HostsLab:
    """The hosts of a file as a lab that is not up yet."""
    from harness.lab.hosts.lab import HostsLab

    return HostsLab(file.topology, run_dir, file.targets, ttl_s)


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
