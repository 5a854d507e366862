"""The same judgement on a standalone Spark cluster of a master and two workers.

The workers' Python does not have the project, and as root the test also hides the driver's temporary folder
from them. What they need must be shipped, or be beside the run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

from checkers.spark.cluster import pack_project
from checkers.tables.files import file_system, listed
from harness.errors import EXIT_VIOLATED
from harness.waiting import wait_until
from tests.histories import History
from tests.spark.conftest import free_port
from tests.spark.test_uris import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

HOME = Path(pyspark.__file__).parent
MAIN = Path(__file__).resolve().parents[2] / "cli" / "submit.py"
QUIET = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(HOME), "SPARK_NO_DAEMONIZE": "1"}


@dataclass(frozen=True)
class Cluster:
    """A running master, and the environment of a driver that uses it."""

    master: str
    environment: Mapping[str, str]
    logs: Path


def processes_of(folder: Path, port: int) -> list[str]:
    """Command lines of processes that belong to the cluster: masters, workers, executors, their Python."""
    command_lines = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if f"127.0.0.1:{port}" in line or f"{folder}/" in line:
                command_lines.append(line)
    return command_lines


@contextmanager
def daemon(arguments: list[str], log: Path, ready: str, hidden: Path | None = None) -> Iterator[None]:
    """A Spark daemon until the end of the block; ``hidden`` is a folder that it does not see."""
    command = [str(HOME / "bin" / "spark-class"), *arguments]
    if hidden is not None and os.geteuid() == 0:
        text = 'mount -t tmpfs none "$0" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", text, str(hidden), *command]
    environment = {**os.environ, **QUIET, "SPARK_DAEMON_MEMORY": "256m", "TMPDIR": str(log.parent)}
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment, cwd=log.parent
        )
        try:
            wait_until(
                lambda: re.search(ready, log.read_text()) is not None or process.poll() is not None,
                within_s=120,
                awaiting=f"{ready!r} in {log}",
            )
            assert process.poll() is None, log.read_text()
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3_port: int) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("standalone")
    hidden = folder / "driver-only"
    hidden.mkdir()
    python = folder / "worker-python"
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = sysconfig.get_paths()["purelib"]
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {base} "$@"\n')
    python.chmod(0o755)
    bare = subprocess.run(
        [str(python), "-c", "import checkers"], cwd=folder, env={"PATH": os.defpath}, capture_output=True
    )
    assert b"No module named 'checkers'" in bare.stderr, "the workers' Python has the project anyway"
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1"]
    worker += ["--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / "work"), address]
    registered = "Successfully registered with master"
    with (
        daemon([*master, "--webui-port", "0"], folder / "master.log", "I have been elected leader"),
        daemon(worker, folder / "worker1.log", registered, hidden),
        daemon(worker, folder / "worker2.log", registered, hidden),
    ):
        driver = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
        yield Cluster(address, {**os.environ, **QUIET, **driver, "TMPDIR": str(hidden)}, folder)
    wait_until(lambda: not processes_of(folder, port), within_s=60, awaiting="the end of every executor")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four partitions of 2000 messages; of each the tenth is lost, and of one partition every message."""
    history = History()
    for partition in range(4):
        kept = [] if partition == 3 else [seq for seq in range(2000) if seq % 10]
        for seq in range(2000):
            history.send(seq, offset=seq, partition=partition, writer=partition)
        for broker in (1, 2, 3):
            rows = [{"offset": seq, "seq": seq, "writer": partition, "partition": partition} for seq in kept]
            history.log(broker, rows)
            history.replica(broker, partition=partition, leo=2000, log_start=0, leader=broker == 1)
    return history.write(tmp_path_factory.mktemp("history") / "run")


def judged(command: list[str], cluster: Cluster) -> dict[str, object]:
    done = subprocess.run(
        command,
        env=dict(cluster.environment),
        cwd=cluster.logs,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == EXIT_VIOLATED, done.stdout[-2000:] + done.stderr[-4000:]
    judgement: dict[str, object] = json.loads(done.stdout)
    return judgement


def executors(cluster: Cluster) -> int:
    """How many executors the two workers have started so far."""
    text = "".join((cluster.logs / f"worker{n}.log").read_text() for n in (1, 2))
    return len(re.findall(r"Asked to launch executor", text))


def test_check_on_a_cluster(cluster: Cluster, history: Path) -> None:
    command = [sys.executable, "-m", "cli.main", "check", "--import", str(history), "--json"]
    judgement = judged([*command, "--master", cluster.master], cluster)
    assert judgement["fates"] == {"kept": 3 * 1800, "lost": 3 * 200 + 2000}
    assert judgement["findings_by_class"] == {"lost": 2600}
    assert executors(cluster) >= 2, "both workers took part"
    assert not list(history.glob("acked-*")), "scratch is gone"


def test_submitted_to_a_cluster(cluster: Cluster, history: Path) -> None:
    command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.master]
    command += ["--py-files", str(pack_project(cluster.logs)), str(MAIN)]
    judgement = judged(
        [*command, "check", "--import", str(history), "--json", "--master", cluster.master], cluster
    )
    assert judgement["findings_by_class"] == {"lost": 2600}


def test_a_uri_on_a_cluster(cluster: Cluster, history: Path, s3: Any) -> None:
    """The workers share no folder: they read and write in S3, and nobody else does."""
    there = "s3://histories/on-a-cluster"
    system, inner = file_system(there)
    for name in ("sends", "copies", "replicas"):
        with system.open_output_stream(f"{inner}/{name}.parquet") as stream:
            stream.write((history / f"{name}.parquet").read_bytes())
    command = [sys.executable, "-m", "cli.main", "check", "--import", there, "--json"]
    judgement = judged([*command, "--master", cluster.master], cluster)
    assert judgement["fates"] == {"kept": 3 * 1800, "lost": 3 * 200 + 2000}
    assert judgement["findings_by_class"] == {"lost": 2600}
    assert len(rows_of(f"{there}/life.parquet")) == 8000
    assert {entry.base_name for entry in listed(there)} == {
        *("sends.parquet", "copies.parquet", "replicas.parquet"),
        *("life.parquet", "findings.parquet", "judgement.json"),
    }, "scratch is gone"
