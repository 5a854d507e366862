"""`acked cluster from --bootstrap` asks a real cluster, and the file that it writes can be assessed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cluster.cluster_file import ClusterFile, read_cluster_file
from harness.cluster.settings import values
from tests.cluster.conftest import acked, run_by

pytestmark = pytest.mark.cluster

TWO_AZS = """\
kafka = "2.7.1"
mode = "zookeeper"
[[az]]
name = "north"
brokers = 2
zookeepers = 1
[[az]]
name = "south"
brokers = 1
zookeepers = 0
[broker]
num.io.threads = 5
[topic.clicks]
partitions = 3
replication-factor = 2
cleanup.policy = "compact"
"""
ALONE = 'kafka = "3.9.1"\nmode = "kraft-combined"\n[[az]]\nname = "only"\n'


def _described(text: str, alike: int, folder: Path) -> tuple[ClusterFile, str]:
    """The cluster file of a running cluster, with this many topics of one shape."""
    file, out = folder / "started.toml", folder / "described.toml"
    file.write_text(text)
    run_by("inventory_worker", folder / "runs", file, out, str(alike))
    listed = acked("assess", out, "--list")
    assert listed.status == 0, listed.stderr
    return read_cluster_file(out), out.read_text()


@pytest.mark.long
def test_racks_settings_and_hundreds_of_topics(tmp_path: Path) -> None:
    described, text = _described(TWO_AZS, 300, tmp_path)
    assert (described.kafka, described.mode) == ("2.7.1", "zookeeper")
    assert [(az.name, az.brokers, az.zookeepers) for az in described.layout.azs] == [
        ("north", 2, 1),
        ("south", 1, 0),
    ]
    assert described.settings.broker["num.io.threads"].value == "5"
    assert {
        name: (one.partitions, one.replication_factor) for name, one in described.settings.shapes.items()
    } == {
        "alike-000": (2, 1),
        "clicks": (3, 2),
        "orders": (1, 3),
    }
    assert values(described.settings.topics["alike-000"]) == {"retention.ms": "7200000"}
    assert values(described.settings.topics["clicks"]) == {"cleanup.policy": "compact"}
    assert "# Stands for 300 topics of this shape and configuration.\n[topic.alike-000]" in text
    took = re.search(r"# took (.+) s", text)
    assert took is not None and float(took[1]) < 5


def test_a_lone_broker_is_one(tmp_path: Path) -> None:
    described, text = _described(ALONE, 40, tmp_path)
    assert (described.kafka, described.mode) == ("3.9.1", "kraft-combined")
    assert [(az.name, az.brokers) for az in described.layout.azs] == [("only", 1)]
    assert "# Stands for 40 topics" in text
