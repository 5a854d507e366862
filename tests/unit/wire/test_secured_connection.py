"""TLS of a raw connection against servers of this test: its time, its names, and how it fails."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from harness.cluster.certificates import CertificateAuthority
from harness.history.journal import Journal
from harness.kafka.model import Endpoint
from harness.kafka.security import ClientSecurity
from harness.kafka.wire import connection as wire
from harness.kafka.wire.authentication import tls_refusal
from harness.kafka.wire.connection import Connection, NoAnswerError, NotSentError, RefusedError, accepts
from harness.kafka.wire.dialect import MODERN
from harness.kafka.wire.metadata import api_versions
from harness.observer import pollers
from harness.observer.targets import Node
from harness.observer.views import Views
from harness.secrets import Secret

CA = CertificateAuthority()
SECURITY = ClientSecurity(protocol="SSL", ca=CA.certificate)


def answer(peer: socket.socket, size: int = 0) -> None:
    head = peer.recv(4, socket.MSG_WAITALL) if not isinstance(peer, ssl.SSLSocket) else peer.recv(4)
    request = peer.recv(struct.unpack(">i", head)[0])
    if request[:2] == struct.pack(">h", MetadataRequest.API_KEY):
        stated = MetadataResponse(brokers=[], cluster_id="c", controller_id=1, topics=[])
        body = bytes(stated.encode(version=MODERN.metadata))
    else:
        body = bytes(ApiVersionsResponse(error_code=0, api_keys=[]).encode(version=0))
    peer.sendall(struct.pack(">i", 4 + len(body)) + request[4:8] + body)


@contextmanager
def tls_server(
    folder: Path,
    address: str = "127.0.0.1",
    *,
    before: Callable[[], object] = lambda: None,
    requests: int = 2,
    connections: int = 1,
    valid: timedelta = timedelta(days=1),
) -> Iterator[Endpoint]:
    """Accepts connections one after the other, waits with ``before``, and answers some requests."""
    own = CA.issue("broker", [address], valid=valid)
    (folder / "own.pem").write_text(own.chain + own.key.reveal())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(connections):
                with contextlib.suppress(OSError, struct.error):  # the client, or the test, has ended
                    plain, _ = listener.accept()
                    with plain:
                        before()
                        with context.wrap_socket(plain, server_side=True) as peer:
                            for _ in range(requests):
                                answer(peer)
                            while peer.recv(4096):
                                pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Endpoint(*listener.getsockname()[:2], security=SECURITY)
    thread.join(5)


def test_a_slow_handshake_is_no_silence(tmp_path: Path) -> None:
    """The time of a request does not begin before TLS is complete."""
    done = threading.Event()
    with tls_server(tmp_path, before=lambda: done.wait(0.4)) as endpoint:
        began = time.monotonic()
        with Connection(endpoint, timeout_s=0.1) as connection:
            assert api_versions(connection) == {}
        assert time.monotonic() - began >= 0.4


@pytest.mark.parametrize(("handshake_s", "says"), [(0.2, None), (0.9, "handshake did not end")])
def test_a_handshake_never_reads_as_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handshake_s: float, says: str | None
) -> None:
    """To the observer a broker answers, although each connection takes longer than an answer may."""
    monkeypatch.setattr(pollers, "ANSWER_WITHIN_S", 0.1)
    monkeypatch.setattr("harness.kafka.security.HANDSHAKE_S", 0.6)
    views, done = Views(Journal(tmp_path / "harness.jsonl")), threading.Event()
    for number in range(5):
        with tls_server(tmp_path, before=lambda: done.wait(handshake_s)) as endpoint:
            node = Node(f"broker{number}", number, endpoint)
            poller = pollers.BrokerPoller(node, views, lambda: (), MODERN, kraft=True)
            poller.poll()
            poller.close()
        view = views.latest(node.name, "reachable")
        assert view is not None
        assert (view.error is None) if says is None else (says in str(view.error))


def test_a_handshake_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.kafka.security.HANDSHAKE_S", 0.3)
    done = threading.Event()
    with tls_server(tmp_path, before=lambda: done.wait(5)) as endpoint, Connection(endpoint) as connection:
        with pytest.raises(NotSentError, match="the SSL handshake did not end within 0.3 s") as raised:
            api_versions(connection)
        assert not isinstance(raised.value, RefusedError), "another attempt may succeed"
        done.set()


def test_a_broker_that_falls_silent_after_the_handshake_did_not_answer(tmp_path: Path) -> None:
    with (
        tls_server(tmp_path, requests=1) as endpoint,
        Connection(endpoint, timeout_s=0.2) as connection,
        pytest.raises(NoAnswerError, match="timed out"),
    ):
        api_versions(connection)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ca": CertificateAuthority("other").certificate}, "name a trust store with the CA that signed it"),
        ({"ca": ""}, "name a trust store with the CA that signed it"),
        ({"ca": "no PEM"}, "TLS cannot use these certificates"),
        ({"certificate": CA.issue("x").chain, "key": Secret("no PEM")}, "TLS cannot use these certificates"),
    ],
)
def test_certificates_that_do_not_fit(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    with tls_server(tmp_path) as endpoint:
        security = ClientSecurity(**{"protocol": "SSL", "ca": CA.certificate, **change})  # type: ignore[arg-type]
        wrong = Endpoint(endpoint.host, endpoint.port, security=security)
        with Connection(wrong) as connection, pytest.raises(RefusedError, match=reason):
            connection.open()


def test_an_expired_certificate_of_a_broker_has_to_be_renewed(tmp_path: Path) -> None:
    with (
        tls_server(tmp_path, valid=timedelta(seconds=-60)) as endpoint,
        Connection(endpoint) as connection,
        pytest.raises(RefusedError, match="certificate has expired; it has to be renewed on the broker"),
    ):
        connection.open()


@pytest.mark.parametrize(
    ("valid_s", "remedy"), [(-60, "it has expired: renew it"), (60, "use one that it trusts")]
)
def test_a_broker_that_refuses_the_client_does_not_say_that_it_has_expired(valid_s: int, remedy: str) -> None:
    own = CA.issue("client", valid=timedelta(seconds=valid_s))
    security = ClientSecurity(protocol="SSL", ca=CA.certificate, certificate=own.chain, key=own.key)
    error = ssl.SSLError(1, "")
    error.reason = "SSLV3_ALERT_CERTIFICATE_UNKNOWN"
    assert tls_refusal(error, security).endswith(remedy)


def test_the_name_of_a_broker_is_verified(tmp_path: Path) -> None:
    with tls_server(tmp_path, "broker.example", connections=2) as endpoint:
        with (
            Connection(endpoint) as connection,
            pytest.raises(RefusedError, match="connect to a name that it has"),
        ):
            connection.open()
        anyone = ClientSecurity(protocol="SSL", ca=CA.certificate, verifies_names=False)
        with Connection(Endpoint(endpoint.host, endpoint.port, security=anyone)) as connection:
            assert api_versions(connection) == {}


def test_a_session_is_renewed_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `connections.max.reauth.ms` a broker closes connections whose session has ended (KIP-368)."""

    def authenticated(security: ClientSecurity, exchange: object) -> float:
        authentications.append(security)
        return 1e-9

    authentications: list[ClientSecurity] = []
    monkeypatch.setattr(wire, "authenticate", authenticated)
    with tls_server(tmp_path, requests=1, connections=3) as endpoint, Connection(endpoint) as connection:
        api_versions(connection)
        api_versions(connection)
    assert len(authentications) == 2


def test_a_listener_that_serves_nobody_yet_accepts_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel accepts connections before a broker that starts reads from them."""
    monkeypatch.setattr(ClientSecurity, "handshake_s", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert accepts(Endpoint("127.0.0.1", port))
        assert not accepts(Endpoint("127.0.0.1", port, security=SECURITY))
    monkeypatch.undo()
    with tls_server(tmp_path) as endpoint:
        assert accepts(endpoint)
