"""The Docker engine of this machine: its client, Compose command, free subnets, guard route and networks."""

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
from docker import APIClient
from docker.errors import APIError, DockerException

from harness.errors import LabError, UnfitError
from harness.lab.model import Host
from harness.secrets import shown_text

LABEL_RUN = "acked.run"
"""Label of everything that a run creates; its value is the Compose project's name."""
LABEL_OWNER = "acked.owner"
"""Label that names the harness that created it (see `harness.lab.docker.sweep`)."""

_GUARD = ("unreachable", "198.18.0.0/15", "metric", "4242", "proto", "142")
_SUBNETS = tuple(f"198.18.{third}" for third in range(130, 191))
"""The /24 networks of runs; 198.18.129 is reserved for clusters that are started by hand."""
_HOW = (
    "start it (`systemctl start docker`, or on a machine without one `compose/engine.sh start`), "
    "or set DOCKER_HOST"
)


def connect() -> docker.DockerClient:
    """A client of the engine that DOCKER_HOST names. Raises UnfitError if none answers."""
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except (DockerException, OSError) as error:
        where = shown_text(os.environ.get("DOCKER_HOST", "the default socket"))
        raise UnfitError(f"No Docker engine answers at {where} ({_first_line(error)}); {_HOW}.") from error
    return client


def problem(client: docker.DockerClient | None = None) -> str:
    """Why the compose lab cannot run here, in one sentence; empty if it can."""
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
    """Make the lab's address range unreachable, from the machine's own namespace, while no bridge carries it.

    Otherwise a client whose container network is gone would connect to the address on the open network, where
    something may answer. Needs root on Linux; elsewhere nothing is done. Routes of others are left alone.
    """
    if platform.system() == "Linux" and os.geteuid() == 0:
        _runs(["ip", "route", "add", *_GUARD])


def drop_guard_route() -> None:
    """Remove the route of `guard_route`, whichever process added it; its protocol number identifies it."""
    if platform.system() == "Linux" and os.geteuid() == 0:
        _runs(["ip", "route", "del", *_GUARD])


def require_on_bridge(address: str) -> None:
    """Raise UnfitError unless ``address``, the network's gateway, belongs to this machine.

    Only then does the harness reach the containers over the bridge, unaffected by faults.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            raise UnfitError(
                f"The engine's bridge ({address}) is not on this machine, so the harness cannot observe the "
                f"containers: run acked where the engine runs (not against Docker Desktop or a remote "
                f"engine), or use the embedded lab."
            ) from error


def explain(error: APIError) -> str:
    """The engine's error message."""
    return str(error.explanation or error).strip()


def disconnect_container(api: APIClient, container: str, network: str) -> None:
    """Take the container off the network, if it is on it. Raises LabError with the engine's message."""
    if not _connected(api, container, network):
        return
    try:
        api.disconnect_container_from_network(container, network)
    except APIError as error:
        raise LabError(f"A container could not be taken off {network}: {explain(error)}") from error


def connect_container(api: APIClient, container: str, network: str, host: Host) -> None:
    """Put the container of ``host`` back on the network, with its address and its name.

    Without them, the engine would choose another address and drop the name that Compose gave.
    """
    if _connected(api, container, network):
        return
    try:
        api.connect_container_to_network(container, network, ipv4_address=host.address, aliases=[host.name])
    except APIError as error:
        raise LabError(f"{host.name} could not be put back on {network}: {explain(error)}") from error


def _connected(api: APIClient, container: str, network: str) -> bool:
    return network in api.inspect_container(container)["NetworkSettings"]["Networks"]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def environment() -> dict[str, str]:
    """This process's environment without PYTHONPATH: docker-compose 1.29 would import `compose/`."""
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
