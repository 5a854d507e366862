"""The first run with an empty cache: its verdict does not wait for class-data archives, which come later."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from harness.artifacts import find_java, resolve
from tests.cluster.conftest import acked, left_on_machine, processes_of


@pytest.mark.long
@pytest.mark.cluster
def test_archives_are_made_after_the_first_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And never again: the second run finds them."""
    jars, cache = resolve(make_archives=False).root, tmp_path / "cache"
    shutil.copytree(jars, cache / jars.name, ignore=shutil.ignore_patterns("class-data"))
    monkeypatch.setenv("ACKED_CACHE", str(cache))

    first = acked("run", "no-fault", "--runs", tmp_path / "runs")
    assert first.status == 0, first.stderr
    judged = next(iter((tmp_path / "runs" / "no-fault").glob("2*/judgement.json"))).stat().st_mtime
    kafka = list((cache / jars.name / "class-data" / find_java().build).glob("*.jsa"))
    (spark,) = cache.glob("spark/classes-*.jsa")
    assert {file.stem for file in kafka} >= {"kafka.Kafka"}
    assert all(judged < file.stat().st_mtime < time.time() for file in (*kafka, spark))
    lines = first.stderr.splitlines()
    page, of_kafka, of_spark = (
        next(number for number, line in enumerate(lines) if text in line)
        for text in (
            "s  page: ",
            "creating class-data archives of Kafka",
            "creating Spark's class-data archive",
        )
    )
    assert page < of_kafka < of_spark

    second = acked("run", "no-fault", "--runs", tmp_path / "runs")
    assert second.status == 0, second.stderr
    assert "class-data" not in second.stderr
    assert left_on_machine(tmp_path) == []
    assert processes_of(tmp_path) == []
