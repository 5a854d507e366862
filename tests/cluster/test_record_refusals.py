"""What `acked record` cannot use is one sentence with the remedy, and leaves nothing on the cluster."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.cluster.certificates import CertificateAuthority
from harness.kafka.model import Topic, TopicPartition
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.dialect import dialect
from harness.kafka.wire.metadata import metadata, topic_ids
from harness.waiting import wait_until
from tests.cluster.conftest import Finished, acked
from tests.cluster.foreign import CLIENTS_PORT, IDS, PASSWORD, USER, USERS_PORT, ForeignCluster
from tests.cluster.foreign_lab import KEPT
from tests.cluster.recorder import Files, Recorder, held_alone, lost_by_findings
from tests.cluster.refusing_proxy import Refusal, refusing
from tests.sampling import every

pytestmark = pytest.mark.cluster

PROXY_PORT = 19192


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignCluster]:
    """Clients without security are told to come to a port where nobody listens, unless a test has a proxy."""
    folder = tmp_path_factory.mktemp("foreign")
    with ForeignCluster(
        folder=folder, network=10, settings=KEPT, ca=CertificateAuthority(), advertised_port=PROXY_PORT
    ) as cluster:
        yield cluster


def properties(folder: Path, cluster: ForeignCluster, protocol: str, **more: str) -> Path:
    """A client's properties for `USER`; ``more`` replaces a value."""
    assert cluster.ca is not None
    ca = folder / "ca.pem"
    ca.write_text(more.pop("ca", cluster.ca.certificate))
    file = folder / "client.properties"
    lines = [f"security.protocol={protocol}"]
    if "SASL" in protocol:
        lines += [
            f"sasl.mechanism={more.get('mechanism', 'PLAIN')}",
            f"sasl.username={USER}",
            f"sasl.password={more.get('password', PASSWORD)}",
        ]
    if "SSL" in protocol.removeprefix("SASL_"):
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={ca}"]
    file.write_text("\n".join(lines) + "\n")
    return file


def refused(cluster: ForeignCluster, done: Finished, says: str) -> None:
    """One sentence of at most 300 characters, nothing on stdout, no secret, no topic."""
    assert (done.status, done.stdout) == (254, ""), (done.stdout, done.stderr)
    (line,) = done.stderr.splitlines()
    assert says in line and len(line) <= 300 and PASSWORD not in line, line
    assert ".." not in line and ".)" not in line, "a sentence inside of another has no full stop"
    assert topic_ids(cluster.endpoint(0)).keys() <= {"__consumer_offsets", "acked-there"}


WRONG_WAYS: list[tuple[int, str, dict[str, str], str]] = [
    (USERS_PORT, "SASL_SSL", {"password": "wrong-one"}, "correct user and password"),
    (USERS_PORT, "SASL_SSL", {"mechanism": "SCRAM-SHA-512"}, "set sasl.mechanism to one of: PLAIN"),
    (
        USERS_PORT,
        "SASL_SSL",
        {"ca": CertificateAuthority().certificate},
        "name a trust store with the CA",
    ),
    (USERS_PORT, "PLAINTEXT", {}, "it speaks TLS; set security.protocol to SSL or SASL_SSL"),
    (USERS_PORT, "SSL", {}, "does the listener speak SSL?"),
    (CLIENTS_PORT, "SSL", {}, "does the listener speak SSL?"),
    (CLIENTS_PORT, "SASL_PLAINTEXT", {}, "it does not ask for SASL; set security.protocol to PLAINTEXT"),
    (CLIENTS_PORT, "PLAINTEXT", {}, "advertised.listeners this machine reaches"),
    (9, "PLAINTEXT", {}, "Connection refused"),
]


