"""The Compose lab on a real engine: a whole cluster, what faults need of a host, and nothing left behind."""

from __future__ import annotations

import http.client
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.clean import clean
from harness import artifacts
from harness.cluster.processes import Processes
from harness.cluster.setup import Setup
from harness.cluster.zookeeper_start import StartedZooKeeperCluster
from harness.errors import LabError, UsageError
from harness.history.journal import Journal
from harness.host_files import text_of_file
from harness.kafka.model import Topic
from harness.lab.docker import engine as docker_engine
from harness.lab.docker import image as docker_image
from harness.lab.docker import sweep as docker_sweep
from harness.lab.docker.lab import ComposeLab
from harness.lab.layout import three_azs
from harness.lab.model import SERVER_LOG, MainProcess
from harness.waiting import wait_until
from nemesis.nemesis import Nemesis

pytestmark = pytest.mark.compose
_HARNESS = """
import sys
from pathlib import Path
from harness.lab.docker.lab import ComposeLab
from harness.lab.layout import three_azs
lab = ComposeLab(three_azs("zookeeper"), Path(sys.argv[1]))
lab.up()
lab.execute("broker1", ["iptables", "-w", "5", "-A", "INPUT", "-s", "198.18.0.9", "-j", "DROP"])
print(lab.project, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Running:
    """A booted cluster and how long it took."""

    lab: ComposeLab
    cluster: StartedZooKeeperCluster
    processes: Processes
    up_s: float
    boot_s: float


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("compose")
    distribution = artifacts.resolve("2.7.1")
    client = docker_engine.connect()
    docker_image.ensure(client)
    client.close()
    setup = Setup(topics=(Topic("t", (1, 2, 3)),))
    lab = ComposeLab(three_azs("zookeeper"), folder)
    started = time.monotonic()
    try:
        lab.up()
        up_s = time.monotonic() - started
        with Journal(folder / "harness.jsonl") as journal:
            processes = Processes(lab=lab, distribution=distribution, journal=journal)
            cluster = StartedZooKeeperCluster(processes, setup)
            cluster.boot()
            boot_s = time.monotonic() - started - up_s
            yield Running(lab, cluster, processes, up_s, boot_s)
            cluster.close()
    finally:
        lab.down()
    client = docker_engine.connect()
    assert docker_sweep.leftovers(client, lab.project) == []
    client.close()


@pytest.fixture
def lab(running: Running) -> ComposeLab:
    return running.lab


def test_three_brokers_register_within_twenty_seconds(running: Running) -> None:
    print(f"lab up {running.up_s:.1f} s, cluster boot {running.boot_s:.1f} s")
    assert running.cluster.registered() == {1, 2, 3}
    assert running.cluster.roles()["zookeeper2"] == "leader"
    if os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip(f"the machine is too busy to time anything (load {os.getloadavg()[0]:.0f})")
    assert running.up_s + running.boot_s <= 20


def test_a_topic_gets_its_leader_and_its_data_lies_in_the_run_folder(running: Running) -> None:
    running.cluster.create_topics((Topic("t", (1, 2, 3)),))
    state = running.cluster.partition("t")
    assert state is not None
    assert state.leader == 1
    for name in ("broker1", "broker2", "broker3"):
        log = running.lab.data_dir(name) / "data" / "t-0"
        wait_until(log.is_dir, within_s=10, awaiting=f"{log}")


def test_hosts_see_each_other_and_nothing_else(lab: ComposeLab) -> None:
    probe = "exec 3<>/dev/tcp/{}"
    broker2 = lab.topology.host("broker2").address
    assert lab.execute("client1", ["bash", "-c", probe.format(f"{broker2}/9092")]).status == 0
    # Of the range that is unreachable from this machine, should a packet get out of the network.
    out = lab.execute("client1", ["bash", "-c", probe.format("198.18.0.1/80")], timeout_s=5)
    assert out.status != 0


def test_rules_are_loaded_through_standard_input_and_cut_a_link(lab: ComposeLab) -> None:
    broker2 = lab.topology.host("broker2").address
    rules = f"*filter\n:ACKEDTEST -\n-A ACKEDTEST -d {broker2} -j REJECT\n-A OUTPUT -j ACKEDTEST\nCOMMIT\n"
    assert lab.execute("client2", ["iptables-restore", "-w", "5", "--noflush"], stdin=rules).status == 0
    probe = ["bash", "-c", f"exec 3<>/dev/tcp/{broker2}/9092"]
    assert lab.execute("client2", probe).status != 0
    assert lab.execute("client1", probe).status == 0
    heal = "*filter\n-D OUTPUT -j ACKEDTEST\n-F ACKEDTEST\n-X ACKEDTEST\nCOMMIT\n"
    assert lab.execute("client2", ["iptables-restore", "-w", "5", "--noflush"], stdin=heal).status == 0
    assert lab.execute("client2", probe).status == 0


def test_commands_run_in_all_hosts_at_once(lab: ComposeLab) -> None:
    results = lab.execute_all({host.name: (["hostname"], "") for host in lab.topology.hosts})
    assert {name: result.stdout.strip() for name, result in results.items()} == {
        host.name: host.name for host in lab.topology.hosts
    }


def test_a_command_that_does_not_end_is_an_error(lab: ComposeLab) -> None:
    with pytest.raises(LabError, match="did not end within 0.3 s"):
        lab.execute("client1", ["sleep", "30"], timeout_s=0.3)


def test_what_a_process_says_at_once_is_not_lost_on_a_busy_machine(
    lab: ComposeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the headers of the engine's answer late finds the output behind them in one buffer."""
    begin = http.client.HTTPResponse.begin

    def late(response: http.client.HTTPResponse) -> None:
        threading.Event().wait(0.3)
        begin(response)

    monkeypatch.setattr(http.client.HTTPResponse, "begin", late)
    assert lab.execute("client1", ["echo", "hi"]).stdout == "hi\n"
    pipe = lab.open_pipe("client1", ["echo", "hi"])
    assert pipe.stdout.read() == "hi\n"


