"""Finds by label what runs left behind on the engine, and removes it if its harness no longer lives."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

from harness.errors import LabError
from harness.lab.docker import mounts as docker_mounts
from harness.lab.docker.engine import LABEL_OWNER, LABEL_RUN, explain

BY_HAND = "by-hand"


@dataclass(frozen=True)
class Leftover:
    """One labelled container, network, volume or mount."""

    kind: str
    name: str
    run: str
    alive: bool
    """Its harness still runs, or it was started by hand."""


def owner() -> str:
    """Identifies this process (machine, pid, start time), so that others can check later whether it lives."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_time(os.getpid())}"


def lives(mark: str) -> bool:
    """Whether the process that `owner` identified runs; true for other machines and by-hand clusters."""
    parts = mark.rsplit(":", 2)
    if len(parts) != 3 or parts[0] != socket.gethostname():
        return True
    pid, started = int(parts[1]), parts[2]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _start_time(pid) == started


def leftovers(client: docker.DockerClient, run: str = "") -> list[Leftover]:
    """Every labelled container, network, volume and mount; with a run given, only those of that run."""
    return [Leftover(kind, name, label, alive) for kind, name, label, alive, _remove in _things(client, run)]


def remove(client: docker.DockerClient, chosen: Callable[[Leftover], bool], run: str = "") -> list[Leftover]:
    """Remove what ``chosen`` selects: containers first, in parallel, then networks, volumes and mounts.

    Raises LabError with the first that could not be removed.
    """
    removed: list[Leftover] = []
    things = [(Leftover(*thing[:4]), thing[4]) for thing in _things(client, run)]
    for kind in ("container", "network", "volume", "mount"):
        doomed = [(thing, act) for thing, act in things if thing.kind == kind and chosen(thing)]
        with ThreadPoolExecutor(max_workers=12) as pool:
            problems = list(pool.map(lambda entry: _attempt(entry[1]), doomed))
        for (thing, _act), problem in zip(doomed, problems, strict=True):
            if problem:
                raise LabError(f"The {kind} {thing.name} could not be removed: {problem}")
            removed.append(thing)
    return removed


def _attempt(act: Callable[[], Any]) -> str:
    try:
        act()
    except NotFound:
        return ""
    except APIError as error:
        # Another process (a second `acked clean`) is removing it.
        return "" if "already in progress" in explain(error) else explain(error)
    return ""


def _things(client: docker.DockerClient, run: str) -> Iterable[tuple[str, str, str, bool, Callable[[], Any]]]:
    label = {"label": f"{LABEL_RUN}={run}" if run else LABEL_RUN}
    api = client.api
    for entry in api.containers(all=True, filters=label):
        marks, name = entry["Labels"], entry["Names"][0].lstrip("/")
        yield (
            "container",
            name,
            *_marks(marks),
            _remover(api.remove_container, entry["Id"], v=True, force=True),
        )
    for entry in api.networks(filters=label):
        yield "network", entry["Name"], *_marks(entry["Labels"]), _remover(api.remove_network, entry["Id"])
    for entry in api.volumes(filters=label)["Volumes"] or ():
        yield "volume", entry["Name"], *_marks(entry["Labels"]), _remover(api.remove_volume, entry["Name"])
    for folder in docker_mounts.shared():
        if run in ("", folder.run):
            where = str(folder.path)
            yield "mount", where, folder.run, lives(folder.owner), partial(docker_mounts.detach, folder.path)


def _marks(labels: dict[str, str]) -> tuple[str, bool]:
    return labels[LABEL_RUN], lives(labels.get(LABEL_OWNER, ""))


def _remover(act: Callable[..., Any], name: str, **options: bool) -> Callable[[], Any]:
    return lambda: act(name, **options)


def _start_time(pid: int) -> str:
    """Start time in clock ticks since boot; distinguishes a process from a later one with the same pid."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
