"""Somebody's own Compose project: broken as hosts over ssh are, and left as it was."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from harness.lab.docker import engine as docker_engine
from harness.lab.hosts.containers import LABEL_ATTACHED, LABEL_GUARD
from harness.waiting import wait_until
from tests.cluster.conftest import acked
from tests.cluster.foreign import IDS, ForeignCluster
from tests.cluster.own_project import OwnProject, different
from tests.cluster.recorder import Files, inventory, lost_by_findings

pytestmark = [
    pytest.mark.compose,
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="rules are compared in the networks of containers, as root"),
]
FOREIGN = "-A INPUT -s 203.0.113.0/24 -p tcp -m tcp --dport 8080 -j DROP"
"""A rule of somebody else, which stays as it is."""
TTL_S, BUSY_S = 6.0, 6.0
CLOCK_S = 5.0
"""By how much the kernel's end of rules is later than that of a watchdog."""
_LIMITS = "[limits]\nmax-seconds = 15\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnProject]:
    """A project that runs, with a rule of somebody else in each broker's network."""
    with OwnProject(folder=tmp_path_factory.mktemp("shop")) as project:
        for broker in IDS:
            project.inside(broker, "iptables-restore", "--noflush", stdin=f"*filter\n{FOREIGN}\nCOMMIT\n")
        yield project


def hosts_file(project: OwnProject, kafka: str = "") -> Path:
    """A file that limits how long a fault lasts."""
    file = project.folder / "hosts.toml"
    file.write_text(f'[compose]\nproject = "{project.name}"\n[kafka]\n{kafka}\n{_LIMITS}')
    return file


@contextmanager
def unchanged(project: OwnProject) -> Iterator[None]:
    """Afterwards the engine says the same of every container of the project, and rules are as before."""
    before, rules = project.inspected(), project.rules()
    disciplines = [project.discipline(broker) for broker in IDS]
    yield
    wait_until(lambda: not containers_of_acked(project), within_s=10, awaiting="the helpers to be gone")
    assert different(before, project.inspected()) == []
    assert project.rules() == rules
    assert [project.discipline(broker) for broker in IDS] == disciplines


def rules_of_acked(project: OwnProject) -> list[str]:
    """All rules of faults and locks."""
    lines = [line for lines in project.rules().values() for line in lines]
    return [line for line in lines if "acked" in line.lower()]


def containers_of_acked(project: OwnProject) -> list[str]:
    """Helpers and guards."""
    return project.helpers() + project.helpers(LABEL_GUARD)


def test_check_and_heal_as_a_user_types_them(project: OwnProject) -> None:
    """Found by its name or by its file; a listener that this machine does not reach is a sentence."""
    with unchanged(project):
        for name in (project.name, str(project.file)):
            check = acked("attach", "check", "--compose-project", name, "--json")
            found = {one["host"]: one for one in check.json()["hosts"]}
            assert check.status == 0 and set(found) == {"broker0", "broker7", "broker1001"}, check
            assert all(set(one["unfit"]) == {"kill", "restart"} for one in found.values()), found
            assert all(not one["notes"] for one in found.values()), found
        canary = acked("attach", "check", "--compose-project", project.name, "--canary")
        assert canary.status == 0 and canary.stdout.count("vanished by itself after") == 3, canary
        heal = acked("heal", "--compose-project", project.name)
        assert heal.status == 0 and heal.stdout.count("nothing of acked was there") == 4, heal
        (inside,) = project.container(0).attrs["NetworkSettings"]["Networks"].values()
        file = hosts_file(project, f'bootstrap = "{inside["IPAddress"]}:9092"')
        unreached = acked("attach", "check", file)
        assert unreached.status == 254 and "names its brokers as kafka-1:9092" in unreached.stderr, unreached


@pytest.mark.parametrize(
    "name",
    [
        *("leader-az-isolated", "kraft-leader-az-isolated", "follower-az-isolated", "controller-az-isolated"),
        *("bridge", "leader-paused", "one-way-leader-to-follower"),
    ],
)
def test_scenarios_on_a_project_of_others(project: OwnProject, name: str) -> None:
    """As declared; what is lost is what the brokers' files lack, and containers and cluster are as before."""
    require_as_declared(project, name)


