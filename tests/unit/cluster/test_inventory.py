"""Cluster files from what people have: each kind of source, and that what is written can be read again."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cli.commands import loaded
from harness.cluster.cluster_file import ClusterFile, read_cluster_file
from harness.cluster.inventory import compose, files
from harness.cluster.inventory.model import Inventory, Node, TopicDescription, cluster_file
from harness.cluster.settings import Setting
from harness.errors import UsageError
from harness.lab.layout import AvailabilityZone

KRAFT = """\
process.roles={roles}
node.id={id}
controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093
listeners=PLAINTEXT://:9092
log.dirs=/var/lib/kafka
min.insync.replicas=2
"""
STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaNodePool
metadata: {name: control}
spec: {replicas: 3, roles: [controller]}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaNodePool
metadata: {name: data}
spec: {replicas: 6, roles: [broker]}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata: {name: own}
spec:
  kafka:
    version: 3.9.1
    config: {min.insync.replicas: 2, unclean.leader.election.enable: false, zoo: [1, 2]}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata: {name: orders.eu}
spec: {partitions: 12, replicas: 3, config: {retention.ms: 7200000}}
"""
COMPOSE = """\
x-kafka: &kafka
  image: confluentinc/cp-kafka:7.5.2
services:
  zoo:
    image: confluentinc/cp-zookeeper:7.5.2
  one:
    <<: *kafka
    environment: &variables
      KAFKA_BROKER_ID: 1
      KAFKA_ZOOKEEPER_CONNECT: zoo:2181
      KAFKA_BROKER_RACK: eu-west-1a
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: false
      KAFKA_LOG_RETENTION_MS: ${RETENTION:-600000}
      KAFKA_HEAP_OPTS: -Xmx1g
      KAFKA_SSL_KEYSTORE_PASSWORD: hunter2-and-more
  two:
    <<: *kafka
    environment:
      - KAFKA_BROKER_ID=2
      - KAFKA_ZOOKEEPER_CONNECT=zoo:2181
      - KAFKA_BROKER_RACK=eu-west-1b
  ui:
    image: provectuslabs/kafka-ui
"""


def _written(tmp_path: Path, sources: dict[str, str], *named: str) -> tuple[str, ClusterFile]:
    """The cluster file of these sources, and what is read from it."""
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    text = cluster_file(files.read([tmp_path / name for name in named or sources]), ["FILES"])
    return text, _read(tmp_path, text)


def _read(tmp_path: Path, text: str) -> ClusterFile:
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    return read_cluster_file(path)


def test_properties_of_combined_nodes(tmp_path: Path) -> None:
    sources = {f"{n}.properties": KRAFT.format(roles="broker,controller", id=n) for n in (1, 2, 3)}
    text, described = _written(tmp_path, sources)
    assert described.mode == "kraft-combined"
    assert [(az.name, az.brokers) for az in described.layout.azs] == [("az1", 1), ("az2", 1), ("az3", 1)]
    assert {key: one.value for key, one in described.settings.broker.items()} == {"min.insync.replicas": "2"}
    assert "log.dirs" in text and "/var/lib/kafka" not in text


def test_controllers_without_a_file_of_their_own(tmp_path: Path) -> None:
    sources = {f"{n}.properties": KRAFT.format(roles="broker", id=n) for n in (11, 12)}
    _, described = _written(tmp_path, sources)
    assert described.mode == "kraft"
    assert [(az.brokers, az.controllers) for az in described.layout.azs] == [(1, 2), (1, 1)]


def test_a_voter_without_a_file_is_named(tmp_path: Path) -> None:
    """Otherwise the cluster of three would be one of two without a word."""
    sources = {f"{n}.properties": KRAFT.format(roles="broker,controller", id=n) for n in (1, 2)}
    text, described = _written(tmp_path, sources)
    assert sum(az.brokers for az in described.layout.azs) == 2
    words = " ".join(text.replace("#", " ").split())
    assert "The voter 3@c:9093 of the quorum has no file here, and counts as a controller" in words
    assert "if it is a broker, name its file, too." in words
    sources["3.properties"] = KRAFT.format(roles="broker,controller", id=3)
    assert "has no file here" not in _written(tmp_path, sources)[0]


def test_the_rack_of_one_file_is_not_passed_over(tmp_path: Path) -> None:
    source = KRAFT.format(roles="broker,controller", id=1)
    with_rack, _ = _written(tmp_path, {"server.properties": f"{source}broker.rack=rack-a\n"})
    words = " ".join(with_rack.replace("#", " ").split())
    assert "Only one broker's rack is known ('rack-a'); they are spread over 3 AZs." in words
    assert "No source says where the brokers are" not in words
    assert "No source says where" in _written(tmp_path, {"server.properties": source})[0]


