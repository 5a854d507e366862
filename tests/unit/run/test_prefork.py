"""Forks that run cells: what they say, how they end, and that none outlives whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import EXIT_USAGE
from harness.run.prefork import Child, Prefork
from harness.waiting import wait_until

UNKNOWN = ["no-such-scenario", "2.7.1", "zookeeper", "embedded"]


@pytest.fixture
def prefork() -> Iterator[Prefork]:
    one = Prefork()
    yield one
    one.close()


def run_folder(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text("{}")
    return str(folder)


def test_a_fork_does_what_the_command_does(prefork: Prefork, tmp_path: Path) -> None:
    """Its exit status comes back, and the reason stands in its run folder."""
    folders = [tmp_path / str(number) for number in range(3)]
    children = [prefork.begin([*UNKNOWN, run_folder(one)], tmp_path / "run.log") for one in folders]
    for child, folder in zip(children, folders, strict=True):
        child.wait(60)
        assert child.status == EXIT_USAGE
        assert "There is no scenario 'no-such-scenario'" in (folder / "run.json").read_text()


def test_what_a_fork_says_goes_to_its_log(prefork: Prefork, tmp_path: Path) -> None:
    child = prefork.begin(["too", "few"], tmp_path / "run.log")
    child.wait(60)
    assert child.status == 255
    assert "not enough values to unpack" in (tmp_path / "run.log").read_text()


def forks_of(server: int) -> list[str]:
    return Path(f"/proc/{server}/task/{server}/children").read_text().split()


def waiting(prefork: Prefork, tmp_path: Path) -> Child:
    """A fork that waits for somebody to read the pipe that is its log."""
    os.mkfifo(tmp_path / "run.log")
    child = prefork.begin([*UNKNOWN, str(tmp_path)], tmp_path / "run.log")
    wait_until(lambda: forks_of(prefork._process.pid), within_s=60, awaiting="the fork to begin")
    return child


def test_a_signal_reaches_the_fork(prefork: Prefork, tmp_path: Path) -> None:
    child = waiting(prefork, tmp_path)
    with pytest.raises(TimeoutError, match=r"did not end within 0.2 s"):
        child.wait(0.2)
    child.signal(signal.SIGTERM)
    child.wait(30)
    assert child.status == -signal.SIGTERM
    child.signal(signal.SIGTERM)  # it has ended: nobody else is hit


def test_without_the_process_that_forks_everything_has_ended(prefork: Prefork, tmp_path: Path) -> None:
    """A killed one takes its forks along, and says so to whoever waits; so does an order that comes later."""
    child = waiting(prefork, tmp_path)
    prefork._process.kill()
    child.wait(30)
    later = prefork.begin([*UNKNOWN, str(tmp_path)], tmp_path / "later.log")
    later.wait(30)
    assert child.status == later.status == -signal.SIGKILL


def test_nothing_outlives_a_killed_harness(tmp_path: Path) -> None:
    """Who started it is killed: the kernel ends the process that forks, and its forks."""
    os.mkfifo(tmp_path / "run.log")
    program = (
        "import sys; from pathlib import Path; from harness.run.prefork import Prefork\n"
        "one = Prefork()\n"
        "one.begin(sys.argv[2:], Path(sys.argv[1], 'run.log'))\n"
        "print(one._process.pid, flush=True); sys.stdin.read()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), *UNKNOWN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    server = int(starter.stdout.readline())
    forks = wait_until(lambda: forks_of(server), within_s=60, awaiting="the fork to begin")
    starter.kill()
    starter.wait()
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in (*forks, str(server))),
        within_s=30,
        awaiting="all of them to end",
    )
