"""The security of a cluster that acked starts: what is asked for, and what nodes, harness and clients get."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from harness.cluster.cluster_file import read_cluster_file
from harness.cluster.secured import ADMIN, BROKER_USER, CLIENT, ClusterSecurity
from harness.cluster.settings import NO_SETTINGS, Settings
from harness.errors import UsageError
from harness.kafka.config import KRaftNode, ZooKeeperModeBroker, broker_properties, kraft_properties
from harness.kafka.security import NO_LISTENER_SECURITY, ListenerSecurity
from harness.lab.layout import three_azs
from harness.secrets import HIDDEN, holds_secret, shown_properties
from tests.unit.cluster.malformed import AZ

SASL_SSL = ListenerSecurity.asked("sasl_ssl", "", "--secure")


@pytest.mark.parametrize(
    ("protocol", "mechanism", "meant"),
    [
        ("sasl_ssl", "", ("SASL_SSL", "SCRAM-SHA-512")),
        ("SASL_PLAINTEXT", "plain", ("SASL_PLAINTEXT", "PLAIN")),
        ("ssl", "", ("SSL", "")),
        ("plaintext", "", ("PLAINTEXT", "")),
    ],
)
def test_what_is_asked_for(protocol: str, mechanism: str, meant: tuple[str, str]) -> None:
    asked = ListenerSecurity.asked(protocol, mechanism, "--secure")
    assert (asked.protocol, asked.mechanism) == meant


@pytest.mark.parametrize(
    ("protocol", "mechanism", "sentence"),
    [
        ("tls", "", "--secure: protocol 'tls': use PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."),
        ("sasl_ssl", "GSSAPI", "mechanism 'GSSAPI': use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER."),
        ("ssl", "PLAIN", "SSL has no SASL, so there is no mechanism 'PLAIN'"),
    ],
)
def test_what_cannot_be_asked_for(protocol: str, mechanism: str, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        ListenerSecurity.asked(protocol, mechanism, "--secure")
    assert sentence in refused.value.message


def test_the_option_takes_precedence_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(f'{AZ}\n[security]\nprotocol = "ssl"\n')
    described = read_cluster_file(path).settings
    assert described.security == ListenerSecurity(protocol="SSL", place=f"{path}:5: [security]")
    assert NO_SETTINGS.over(described).security == described.security
    given = Settings(security=SASL_SSL)
    assert given.over(described).security == SASL_SSL
    assert Settings.from_json(given.as_json()) == given
    old = NO_SETTINGS.as_json()
    del old["security"]
    assert Settings.from_json(old).security == NO_LISTENER_SECURITY, "of a plan that an older version stored"


@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_every_listener_is_secured(mode: str, protocol: str) -> None:
    security = ClusterSecurity(ListenerSecurity.asked(protocol, "", ""), three_azs(mode), mode)
    host = security.topology.host("broker1")
    assert host.broker_endpoint.security.protocol == protocol
    at = {
        "node_id": 1,
        "az": "az1",
        "address": host.address,
        "data_dir": "/d",
        "protocol": host.security.protocol,
    }
    own = security.properties(host, kraft=mode == "kraft")
    if mode == "kraft":
        node = KRaftNode(roles=("broker", "controller"), voters={1: host.address}, **at)  # type: ignore[arg-type]
        properties = {**kraft_properties(node, {}), **own}
        assert properties["listener.security.protocol.map"] == f"CONTROLLER:{protocol},{protocol}:{protocol}"
        assert properties["authorizer.class.name"].endswith(".StandardAuthorizer")
    else:
        properties = {**broker_properties(ZooKeeperModeBroker(zookeepers=(), **at), {}), **own}  # type: ignore[arg-type]
        assert properties["authorizer.class.name"].endswith(".AclAuthorizer")
    assert properties["inter.broker.listener.name"] == protocol
    listeners = [*properties["listeners"].split(","), *properties["advertised.listeners"].split(",")]
    assert {one.partition("://")[0] for one in listeners} <= {protocol, "CONTROLLER"}
    prefix = "User:CN=" if protocol == "SSL" else "User:"
    assert properties["super.users"] == f"{prefix}{BROKER_USER};{prefix}{ADMIN}"
    assert ("ssl.keystore.key" in properties) == ("SSL" in protocol.split("_"))


def test_tokens_for_the_harness_and_the_clients() -> None:
    oauth = ListenerSecurity.asked("sasl_ssl", "oauthbearer", "")
    security = ClusterSecurity(oauth, three_azs("kraft"), "kraft")
    host = security.topology.host("controller1")
    client = security.topology.client_endpoint(host).security
    assert {host.security.mechanism, client.mechanism} == {"OAUTHBEARER"}
    assert host.security.token_url == client.token_url
    assert client.token_url.startswith(f"http://{security.topology.observer_address}:")
    properties = security.properties(host, kraft=True)
    for listener in ("sasl_ssl", "controller"):
        assert f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class" in properties
    assert properties["sasl.mechanism.inter.broker.protocol"] == "PLAIN", "brokers need no token to meet"
    text = str(properties)
    assert client.password.reveal() not in text and host.security.password.reveal() not in text


def test_certificates_name_the_address_of_their_host() -> None:
    security = ClusterSecurity(SASL_SSL, three_azs("kraft"), "kraft")
    for host in security.topology.role("broker"):
        chain = security.properties(host, kraft=True)["ssl.keystore.certificate.chain"]
        assert security.properties(host, kraft=True)["ssl.keystore.certificate.chain"] == chain
        names = x509.load_pem_x509_certificate(chain.encode()).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        assert [str(one) for one in names.value.get_values_for_type(x509.IPAddress)] == [host.address]


def test_clients_and_harness_are_different_users() -> None:
    security = ClusterSecurity(SASL_SSL, three_azs("kraft"), "kraft")
    host = security.topology.host("broker1")
    admin, client = host.security, security.topology.client_endpoint(host).security
    assert (admin.username, admin.mechanism) == (ADMIN, "PLAIN")
    assert (client.username, client.mechanism) == (CLIENT, "SCRAM-SHA-512")
    assert client.password.reveal() not in str(security.properties(host, kraft=True)), (
        "brokers learn it by request"
    )
    assert CLIENT not in security.properties(host, kraft=True)["super.users"]


def test_every_secret_of_a_node_is_hidden_by_its_name() -> None:
    security = ClusterSecurity(SASL_SSL, three_azs("kraft"), "kraft")
    host = security.topology.host("broker1")
    properties = security.properties(host, kraft=True)
    hidden = {key for key, value in shown_properties(properties).items() if value == HIDDEN}
    assert {key for key in properties if key.endswith((".config", ".key"))} <= hidden
    text = str(shown_properties(properties))
    assert host.security.password.reveal() not in text
    assert "PRIVATE" not in text
    assert all(holds_secret(key, properties[key]) for key in hidden)
