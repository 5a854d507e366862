"""Scenarios on secured listeners: as declared, and no byte that they leave or print holds a secret."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cluster.conftest import Finished, as_declared, commands_with

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SECRET = "Pl4nted-S3cr3t"
PLANTED = f"""
import itertools, secrets
_numbers = itertools.count()
secrets.token_urlsafe = lambda size=None: f"{SECRET}-{{next(_numbers)}}"
"""
"""Read by every Python process that the command starts: the passwords of its users are known."""
CASES = [
    ("leader-az-isolated", "2.7.1", "zookeeper", "sasl_ssl", "SCRAM-SHA-512"),
    ("kraft-leader-az-isolated", "3.9.1", "kraft", "sasl_plaintext", "PLAIN"),
    ("kraft-leader-az-isolated", "4.3.1", "kraft", "sasl_ssl", "SCRAM-SHA-256"),
]


@pytest.mark.parametrize(("scenario", "kafka", "mode", "protocol", "mechanism"), CASES)
def test_a_scenario_with_users_of_its_own(
    tmp_path: Path, scenario: str, kafka: str, mode: str, protocol: str, mechanism: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    work = tmp_path / "work"
    work.mkdir()
    place = ("--kafka", kafka, "--mode", mode, "--runs", str(work / "runs"))
    secure = ("--secure", protocol, "--mechanism", mechanism)
    command = [sys.executable, "-m", "cli.main", "run", scenario, *place, *secure, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(work)}
    ended, listed, readable = threading.Event(), [], set()

    def watch() -> None:
        while not ended.wait(0.5):
            listed.extend(commands_with(SECRET).values())
            for file in work.glob("runs/*/2*/nodes/*/server.properties"):
                if SECRET in file.read_text():
                    readable.add(stat.S_IMODE(file.stat().st_mode))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = subprocess.run(
            command, capture_output=True, env=environment, timeout=400, check=False, text=True
        )
    finally:
        ended.set()
        watcher.join()
    as_declared(Finished(done.returncode, done.stdout, done.stderr))
    assert listed == []
    assert readable == {0o600}, "the secrets were there, and for their owner alone"
    assert SECRET not in done.stdout + done.stderr
    files = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    with_secret = [path for path in files if SECRET.encode() in path.read_bytes()]
    assert with_secret == []
    assert [path for path in files if b"PRIVATE KEY-----" in path.read_bytes()] == []
    (run,) = {path.parent for path in files if path.name == "run.json"}
    stated = json.loads((run / "run.json").read_text())["settings"]["security"]
    assert stated == {"protocol": protocol.upper(), "mechanism": mechanism}
    configs = pq.read_table(run / "history" / "writers.parquet").column("config").to_pylist()
    spoken = {json.loads(config).get("security.protocol") for config in configs}
    assert spoken - {None} == {protocol.upper()}