def test_scenarios_with_the_newest_kafka(tmp_path: Path) -> None:
    """An AZ and a process, on 4.4.0."""
    with OwnProject(folder=tmp_path, kafka="4.4.0") as project:
        for name in ("kraft-leader-az-isolated", "leader-paused"):
            require_as_declared(project, name)


def require_as_declared(project: OwnProject, name: str) -> None:
    """Carry out a scenario, and look at everything that it says and leaves."""
    with unchanged(project):
        one = carried_out(project, name)
    assert one["status"] == 0 and one["verdict"] == "as declared", one
    assert one["different"] == 0 and one["lost"] == one["lost_on_disk"], one
    assert set(one["lost_by_writer"]) <= {2}, "only acks=1 may lose messages"
    assert one["inventory_as_before"], one


def carried_out(project: OwnProject, name: str) -> dict[str, Any]:
    """One run, and what the engine, the rules and the brokers' files say about it."""
    cluster = cast(ForeignCluster, project)  # of which the files and the inventory are read in the same way
    there, runs = inventory(cluster), project.folder / "runs"
    words = ("run", name, "--hosts", hosts_file(project), "--runs", runs)
    done = acked(*words, "--yes", "--cluster-id", project.cluster_id, "--json")
    outcome: dict[str, Any] = {
        "name": name,
        "status": done.status,
        "stderr": done.stderr[-3000:],
        "inventory_as_before": inventory(cluster) == there,
    }
    if not done.stdout:
        return outcome
    run = (runs / "record" / "latest").resolve()
    topic = json.loads((run / "run.json").read_text())["recording"]["plan"]["topic"]
    (files,) = Files.of(cluster, [topic])
    disk, findings = files.lost(run), lost_by_findings(run)
    return outcome | {
        "run": str(run),
        "verdict": done.json()["verdict"],
        "lost": len(findings),
        "lost_on_disk": len(disk),
        "different": len(findings ^ disk),
        "lost_by_writer": sorted({one.writer for one in disk}),
    }


class EngineProxy:
    """A way to the engine that can be cut off."""

    def __init__(self, folder: Path) -> None:
        """Listens until it is closed."""
        self._path = folder / "engine.sock"
        self._engine = docker_engine.environment()["DOCKER_HOST"].removeprefix("unix://")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen(64)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """For DOCKER_HOST."""
        return f"unix://{self._path}"

    def close(self) -> None:
        """Cut off all connections, and accept no other."""
        self._path.unlink(missing_ok=True)
        for one in (self._server, *self._open):
            with ExitStack() as stack:
                stack.callback(one.close)
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._server.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            there.connect(self._engine)
            self._open += [here, there]
            for source, target in ((here, there), (there, here)):
                threading.Thread(target=_forward, args=(source, target), daemon=True).start()


