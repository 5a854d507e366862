"""Running the real command line against real clusters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Finished:
    """A command that ended."""

    status: int
    stdout: str
    stderr: str

    def json(self) -> dict[str, Any]:
        """What it printed, as JSON."""
        value: dict[str, Any] = json.loads(self.stdout)
        return value


def acked(*arguments: str | Path, timeout_s: float = 240) -> Finished:
    """Run `acked` as a user would, and prove that it left no process behind."""
    command = [sys.executable, "-m", "harness.cli.main", *(str(word) for word in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    return Finished(done.returncode, done.stdout, done.stderr)


def commands_with(*words: str) -> dict[int, str]:
    """Command lines, by pid, of all processes but this one that mention every one of ``words``."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if all(word in line for word in words):
                found[int(entry.name)] = line
    return found


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that mention a folder (each run's Java processes do)."""
    return list(commands_with(str(folder)).values())


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder for run folders, in which nothing may be running at the end."""
    folder = tmp_path / "runs"
    yield folder  # type: ignore[misc]
    assert processes_of(folder) == []
