"""The parts of the Compose lab that need no engine: owners, subnets, paths, the image's name."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import LabError, UnfitError, UsageError
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import image as docker_image
from harness.lab.docker import sweep as docker_sweep
from harness.lab.docker.image import COMPOSE_DIR
from harness.lab.docker.lab import ComposeLab
from harness.lab.docker.project import compose_file, compose_text, rebased
from harness.lab.layout import AvailabilityZone, Layout, three_azs


def test_this_process_lives() -> None:
    assert docker_sweep.lives(docker_sweep.owner())


def test_an_ended_process_is_dead() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert not docker_sweep.lives(f"{socket.gethostname()}:{child.pid}:12345")


def test_a_later_process_with_the_same_pid_is_another_one() -> None:
    assert not docker_sweep.lives(f"{socket.gethostname()}:{os.getpid()}:1")


@pytest.mark.parametrize("mark", ["", "by-hand", "another-machine:1:1"])
def test_what_cannot_be_known_dead_is_left_alone(mark: str) -> None:
    assert docker_sweep.lives(mark)


class _Api:
    """The calls of the engine's API that a sweep makes."""

    def __init__(self) -> None:
        dead = {"acked.run": "dead", "acked.owner": f"{socket.gethostname()}:{os.getpid()}:1"}
        live = {"acked.run": "live", "acked.owner": docker_sweep.owner()}
        self.removed: list[str] = []
        self._containers = [
            {"Id": "c1", "Names": ["/dead_broker1"], "Labels": dead},
            {"Id": "c2", "Names": ["/live_broker1"], "Labels": live},
        ]
        self._networks = [{"Id": "n1", "Name": "dead_lan", "Labels": dead}]

    def containers(self, **_options: Any) -> list[dict[str, Any]]:
        return self._containers

    def networks(self, **_options: Any) -> list[dict[str, Any]]:
        return self._networks

    def volumes(self, **_options: Any) -> dict[str, Any]:
        return {"Volumes": None}

    def remove_container(self, name: str, **_options: Any) -> None:
        self.removed.append(name)

    def remove_network(self, name: str) -> None:
        self.removed.append(name)

    remove_volume = remove_network


def test_only_things_of_dead_runs_are_removed_and_containers_first() -> None:
    api = _Api()
    client: Any = SimpleNamespace(api=api)
    removed = docker_sweep.remove(client, lambda thing: not thing.alive)
    assert [thing.name for thing in removed] == ["dead_broker1", "dead_lan"]
    assert api.removed == ["c1", "n1"]


def test_a_subnet_that_a_network_uses_is_not_offered() -> None:
    used = SimpleNamespace(attrs={"IPAM": {"Config": [{"Subnet": "198.18.130.0/23"}, {}]}})
    none = SimpleNamespace(attrs={"IPAM": {"Config": None}})
    client: Any = SimpleNamespace(networks=SimpleNamespace(list=lambda: [used, none]))
    free = docker_engine.free_subnets(client)
    assert "198.18.130" not in free
    assert "198.18.131" not in free
    assert "198.18.132" in free
    assert "198.18.129" not in free, "left to clusters brought up by hand"


def test_no_free_subnet_says_what_to_do() -> None:
    used = SimpleNamespace(attrs={"IPAM": {"Config": [{"Subnet": "198.18.128.0/17"}]}})
    client: Any = SimpleNamespace(networks=SimpleNamespace(list=lambda: [used]))
    with pytest.raises(UnfitError, match="acked clean"):
        docker_engine.free_subnets(client)


def test_no_engine_is_one_sentence_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    problem = docker_engine.problem()
    assert problem.startswith(f"No Docker engine answers at unix://{tmp_path}/no.sock")
    assert "compose/engine.sh start" in problem
    assert "\n" not in problem


def test_a_compose_command_that_does_not_run_is_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKED_COMPOSE", "false")
    docker_engine.compose_command.cache_clear()
    try:
        with pytest.raises(UnfitError, match="tried false"):
            docker_engine.compose_command()
    finally:
        docker_engine.compose_command.cache_clear()


def test_hosts_keep_their_last_octet_in_another_subnet() -> None:
    moved = rebased(three_azs("zookeeper"), "198.18.150")
    assert moved.host("broker2").address == "198.18.150.22"
    assert moved.observer_address == "198.18.150.99"