def _forward(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


@contextmanager
def broken(project: OwnProject, engine: str, ttl_s: float = TTL_S) -> Iterator[subprocess.Popen[str]]:
    """A harness of its own, which has isolated a broker, paused another one and slowed the third."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.cluster.project_worker",
            str(project.folder),
            project.name,
            f"{ttl_s:g}",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "DOCKER_HOST": engine},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == "broken"
        assert project.state(7) == "T"
        assert len(rules_of_acked(project)) > 6 and "tbf" in project.discipline(1001)
        yield process
    finally:
        process.kill()
        process.wait()


def kill_containers(project: OwnProject, *labels: str) -> None:
    """SIGKILL to helpers, and to guards."""
    for label in labels:
        for name in project.helpers(label):
            project.client.api.kill(name)
        wait_until(
            lambda label=label: not project.helpers(label),  # type: ignore[misc]
            within_s=10,
            awaiting="the containers to be gone",
        )


def seconds_to_restore(project: OwnProject) -> float:
    """How long it takes until nothing of acked is left in the project."""
    began = time.monotonic()

    def restored() -> bool:
        limited = "htb" in project.discipline(1001)
        return not rules_of_acked(project) and project.state(7) != "T" and not limited

    wait_until(restored, within_s=3 * TTL_S, poll_s=0.1, awaiting="the faults to end by themselves")
    return round(time.monotonic() - began, 1)


def test_whatever_is_killed_the_faults_end_by_themselves(project: OwnProject) -> None:
    """The harness, its way to the engine, the helpers by an order, harness and helpers by SIGKILL.

    Even if the guards are killed with them, `acked heal` works.
    """
    engine = docker_engine.environment()["DOCKER_HOST"]
    seconds: dict[str, float] = {}
    with unchanged(project):
        with broken(project, engine) as process:
            process.kill()
            seconds["harness"] = seconds_to_restore(project)
        proxy = EngineProxy(project.folder)
        with broken(project, proxy.address):
            proxy.close()
            seconds["engine"] = seconds_to_restore(project)
        with broken(project, engine, 60.0) as process:
            process.kill()
            for name in project.helpers():
                project.client.api.stop(name, timeout=8)
            seconds["helpers"] = seconds_to_restore(project)
        with broken(project, engine) as process:
            process.kill()
            began = time.monotonic()
            kill_containers(project, LABEL_ATTACHED)
            assert project.state(7) == "T" and not project.reaches(7, 0) and not project.reaches(0, 7)
            wait_until(lambda: project.state(7) != "T", within_s=30, awaiting="the guard to resume")
            seconds["guard"] = time.monotonic() - began
            wait_until(
                lambda: project.reaches(7, 0) and project.reaches(0, 7),
                within_s=30,
                poll_s=0.1,
                awaiting="the rules to end by the clock",
            )
            seconds["clock"] = time.monotonic() - began
            assert rules_of_acked(project), "nobody has removed them"
            assert "htb" in project.discipline(1001), "nothing is assigned to it any more"
            assert acked("heal", "--compose-project", project.name).status == 0
        with broken(project, engine, 60.0) as process:
            process.kill()
            kill_containers(project, LABEL_ATTACHED, LABEL_GUARD)
            assert project.state(7) == "T", "its watchdogs have gone with the containers"
            heal = acked("heal", "--compose-project", project.name)
            assert heal.status == 0 and " pause of " in heal.stdout, heal
            seconds["all killed"] = seconds_to_restore(project)
        with broken(project, engine, 60.0):
            heal = acked("heal", "--compose-project", project.name)
            assert heal.status == 0 and heal.stdout.count(" removed; nothing is left") == 3, heal
            seconds["heal"] = seconds_to_restore(project)
    assert seconds["guard"] <= TTL_S + BUSY_S and seconds["clock"] <= TTL_S + CLOCK_S + BUSY_S, seconds
    assert 2.0 < seconds["harness"] <= TTL_S + BUSY_S and 2.0 < seconds["engine"] <= TTL_S + BUSY_S, seconds
    assert max(seconds[name] for name in ("helpers", "all killed", "heal")) <= BUSY_S, seconds


def test_a_run_without_its_dead_mans_switch_ends_at_once(project: OwnProject) -> None:
    """A helper that is killed takes its watchdogs with it; acked notices, and heals by another one."""
    file = project.folder / "hosts.toml"
    file.write_text(f'[compose]\nproject = "{project.name}"\n[limits]\nmax-seconds = 60\n')
    runs = project.folder / "runs-of-killed-helpers"
    journal = runs / "record" / "latest" / "journal" / "harness.jsonl"
    words = ["run", "leader-az-isolated", "--hosts", str(file), "--runs", str(runs)]
    with unchanged(project):
        process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", *words, "--yes", "--cluster-id", project.cluster_id],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until(
                lambda: journal.exists() and '"injected"' in journal.read_text(),
                within_s=120,
                poll_s=0.3,
                awaiting="the fault to be in force",
            )
            began = time.monotonic()
            for name in project.helpers():
                if "broker7" in name:
                    project.client.api.kill(name, signal.SIGKILL)
            wait_until(
                lambda: not any("-s 198.18." in line for line in rules_of_acked(project)),
                within_s=30,
                poll_s=0.2,
                awaiting="the end of the fault",
            )
            seconds = time.monotonic() - began
            _, stderr = process.communicate(timeout=200)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 2 and "the helper container of broker7 has ended" in stderr, stderr[-2000:]
    assert seconds < 20, "a fault of 60 s ended early"
