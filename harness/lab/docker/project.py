"""The Compose project of a run: its file, its variables, and its creation (`up --no-start`)."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import docker

from harness.artifacts.cache import cache_dir
from harness.errors import LabError, UsageError
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import mounts as docker_mounts
from harness.lab.docker import sweep as docker_sweep
from harness.lab.docker.image import COMPOSE_DIR
from harness.lab.model import Host, MainProcess, Topology

_SUBNET_TRIES = 5
_FIRST_SERVICE = re.compile(r"^  ([a-z]+)1:\n(?:    .*\n)+", re.MULTILINE)
_SERVICE = re.compile(r"^  \w+:\n(?:    .*\n)+", re.MULTILINE)
_LAST_OCTET = re.compile(r"(ipv4_address: \S+\.)\d+")
_WAITS = re.compile(r"(  depends_on:\n)(?:    zookeeper\d+: .*\n?)+")
_NAMES = re.compile(r"(  extra_hosts:.*\n)((?:    - .*\n)+)")
_HEALTH_CHECK_S = 30
"""Period of the containers' health checks, which the harness does not use: they cost CPU."""


def create(
    client: docker.DockerClient, project: str, topology: Topology, run_dir: Path, image: str
) -> Topology:
    """Create network and containers on a free subnet; returns the hosts with their addresses there.

    Raises LabError with the output of Compose.
    """
    errors, owner = "", docker_sweep.owner()
    propagation = docker_mounts.share(run_dir, project, owner)
    for subnet in docker_engine.free_subnets(client)[:_SUBNET_TRIES]:
        moved = rebased(topology, subnet)
        chosen = variables(
            moved, run_dir, image, run=project, owner=owner, entry="hold", health_s=_HEALTH_CHECK_S
        )
        chosen["ACKED_PROPAGATION"] = propagation
        command = [
            *docker_engine.compose_command(),
            "-p",
            project,
            "-f",
            str(compose_file(topology, run_dir)),
        ]
        command += ["up", "--no-start", *(host.name for host in topology.hosts)]
        done = subprocess.run(
            command,
            env={**docker_engine.environment(), **chosen},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return moved
        docker_sweep.remove(client, lambda thing: thing.kind != "mount", run=project)
        errors = done.stderr
        if "overlap" not in errors:  # otherwise another run has taken the subnet in between
            break
    raise LabError(
        f"`{' '.join(command)}` failed; the end of its output is below.",
        detail="\n".join(errors.strip().splitlines()[-8:]),
    )


def variables(
    topology: Topology, run_dir: Path, image: str, *, run: str, owner: str, entry: str, health_s: int
) -> dict[str, str]:
    """Values of the variables of the Compose files, which explain them."""
    return {
        "ACKED_IMAGE": image,
        "ACKED_SUBNET": topology.observer_address.rpartition(".")[0],
        "ACKED_RUN": run,
        "ACKED_OWNER": owner,
        "ACKED_RUN_DIR": str(run_dir),
        "ACKED_CACHE": str(cache_dir()),
        "ACKED_SOURCES": str(COMPOSE_DIR.parent),
        "ACKED_ENTRY": entry,
        "ACKED_HEALTH_S": f"{health_s}s",
    }


def write_command(folder: Path, process: MainProcess) -> None:
    """Write the command that the entry script executes as the host's main process."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in process.env.items()]
    lines = ["export HOME=/data", *lines, f"exec {shlex.join(process.argv)}"]
    (folder / "command").write_text("\n".join(lines) + "\n")


def compose_file(topology: Topology, folder: Path) -> Path:
    """The Compose file that defines these hosts: a checked-in one, or one written to ``folder``."""
    checked_in = _template(topology)
    head, services, _ = _parts(compose_text(topology))
    known_head, known_services, _ = _parts(checked_in.read_text())
    alike = _NAMES.sub("", head) == _NAMES.sub("", known_head) and _names(head) <= _names(known_head)
    if alike and set(_SERVICE.findall(services)) <= set(_SERVICE.findall(known_services)):
        return checked_in
    path = folder / "compose.yaml"
    path.write_text(compose_text(topology))
    return path


def compose_text(topology: Topology) -> str:
    """The Compose file of any layout, made from that of three AZs.

    Every host gets a copy of the first service of its role. For three AZs with one host of each role, the
    result is the checked-in file itself.
    """
    head, body, tail = _parts(_template(topology).read_text())
    blocks = {match[1]: match[0] for match in _FIRST_SERVICE.finditer(body)}
    services = [_service(blocks[host.role], host) for host in topology.hosts]
    waits = "".join(
        f"    {node.name}: {{condition: service_healthy}}\n" for node in topology.role("zookeeper")
    )
    head = _WAITS.sub(lambda match: match[1] + waits, head)
    addresses = {host.name: host.address for host in topology.hosts}
    names = "".join(
        f'    - "{name}:${{ACKED_SUBNET:-198.18.129}}.{address.rpartition(".")[2]}"\n'
        for name, address in {**addresses, "observer": topology.observer_address}.items()
    )
    head = _NAMES.sub(lambda match: match[1] + names, head)
    return f"{head}\nservices:\n{chr(10).join(services)}\nnetworks:\n{tail}"


def _names(head: str) -> set[str]:
    """The lines that name addresses in the part of a Compose file before its services."""
    return {line for match in _NAMES.finditer(head) for line in match[2].splitlines()}


def _parts(text: str) -> tuple[str, str, str]:
    """A Compose file before, in, and after its services."""
    head, _, rest = text.partition("\nservices:\n")
    body, _, tail = rest.partition("\nnetworks:\n")
    return head, body, tail


def _service(block: str, host: Host) -> str:
    text = block.replace(f"{host.role}1", host.name).replace("acked.az: az1", f"acked.az: {host.az}")
    return _LAST_OCTET.sub(lambda match: match[1] + host.address.rpartition(".")[2], text)


def _template(topology: Topology) -> Path:
    if topology.role("zookeeper") and topology.role("controller"):
        raise UsageError("Clusters in mode migration run in the embedded lab only; use --lab embedded.")
    name = "zookeeper.yaml" if topology.role("zookeeper") else "kraft.yaml"
    return COMPOSE_DIR / name


def rebased(topology: Topology, subnet: str) -> Topology:
    """The same hosts with the same last octets in another /24 (``subnet`` is its first three octets)."""

    def moved(address: str) -> str:
        return f"{subnet}.{address.rpartition('.')[2]}"

    hosts = tuple(replace(host, address=moved(host.address)) for host in topology.hosts)
    return replace(topology, hosts=hosts, observer_address=moved(topology.observer_address))
