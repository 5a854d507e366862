"""The Docker engine of this machine: reached, asked for a free subnet, and kept off the open network."""

from __future__ import annotations

import ipaddress
import os
import platform
import random
import shlex
import shutil
import socket
import subprocess
from functools import cache

import docker
from docker.errors import APIError, DockerException

from harness.errors import UnfitError

LABEL_RUN = "acked.run"
"""Label of everything a run makes: its project name."""
LABEL_OWNER = "acked.owner"
"""Label that tells whether the harness that made it still lives (see `harness.lab.docker.sweep`)."""

_GUARD = ("unreachable", "198.18.0.0/15", "metric", "4242", "proto", "142")
_SUBNETS = tuple(f"198.18.{third}" for third in range(130, 191))
"""Where runs take their /24 from; 198.18.129 is left to clusters brought up by hand."""
_HOW = (
    "start it (`systemctl start docker`, or on a machine without one `compose/engine.sh start`), "
    "or set DOCKER_HOST"
)


def connect() -> docker.DockerClient:
    """A client of the engine that DOCKER_HOST names. Raises UnfitError where none answers."""
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except (DockerException, OSError) as error:
        where = os.environ.get("DOCKER_HOST", "the default socket")
        raise UnfitError(f"No Docker engine answers at {where} ({_first_line(error)}); {_HOW}.") from error
    return client


def problem(client: docker.DockerClient | None = None) -> str:
    """Why the compose lab cannot run here, in one sentence; empty when it can."""
    try:
        (client or connect()).close()
        compose_command()
    except UnfitError as error:
        return error.message
    return ""


@cache
def compose_command() -> tuple[str, ...]:
    """`docker compose` (v2) or `docker-compose` (1.29); ACKED_COMPOSE overrides. Raises UnfitError."""
    chosen = os.environ.get("ACKED_COMPOSE")
    candidates = [shlex.split(chosen)] if chosen else [["docker", "compose"], ["docker-compose"]]
    for command in candidates:
        if shutil.which(command[0]) and _runs([*command, "version"]):
            return tuple(command)
    raise UnfitError(
        f"No working Compose command here (tried {', '.join(' '.join(words) for words in candidates)}); "
        f"install one (`apt-get install -y docker-compose`), or name it in ACKED_COMPOSE."
    )


def free_subnets(client: docker.DockerClient) -> list[str]:
    """First three octets of the /24 networks that no network of this engine uses, in random order."""
    taken = []
    for network in client.networks.list():
        for config in (network.attrs.get("IPAM") or {}).get("Config") or ():
            if config.get("Subnet"):
                taken.append(ipaddress.ip_network(config["Subnet"], strict=False))
    free = [
        prefix
        for prefix in _SUBNETS
        if not any(ipaddress.ip_network(f"{prefix}.0/24").overlaps(used) for used in taken)
    ]
    if not free:
        raise UnfitError("Every /24 of 198.18.130-190 is in use by a Docker network; run `acked clean`.")
    random.shuffle(free)
    return free


def guard_route() -> None:
    """Make the lab's range unreachable while no bridge carries it, from the machine's own namespace.

    Otherwise a client whose container network is gone would look for the address on the open network, and
    something out there may answer. Needs root on Linux; elsewhere nothing is done. A route that somebody
    else set to the same end is left alone.
    """
    if platform.system() == "Linux" and os.geteuid() == 0:
        _runs(["ip", "route", "add", *_GUARD])


def drop_guard_route() -> None:
    """Take back what `guard_route` added, by whatever process; told from others' routes by its protocol."""
    if platform.system() == "Linux" and os.geteuid() == 0:
        _runs(["ip", "route", "del", *_GUARD])


def require_on_bridge(address: str) -> None:
    """Raise UnfitError unless ``address``, the network's gateway, belongs to this very machine.

    Only then do probes of the harness reach the containers over the bridge, outside of every cut.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            raise UnfitError(
                f"The engine's bridge ({address}) is not on this machine, so the harness cannot observe the "
                f"containers: run acked where the engine runs (not against Docker Desktop or a remote "
                f"engine), or take the embedded lab."
            ) from error


def explain(error: APIError) -> str:
    """The engine's own sentence."""
    return str(error.explanation or error).strip()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def environment() -> dict[str, str]:
    """This process's environment; PYTHONPATH would have docker-compose 1.29 import our `compose` folder."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _runs(command: list[str]) -> bool:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=30,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
