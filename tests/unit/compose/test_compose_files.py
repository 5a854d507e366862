"""The Compose files, as the installed Compose command understands them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.lab.docker.image import COMPOSE_DIR
from harness.lab.docker.project import compose_file, rebased, variables
from harness.lab.layout import three_azs

_COMMANDS = {"docker-compose": ["docker-compose"], "docker compose": ["docker", "compose"]}


def _rendered(command: list[str], mode: str, run_dir: Path) -> str:
    if (
        shutil.which(command[0]) is None
        or subprocess.run([*command, "version"], capture_output=True).returncode
    ):
        pytest.skip(f"`{' '.join(command)}` is not installed")
    topology = rebased(three_azs(mode), "198.18.140")
    chosen = variables(topology, run_dir, "acked/node:x", run="r1", owner="o1", entry="hold", health_s=30)
    done = subprocess.run(
        [*command, "-p", "test", "-f", str(compose_file(topology, run_dir)), "config"],
        env={**os.environ, **chosen},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _services(rendered: str) -> dict[str, str]:
    """The text of each service by name, which needs no YAML parser."""
    body = re.split(r"^services:\n", rendered, flags=re.MULTILINE)[1]
    body = re.split(r"^\S", body, flags=re.MULTILINE)[0]
    parts = re.split(r"^  (\w+):\n", body, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("command", _COMMANDS.values(), ids=_COMMANDS)
@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
def test_every_host_of_the_topology_is_a_service_at_its_address(
    command: list[str], mode: str, tmp_path: Path
) -> None:
    services = _services(_rendered(command, mode, tmp_path))
    hosts = rebased(three_azs(mode), "198.18.140").hosts
    assert set(services) == {host.name for host in hosts}
    for host in hosts:
        text = services[host.name]
        assert f"ipv4_address: {host.address}\n" in text
        assert f"acked.az: {host.az}\n" in text
        assert "acked.run: r1\n" in text
        assert "acked.owner: o1\n" in text
        assert f"{tmp_path}/nodes/{host.name}" in text
        assert "- NET_ADMIN" in text
        assert ("interval: 30s" in text) == (host.role != "client")


@pytest.mark.parametrize("command", _COMMANDS.values(), ids=_COMMANDS)
@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
def test_the_network_is_internal_labelled_and_of_the_runs_own_range(
    command: list[str], mode: str, tmp_path: Path
) -> None:
    rendered = _rendered(command, mode, tmp_path)
    network = re.split(r"^networks:\n", rendered, flags=re.MULTILINE)[1]
    assert "internal: true" in network
    assert "subnet: 198.18.140.0/24" in network
    assert "gateway: 198.18.140.99" in network
    assert "acked.run: r1" in network


@pytest.mark.parametrize("name", ["zookeeper.yaml", "kraft.yaml"])
def test_no_container_is_privileged_or_reaches_the_hosts_namespaces(name: str) -> None:
    text = (COMPOSE_DIR / name).read_text()
    for word in (
        "privileged",
        "network_mode",
        "pid:",
        "ipc:",
        "docker.sock",
        "ports:",
        "ulimits",
        "SYS_ADMIN",
    ):
        assert word not in text
    # v1 rejects keys that are obsolete in v2; a fixed container_name would prevent concurrent runs.
    assert not re.search(r"^version:", text, flags=re.MULTILINE)
    assert "container_name" not in text


@pytest.mark.parametrize("name", ["zookeeper.yaml", "kraft.yaml"])
def test_only_the_hosts_own_folder_is_writable(name: str) -> None:
    mounts = re.findall(
        r"^      - (\$\{ACKED_[A-Z_]+:-.*)$", (COMPOSE_DIR / name).read_text(), flags=re.MULTILINE
    )
    assert len(mounts) == 9 * 5
    own = ":/data:${ACKED_PROPAGATION:-rprivate}"
    assert {mount.endswith(":ro") for mount in mounts if not mount.endswith(own)} == {True}
    assert sum(mount.endswith(own) for mount in mounts) == 9
