"""A JVM that ends while a command goes on: another one can be started in its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.held_folders import remove_abandoned
from harness.waiting import wait_until
from run.scratch import PREFIX, scratch_folder

PROGRAM = """
import os, signal
from py4j.protocol import Py4JError
from pyspark import SparkContext
from checkers.spark.session import forget_session, session_ended, start_session

def counted(session):
    return session.range(7).count()

def by_python(session):
    return session.sparkContext.parallelize([7], 1).map(lambda one: one).sum()

session = start_session()
first = by_python(session)
jvm = SparkContext._gateway.proc
forget_session()
jvm.wait(20)
session = start_session()
counted(session)
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
SparkContext._gateway.proc.wait(20)
try:
    failed = str(counted(session))
except (Py4JError, OSError) as error:
    failed = "failed"
ended = session_ended()
forget_session()
print(first, failed, ended, counted(start_session()))
"""


@pytest.mark.long
def test_another_jvm_takes_the_place_of_one_that_was_killed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.stdout.split() == ["7", "failed", "True", "7"], done.stderr[-2000:]
    assert "EOFError" not in done.stderr, "the end of the first JVM is shown to the user"


STARTING = """
from checkers.spark.session import start_session
from run.scratch import temporary_folder

with temporary_folder():
    start_session()
"""


def jvms_below(folder: Path) -> list[int]:
    """Processes of Java whose temporary files are below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"-Djava.io.tmpdir={folder}/" in line:
                found.append(int(entry.name))
    return found


@pytest.mark.long
def test_a_jvm_ends_whose_parent_was_killed_while_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command begins meanwhile, and removes the folders that nobody needs."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", STARTING], env=environment) as starting:
        wait_until(lambda: jvms_below(tmp_path), within_s=60, poll_s=0.01, awaiting="the JVM to start")
        starting.kill()
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with scratch_folder():
            pass
        wait_until(
            lambda: jvms_below(tmp_path),
            accept=lambda pids: not pids,
            within_s=60,
            awaiting="the JVM to end",
        )
        wait_until(
            lambda: remove_abandoned(tmp_path, PREFIX, dry_run=True),
            within_s=10,
            awaiting="the JVM to hold the folder no more",
        )
    finally:
        for pid in jvms_below(tmp_path):
            os.kill(pid, signal.SIGKILL)