def test_a_stopped_broker_is_alive_loses_its_session_and_comes_back(running: Running) -> None:
    running.lab.signal("broker3", signal.SIGSTOP)
    wait_until(lambda: 3 not in running.cluster.registered(), within_s=15, awaiting="broker3 to expire")
    assert running.lab.alive("broker3")
    assert running.lab.execute("broker3", ["true"]).status == 0
    running.lab.signal("broker3", signal.SIGCONT)
    wait_until(lambda: 3 in running.cluster.registered(), within_s=15, awaiting="broker3 to come back")


def test_a_killed_broker_starts_again_with_address_rules_and_data(running: Running) -> None:
    lab, cluster = running.lab, running.cluster
    called: list[str] = []
    lab.on_start(called.append)
    lab.execute("broker3", ["iptables", "-w", "5", "-N", "STAYS"])
    log = lab.data_dir("broker3") / "data" / "t-0"
    wait_until(log.exists, within_s=30, awaiting="broker3 to have its replica of t/0")
    inode = log.stat().st_ino
    with Nemesis(lab, running.processes.journal, expect_end=running.processes.expect_end) as nemesis:
        nemesis.kill("broker3")
    assert not lab.alive("broker3")
    assert lab.exit_status("broker3") == -signal.SIGKILL
    addresses = lab.execute("broker3", ["hostname", "-i"]).stdout.split()
    assert set(addresses) == {lab.topology.host("broker3").address}
    cluster.start("broker3")
    assert called == ["broker3"]
    assert "STAYS" in lab.execute("broker3", ["iptables", "-w", "5", "-S"]).stdout
    assert log.stat().st_ino == inode


def test_a_terminated_broker_says_so(running: Running) -> None:
    # Registered is not yet started, and Kafka refuses to shut down before it has started.
    files = running.lab.files("broker3")
    wait_until(
        lambda: (
            "started (KafkaServer)"
            in text_of_file(files, SERVER_LOG).rpartition(" starting (KafkaServer)")[2]
        ),
        within_s=30,
        awaiting="broker3 to be done with starting",
    )
    running.processes.expect_end("broker3")
    running.lab.signal("broker3", signal.SIGTERM)
    assert running.lab.wait_exit("broker3", 60) == 143
    running.cluster.start("broker3")


