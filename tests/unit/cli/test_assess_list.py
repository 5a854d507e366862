"""`acked assess --list`: what acked understood of a cluster file, and the faults, without running any."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.commands import app
from studies.assess import series

CLUSTER = """
[[az]]
name = "frankfurt"
brokers = 2

[[az]]
name = "munich"

[topic.clicks]
replication-factor = 2
min.insync.replicas = 1

[producer]
delivery.timeout.ms = 30000
"""


def test_the_list_begins_with_what_would_be_assessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER)
    monkeypatch.setattr(
        series, "unfit", lambda cases: {case.name: "no netem" for case in cases if case.kind == "delay"}
    )
    done = CliRunner().invoke(app, ["assess", str(file), "--list"], catch_exceptions=False)
    about, faults = done.stdout.split("\n\n", 1)
    assert "frankfurt: 2 brokers, 1 ZooKeeper node, 1 client; munich: 1 broker" in about
    assert "clicks, replication factor 2, min.insync.replicas=1" in about
    assert "producer.delivery.timeout.ms=30000" in about
    unfit = [line for line in faults.splitlines() if line.endswith("  no netem")]
    assert unfit
    assert all("  delay-" in line for line in unfit)
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.toml"]
