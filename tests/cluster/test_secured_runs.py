"""Scenarios on secured listeners: as declared, and no byte that they leave or print holds a secret."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cluster.conftest import Finished, as_declared, commands_with

pytestmark = [pytest.mark.cluster, pytest.mark.long]
SECRET = "Pl4nted-S3cr3t"
_TOKEN = re.compile(rb"eyJ[\w-]{20,}\.[\w-]{20,}")
"""Head and claims of a JSON web token."""
PLANTED = f"""
import itertools, secrets
_numbers = itertools.count()
secrets.token_urlsafe = lambda size=None: f"{SECRET}-{{next(_numbers)}}"
"""
"""Read by every Python process that the command starts: the passwords of its users are known."""
EVERY_CLIENT = """
from dataclasses import replace

import pytest

from acked import Scenario, Setup, Stage, Topic, TopicPartition
from harness.kafka.security import PLAINTEXT
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.metadata import metadata
from harness.kafka.wire.quorum import describe_quorum
from harness.waiting import wait_until

TOPIC_AUTHORIZATION_FAILED, NOT_CONTROLLER = 29, 41


def body(stage: Stage) -> None:
    for via, to in (("raw", ["broker1"]), ("librdkafka", []), ("java", [])):
        producer = stage.producer("az1", f"with-{via}", *to, via=via)
        producer.prepare("t")
        assert producer.send("t", "a").ok, via
        transactional = stage.transactional("az2", f"transactional-{via}", via=via)
        transactional.prepare()
        transactional.begin()
        assert transactional.send("t", "b").ok, via
        assert transactional.commit().outcome == "committed", via
    readers = [
        stage.start_reader("az1", [TopicPartition("t", 0)], via="librdkafka"),
        stage.start_reader("az2", [TopicPartition("t", 0)], via="java"),
        stage.start_member("az3", "g", "t"),
    ]
    for reader in readers:
        name = reader.consumer.name
        wait_until(lambda: reader.progress().count >= 6, within_s=60, awaiting=f"{name} to read 6 messages")
        reader.stop()
    refused = {create_topics(at, [Topic("own", (1,))])["own"].error for at in stage.endpoints()}
    assert TOPIC_AUTHORIZATION_FAILED in refused
    assert refused <= {TOPIC_AUTHORIZATION_FAILED, NOT_CONTROLLER}, refused
    topology = stage.lab.topology
    for host in topology.role("broker"):
        with pytest.raises(ConnectionError):
            metadata(replace(host.broker_endpoint, security=PLAINTEXT))
    for host in topology.role("controller"):
        with pytest.raises(ConnectionError):
            describe_quorum(replace(host.controller_endpoint, security=PLAINTEXT), 2.0)


SETUP = Setup(topics=(Topic("t", (1, 2, 3)),))
SCENARIOS = [
    Scenario(
        name="every-client",
        title="Each client library reaches a secured cluster",
        body=body,
        setup=SETUP,
        modes=("zookeeper", "kraft", "kraft-combined"),
    )
]
"""
"""Raw requests, librdkafka and Java, with and without transactions; readers, and a member of a group.

Listeners of brokers and controllers refuse a client without security, and clients may create no topic.
"""
CASES = [
    ("leader-az-isolated", "2.7.1", "zookeeper", "sasl_ssl", "SCRAM-SHA-512"),
    ("kraft-leader-az-isolated", "3.9.1", "kraft", "sasl_plaintext", "PLAIN"),
    ("kraft-leader-az-isolated", "3.9.1", "kraft-combined", "sasl_ssl", "SCRAM-SHA-512"),
    ("kraft-leader-az-isolated", "4.3.1", "kraft", "sasl_ssl", "SCRAM-SHA-256"),
    ("kraft-leader-az-isolated", "4.3.1", "kraft", "sasl_ssl", "OAUTHBEARER"),
    ("migration-az-cut", "3.9.1", "migration", "sasl_ssl", "SCRAM-SHA-512"),
    ("every_client.py", "2.7.1", "zookeeper", "ssl", ""),
    ("every_client.py", "3.9.1", "kraft", "sasl_ssl", "PLAIN"),
    ("every_client.py", "3.9.1", "kraft-combined", "sasl_ssl", "OAUTHBEARER"),
    ("every_client.py", "4.3.1", "kraft", "ssl", ""),
    ("every_client.py", "4.3.1", "kraft", "sasl_plaintext", "SCRAM-SHA-512"),
    ("every_client.py", "4.3.1", "kraft", "sasl_ssl", "OAUTHBEARER"),
]


@pytest.mark.parametrize(("scenario", "kafka", "mode", "protocol", "mechanism"), CASES)
def test_a_scenario_with_users_of_its_own(
    tmp_path: Path, scenario: str, kafka: str, mode: str, protocol: str, mechanism: str
) -> None:
    if scenario == "every_client.py":
        (tmp_path / scenario).write_text(EVERY_CLIENT)
        scenario = str(tmp_path / scenario)
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    work = tmp_path / "work"
    work.mkdir()
    place = ("--kafka", kafka, "--mode", mode, "--runs", str(work / "runs"))
    secure = ("--secure", protocol, *(("--mechanism", mechanism) if mechanism else ()))
    command = [sys.executable, "-m", "cli.main", "run", scenario, *place, *secure, "--json"]
    here = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": here, "TMPDIR": str(work)}
    ended, listed, readable = threading.Event(), [], set()

    def watch() -> None:
        while not ended.wait(0.5):
            listed.extend(commands_with(SECRET).values())
            for file in work.glob("runs/*/2*/nodes/*/server.properties"):
                if SECRET in file.read_text():
                    readable.add(stat.S_IMODE(file.stat().st_mode))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = subprocess.run(
            command, capture_output=True, env=environment, timeout=400, check=False, text=True
        )
    finally:
        ended.set()
        watcher.join()
    as_declared(Finished(done.returncode, done.stdout, done.stderr))
    assert listed == []
    # With SSL a node's file has a key alone, which `secrets` does not make.
    assert readable == ({0o600} if mechanism else set()), "the secrets were there, and for their owner alone"
    assert SECRET not in done.stdout + done.stderr
    files = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    with_secret = [path for path in files if SECRET.encode() in path.read_bytes()]
    assert with_secret == []
    assert [path for path in files if b"PRIVATE KEY-----" in path.read_bytes()] == []
    assert [path for path in files if _TOKEN.search(path.read_bytes())] == []
    (run,) = {path.parent for path in files if path.name == "run.json"}
    stated = json.loads((run / "run.json").read_text())["settings"]["security"]
    assert stated == {"protocol": protocol.upper(), "mechanism": mechanism}
    configs = pq.read_table(run / "history" / "writers.parquet").column("config").to_pylist()
    spoken = {json.loads(config).get("security.protocol") for config in configs}
    assert spoken - {None} == {protocol.upper()}