def test_a_host_whose_container_was_stopped_is_started_with_its_main_process(lab: ComposeLab) -> None:
    api = docker_engine.connect().api
    api.stop(lab.container("client3"), timeout=2)
    with pytest.raises(LabError, match="client3"):
        lab.execute("client3", ["true"])
    lab.start("client3", MainProcess(("sleep", "1000"), {"WORDS": "two words"}))
    assert lab.alive("client3")
    with pytest.raises(UsageError, match="already runs"):
        lab.start("client3", MainProcess(("sleep", "1000")))
    assert set(lab.execute("client3", ["hostname", "-i"]).stdout.split()) == {
        lab.topology.host("client3").address
    }
    lab.signal("client3", signal.SIGKILL)
    assert lab.wait_exit("client3", 5) == -signal.SIGKILL
    lab.signal("client3", signal.SIGKILL)


def test_a_pipe_carries_text_both_ways_and_ends_with_its_input(lab: ComposeLab) -> None:
    program = "import sys\nfor line in sys.stdin: print(line.strip() * 2)\nsys.stderr.write('done')"
    pipe = lab.open_pipe("client1", [*lab.python(), "-u", "-c", program])
    pipe.stdin.write("ab\nü\n")
    pipe.stdin.flush()
    assert pipe.stdout.readline() == "abab\n"
    assert pipe.stdout.readline() == "üü\n"
    assert pipe.poll() is None
    pipe.stdin.close()
    assert pipe.wait(5) == 0
    assert pipe.stdout.read() == ""
    assert (lab.data_dir("client1") / "helper.log").read_text() == "done"


def test_a_killed_pipe_ends(lab: ComposeLab) -> None:
    pipe = lab.open_pipe("client1", ["cat"])
    pipe.stdin.write("x\n")
    pipe.stdin.flush()
    assert pipe.stdout.readline() == "x\n"
    pipe.kill()
    assert pipe.wait(5) == -signal.SIGKILL
    assert pipe.stdout.read() == ""


def test_a_second_lab_gets_a_network_of_its_own(lab: ComposeLab, tmp_path: Path) -> None:
    second = ComposeLab(three_azs("kraft"), tmp_path)
    try:
        second.up()
        assert second.topology.observer_address != lab.topology.observer_address
        assert second.execute("controller1", ["true"]).status == 0
        other = lab.topology.host("broker1").address
        probe = ["bash", "-c", f"exec 3<>/dev/tcp/{other}/9092"]
        with pytest.raises(LabError, match="did not end"):
            second.execute("client1", probe, timeout_s=1)
    finally:
        second.down()


def test_what_a_killed_harness_leaves_is_removed_by_clean(tmp_path: Path, running: Running) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-c", _HARNESS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert harness.stdout is not None
    project = harness.stdout.readline().strip()
    client = docker_engine.connect()
    assert all(thing.alive for thing in docker_sweep.leftovers(client, project))
    harness.kill()
    harness.communicate()
    left = docker_sweep.leftovers(client, project)
    kinds = sorted(thing.kind for thing in left)
    assert kinds == ["container"] * 9 + (["mount"] if os.geteuid() == 0 else []) + ["network"]
    assert not any(thing.alive for thing in left)

    app = typer.Typer()
    app.command()(clean)
    listed = CliRunner().invoke(app, ["--dry-run"])
    assert f"would remove network {project}_lan" in listed.output
    assert docker_sweep.leftovers(client, project) == left
    cleaned = CliRunner().invoke(app, [])
    assert cleaned.exit_code == 0, cleaned.output
    assert docker_sweep.leftovers(client, project) == []
    assert running.cluster.registered() == {1, 2, 3}, "a live run was touched"
    client.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_a_harness_killed_at_any_moment_leaves_nothing_that_clean_does_not_remove(
    seed: int, tmp_path: Path
) -> None:
    """Also while Compose makes the containers: that one goes on for a while after its parent died."""
    harness = subprocess.Popen([sys.executable, "-c", _HARNESS, str(tmp_path)], stdin=subprocess.PIPE)
    with suppress(subprocess.TimeoutExpired):
        harness.wait(random.Random(seed).uniform(0.3, 5))
    harness.kill()
    harness.communicate()
    wait_until(
        lambda: not _composes_for(harness.pid), within_s=30, awaiting="a Compose that outlived its parent"
    )
    client = docker_engine.connect()
    docker_sweep.remove(client, lambda thing: not thing.alive)
    leftovers = [thing for thing in docker_sweep.leftovers(client) if f"acked-{harness.pid}-" in thing.run]
    client.close()
    assert leftovers == []


def _composes_for(harness: int) -> list[str]:
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if f"-p acked-{harness}-" in line:
                lines.append(line)
    return lines
