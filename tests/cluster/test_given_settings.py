"""Settings on real clusters: they are applied and read back, and without effect they make the run invalid."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cluster.conftest import acked

EXAMPLES = Path(__file__).parents[2] / "examples" / "settings"
THREE_AZS = "".join(f'[[az]]\nname = "az{number}"\n' for number in (1, 2, 3))
OWN = f"""{THREE_AZS}
[broker]
replica.lag.time.max.ms = 30000
num.io.threads = 5
[topic]
min.insync.replicas = 2
[topic.orders]
partitions = 2
replication-factor = 2
retention.ms = 100000000
[producer]
linger.ms = 5
compression.type = "gzip"
"""

pytestmark = pytest.mark.cluster


@pytest.mark.long
def test_every_table_takes_effect(tmp_path: Path) -> None:
    """Brokers, topics and producers state the values; a topic of one's own is written to and judged."""
    file = tmp_path / "cluster.toml"
    file.write_text(OWN)
    given = ("--cluster", file, "--set", "broker.num.io.threads=6", "--runs", tmp_path)
    done = acked("run", "canary", *given, "--json")
    assert done.status == 0, done.stderr
    run = tmp_path / "canary" / "latest"
    settings = json.loads((run / "run.json").read_text())["settings"]
    assert settings["broker"]["num.io.threads"] == {
        "value": "6",
        "origin": "user",
        "place": "--set",
        "instead_of": "4",
    }
    assert settings["broker"]["replica.lag.time.max.ms"]["place"] == f"{file}:9"
    assert settings["streams"]["linger.ms"] == {"value": 5, "origin": "user", "place": f"{file}:18"}
    assert settings["streams"]["acks"] == {"value": -1, "origin": "default"}
    configs = {
        (row["name"], row["key"]): (row["value"], row["asked"])
        for row in pq.read_table(run / "history" / "configs.parquet").to_pylist()
    }
    for number in (1, 2, 3):
        assert configs[f"broker{number}", "num.io.threads"] == ("6", "6")
        assert configs[f"broker{number}", "replica.lag.time.max.ms"] == ("30000", "30000")
    assert configs["t", "min.insync.replicas"] == configs["stream", "min.insync.replicas"] == ("2", "2")
    assert configs["orders", "retention.ms"] == ("100000000", "100000000")
    writers = pq.read_table(run / "history" / "writers.parquet").to_pylist()
    stream = next(json.loads(row["config"]) for row in writers if row["name"] == "az1-orders")
    assert (stream["linger.ms"], stream["compression.type"], stream["acks"]) == (5, "gzip", -1)
    replicas = pq.read_table(run / "history" / "replicas.parquet").to_pylist()
    held = {(row["partition"], row["broker"]) for row in replicas if row["topic"] == "orders"}
    assert held == {(0, 1), (0, 2), (1, 2), (1, 3)}
    life = pq.read_table(run / "life.parquet").to_pylist()
    assert {row["fate"] for row in life if row["topic"] == "orders"} == {"kept"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "option", "sentence"),
    [
        (
            "canary",
            "broker.inter.broker.protocol.version=9.9",
            "--set: inter.broker.protocol.version=9.9: a broker does not start with it",
        ),
        (
            "canary",
            "topic.segment.jitter.ms=two",
            "topic t was given segment.jitter.ms=two, and its leader",
        ),
        ("kraft-leader-az-isolated", "topic.segment.ms=-5", "was refused with error 40: Invalid value -5"),
    ],
)
def test_what_takes_no_effect_makes_the_run_invalid(
    scenario: str, option: str, sentence: str, tmp_path: Path
) -> None:
    done = acked("run", scenario, "--set", option, "--runs", tmp_path)
    assert done.status == 2, done.stderr
    manifest = json.loads((tmp_path / scenario / "latest" / "run.json").read_text())
    assert manifest["status"] == "invalid"
    assert sentence in manifest["problem"]
    assert "\n" not in manifest["problem"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("leader-az-isolated", ()),
        ("leader-az-isolated", ("--compress-time", "5")),
        ("follower-az-isolated", ()),
        ("kraft-leader-az-isolated", ()),
    ],
)
def test_production_settings_change_no_verdict(
    scenario: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    """Cuts and deadlines follow the time-outs of the brokers."""
    given = ("--broker-config", EXAMPLES / "server.properties")
    done = acked("run", scenario, *given, *options, "--runs", tmp_path, "--json")
    assert done.status == 0, done.stderr
