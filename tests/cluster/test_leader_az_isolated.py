"""The main scenario on a real cluster: judged as declared, and judged again alike."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.compute as pc
import pytest

from harness.artifacts.distribution import resolve
from harness.history.imports.dump_log import ReplicaLogs, identify_by_text
from harness.history.tables import read_table
from tests.cluster.conftest import acked, run_as_declared

pytestmark = pytest.mark.cluster


def test_every_zombie_write_is_lost_and_nothing_else(runs: Path) -> None:
    """The article's case: acks=1 writes to the cut-off leader are lost, what the majority took is kept."""
    judgement = run_as_declared("leader-az-isolated", "--runs", runs)
    claims = {claim["name"]: claim for claim in judgement["claims"]}
    assert claims["zombie-writes-lost"]["status"] == "confirmed"
    assert claims["epoch-rises"]["status"] == "refuted"
    assert claims["epoch-rises"]["as_declared"]
    assert set(judgement["findings_by_class"]) == {"lost"}
    epoch = _epoch_before_the_cut(runs / "leader-az-isolated" / "latest")
    for finding in judgement["findings"]:
        assert finding["expected"]
        assert finding["acked_by"] == 1
        assert finding["last_broker"] == 1
        assert finding["epoch"] == epoch
    _the_tool_prints_the_same_logs(runs / "leader-az-isolated" / "latest")


@pytest.mark.long
def test_a_run_is_judged_again_alike(runs: Path) -> None:
    run = acked("run", "leader-az-isolated", "--runs", runs, "--json")
    again = acked("check", runs / "leader-az-isolated" / "latest", "--json")
    assert again.status == run.status
    for key in ("verdict", "claims", "fates_by_writer", "findings_by_class"):
        assert again.json()[key] == run.json()[key]


def _the_tool_prints_the_same_logs(run: Path) -> None:
    """An import of what kafka-dump-log prints about the segments equals the harness's own final logs."""
    kafka = resolve("2.7.1")
    imported = ReplicaLogs(identify_by_text)
    for broker in (1, 2, 3):
        segments = sorted((run / "nodes" / f"broker{broker}" / "data").glob("*-[0-9]*/*.log"))
        files = ",".join(str(file) for file in segments if not file.parent.name.startswith("__"))
        command = ["java", "-cp", kafka.class_path(), "kafka.tools.DumpLogSegments", "--print-data-log"]
        printed = subprocess.run([*command, "--files", files], capture_output=True, timeout=120, check=True)
        text = run / f"dump-{broker}.txt"
        text.write_bytes(printed.stdout)
        imported.read(text, broker)
    key = [(name, "ascending") for name in ("topic", "partition", "broker", "offset")]
    final = read_table(run, "copies")
    final = final.filter(pc.invert(pc.starts_with(final["topic"], "__"))).sort_by(key)
    printed_rows = imported.copies.table().sort_by(key)
    assert printed_rows.num_rows > 300
    for name in set(final.column_names) - {"home"}:
        assert printed_rows[name].to_pylist() == final[name].to_pylist(), name


def _epoch_before_the_cut(folder: Path) -> int:
    """The leader epoch in which broker1 led t-0 when its AZ was cut off; a slow start may raise it."""
    (cut,) = (row["ns"] for row in read_table(folder, "marks").to_pylist() if row["name"] == "cut")
    views = sorted(
        (row for row in read_table(folder, "views").to_pylist() if row["topic"] == "t" and row["ns"] < cut),
        key=lambda row: int(row["ns"]),
    )
    last = [row for row in views if row["source"] == "broker1" and row["leader"] == 1][-1]
    return int(last["epoch"])