@pytest.mark.parametrize(
    ("mode", "name"),
    [("zookeeper", "zookeeper.yaml"), ("kraft", "kraft.yaml"), ("kraft-combined", "kraft.yaml")],
)
def test_each_mode_has_its_file(mode: str, name: str, tmp_path: Path) -> None:
    assert compose_file(three_azs(mode), tmp_path) == COMPOSE_DIR / name
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
def test_the_file_of_three_azs_is_the_checked_in_one(mode: str) -> None:
    assert compose_text(three_azs(mode)) == (COMPOSE_DIR / f"{mode}.yaml").read_text()


def test_another_layout_gets_a_file_of_its_own(tmp_path: Path) -> None:
    azs = [AvailabilityZone(name=name, brokers=2) for name in ("north", "south")]
    topology = Layout(tuple(azs)).topology("zookeeper")
    path = compose_file(topology, tmp_path)
    text = path.read_text()
    assert path == tmp_path / "compose.yaml"
    assert re.findall(r"^    hostname: (\w+)$", text, flags=re.MULTILINE) == [
        host.name for host in topology.hosts
    ]
    assert re.findall(r"ipv4_address: \S+\.(\d+)$", text, flags=re.MULTILINE) == [
        host.address.rpartition(".")[2] for host in topology.hosts
    ]
    assert re.findall(r"    (zookeeper\d): {condition", text) == ["zookeeper1", "zookeeper2"]
    named = re.findall(r'^    - "(\w+):\$\{ACKED_SUBNET:-198\.18\.129\}\.(\d+)"$', text, flags=re.MULTILINE)
    last_octets = [(host.name, host.address.rpartition(".")[2]) for host in topology.hosts]
    assert named == [*last_octets, ("observer", "99")], "brokers verify certificates by these names"


def test_paths_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACKED_CACHE", str(tmp_path / "cache"))
    lab = ComposeLab(three_azs("zookeeper"), tmp_path / "run")
    assert lab.inside("broker1", lab.data_dir("broker1") / "data" / "x") == "/data/data/x"
    assert lab.inside("broker1", "server.log") == "/data/server.log"
    assert lab.inside("broker1", tmp_path / "cache" / "a.jar") == str(tmp_path / "cache" / "a.jar")
    with pytest.raises(UsageError, match="broker1 does not see"):
        lab.inside("broker1", lab.data_dir("broker2") / "data")


def test_a_lab_that_is_not_up_says_so_and_goes_down(tmp_path: Path) -> None:
    lab = ComposeLab(three_azs("zookeeper"), tmp_path)
    with pytest.raises(LabError, match="not up"):
        lab.execute("broker1", ["true"])
    with pytest.raises(UsageError, match="never started"):
        lab.signal("broker1", 9)
    assert not lab.alive("broker1")
    assert lab.pid("broker1") is None
    lab.down()
    lab.down()


def test_the_image_has_the_projects_own_client_versions() -> None:
    names = [line.split("==")[0] for line in docker_image.requirements()]
    assert names == [
        "aiokafka",
        "confluent-kafka",
        "cramjam",
        "kafka-python",
        "kazoo",
        "msgspec",
        "tenacity",
    ]


def test_the_base_image_is_the_named_one_then_the_local_one_then_the_public_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def images(present: bool) -> Any:
        def get(name: str) -> None:
            if not present:
                raise docker_image.ImageNotFound(name)

        return SimpleNamespace(images=SimpleNamespace(get=get))

    monkeypatch.delenv("ACKED_BASE_IMAGE", raising=False)
    assert docker_image.base_image(images(True)) == docker_image.LOCAL_BASE
    assert docker_image.base_image(images(False)) == docker_image.PUBLIC_BASE
    monkeypatch.setenv("ACKED_BASE_IMAGE", "mine:1")
    assert docker_image.base_image(images(True)) == "mine:1"


def test_a_cluster_that_migrates_has_no_compose_file() -> None:
    """It would need ZooKeeper nodes and controllers, and start the latter later."""
    with pytest.raises(UsageError, match="embedded lab only"):
        compose_text(three_azs("migration"))
