"""`acked assess --list` and a run accept the same files: one code path does both."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.commands import app
from studies.assess import series

SERVER = """broker.id=7
listeners=PLAINTEXT://broker-a.example.org:9092
advertised.listeners=PLAINTEXT://broker-a.example.org:9092
log.dirs=/data/kafka
zookeeper.connect=zk-a.example.org:2181/kafka
ssl.keystore.password=x-secret
num.network.threads=3
num.network.threads=3
num.partitions=3
default.replication.factor=2
min.insync.replicas=1
"""
CONSUMER = "bootstrap.servers=broker-a.example.org:9092\ngroup.id=billing\nauto.offset.reset=latest\n"
PRODUCER = "metadata.broker.list=broker-a:9092\nrequest.required.acks=all\nlog.connection.close=false\n"


def listed(tmp_path: Path, *options: str, **files: str) -> tuple[int, str, str]:
    arguments = list(options)
    for kind, text in files.items():
        path = tmp_path / f"{kind}.properties"
        path.write_text(text)
        arguments += [f"--{kind}-config", str(path)]
    done = CliRunner().invoke(app, ["assess", *arguments, "--list", "--faults", "isolate*"])
    return done.exit_code, done.output, str(done.exception or "")


@pytest.fixture(autouse=True)
def _this_machine_has_netem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "unfit", lambda cases: {})


def test_files_that_people_have_are_accepted_with_one_note(tmp_path: Path) -> None:
    code, output, _ = listed(tmp_path, broker=SERVER, consumer=CONSUMER, producer=PRODUCER)
    assert code == 0
    assert "replication factor 2, min.insync.replicas=1" in output
    (line,) = (line for line in output.splitlines() if line.startswith("not followed"))
    assert "broker.id, listeners, advertised.listeners, log.dirs, zookeeper.connect (" in line
    assert "num.partitions=3 (acked chooses the partitions of the topics)" in line
    assert "bootstrap.servers, group.id, auto.offset.reset (acked sets these" in line
    assert "x-secret" not in output
    assert "example.org" not in output


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--set", "broker.default.replication.factor=4"), "the number of brokers (3)"),
        (("--set", "producer.lingerms=5"), "did you mean linger.ms"),
        (("--set", "topic.o.replication-factor=1", "--set", "topic.o.min.insync.replicas=2"), "acks=all"),
        (("--set", "broker.zookeeper.session.timeout.ms=500"), "grant sessions from 1000"),
        (("--set", "broker.compression.type=zstd", "--kafka", "1.1.1"), "zstd"),
    ],
)
def test_the_list_refuses_what_a_run_refuses(tmp_path: Path, options: tuple[str, ...], sentence: str) -> None:
    code, output, error = listed(tmp_path, *options)
    assert code != 0
    assert sentence in output + error


def test_the_list_as_json_says_what_is_not_followed(tmp_path: Path) -> None:
    code, output, _ = listed(tmp_path, "--json", broker="num.partitions=3\n")
    assert code == 0
    assert '"not followed": "num.partitions=3 (acked chooses the partitions of the topics)"' in output


def test_a_version_that_is_not_known_is_assessed_if_forced(tmp_path: Path) -> None:
    code, output, error = listed(tmp_path, "--kafka", "3.7.1")
    assert code != 0
    assert "did you mean 3.7.0 or 3.7.2?" in output + error
    code, output, _ = listed(tmp_path, "--kafka", "3.7.1", "--force")
    assert code == 0
    assert "Kafka 3.7.1" in output
