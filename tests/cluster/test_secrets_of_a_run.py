"""A run whose producers are given secrets: no byte that it writes or prints has one, and no process list."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cluster.conftest import commands_with

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SECRET = "Pl4nted-S3cr3t"
SCENARIO = """
import os
from acked import Scenario, Setup, Stage, Topic

SECRET = os.environ["PLANTED"]


def body(stage: Stage) -> None:
    config = {"sasl.username": SECRET, "sasl.password": SECRET, "ssl.key.password": SECRET}
    for via in ("librdkafka", "java"):
        producer = stage.producer("az1", f"with-{via}", via=via, config=config)
        producer.prepare("t")
        assert producer.send("t", "a").ok


SETUP = Setup(topics=(Topic("t", (1, 2, 3)),))
SCENARIOS = [Scenario(name="secrets", title="Producers that are given secrets", body=body, setup=SETUP)]
"""


def test_a_run_with_secrets(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "planted.py").write_text(SCENARIO)
    command = [sys.executable, "-m", "cli.main", "run", "planted.py", "--kafka", "3.9.1"]
    environment = {**os.environ, "PLANTED": SECRET, "TMPDIR": str(work)}
    ended, listed = threading.Event(), []

    def watch() -> None:
        while not ended.wait(0.2):
            listed.extend(commands_with(SECRET).values())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = subprocess.run(
            command, capture_output=True, cwd=work, env=environment, timeout=400, check=False
        )
    finally:
        ended.set()
        watcher.join()
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-2000:]
    assert listed == []
    assert SECRET.encode() not in output
    files = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path.name for path in files if path.name == "broker1" or path.name == "run.json"]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    (run,) = {path.parent for path in files if path.name == "run.json"}
    journals = b"".join(path.read_bytes() for path in (run / "journal").glob("*.jsonl"))
    assert journals.count(b"[hidden]") >= 6
