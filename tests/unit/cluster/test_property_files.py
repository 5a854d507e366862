"""What is read from files of properties, and by which of Kafka's names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.cluster.inventory import files
from harness.cluster.settings import values
from harness.cluster.settings_files import read_properties
from harness.errors import UsageError, sentence
from harness.secrets import HIDDEN

FILES = Path(__file__).parents[2] / "peoples-files"


@pytest.mark.parametrize(
    ("table", "name", "expected"),
    [
        (
            "producer",
            "spring-application.yml",
            {
                "acks": "all",
                "batch.size": "32768",
                "buffer.memory": "33554432",
                "linger.ms": "15",
                "max.in.flight.requests.per.connection": "5",
                "request.timeout.ms": "20000",
                "sasl.jaas.config": HIDDEN,
                "bootstrap.servers": "localhost:9092",
            },
        ),
        (
            "consumer",
            "spring-application.yml",
            {
                "fetch.max.wait.ms": "250",
                "heartbeat.interval.ms": "3000",
                "isolation.level": "read_committed",
                "session.timeout.ms": "15000",
                "request.timeout.ms": "20000",
            },
        ),
        (
            "producer",
            "spring-application.properties",
            {"acks": "1", "delivery.timeout.ms": "30000", "spring.kafka.producer.linger-ms": "40"},
        ),
        ("consumer", "spring-application.properties", {"fetch.min.bytes": "1024", "group.id": "billing"}),
        ("producer", "spring-profiles.yaml", {"acks": "all"}),
        ("producer", "connect-distributed.properties", {"compression.type": "lz4", "acks": "all"}),
        ("consumer", "connect-distributed.properties", {"session.timeout.ms": "30000"}),
        ("producer", "connector.json", {"linger.ms": "100", "batch.size": "262144"}),
        ("consumer", "streams.properties", {"max.poll.records": "1000", "session.timeout.ms": "20000"}),
        ("consumer", "mirror-maker-2.properties", {"isolation.level": "read_committed"}),
        ("producer", "confluent-kafka-python.json", {"enable.idempotence": "true", "sasl.password": HIDDEN}),
        ("producer", "scala-producer.properties", {"producer.type": "async", "request.required.acks": "-1"}),
        ("broker", "flat.yml", {"log.segment.bytes": "134217728", "auto.create.topics.enable": "false"}),
        ("broker", "bitnami.env", {"message.max.bytes": "2097152", "min.insync.replicas": "2"}),
        ("broker", "cp-kafka.env", {"unclean.leader.election.enable": "false", "broker.id": "1"}),
        ("broker", "latin-1.properties", {"log.segment.bytes": "268435456"}),
        ("broker", "windows-bom.properties", {"log.dirs": "C:\\kafka\\logs", "num.io.threads": "8"}),
        ("broker", "tls-pem.properties", {"ssl.keystore.key": HIDDEN, "min.insync.replicas": "2"}),
    ],
)
def test_values_by_kafkas_names(table: str, name: str, expected: dict[str, str]) -> None:
    read = values(getattr(read_properties(FILES / table / name, table), table))
    assert {key: read.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spring.kafka.producer.batch-size=1MB", {"batch.size": "1048576"}),
        ("spring.kafka.producer.batchSize=20", {"batch.size": "20"}),
        ("spring.kafka.producer.BUFFER_MEMORY=64KB", {"buffer.memory": "65536"}),
        ("spring.kafka.producer.properties[linger.ms]=7", {"linger.ms": "7"}),
        ("spring.kafka.producer.acks=${A:${B:1}}", {"acks": "1"}),
        ("spring.kafka.producer.acks=${A}", {"acks": "${A}"}),
        (
            "spring.kafka.properties.linger.ms=1\nspring.kafka.producer.properties.linger.ms=2",
            {"linger.ms": "2"},
        ),
        (
            "spring.kafka.bootstrap-servers[0]=a:1\nspring.kafka.listener.ack-mode=batch",
            {"bootstrap.servers": "a:1"},
        ),
        ("spring.kafka.consumer.group-id=g\nspring.kafka.client-id=c", {"client.id": "c"}),
    ],
)
def test_spellings_and_units_of_spring(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    file = tmp_path / "application.properties"
    file.write_text(text)
    assert values(read_properties(file, "producer").producer) == expected


def test_a_folder_of_kafkas_configuration(tmp_path: Path) -> None:
    """Files of clients, tools and loggers beside those of nodes are passed over."""
    for name, text in {
        "server-1.properties": "broker.id=1\nbroker.rack=a\nzookeeper.connect=z:2181\n",
        "server-2.properties": "broker.id=2\nbroker.rack=b\nzookeeper.connect=z:2181\n",
        "producer.properties": "bootstrap.servers=a:9092\nacks=1\n",
        "log4j.properties": "log4j.rootLogger=INFO\n",
    }.items():
        (tmp_path / name).write_text(text)
    cluster = files.read([tmp_path])
    assert [(node.az, sorted(node.roles)) for node in cluster.nodes] == [
        ("a", ["broker"]),
        ("b", ["broker"]),
        ("", ["zookeeper"]),
    ]


PIECES = (
    *("spring:", "  kafka:", "{", "}", "[", "- ", "&a", "*a", "acks", "=", ": ", "producer.", "KAFKA_A=1"),
    *("${", "---", "1: 2", "{1: 2}", "? [a]", "a: {b: [c, {d: 1}]}", "services: {a: {image: kafka}}"),
    *(
        "kind: Kafka",
        "apiVersion: kafka.strimzi.io/v1",
        "kind: ConfigMap",
        "data: {a.properties: 'node.id=1'}",
    ),
)
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map(
    lambda parts: "\n".join(parts)
)
LINES = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)


@given(
    text=TEXTS | LINES,
    name=st.sampled_from(["a.yml", "a.json", "a.properties", "a.env"]),
    table=st.sampled_from(["broker", "topic", "producer", "consumer"]),
)
@example(text="{1: 2, a: {b: 3}}", name="a.yml", table="broker")
@example(text="a: [{b: 1}, null, 2.5, 2020-01-01]", name="a.yml", table="producer")
def test_any_text_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, name: str, table: str
) -> None:
    file = tmp_path_factory.mktemp("any") / name
    file.write_text(text, encoding="utf-8", errors="replace")
    for read in (lambda: read_properties(file, table), lambda: files.read([file])):
        try:
            read()
        except UsageError as refused:
            assert len(sentence(refused.message)) <= 300
