"""A cluster with hundreds of partitions in several topics."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cluster.conftest import run_as_declared

TOPICS, PARTITIONS = ("orders", "payments", "events"), 100


@pytest.mark.cluster
@pytest.mark.long
def test_a_run_with_300_partitions_is_judged_whole(tmp_path: Path) -> None:
    """Every replica of every partition is read to its end, and no message is missing."""
    azs = "".join(f'[[az]]\nname = "az{number}"\n' for number in (1, 2, 3))
    topics = "".join(
        f"[topic.{name}]\npartitions = {PARTITIONS}\nreplication-factor = 3\n" for name in TOPICS
    )
    file = tmp_path / "many.toml"
    file.write_text(f'kafka = "3.9.1"\n{azs}{topics}[producer]\nacks = "all"\n')
    judgement = run_as_declared("no-fault", "--cluster", file, "--rate", "50", "--runs", tmp_path)
    run = tmp_path / "no-fault" / "latest"
    replicas = pq.read_table(run / "history" / "replicas.parquet").to_pylist()
    own = [row for row in replicas if row["topic"] in TOPICS]
    assert len(own) == len(TOPICS) * PARTITIONS * 3
    assert all(row["complete"] for row in own)
    sent = pq.read_table(run / "history" / "sends.parquet", columns=["topic", "partition"]).to_pylist()
    assert len({(row["topic"], row["partition"]) for row in sent if row["topic"] in TOPICS}) == 300
    assert judgement["findings_by_class"] == {}
