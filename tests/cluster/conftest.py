"""Running the real command line against real clusters."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checkers.claims.builders.sql import TOO_BUSY
from checkers.unobserved import SEEN_LATE
from harness.lab.embedded.namespaces import NAMESPACE_DIR


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


def acked(*arguments: str | Path, timeout_s: float = 400) -> Finished:
    """Run `acked` as a user would, and prove that it left no temporary files behind."""
    command = [sys.executable, "-m", "cli.main", *(str(word) for word in arguments)]
    with tempfile.TemporaryDirectory() as folder:
        here = {**os.environ, "TMPDIR": folder}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, env=here
        )
        assert list(Path(folder).iterdir()) == []
    return Finished(done.returncode, done.stdout, done.stderr)


def run_as_declared(*arguments: str | Path, timeout_s: float = 400) -> dict[str, Any]:
    """Run a scenario, whose judgement must be `as_declared`; returns that.

    On a busy machine another controller may be elected before anything has happened. Such a run is invalid,
    proves nothing, and is made once more.
    """
    run = acked("run", *arguments, "--json", timeout_s=timeout_s)
    if re.search("A precondition does not hold: .*controller|took the role", run.stderr):
        run = acked("run", *arguments, "--json", timeout_s=timeout_s)
    return as_declared(run)


def as_declared(run: Finished) -> dict[str, Any]:
    """The judgement of `acked run --json`, which must be as declared.

    Only claims whose event came too late on a busy machine, or was seen late, may be unknown, because these
    tests run beside others.
    """
    judgement = run.json()
    unobserved = judgement["unobserved"]
    assert all(row["source"] == "tail" and row["late"] for row in unobserved), unobserved
    observed = [(claim, claim["observed"]) for claim in judgement["claims"]]
    late = [claim for claim, text in observed if text.endswith(TOO_BUSY) or SEEN_LATE in text]
    assert all(claim["status"] == "unknown" for claim in late)
    assert judgement["verdict"] == ("unknown" if late else "as declared"), (judgement, run.stderr[-2000:])
    assert len(judgement["reasons"]) == len(late) + bool(unobserved), judgement["reasons"]
    assert run.status == judgement["exit_code"]
    return judgement


def run_by(worker: str, *arguments: str | Path, timeout_s: float = 400) -> Path:
    """Let `tests.cluster.<worker>` run a scenario that is not in the catalogue; returns the run folder."""
    command = [sys.executable, "-m", f"tests.cluster.{worker}", *(str(word) for word in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().splitlines()[-1])


def commands_with(*words: str) -> dict[int, str]:
    """Command lines, by pid, of all processes but this one that mention every one of ``words``."""
    processes = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if all(word in line for word in words):
                processes[int(entry.name)] = line
    return processes


def commands_in(setting: str) -> dict[int, str]:
    """Command lines, by pid, of all processes whose environment has ``setting`` (NAME=value)."""
    processes = {}
    for pid, line in commands_with().items():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if setting.encode() in environment.split(b"\0"):
            processes[pid] = line
    return processes


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that mention a folder (each run's Java processes do)."""
    return list(commands_with(str(folder)).values())


_HOST = "(broker|zookeeper|controller|client|observer)"


def left_on_machine(folder: Path) -> list[str]:
    """What runs with folders below ``folder`` left outside their namespaces: links, rules, mounts, loops.

    Other programs, a Docker engine for instance, use other names for their links and namespaces.
    """
    below = re.escape(str(folder))
    ours = {
        ("ip", "-o", "link"): rf"^\d+: (v-{_HOST}|lan0)",
        ("iptables-save",): "ACKED",
        ("cat", "/proc/self/mounts"): rf" {NAMESPACE_DIR}/{_HOST}| {below}/",
        ("losetup", "--list", "--noheadings", "--output", "BACK-FILE"): rf"^{below}/",
    }
    processes = []
    for command, pattern in ours.items():
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        processes += [line for line in lines if re.search(pattern, line)]
    return processes


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder for run folders, in which nothing may be running at the end."""
    folder = tmp_path / "runs"
    yield folder  # type: ignore[misc]
    assert processes_of(folder) == []
