"""Settings in cluster files, properties files and `--set`: read as meant, or refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cluster.cluster_file import read_cluster_file
from harness.cluster.settings import Settings, rack_aware, values
from harness.cluster.settings_files import read_options, read_properties
from harness.errors import UsageError
from harness.kafka.java import properties_text
from tests.unit.cluster.malformed import AZ, BROKER_PROPERTIES, TABLES

WHOLE = f"""{AZ}
[broker]
replica.lag.time.max.ms = 30000
"num.io.threads" = 5
auto.leader.rebalance.enable = true
log.cleanup.policy = ["compact", "delete"]

[topic]
min.insync.replicas = 2

[topic.orders]
partitions = 2
replication-factor = 1
retention.ms = 1000

[topic."a.b"]
assignment = [[1], [1]]

[producer]
acks = "all"

[consumer]
fetch.max.wait.ms = 250
"""


def _settings(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    return read_cluster_file(path).settings


def test_tables_of_a_cluster_file(tmp_path: Path) -> None:
    """Dotted and quoted keys mean the same; each property knows its line."""
    settings = _settings(tmp_path, WHOLE)
    assert values(settings.broker) == {
        "replica.lag.time.max.ms": "30000",
        "num.io.threads": "5",
        "auto.leader.rebalance.enable": "true",
        "log.cleanup.policy": "compact,delete",
    }
    assert settings.broker["num.io.threads"].place == f"{tmp_path / 'cluster.toml'}:6"
    assert values(settings.topic) == {"min.insync.replicas": "2"}
    assert values(settings.topics["orders"]) == {"retention.ms": "1000"}
    assert (settings.shapes["orders"].partitions, settings.shapes["orders"].replication_factor) == (2, 1)
    assert settings.shapes["a.b"].assignment == ((1,), (1,))
    assert (values(settings.producer), values(settings.consumer)) == (
        {"acks": "all"},
        {"fetch.max.wait.ms": "250"},
    )


def test_a_process_hands_them_to_another(tmp_path: Path) -> None:
    settings = _settings(tmp_path, WHOLE)
    assert Settings.from_json(json.loads(json.dumps(settings.as_json()))) == settings


def test_java_properties(tmp_path: Path) -> None:
    """Comments, separators, continued lines and escapes as in Java; `--set` takes precedence."""
    path = tmp_path / "server.properties"
    path.write_text(
        "# ours\n! also\nnum.io.threads 8\nlog.retention.ms : 10\\\n  00\ncompression.type=\\u0067zip\n"
    )
    settings = read_properties(path, "broker")
    assert values(settings.broker) == {
        "num.io.threads": "8",
        "log.retention.ms": "1000",
        "compression.type": "gzip",
    }
    assert settings.broker["compression.type"].place == f"{path}:6"
    both = read_options(["broker.num.io.threads=9"]).over(settings)
    assert (both.broker["num.io.threads"].value, both.broker["log.retention.ms"].value) == ("9", "1000")


def test_set_splits_the_topic_from_its_property() -> None:
    settings = read_options(["topic.my.topic.retention.ms=5", "topic.segment.ms=7", "topic.t.partitions=3"])
    assert values(settings.topics["my.topic"]) == {"retention.ms": "5"}
    assert values(settings.topic) == {"segment.ms": "7"}
    assert settings.shapes["t"].partitions == 3


def test_what_is_written_for_brokers_is_what_was_meant(tmp_path: Path) -> None:
    """Values that Java would read differently are escaped; all others stand as they are."""
    path, again = tmp_path / "a.properties", tmp_path / "b.properties"
    given = {"log.dir": "x\\y", "broker.rack": "é", "listeners": "plain, text=1"}
    path.write_text(properties_text(given))
    assert path.read_text() == "log.dir=x\\\\y\nbroker.rack=\\u00e9\nlisteners=plain, text=1\n"
    again.write_bytes(path.read_bytes())
    assert values(read_properties(again, "broker").broker) == given


@pytest.mark.parametrize(
    ("racks", "partitions", "factor", "assignment"),
    [
        ({1: "a", 2: "b", 3: "c"}, 2, 3, ((1, 2, 3), (2, 3, 1))),
        ({1: "a", 2: "b", 3: "a", 4: "b", 5: "a", 6: "b"}, 1, 4, ((1, 2, 3, 4),)),
        ({1: "a", 2: "a", 3: "a", 4: "b"}, 4, 2, ((1, 4), (4, 2), (2, 4), (3, 4))),
    ],
)
def test_replicas_are_spread_over_racks(
    racks: dict[int, str], partitions: int, factor: int, assignment: tuple[tuple[int, ...], ...]
) -> None:
    assert rack_aware(racks, partitions, factor) == assignment


HINT = "such as broker.replica.lag.time.max.ms=30000."


@pytest.mark.parametrize(("text", "sentence"), TABLES)
def test_malformed_tables(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(f"{text}{AZ}")
    with pytest.raises(UsageError) as refused:
        read_cluster_file(path)
    said = refused.value.message.replace(str(path), "FILE")
    assert said.startswith(sentence), said
    assert "\n" not in said


@pytest.mark.parametrize(("content", "sentence"), BROKER_PROPERTIES)
def test_malformed_properties_files(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_properties(path, "broker")
    said = refused.value.message.replace(str(path), "FILE")
    assert said.startswith(sentence), said
    assert "\n" not in said


def test_a_properties_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or directory; name a file of properties"):
        read_properties(tmp_path / "none", "producer")
    with pytest.raises(UsageError, match="--topic-config .* cannot be read: Is a directory"):
        read_properties(tmp_path, "topic")


def test_a_topic_file_is_for_every_topic(tmp_path: Path) -> None:
    path = tmp_path / "topic.properties"
    path.write_text("t.retention.ms=5\n")
    with pytest.raises(UsageError, match=r"for 't' alone use --set topic\.t\.retention\.ms="):
        read_properties(path, "topic")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["nonsense"], f"--set nonsense: write TABLE.KEY=VALUE, where TABLE is broker, topic, .* {HINT}"),
        (["broker=3"], "--set broker=3: write TABLE.KEY=VALUE"),
        (["broker.=3"], "--set broker.=3: write TABLE.KEY=VALUE"),
        (["brokers.a=3"], "--set brokers.a=3: write TABLE.KEY=VALUE"),
        (["broker.a.b"], "--set broker.a.b: write TABLE.KEY=VALUE"),
        (["broker.a=1", "broker.a=2"], "--set broker.a=2: broker.a is '1' already; set it once."),
        (["broker.a b=1"], "--set: 'a b' is not a property of Kafka"),
        (
            ["topic.t.partitions=many"],
            "--set: topic 't': partitions = 'many': give a number from 1 to 10000.",
        ),
        (["topic.t.assignment=1"], "--set: assignment=1: write the assignment in a cluster file, as lists."),
        (["topic.retention.days=1"], "--set: 'retention.days' does not end in a topic property of Kafka; "),
    ],
)
def test_malformed_options(options: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as refused:
        read_options(options)
    assert "\n" not in refused.value.message