def test_racks_and_an_ensemble(tmp_path: Path) -> None:
    sources = {
        f"{n}.properties": (
            f"broker.id={n}\nbroker.rack={rack}\nzookeeper.connect=z1:2181,z2:2181,z3:2181/kafka\n"
            f"num.io.threads={8 if n < 2 else 4}\ninter.broker.protocol.version=2.7-IV2\n"
        )
        for n, rack in enumerate(("west", "east", "east"))
    }
    text, described = _written(tmp_path, sources)
    assert (described.kafka, described.mode) == ("2.7.1", "zookeeper")
    assert described.layout.azs == (
        AvailabilityZone(name="east", brokers=2, zookeepers=2),
        AvailabilityZone(name="west", brokers=1, zookeepers=1),
    )
    assert "num.io.threads = 8  # 2 of 3 brokers; others have 4" in text


def test_one_file_stands_for_three_brokers(tmp_path: Path) -> None:
    text, described = _written(tmp_path, {"server.properties": "zookeeper.connect=localhost:2181\n"})
    assert sum(az.brokers for az in described.layout.azs) == 3
    assert sum(az.zookeepers for az in described.layout.azs) == 1
    assert "3 brokers like it are assumed" in text


def test_one_file_of_a_combined_quorum_stands_for_all_of_it(tmp_path: Path) -> None:
    text, described = _written(tmp_path, {"server.properties": KRAFT.format(roles="broker,controller", id=1)})
    assert described.mode == "kraft-combined"
    assert sum(az.brokers for az in described.layout.azs) == 3
    assert "3 brokers like it are assumed" in text


def test_a_key_that_begins_with_another(tmp_path: Path) -> None:
    """In TOML, `a = 1` and `a.b = 2` exclude each other."""
    limits = {"max.connections": "1000", "max.connections.per.ip": "100"}
    source = "".join(f"{key}={value}\n" for key, value in limits.items())
    _, described = _written(tmp_path, {"server.properties": source})
    assert {key: one.value for key, one in described.settings.broker.items()} == limits


def test_properties_that_are_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_bytes(b"# Gr\xf6\xdfe\r\nnum.partitions=3\r\n")
    cluster = files.read([tmp_path / "server.properties"])
    assert [settings["num.partitions"].value for settings in cluster.settings] == ["3"]


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        files.read([tmp_path / "none.properties"])
    assert refused.value.message.startswith(f"{tmp_path}/none.properties cannot be read")


def test_a_service_that_creates_topics_is_no_broker(tmp_path: Path) -> None:
    init = "  init:\n    <<: *kafka\n    entrypoint: [/bin/sh, -c]\n    command: kafka-topics --create\n"
    _, described = _written(tmp_path, {"docker-compose.yml": COMPOSE + init})
    assert sum(az.brokers for az in described.layout.azs) == 2


def test_services_that_extend_others(tmp_path: Path) -> None:
    """They have the image and the variables of the other service; one that extends itself ends."""
    text = """\
services:
  a:
    image: bitnami/kafka:3.7.0
    environment: [KAFKA_CFG_NODE_ID=1, "KAFKA_CFG_PROCESS_ROLES=controller,broker"]
  b: {extends: a, environment: {KAFKA_CFG_NODE_ID: 2}}
  c: {extends: {service: b}, environment: {KAFKA_CFG_NODE_ID: 3}}
  d: {extends: d, image: postgres}
"""
    _, described = _written(tmp_path, {"compose.yaml": text})
    assert described.mode == "kraft-combined"
    assert sum(az.brokers for az in described.layout.azs) == 3


@pytest.mark.parametrize("whole_folder", [False, True])
def test_strimzi_as_kubectl_prints_it(tmp_path: Path, whole_folder: bool) -> None:
    items = "".join(f"-{text}" for text in re.sub("^", "  ", f"\n{STRIMZI}", flags=re.M).split("  ---"))
    (tmp_path / "kafka.yaml").write_text(f"apiVersion: v1\nkind: List\nitems:\n{items}")
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: Service\n")
    cluster = files.read([tmp_path if whole_folder else tmp_path / "kafka.yaml"])
    assert len(cluster.nodes) == 9
    assert [topic.name for topic in cluster.topics] == ["orders.eu"]


def test_values_of_several_lines_are_no_properties(tmp_path: Path) -> None:
    config = 'config: {retention.lines: "a\\nb", num.io.threads: "8\\n", '
    _, described = _written(tmp_path, {"kafka.yaml": STRIMZI.replace("config: {min", f"{config}min", 1)})
    assert described.settings.broker["num.io.threads"].value == "8"
    assert "retention.lines" not in described.settings.broker


