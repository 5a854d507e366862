"""Forks: what they say, how they end, and that none outlives whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import EXIT_USAGE
from harness.forks import Fork, Forks
from harness.waiting import wait_until

UNKNOWN = ["no-such-scenario", "2.7.1", "zookeeper", "embedded"]
CELL = "harness.series.cell"


def anew() -> Forks:
    return Forks.anew([CELL])


@pytest.fixture(params=[anew, Forks.of_this_process])
def forks(request: pytest.FixtureRequest) -> Iterator[Forks]:
    start: Callable[[], Forks] = request.param
    one = start()
    yield one
    one.close()
    assert not Path(f"/proc/{one.pid}").exists()


def begin(forks: Forks, module: str, arguments: list[str], log: Path) -> Fork:
    with Path(os.devnull).open("rb") as nothing, log.open("ab") as said:
        return forks.begin(module, arguments, (nothing.fileno(), said.fileno(), said.fileno()))


def run_folder(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text("{}")
    return str(folder)


def test_a_fork_does_what_the_command_does(forks: Forks, tmp_path: Path) -> None:
    """Its exit status comes back, and the reason stands in its run folder."""
    folders = [tmp_path / str(number) for number in range(3)]
    started = [begin(forks, CELL, [*UNKNOWN, run_folder(one)], tmp_path / "run.log") for one in folders]
    for fork, folder in zip(started, folders, strict=True):
        fork.wait(60)
        assert fork.status == EXIT_USAGE
        assert "There is no scenario 'no-such-scenario'" in (folder / "run.json").read_text()


def test_what_a_fork_says_goes_to_its_log(forks: Forks, tmp_path: Path) -> None:
    fork = begin(forks, CELL, ["too", "few"], tmp_path / "run.log")
    fork.wait(60)
    assert fork.status == 255
    assert "not enough values to unpack" in (tmp_path / "run.log").read_text()


def test_a_fork_is_spoken_to_through_pipes(forks: Forks, tmp_path: Path) -> None:
    """It ends with its input, has nothing open but its streams, and its status is 0."""
    reading, asking = os.pipe()
    answering, telling = os.pipe()
    with (tmp_path / "errors").open("ab") as errors:
        fork = forks.begin("nemesis.proof.agent", [], (reading, telling, errors.fileno()))
    os.close(reading)
    os.close(telling)
    with os.fdopen(asking, "w") as to, os.fdopen(answering) as of:
        assert of.readline() == '{"ready": true}\n'
        (pid,) = forks_of(forks.pid)
        opened = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
        to.write('{"op": "release"}\n')
        to.flush()
        assert of.readline() == "{}\n"
    fork.wait(30)
    assert fork.status == 0
    assert opened == {0, 1, 2}
    assert (tmp_path / "errors").read_text() == ""


def test_a_network_that_is_not_there_ends_the_fork(forks: Forks, tmp_path: Path) -> None:
    with Path(os.devnull).open("rb") as nothing, (tmp_path / "log").open("ab") as log:
        streams = nothing.fileno(), log.fileno(), log.fileno()
        fork = forks.begin("nemesis.proof.agent", [], streams, tmp_path / "nowhere")
    fork.wait(30)
    assert fork.status == 255
    assert "nowhere" in (tmp_path / "log").read_text()


def forks_of(server: int) -> list[str]:
    return Path(f"/proc/{server}/task/{server}/children").read_text().split()


class Waiting:
    """A fork that waits for its input."""

    def __init__(self, forks: Forks) -> None:
        reading, self.held = os.pipe()
        nothing = os.open(os.devnull, os.O_WRONLY)
        self.fork = forks.begin("nemesis.proof.agent", [], (reading, nothing, nothing))
        os.close(reading)
        os.close(nothing)
        wait_until(lambda: forks_of(forks.pid), within_s=60, awaiting="the fork to begin")


@pytest.fixture
def waiting(forks: Forks) -> Iterator[Waiting]:
    one = Waiting(forks)
    yield one
    os.close(one.held)


def test_a_signal_reaches_the_fork(waiting: Waiting) -> None:
    fork = waiting.fork
    with pytest.raises(TimeoutError, match=r"did not end within 0.2 s"):
        fork.wait(0.2)
    fork.signal(signal.SIGTERM)
    fork.wait(30)
    assert fork.status == -signal.SIGTERM
    fork.signal(signal.SIGTERM)  # it has ended: nobody else is hit


def test_without_the_process_that_forks_everything_has_ended(
    forks: Forks, waiting: Waiting, tmp_path: Path
) -> None:
    """A killed one takes its forks along, and says so to whoever waits; so does an order that comes later."""
    os.kill(forks.pid, signal.SIGKILL)
    waiting.fork.wait(30)
    later = begin(forks, CELL, [*UNKNOWN, str(tmp_path)], tmp_path / "later.log")
    later.wait(30)
    assert waiting.fork.status == later.status == -signal.SIGKILL


@pytest.mark.parametrize("start", ["anew([])", "of_this_process()"])
def test_nothing_outlives_a_killed_harness(start: str, tmp_path: Path) -> None:
    """Who started it is killed: the kernel ends the process that forks, and its forks."""
    program = (
        "import os, sys; from harness.forks import Forks\n"
        f"one = Forks.{start}; reading, _ = os.pipe()\n"
        "one.begin('nemesis.proof.agent', [], (reading, 2, 2))\n"
        "print(one.pid, flush=True); sys.stdin.read()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
