"""The fork server: the output and the end of its forks, and that none outlives whoever started it."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.errors import EXIT_AS_DECLARED, UsageError
from harness.fork_server import ForkedProcess, ForkServer
from harness.waiting import wait_until

pytestmark = pytest.mark.usefixtures("no_process_left")

PROGRAM = "studies.series.process"
CLUSTER = ["2.7.1", "zookeeper", "embedded", "null", "", "", ""]
"""Its arguments: a cluster that serves a single run."""
AGENT = "nemesis.proof.agent"
"""A module that answers one JSON line with another, and ends with its input."""


def spawned() -> ForkServer:
    return ForkServer.spawn([PROGRAM])


@pytest.fixture(params=[spawned, ForkServer.fork], ids=["spawned", "forked"])
def server(request: pytest.FixtureRequest, no_process_left: None) -> Iterator[ForkServer]:
    start: Callable[[], ForkServer] = request.param
    one = start()
    yield one
    one.close()
    assert not Path(f"/proc/{one.pid}").exists()


def start(
    server: ForkServer, arguments: list[str], log: Path, orders: Path = Path(os.devnull)
) -> ForkedProcess:
    with orders.open("rb") as its_input, log.open("ab") as output:
        return server.start(PROGRAM, arguments, (its_input.fileno(), output.fileno(), output.fileno()))


def unknown(folder: Path) -> Path:
    """A file with the order to run a scenario that does not exist in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text("{}")
    file = folder / "orders"
    file.write_text(json.dumps({"folder": str(folder), "scenario": "no-such-scenario"}))
    return file


def forks_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_fork_does_what_the_command_does(server: ForkServer, tmp_path: Path) -> None:
    """It reads its input, and reports its exit status."""
    folders = [tmp_path / str(number) for number in range(3)]
    started = [start(server, CLUSTER, tmp_path / "run.log", unknown(folder)) for folder in folders]
    for process, folder in zip(started, folders, strict=True):
        process.wait(60)
        assert process.status == EXIT_AS_DECLARED
        assert "There is no scenario 'no-such-scenario'" in (folder / "run.json").read_text()


def test_arguments_that_are_too_long_are_refused(server: ForkServer, tmp_path: Path) -> None:
    """Nobody would ever learn the end of a process that the server was not told to start."""
    with pytest.raises(UsageError, match="set fewer properties"):
        start(server, ["x" * (1 << 20)], tmp_path / "log")


def test_the_output_of_a_fork_goes_to_its_log(server: ForkServer, tmp_path: Path) -> None:
    process = start(server, ["too", "few"], tmp_path / "run.log")
    process.wait(60)
    assert process.status == 255
    assert "not enough values to unpack" in (tmp_path / "run.log").read_text()


def test_a_fork_has_only_the_streams_that_it_was_given(server: ForkServer, tmp_path: Path) -> None:
    """It reads its input and writes its output, has no other file open, and ends with its input."""
    its_input, ours = os.pipe()
    our_output, its_output = os.pipe()
    with (tmp_path / "errors").open("ab") as errors:
        process = server.start(AGENT, [], (its_input, its_output, errors.fileno()))
    os.close(its_input)
    os.close(its_output)
    with os.fdopen(ours, "w") as commands, os.fdopen(our_output) as answers:
        assert answers.readline() == '{"ready": true}\n'
        (pid,) = forks_of(server.pid)
        opened = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
        commands.write('{"op": "release"}\n')
        commands.flush()
        assert answers.readline() == "{}\n"
    process.wait(60)
    assert process.status == 0
    assert opened == {0, 1, 2}
    assert (tmp_path / "errors").read_text() == ""


def test_garbage_of_the_process_that_forked_closes_nothing_in_a_fork(tmp_path: Path) -> None:
    """The fork's files have the numbers that sockets had, which nobody reaches any more."""
    gc.disable()
    try:
        for _ in range(8):
            cycle: list[object] = [*socket.socketpair()]
            cycle.append(cycle)
        del cycle
        with closing(ForkServer.fork()) as server, Path(os.devnull).open("r+b") as null:
            log = (tmp_path / "log").open("ab")
            with log:
                arguments = [str(tmp_path), "64"]
                fork = server.start(
                    "tests.unit.collecting_fork", arguments, (null.fileno(), log.fileno(), log.fileno())
                )
            fork.wait(20)
    finally:
        gc.enable()
    assert fork.status == 0, (tmp_path / "log").read_text()
    assert {file.read_bytes() for file in tmp_path.iterdir() if file.name.isdigit()} == {b"written"}


def test_a_fork_ends_if_its_network_namespace_is_absent(server: ForkServer, tmp_path: Path) -> None:
    with Path(os.devnull).open("rb") as nothing, (tmp_path / "log").open("ab") as log:
        streams = nothing.fileno(), log.fileno(), log.fileno()
        process = server.start(AGENT, [], streams, tmp_path / "nowhere")
    process.wait(60)
    assert process.status == 255
    assert "nowhere" in (tmp_path / "log").read_text()


@pytest.fixture
def waiting(server: ForkServer) -> Iterator[ForkedProcess]:
    """A fork that waits for its input."""
    its_input, ours = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    process = server.start(AGENT, [], (its_input, nothing, nothing))
    os.close(its_input)
    os.close(nothing)
    wait_until(lambda: forks_of(server.pid), within_s=60, awaiting="the fork to start")
    yield process
    os.close(ours)


def test_a_signal_reaches_the_fork(waiting: ForkedProcess) -> None:
    with pytest.raises(TimeoutError, match=r"did not end within 0.2 s"):
        waiting.wait(0.2)
    waiting.signal(signal.SIGTERM)
    waiting.wait(60)
    assert waiting.status == -signal.SIGTERM
    waiting.signal(signal.SIGTERM)  # has no effect: the process has ended


def test_forks_end_with_a_killed_server(server: ForkServer, waiting: ForkedProcess, tmp_path: Path) -> None:
    """Those that run are reported as killed, and so is one that is started afterwards."""
    os.kill(server.pid, signal.SIGKILL)
    waiting.wait(60)
    later = start(server, CLUSTER, tmp_path / "later.log")
    later.wait(60)
    assert waiting.status == later.status == -signal.SIGKILL


@pytest.mark.parametrize("call", ["spawn([])", "fork()"])
def test_nothing_outlives_a_killed_harness(call: str) -> None:
    """The kernel ends the server, and its forks, with the process that started it."""
    program = (
        "import os, sys; from harness.fork_server import ForkServer\n"
        f"server = ForkServer.{call}; its_input, _ = os.pipe()\n"
        f"server.start('{AGENT}', [], (its_input, 2, 2))\n"
        "print(server.pid, flush=True); sys.stdin.read()"
    )
    harness = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert harness.stdout is not None
    server = int(harness.stdout.readline())
    forks = wait_until(lambda: forks_of(server), within_s=60, awaiting="the fork to start")
    harness.kill()
    harness.communicate()

    def running() -> list[str]:
        """Those that have not ended; with a subreaper above them, they remain as zombies."""
        states = {}
        for pid in (*forks, str(server)):
            stat = Path(f"/proc/{pid}/stat")
            states[pid] = stat.read_text().rpartition(") ")[2][0] if stat.exists() else "X"
        return [pid for pid, state in states.items() if state not in "ZX"]

    wait_until(running, within_s=60, accept=lambda left: not left, awaiting="all of them to end")
