"""The entry script of every container, run here with a plain shell."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness.lab.docker.image import COMPOSE_DIR
from harness.lab.docker.project import write_command
from harness.lab.model import MainProcess
from harness.waiting import wait_until


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The entry script with the test's folder instead of /data."""
    own = tmp_path / "entry.sh"
    own.write_text((COMPOSE_DIR / "entry.sh").read_text().replace("/data", str(tmp_path)))
    return own


def test_run_becomes_the_process_that_the_command_file_says(script: Path, tmp_path: Path) -> None:
    words = ("sh", "-c", 'echo "$GREETING" "$@" $$', "x", "two words", "it's", "$HOME")
    write_command(tmp_path, MainProcess(words, {"GREETING": 'a "quoted" word'}))
    process = subprocess.Popen(["sh", str(script), "run"])
    assert process.wait(10) == 0
    printed = (tmp_path / "out.log").read_text().strip()
    assert printed == f'a "quoted" word two words it\'s $HOME {process.pid}'
    assert (tmp_path / "main.pid").read_text().strip() == str(process.pid)


def test_run_without_a_command_file_says_how_to_get_one(script: Path) -> None:
    done = subprocess.run(["sh", str(script), "run"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "harness.cluster.by_hand" in done.stderr


def test_hold_waits_and_ends_at_once_on_a_signal(script: Path) -> None:
    process = subprocess.Popen(["sh", str(script), "hold"], start_new_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: children.read_text(), within_s=5, awaiting="the script to wait")
    process.terminate()
    assert process.wait(5) == 0
    os.killpg(process.pid, signal.SIGKILL)  # also ends its sleep, as the end of a container would


def test_anything_else_is_a_command(script: Path) -> None:
    done = subprocess.run(["sh", str(script), "echo", "hello"], capture_output=True, text=True)
    assert done.stdout == "hello\n"
