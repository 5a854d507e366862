"""Nodes of others that acked may end, because it has seen that their start command starts them again."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from harness.cluster.attached import AttachedCluster
from harness.cluster.hosts_file import HostsFile
from harness.errors import BadDataError, LabError, UnfitError, json_file
from harness.kafka.model import broker_id
from harness.lab.hosts.lab import HostsLab
from harness.plain_files import write_plain
from harness.waiting import wait_until
from run.attached.cases import END_S
from run.attached.guard import WHOLE_S, Guard, whole

TRIAL_TTL_S = 300.0
"""After how many seconds a node that a trial has stopped is started by its own host."""
_REGISTERED_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Starter:
    """Starts a node again; satisfies `nemesis.processes.killing.Restart`."""

    lab: HostsLab
    cluster: AttachedCluster

    def __call__(self, host: str) -> None:
        """Start it, and wait until the cluster knows it. Raises WaitTimeoutError."""
        self.lab.start_again(host)
        if self.lab.topology.host(host).role == "broker":
            wait_until(
                lambda: broker_id(host) in (self.cluster.registered() or ()),
                within_s=_REGISTERED_S,
                poll_s=0.5,
                awaiting=f"the cluster to know {host} again",
            )


def tried_file(file: HostsFile) -> Path:
    """What says which start commands were tried, beside the hosts file."""
    return file.path.with_name(f"{file.path.stem}.tried.json")


def untried(file: HostsFile, hosts: Iterable[str]) -> list[str]:
    """Those of some hosts whose start command, as the file has it now, was not tried there."""
    known = _known(file)
    return [name for name in hosts if known.get(name) != _start(file, name)]


def require_tried(file: HostsFile, hosts: Iterable[str]) -> None:
    """Raise UnfitError unless the start commands of these hosts were tried."""
    if lacking := untried(file, hosts):
        raise UnfitError(
            f"The start command of {', '.join(lacking[:5])} was not tried as {file.given} has it now; try it "
            "with `acked attach check --restart`, which stops and starts these nodes in turn."
        )


def try_start(lab: HostsLab, cluster: AttachedCluster, file: HostsFile, host: str) -> float:
    """Stop a node in an orderly way, start it with its command, and wait until every ISR is full again.

    Returns the seconds from the stop until it listened again, and notes that it was tried. Raises UnfitError
    if nothing may be stopped now, or if the node runs as another user afterwards.
    """
    guard = Guard(cluster)
    guard.require_whole()
    node = lab.topology.host(host)
    guard.require_room({node.node_id} if node.role == "broker" else set())
    before = _user(lab, host)
    began = monotonic()
    lab.signal(host, signal.SIGTERM)
    lab.wait_exit(host, END_S)
    lab.start_again(host)
    seconds = monotonic() - began
    wait_until(
        lambda: whole(cluster),
        within_s=WHOLE_S,
        poll_s=1.0,
        awaiting=f"every ISR to be full after {host} was started again",
    )
    if (after := _user(lab, host)) != before:
        raise UnfitError(
            f"The node of {host} ran as {before} and runs as {after} since its start command started it; "
            "correct `start` (such as `systemctl start kafka`), and restart the node as it was."
        )
    note_tried(file, host)
    return seconds


def note_tried(file: HostsFile, *hosts: str) -> None:
    """Note beside the file that the start commands of these hosts were seen to start their nodes."""
    known = {**_known(file), **{host: _start(file, host) for host in hosts}}
    write_plain(tried_file(file), json.dumps(known, indent=2) + "\n")


def _start(file: HostsFile, host: str) -> dict[str, str]:
    return {"ssh": file.targets[host].title, "start": file.starts.get(host, "")}


def _known(file: HostsFile) -> Mapping[str, object]:
    try:
        return json_file(tried_file(file)) if tried_file(file).exists() else {}
    except BadDataError:
        return {}


def _user(lab: HostsLab, host: str) -> str:
    pid = lab.pid(host)
    result = lab.execute(host, ("stat", "-c", "%U", f"/proc/{pid}"))
    if pid is None or result.status != 0:
        raise LabError(f"The user of the node of {host} is not known (pid {pid}).", detail=result.stderr)
    return result.stdout.strip()