@pytest.mark.parametrize("way", every(2, WRONG_WAYS))
def test_what_does_not_lead_to_the_cluster(
    foreign: ForeignCluster, tmp_path: Path, way: tuple[int, str, dict[str, str], str]
) -> None:
    port, protocol, more, says = way
    config = properties(tmp_path, foreign, protocol, **more)
    address = f"{foreign.endpoint(0).host}:{port}"
    done = acked("record", "--bootstrap", address, "--client-config", config, "--check-only")
    refused(foreign, done, says)
    assert "wrong-one" not in done.stderr


def test_a_user_without_rights_begins_nothing(foreign: ForeignCluster, tmp_path: Path) -> None:
    config = properties(tmp_path, foreign, "SASL_SSL")
    runs = tmp_path / "runs"
    where = ("--bootstrap", foreign.users, "--client-config", config, "--runs", runs)
    done = acked("record", *where, "--for", "10s", "--yes")
    refused(foreign, done, "You lack CREATE on topics acked-*")
    assert not runs.exists()


def test_a_topic_that_exists_is_somebodys(foreign: ForeignCluster, tmp_path: Path) -> None:
    made = create_topics(
        foreign.endpoint(0), [Topic("acked-there", IDS, config={"cleanup.policy": "compact"})]
    )
    assert made["acked-there"].error in (0, 36)
    with ExitStack() as proxies:
        for broker in IDS:
            proxies.enter_context(refusing(foreign.endpoint(broker), PROXY_PORT, "error"))
        where = ("--bootstrap", foreign.bootstrap, "--topic", "acked-there", "--runs", tmp_path / "runs")
        done = acked("record", *where, "--for", "10s", "--yes", "--quiet")
    refused(foreign, done, "acked-there exists already")
    assert list(tmp_path.iterdir()) == []
    assert "acked-there" in topic_ids(foreign.endpoint(0))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kafka", "how"), [("3.9.1", "error"), ("3.9.1", "close"), ("4.3.1", "close"), ("2.7.1", "error")]
)
def test_brokers_that_refuse_the_debugging_consumer(tmp_path: Path, kafka: str, how: Refusal) -> None:
    """The logs of the leaders are all there is: they prove a loss, and the page says what that means."""
    cluster = ForeignCluster(
        folder=tmp_path / "cluster", kafka=kafka, network=13, settings=KEPT, advertised_port=PROXY_PORT
    )
    with cluster as foreign, ExitStack() as proxies:
        for broker in IDS:
            proxies.enter_context(refusing(foreign.endpoint(broker), PROXY_PORT, how))
        recorder = Recorder(tmp_path / "runs", "--bootstrap", foreign.bootstrap, "--for", "10m", "--yes")
        key = TopicPartition(recorder.wait_recording(), 0)

        def leader_by(broker: int) -> int:
            stated = metadata(foreign.endpoint(broker), [key.topic], dialect=dialect(kafka))
            return stated.partitions[key].leader

        leader = leader_by(IDS[0])
        others = [broker for broker in IDS if broker != leader]
        held_alone(foreign, [recorder], leader, others)
        wait_until(lambda: leader_by(others[0]) in others, within_s=60, awaiting="another leader")
        foreign.start(leader)
        foreign.wait_registered()
        recorder.wait_acknowledged(60)
        recorder.process.send_signal(signal.SIGTERM)
        recorder.wait_final_logs()
        (files,) = Files.of(foreign, [key.topic])
        assert topic_ids(foreign.endpoint(0)).keys() <= {"__consumer_offsets"}
        done = recorder.end()
    judgement = done.json()
    assert judgement["verdict"] == "as declared", (judgement["reasons"], done.stderr)
    assert files.lost(recorder.folder) == lost_by_findings(recorder.folder) != set()
    assert {row["acks"] for row in judgement["fates_by_writer"] if row["fate"] == "lost"} == {1}
    shown = json.loads((recorder.folder / "run.json").read_text())["recording"]["replica_logs"]
    assert "debugging replica id" in shown
    assert "A lost message is one not on the leader." in (recorder.folder / "report.html").read_text()
