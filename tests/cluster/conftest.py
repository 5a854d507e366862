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


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that mention a folder (each run's Java processes do)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in words:
                found.append(words)
    return found


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder for run folders, in which nothing may be running at the end."""
    folder = tmp_path / "runs"
    yield folder  # type: ignore[misc]
    assert processes_of(folder) == []
