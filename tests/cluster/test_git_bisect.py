"""`git bisect run acked run ...` on a real repository, whose commits hold a jar with classes of Kafka."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cluster.test_own_kafka import VERSION, patch

pytestmark = [pytest.mark.cluster, pytest.mark.long]
CASE = """
from acked import Claim, Scenario, Setup, Topic
from acked.steps import seed

SCENARIO = Scenario(
    name="elections-are-logged",
    title="A leader's log names the epoch in which it begins",
    body=lambda stage: seed(stage, "t"),
    setup=Setup(topics=(Topic("t", (1, 2, 3)),), stream_rate=0),
    claims=(
        Claim(
            name="logged",
            says="The leader logs that its leader epoch starts.",
            holds="SELECT count(*) > 0 AS holds, concat(count(*), ' lines') AS observed "
            "FROM log_events WHERE kind = 'became_leader' AND topic = 't'",
        ),
    ),
)
"""
COMMITS = ("good", "good", "broken", "good", "bad", "bad")
"""With these, git tries commits 3, 4 and 5, counted from 1."""


def git(repository: Path, *words: str) -> str:
    given = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(repository), *given, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commit_of(repository: Path, number: int, kind: str, patched: Path) -> None:
    """Commit `build/change.jar`: it changes nothing, keeps brokers from starting, or changes their log."""
    with zipfile.ZipFile(repository / "build" / "change.jar", "w") as jar:
        jar.writestr(zipfile.ZipInfo("commit.txt"), f"{number}\n")
        if kind == "broken":
            jar.writestr(zipfile.ZipInfo("kafka/Kafka.class"), b"no class")
        elif kind == "bad":
            with zipfile.ZipFile(patched) as classes:
                for name in classes.namelist():
                    jar.writestr(zipfile.ZipInfo(name), classes.read(name))
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", f"{number} is {kind}")


def test_a_planted_commit_is_found_and_one_that_does_not_start_is_skipped(tmp_path: Path) -> None:
    repository = tmp_path / "patches"
    (repository / "build").mkdir(parents=True)
    git(repository, "init", "--quiet")
    patched = patch(tmp_path)
    for number, kind in enumerate(COMMITS, start=1):
        commit_of(repository, number, kind, patched)
    (tmp_path / "case.py").write_text(CASE)
    git(repository, "bisect", "start", "HEAD", f"HEAD~{len(COMMITS) - 1}")
    acked = (sys.executable, "-m", "cli.main", "run", str(tmp_path / "case.py"))
    options = ("--kafka", VERSION, "--kafka-jars", "build/change.jar", "--runs", str(tmp_path / "runs"))
    said = git(repository, "bisect", "run", *acked, *options, "--git-bisect", "--quiet")
    assert "is the first bad commit" in said, said
    assert "5 is bad" in said
    log = git(repository, "bisect", "log")
    tried = [line for line in log.splitlines() if line.startswith("# ")]
    assert any(line.startswith("# skip:") and "3 is broken" in line for line in tried), log
    assert any(line.startswith("# good:") and "4 is good" in line for line in tried), log
