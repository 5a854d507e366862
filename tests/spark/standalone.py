"""A standalone Spark cluster of a master and two workers with one processor each, on loopback.

The workers' Python does not have the project, and as root the driver's temporary folder is hidden from them.
What they need must be shipped, or be beside the run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from harness.waiting import wait_until
from tests.spark.conftest import free_port

HOME = Path(pyspark.__file__).parent
QUIET = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(HOME), "SPARK_NO_DAEMONIZE": "1"}


@dataclass(frozen=True)
class Cluster:
    """A running master, and the environment of a driver that uses it."""

    master: str
    environment: Mapping[str, str]
    logs: Path


def _processes_of(folder: Path, port: int) -> list[str]:
    """Command lines of processes that belong to the cluster: masters, workers, executors, their Python."""
    command_lines = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if f"127.0.0.1:{port}" in line or f"{folder}/" in line:
                command_lines.append(line)
    return command_lines


@contextmanager
def _daemon(arguments: list[str], log: Path, ready: str, hidden: Path | None = None) -> Iterator[None]:
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


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """Start a cluster in a folder; an executor may have 1 GiB, its Python not counted.

    At the end it waits until every executor has ended.
    """
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
        _daemon([*master, "--webui-port", "0"], folder / "master.log", "I have been elected leader"),
        _daemon(worker, folder / "worker1.log", registered, hidden),
        _daemon(worker, folder / "worker2.log", registered, hidden),
    ):
        driver = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
        yield Cluster(address, {**os.environ, **QUIET, **driver, "TMPDIR": str(hidden)}, folder)
    wait_until(lambda: not _processes_of(folder, port), within_s=60, awaiting="the end of every executor")
