"""What `acked record` takes from a user's client.properties."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from cli.record import answering, plan_in_words
from harness.cluster.attached import AttachedCluster, bootstrap_endpoints, topology_of
from harness.cluster.certificates import CertificateAuthority
from harness.errors import AckedError, UsageError
from harness.kafka.model import Endpoint
from harness.kafka.security import ClientSecurity
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.metadata import AdvertisedBroker, AdvertisedCluster
from run.clients import NO_CLIENTS
from run.recording.plan import plan_recording, settings_of
from run.recording.user import user_clients

PASSWORD = "Pl4nted-S3cr3t"


def written(folder: Path, *lines: str) -> Path:
    file = folder / "client.properties"
    file.write_text("\n".join(lines) + "\n")
    return file


def silent(text: str) -> None:
    raise AssertionError(text)


def test_every_broker_is_reached_as_the_file_says(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="u" password="{PASSWORD}";'
    security, _ = user_clients(
        written(
            tmp_path,
            "bootstrap.servers=elsewhere:1",
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=SCRAM-SHA-512",
            f"sasl.jaas.config={jaas}",
        ),
        silent,
    )
    (endpoint,) = bootstrap_endpoints("kafka1:9094", security)
    assert (str(endpoint), endpoint.security) == ("kafka1:9094", security)
    broker = AdvertisedBroker(node_id=7, host="h", port=1)
    topology = topology_of(AdvertisedCluster(cluster_id="c", controller=7, brokers=(broker,)), endpoint)
    reached = topology.host("broker7").broker_endpoint.security
    assert (reached.protocol, reached.mechanism, reached.username) == ("SASL_PLAINTEXT", "SCRAM-SHA-512", "u")
    assert PASSWORD not in repr((security, topology))


def test_the_described_producer_has_the_settings_of_the_file(tmp_path: Path) -> None:
    _, user = user_clients(
        written(
            tmp_path,
            "acks=all",
            "linger.ms=7",
            "client.id=billing",
            "isolation.level=read_uncommitted",
            "group.id=mine",
        ),
        silent,
    )
    assert user.producer.given == {"acks": -1, "linger.ms": 7}
    assert user.consumer.given == {"isolation.level": "read_uncommitted"}
    assert [setting.name for setting in settings_of(user)] == ["acks=all", "acks=1"]


def test_a_described_producer_with_acks_1_is_compared_with_acks_all(tmp_path: Path) -> None:
    _, user = user_clients(written(tmp_path, "acks=1"), silent)
    assert [setting.name for setting in settings_of(user)] == ["acks=1", "acks=all"]


def test_a_wrong_value_is_one_sentence_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"client.properties:1: acks=some: use all"):
        user_clients(written(tmp_path, "acks=some"), silent)


def test_properties_that_no_client_has_are_named_in_one_line(tmp_path: Path) -> None:
    said: list[str] = []
    user_clients(
        written(tmp_path, "acks=1", "my.own=1", "a.b=2", "x.y\x1b[2J=3", "c.d=4", "e.f=5"), said.append
    )
    (line,) = said
    assert line.endswith(
        "ignored 'my.own', 'a.b', 'x.y\\x1b[2J', 'c.d' and 1 more, because no client of Kafka has such a "
        "property"
    )


def test_a_cluster_that_stops_answering_is_one_sentence() -> None:
    with (
        pytest.raises(AckedError, match=r"stopped answering \(no broker answers\); see"),
        answering(),
    ):
        raise ConnectionError("no broker answers")


@pytest.mark.parametrize(("valid_s", "warned"), [(40, True), (900, False)])
def test_a_certificate_that_expires_meanwhile_is_said_before(valid_s: int, warned: bool) -> None:
    own = CertificateAuthority().issue("client", valid=timedelta(seconds=valid_s))
    security = ClientSecurity(protocol="SSL", certificate=own.chain, key=own.key)
    described = AdvertisedCluster(
        cluster_id="c", controller=0, brokers=(AdvertisedBroker(node_id=0, host="127.0.0.1", port=9),)
    )
    topology = topology_of(described, Endpoint("127.0.0.1", 9, security=security))
    cluster = AttachedCluster(topology=topology, dialect=MODERN, mode="kraft", cluster_id="c")
    plan = plan_recording(cluster, for_s=600, rate=60, size_bytes=100)
    said = [line for line in plan_in_words(cluster, plan, NO_CLIENTS) if "certificate expires" in line]
    assert bool(said) is warned
