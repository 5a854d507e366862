"""Temporary folders of a command go with it; those of a killed one go with the next command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cli import commands
from cli.main import main

HOLD = """
import sys
import tempfile

from cli import commands
from cli.main import main


def judge(**_options):
    print(tempfile.mkdtemp(prefix="acked-judge-"), flush=True)
    sys.stdin.read()


commands.app = judge
main()
"""

THREAD = """
import tempfile
import threading
from pathlib import Path

from cli import commands
from cli.main import main


def wait(folder):
    threading.main_thread().join()
    print(folder.is_dir(), flush=True)


def judge(**_options):
    folder = Path(tempfile.mkdtemp(prefix="acked-judge-"))
    threading.Thread(target=wait, args=[folder]).start()
    return 130


commands.app = judge
main()
"""


def acked(folder: Path) -> None:
    """Another command, with ``folder`` for its temporary files."""
    command = [sys.executable, "-m", "cli.main", "clean", "--help"]
    subprocess.run(command, env=os.environ | {"TMPDIR": str(folder)}, check=True, capture_output=True)


def test_a_command_removes_what_a_killed_one_left_and_nothing_of_a_live_one(tmp_path: Path) -> None:
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", HOLD], env=environment, **options) as owner:  # type: ignore[call-overload]
        left = Path(owner.stdout.readline().strip())
        acked(tmp_path)
        assert left.is_dir()
        owner.kill()
        owner.wait(10)
        assert left.is_dir()
    acked(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_command_removes_its_own_temporary_files_when_it_exits(tmp_path: Path) -> None:
    """Not before: after an interruption, a thread may still wait there for Spark's JVM."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", THREAD], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "True\n")
    assert list(tmp_path.iterdir()) == []


def test_a_command_works_without_a_place_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    monkeypatch.setattr(commands, "app", lambda **_options: 3)
    with pytest.raises(SystemExit, match="3"):
        main()
