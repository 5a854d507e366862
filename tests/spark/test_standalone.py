"""The same judgement on a standalone Spark cluster of a master and two workers.

The workers' Python does not have the project, and as root the test also hides the driver's temporary folder
from them. What they need must be shipped, or be beside the run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.spark.cluster import pack_project
from checkers.tables.files import file_system, listed
from harness.errors import EXIT_VIOLATED
from tests.histories import History
from tests.spark.standalone import HOME, Cluster, standalone_cluster
from tests.spark.test_uris import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

MAIN = Path(__file__).resolve().parents[2] / "cli" / "submit.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3_port: int) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four partitions of 2000 messages; of each the tenth is lost, and of one partition every message."""
    history = History()
    for partition in range(4):
        kept = [] if partition == 3 else [seq for seq in range(2000) if seq % 10]
        for seq in range(2000):
            history.send(seq, offset=seq, partition=partition, writer=partition)
        for broker in (1, 2, 3):
            rows = [{"offset": seq, "seq": seq, "writer": partition, "partition": partition} for seq in kept]
            history.log(broker, rows)
            history.replica(broker, partition=partition, leo=2000, log_start=0, leader=broker == 1)
    return history.write(tmp_path_factory.mktemp("history") / "run")


def judged(command: list[str], cluster: Cluster) -> dict[str, object]:
    done = subprocess.run(
        command,
        env=dict(cluster.environment),
        cwd=cluster.logs,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == EXIT_VIOLATED, done.stdout[-2000:] + done.stderr[-4000:]
    judgement: dict[str, object] = json.loads(done.stdout)
    return judgement


def executors(cluster: Cluster) -> int:
    """How many executors the two workers have started so far."""
    text = "".join((cluster.logs / f"worker{n}.log").read_text() for n in (1, 2))
    return len(re.findall(r"Asked to launch executor", text))


def test_check_on_a_cluster(cluster: Cluster, history: Path) -> None:
    command = [sys.executable, "-m", "cli.main", "check", "--import", str(history), "--json"]
    judgement = judged([*command, "--master", cluster.master], cluster)
    assert judgement["fates"] == {"kept": 3 * 1800, "lost": 3 * 200 + 2000}
    assert judgement["findings_by_class"] == {"lost": 2600}
    assert executors(cluster) >= 2, "both workers took part"
    assert not list(history.glob("acked-*")), "scratch is gone"


def test_submitted_to_a_cluster(cluster: Cluster, history: Path) -> None:
    command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.master]
    command += ["--py-files", str(pack_project(cluster.logs)), str(MAIN)]
    judgement = judged(
        [*command, "check", "--import", str(history), "--json", "--master", cluster.master], cluster
    )
    assert judgement["findings_by_class"] == {"lost": 2600}


def test_a_uri_on_a_cluster(cluster: Cluster, history: Path, s3: Any) -> None:
    """The workers share no folder: they read and write in S3, and nobody else does."""
    there = "s3://histories/on-a-cluster"
    system, inner = file_system(there)
    for name in ("sends", "copies", "replicas"):
        with system.open_output_stream(f"{inner}/{name}.parquet") as stream:
            stream.write((history / f"{name}.parquet").read_bytes())
    command = [sys.executable, "-m", "cli.main", "check", "--import", there, "--json"]
    judgement = judged([*command, "--master", cluster.master], cluster)
    assert judgement["fates"] == {"kept": 3 * 1800, "lost": 3 * 200 + 2000}
    assert judgement["findings_by_class"] == {"lost": 2600}
    assert len(rows_of(f"{there}/life.parquet")) == 8000
    assert {entry.base_name for entry in listed(there)} == {
        *("sends.parquet", "copies.parquet", "replicas.parquet"),
        *("life.parquet", "findings.parquet", "judgement.json"),
    }, "scratch is gone"
