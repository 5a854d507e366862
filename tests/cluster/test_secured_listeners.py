"""Every client of acked at every kind of secured listener of a real broker, and what it says when refused."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from harness.artifacts.java_client import java_client
from harness.cluster.certificates import CertificateAuthority
from harness.kafka.java import properties_text
from harness.kafka.model import Endpoint, Topic
from harness.kafka.security import ClientSecurity
from harness.kafka.versions import kafka_version
from harness.kafka.wire.admin import create_topics
from harness.kafka.wire.connection import Connection, NoAnswerError, NotSentError, RefusedError
from harness.kafka.wire.metadata import metadata
from harness.kafka.wire.produce import produce_once
from harness.secrets import Secret
from harness.waiting import wait_until
from tests.cluster.conftest import acked, commands_with
from tests.cluster.secured_broker import (
    CLIENT,
    CLIENT_SECRET,
    PASSWORD,
    SCRAM_USER,
    USER,
    SecuredBroker,
    secured_broker,
)
from workloads.agent.programs.process import RunningProgram
from workloads.protocol.codec import Json
from workloads.protocol.java_names import producer_properties
from workloads.protocol.spec import ClientProgram, ProducerSpec

pytestmark = pytest.mark.cluster
WAYS = [
    *(
        (protocol, mechanism)
        for protocol in ("SASL_SSL", "SASL_PLAINTEXT")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    ),
    ("SSL", ""),
]
OTHER = CertificateAuthority("other")
KEY_PASSWORD = "p4ssword-of-the-key"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("broker")) as running:
        plain = Endpoint("127.0.0.1", running.ports["PLAINTEXT"])
        (created,) = create_topics(plain, [Topic("t", (1,))]).values()
        assert created.error == 0
        yield running


def endpoint(broker: SecuredBroker, protocol: str, mechanism: str, **changes: Any) -> Endpoint:
    given: dict[str, Any] = {"mechanism": mechanism, "username": USER, "password": Secret(PASSWORD)}
    if mechanism.startswith("SCRAM"):
        given["username"] = SCRAM_USER
    elif mechanism == "OAUTHBEARER":
        given |= {"username": CLIENT, "password": Secret(CLIENT_SECRET), "token_url": broker.token_url}
    elif not mechanism:
        own = broker.ca.issue("client")
        given = {"certificate": own.chain, "key": own.key}
    return broker.endpoint(protocol, **{**given, **changes})


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_raw_requests(broker: SecuredBroker, protocol: str, mechanism: str) -> None:
    at = endpoint(broker, protocol, mechanism)
    assert metadata(at).brokers == (1,)
    written = produce_once(at, "t", 0, b"x")
    assert (written.status, written.error) == ("answered", 0)


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_librdkafka(broker: SecuredBroker, protocol: str, mechanism: str) -> None:
    at = endpoint(broker, protocol, mechanism)
    outcomes: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": str(at), **at.security.librdkafka()})
    producer.produce("t", b"x", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(30)
    assert outcomes == [None]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProgram]:
    made = java_client(kafka_version("4.3.1"))
    program = ClientProgram(via="java", argv=made.argv, name="java", version=made.version)
    running = RunningProgram(program, "this machine", tmp_path_factory.mktemp("java") / "java.err")
    yield running
    running.close(5.0)


@pytest.mark.parametrize(("number", "way"), list(enumerate(WAYS)))
def test_java(broker: SecuredBroker, java: RunningProgram, number: int, way: tuple[str, str]) -> None:
    spec = ProducerSpec(writer=number, name=f"p{number}", brokers=(endpoint(broker, *way),), via="java")
    properties: dict[str, Json] = dict(producer_properties(spec))
    assert java.request("create_producer", 20.0, producer=number, properties=properties) is None
    wait_until(  # on a busy machine, the first connection of a JVM takes longer than a producer waits
        lambda: java.request("connect", 20.0, producer=number, topic="t"),
        accept=lambda failure: failure is None,
        within_s=60,
        awaiting="the producer to know the topic",
    )


def in_javas_names(folder: Path, at: Endpoint) -> Path:
    """A file of client properties."""
    properties = at.security.java()
    properties.pop("sasl.login.callback.handler.class", None)
    file = folder / "client.properties"
    file.write_text(properties_text(properties), encoding="latin-1")
    return file


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_a_cluster_file(broker: SecuredBroker, tmp_path: Path, protocol: str, mechanism: str) -> None:
    at = endpoint(broker, protocol, mechanism)
    file = in_javas_names(tmp_path, at)
    described = acked("cluster", "from", "--bootstrap", str(at), "--client-config", file)
    assert described.status == 0, described.stderr
    assert "[topic.t]" in described.stdout
    assert f'add [security] with protocol = "{protocol}"' in " ".join(
        described.stdout.replace("#", " ").split()
    )
    shown = described.stdout + described.stderr
    assert not any(secret in shown for secret in (PASSWORD, CLIENT_SECRET, "PRIVATE KEY"))


@pytest.mark.parametrize(
    ("protocol", "mechanism"), [("SASL_SSL", "OAUTHBEARER"), pytest.param("SSL", "", marks=pytest.mark.long)]
)
def test_a_recording_leaves_no_secret(
    broker: SecuredBroker, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    """Neither the secret for the token endpoint nor a token; neither the password of a key nor the key."""
    at = endpoint(broker, protocol, mechanism)
    file, runs = in_javas_names(tmp_path, at), tmp_path / "runs"
    if not mechanism:
        clear = load_pem_private_key(at.security.key.reveal().encode(), None)
        kind = BestAvailableEncryption(KEY_PASSWORD.encode())
        key = clear.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, kind).decode()
        given = {**at.security.java(), "ssl.keystore.key": key, "ssl.key.password": KEY_PASSWORD}
        file.write_text(properties_text(given))
    ended, listed = threading.Event(), []

    def watch() -> None:
        while not ended.wait(0.2):
            for secret in (CLIENT_SECRET, KEY_PASSWORD, "PRIVATE KEY"):
                listed.extend(commands_with(secret).values())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        where = ("--bootstrap", str(at), "--client-config", file, "--runs", runs)
        recorded = acked("record", *where, "--for", "6s", "--yes")
    finally:
        ended.set()
        watcher.join()
    assert recorded.status == 0, recorded.stderr
    assert listed == []
    written = [path.read_bytes() for path in runs.rglob("*") if path.is_file()]
    assert written
    written += [recorded.stdout.encode(), recorded.stderr.encode()]
    hidden = re.compile(rb"PRIVATE KEY-----|eyJ[\w-]{20,}\.|" + f"{CLIENT_SECRET}|{KEY_PASSWORD}".encode())
    assert [shown[0] for text in written if (shown := hidden.search(text))] == []


@pytest.mark.parametrize(
    ("protocol", "mechanism", "changes", "reason"),
    [
        ("SASL_SSL", "SCRAM-SHA-512", {"password": Secret("n0-such")}, "refuses the user of SCRAM-SHA-512"),
        ("SASL_SSL", "OAUTHBEARER", {"password": Secret("n0-such")}, "endpoint answers 401"),
        ("SSL", "", {"ca": OTHER.certificate}, "certificate is not accepted"),
    ],
)
def test_no_cluster_file_of_a_cluster_that_refuses(
    broker: SecuredBroker, tmp_path: Path, protocol: str, mechanism: str, changes: dict[str, Any], reason: str
) -> None:
    at = endpoint(broker, protocol, mechanism, **changes)
    file = in_javas_names(tmp_path, at)
    refused = acked("cluster", "from", "--bootstrap", str(at), "--client-config", file)
    assert (refused.status, refused.stdout) == (254, "")
    assert "is not used" in refused.stderr and reason in refused.stderr
    assert len(refused.stderr.strip()) <= 300
    assert "n0-such" not in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("protocol", "mechanism", "changes", "sentence"),
    [
        ("SASL_SSL", "PLAIN", {"password": Secret("no")}, "refuses the user of PLAIN: .* correct user and"),
        (
            "SASL_SSL",
            "SCRAM-SHA-512",
            {"password": Secret("no")},
            "refuses the user of SCRAM-SHA-512: .* correct",
        ),
        (
            "SASL_SSL",
            "OAUTHBEARER",
            {"password": Secret("no")},
            "its token endpoint answers 401; correct client",
        ),
        (
            "SSL",
            "",
            {"certificate": "", "key": Secret()},
            "refuses the client's certificate .* name a key store",
        ),
        ("SSL", "", {"certificate": OTHER.issue("x").chain}, "TLS cannot use these certificates"),
        ("SSL", "", {"ca": OTHER.certificate}, "certificate is not accepted: .* name a trust store"),
    ],
)
def test_a_refusal_says_what_to_correct(
    broker: SecuredBroker, protocol: str, mechanism: str, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RefusedError, match=sentence) as raised:
        metadata(endpoint(broker, protocol, mechanism, **changes))
    assert len(str(raised.value)) < 300
    assert PASSWORD not in str(raised.value)


def test_a_mechanism_that_the_listener_has_not(broker: SecuredBroker) -> None:
    gssapi = replace(endpoint(broker, "SASL_SSL", "PLAIN").security)
    object.__setattr__(gssapi, "mechanism", "GSSAPI")
    with pytest.raises(RefusedError, match=r"has not enabled GSSAPI; set sasl.mechanism to one of: .*SCRAM"):
        metadata(Endpoint("127.0.0.1", broker.ports["SASL_SSL"], security=gssapi))


@pytest.mark.parametrize(
    ("spoken", "listener", "kind", "sentence"),
    [
        ("PLAINTEXT", "SSL", NoAnswerError, "it speaks TLS; set security.protocol to SSL or SASL_SSL"),
        ("PLAINTEXT", "SASL_PLAINTEXT", NoAnswerError, "does the listener speak PLAINTEXT[?]"),
        (
            "SASL_PLAINTEXT",
            "SASL_SSL",
            NotSentError,
            "it speaks TLS; set security.protocol to SSL or SASL_SSL",
        ),
        (
            "SASL_PLAINTEXT",
            "PLAINTEXT",
            RefusedError,
            "it does not ask for SASL; set security.protocol to PLAIN",
        ),
        ("SASL_SSL", "SASL_PLAINTEXT", NotSentError, "does the listener speak SASL_SSL[?]"),
        ("SSL", "PLAINTEXT", NotSentError, "does the listener speak SSL[?]"),
        ("SSL", "SASL_SSL", NoAnswerError, "does the listener speak SSL[?]"),
    ],
)
def test_a_wrong_protocol_is_named(
    broker: SecuredBroker, spoken: str, listener: str, kind: type[Exception], sentence: str
) -> None:
    mechanism = "PLAIN" if spoken.startswith("SASL") else ""
    security = endpoint(broker, spoken, mechanism).security if spoken != "PLAINTEXT" else ClientSecurity()
    wrong = Endpoint("127.0.0.1", broker.ports[listener], security=security)
    with Connection(wrong) as connection, pytest.raises(kind, match=sentence) as raised:
        metadata(connection)
    assert type(raised.value) is kind