def test_a_compose_file(tmp_path: Path) -> None:
    text, described = _written(tmp_path, {"docker-compose.yml": COMPOSE})
    assert described.kafka == "3.5.2"
    assert [(az.name, az.brokers, az.zookeepers) for az in described.layout.azs] == [
        ("eu-west-1a", 1, 1),
        ("eu-west-1b", 1, 0),
    ]
    assert {key: one.value for key, one in described.settings.broker.items()} == {
        "auto.create.topics.enable": "false",
        "log.retention.ms": "600000",
    }
    assert "hunter2" not in text and "heap" not in text


def test_variables_of_a_compose_file(tmp_path: Path) -> None:
    sources = {".env": "RETENTION=777\n", "docker-compose.yml": COMPOSE}
    _, described = _written(tmp_path, sources, "docker-compose.yml")
    assert described.settings.broker["log.retention.ms"].value == "777"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${SET}", "a"),
        ("$SET-$$SET", "a-$SET"),
        ("${SET:-b}${SET:+c}${SET-b}", "aca"),
        ("${EMPTY:-b}${EMPTY-b}${EMPTY:+c}${EMPTY+d}", "bd"),
        ("${NONE:-${SET}}${NONE+c}${NONE:?no}", "a"),
        ("${QUOTED}", "a # b"),
    ],
)
def test_variables_as_compose_interpolates_them(tmp_path: Path, text: str, value: str) -> None:
    (tmp_path / ".env").write_bytes(b"SET=a # comment\r\nEMPTY=\r\nQUOTED='a # b' # c\r\n#NONE=1\r\n")
    service = (
        f"services: {{a: {{image: 'apache/kafka:3.9.1', environment: {{KAFKA_BROKER_RACK: '{text}'}}}}}}"
    )
    (tmp_path / "compose.yaml").write_text(service)
    cluster = files.read([tmp_path / "compose.yaml"])
    assert [settings["broker.rack"].value for settings in cluster.settings] == [value]


def test_strimzi(tmp_path: Path) -> None:
    _, described = _written(tmp_path, {"kafka.yaml": STRIMZI})
    assert (described.kafka, described.mode) == ("3.9.1", "kraft")
    assert [(az.brokers, az.controllers) for az in described.layout.azs] == [(2, 1)] * 3
    shape = described.settings.shapes["orders.eu"]
    assert (shape.partitions, shape.replication_factor) == (12, 3)
    assert described.settings.topics["orders.eu"]["retention.ms"].value == "7200000"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("apache/kafka:3.9.0", "3.9.0"),
        ("confluentinc/cp-kafka:7.6.1", "3.6.1"),
        ("confluentinc/cp-server:6.1.0", "2.7.0"),
        ("confluentinc/cp-kafka:8.0.0", "4.0.0"),
        ("bitnami/kafka:3.7.0-debian-12-r0", "3.7.0"),
        ("wurstmeister/kafka:2.13-2.8.1", "2.8.1"),
        ("quay.io/strimzi/kafka:0.45.0-kafka-3.9.0", "3.9.0"),
        ("quay.io/debezium/kafka:2.3", ""),
        ("bitnami/kafka:latest", ""),
        ("registry.example:5000/kafka", ""),
    ],
)
def test_version_of_an_image(image: str, version: str) -> None:
    assert compose.version_of(image) == version


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("application.yml", "spring: {kafka: {bootstrap-servers: x}}\n", "configures a Spring application"),
        ("hosts.yml", "kafka_broker: {hosts: {a: }}\n", "looks like an Ansible inventory"),
        ("values.yaml", "replicaCount: 3\n", "looks like a Helm chart's values"),
        ("list.yaml", "- 1\n", "describes no Kafka cluster"),
        ("empty.yaml", "", "describes no Kafka cluster"),
        ("bad.yaml", "a: b: c\n", "bad.yaml:1: this is not YAML"),
        ("tag.yaml", "a: !!python/object:os.system {}\n", "this is not YAML"),
        ("deep.yaml", "[" * 100_000, "this is not YAML"),
        ("compose.yaml", "services: {a: {image: postgres}}\n", "no service of this Compose file"),
        ("compose.yaml", "services: {a: {image: 'redpandadata/redpanda:v24'}}\n", "is not Kafka"),
        ("pool.yaml", STRIMZI.replace("[broker]", "[other]"), "has no role"),
        ("none.properties", "process.roles=witness\n", "a node is a broker, a controller or both"),
        ("c.properties", "process.roles=controller\nnode.id=1\n", "None of the sources describes a broker"),
    ],
)
def test_one_sentence_for_what_is_none(tmp_path: Path, name: str, text: str, part: str) -> None:
    with pytest.raises(UsageError) as refused:
        _written(tmp_path, {name: text})
    assert part in refused.value.message.replace(f"{tmp_path}/", "")
    assert "\n" not in refused.value.message
    assert len(refused.value.message.replace(f"{tmp_path}/", "")) <= 300


def test_sources_of_two_clusters(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"name Kafka 3\.9\.1 and Kafka 3\.5\.2; name those of one"):
        _written(tmp_path, {"docker-compose.yml": COMPOSE, "kafka.yaml": STRIMZI})


def test_topics_of_unusual_shapes(tmp_path: Path) -> None:
    """Many partitions, no number of replicas, and too few replicas for any write with acks=all."""
    topics = (
        TopicDescription(name="wide", partitions=240, replication_factor=3),
        TopicDescription(name="usual", partitions=1, replication_factor=0),
        TopicDescription(name="frail", partitions=1, replication_factor=1, stands_for=7),
    )
    least = {"min.insync.replicas": Setting(key="min.insync.replicas", value="2", place="file")}
    nodes = tuple(Node(name=f"n{n}", roles=frozenset({"broker", "controller"})) for n in range(3))
    text = cluster_file(Inventory(nodes=nodes, settings=(least,), topics=topics), ["FILES"])
    described = _read(tmp_path, text)
    assert {
        name: (one.partitions, one.replication_factor) for name, one in described.settings.shapes.items()
    } == {
        "wide": (240, 3),
        "usual": (1, 0),
    }
    assert (
        "# Left out: topic frail and 6 like it. With replication factor 1 and min.insync.replicas=2" in text
    )


def test_properties_that_kafka_does_not_have_stay_out_of_the_file(tmp_path: Path) -> None:
    text, described = _written(
        tmp_path, {"server.properties": "broker.id=1\nconfluent.balancer.enable=true\n"}
    )
    assert not described.settings.broker
    assert "or Kafka has none of this name: broker.id,\n# confluent.balancer.enable." in text


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    source, out = tmp_path / "server.properties", tmp_path / "own.toml"
    source.write_text("broker.id=1\n")
    out.write_text("mine")
    arguments = ["from", str(source), "--out", str(out)]
    refused = CliRunner().invoke(loaded("cluster"), arguments)
    assert isinstance(refused.exception, UsageError) and out.read_text() == "mine"
    assert CliRunner().invoke(loaded("cluster"), [*arguments, "--force"]).exit_code == 0
    assert read_cluster_file(out).mode == "kraft"


RACKS = st.sampled_from(["", "az1", "az2", "eu-west-1a", "1", "broker1", "Rack/7", "x" * 60])
NODES = st.builds(
    Node,
    name=st.just("node"),
    roles=st.sampled_from(
        [frozenset({"broker"}), frozenset({"broker", "controller"}), frozenset({"controller"})]
    ),
    az=RACKS,
)
VALUES = st.text(st.characters(exclude_categories=["C"]), max_size=20).map(str.strip)
TOPICS = st.builds(
    TopicDescription,
    name=st.text(st.sampled_from("ab.-_"), min_size=1, max_size=9).filter(lambda name: name.strip(".")),
    partitions=st.integers(1, 9),
    replication_factor=st.just(1),
    config=st.dictionaries(st.just("retention.ms"), st.integers(1, 10**9).map(str)),
)


@given(
    nodes=st.lists(NODES, min_size=1, max_size=9),
    broker=st.dictionaries(st.sampled_from(["max.connections", "log.dirs", "min.insync.replicas"]), VALUES),
    topics=st.lists(TOPICS, max_size=2, unique_by=lambda topic: topic.name),
)
def test_what_is_written_can_be_read(
    tmp_path_factory: pytest.TempPathFactory,
    nodes: list[Node],
    broker: dict[str, str],
    topics: list[TopicDescription],
) -> None:
    settings = {key: Setting(key=key, value=value, place="file") for key, value in broker.items()}
    inventory = Inventory(nodes=tuple(nodes), settings=(settings,), topics=tuple(topics))
    try:
        text = cluster_file(inventory, ["FILES"])
    except UsageError as refused:
        assert "None of the sources" in refused.message or "racks" in refused.message
        return
    described = _read(tmp_path_factory.mktemp("written"), text)
    brokers = sum("broker" in node.roles for node in nodes)
    assert sum(az.brokers for az in described.layout.azs) == brokers
    kept = {key: value for key, value in broker.items() if key != "log.dirs"}
    assert {key: one.value for key, one in described.settings.broker.items()} == kept
    assert {name: one.partitions for name, one in described.settings.shapes.items()} == {
        topic.name: topic.partitions for topic in topics
    }
    assert tomllib.loads(text)["mode"].startswith("kraft")
