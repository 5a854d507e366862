"""One real broker on loopback with a listener for each way of proving who a client is; and a token endpoint.

Started by tests themselves, outside acked's labs: it stands for a cluster that somebody else runs.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from harness.artifacts.distribution import resolve
from harness.cluster.certificates import CertificateAuthority
from harness.kafka.java import BROKER, CLUSTER_ID, FORMAT, JavaProcess, log_config_text, properties_text
from harness.kafka.model import Endpoint
from harness.kafka.security import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, ClientSecurity, jaas_line
from harness.kafka.versions import VERSIONS
from harness.kafka.wire.metadata import metadata
from harness.kafka.wire.rights import set_scram_credentials
from harness.secrets import Secret
from harness.waiting import wait_until

USER, SCRAM_USER, PASSWORD = "alice", "al,i=ce", 'p"\\,= ä1'
"""Characters that JAAS, SCRAM or both write in another way."""
CLIENT, CLIENT_SECRET = "client-1", "client-secret"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_ISSUER, _AUDIENCE = "tests", "kafka"


@dataclass
class SecuredBroker:
    """The broker, and how to reach it."""

    version: str
    folder: Path
    ca: CertificateAuthority
    ports: dict[str, int]
    token_url: str
    own: dict[str, object] = field(default_factory=dict)

    def endpoint(self, protocol: str, **given: object) -> Endpoint:
        """A listener, with what is needed for it."""
        tls = {"ca": self.ca.certificate} if "SSL" in protocol else {}
        security = ClientSecurity(**{"protocol": protocol, **tls, **given})  # type: ignore[arg-type]
        return Endpoint("127.0.0.1", self.ports[protocol], security=security)


@contextmanager
def secured_broker(folder: Path, version: str = "4.3.1") -> Iterator[SecuredBroker]:
    """Run the broker (KRaft) with these listeners: SSL (mTLS), SASL_SSL, SASL_PLAINTEXT, PLAINTEXT."""
    ca = CertificateAuthority()
    ports = dict(zip((*_LISTENERS, "CONTROLLER"), _free_ports(len(_LISTENERS) + 1), strict=True))
    with token_endpoint() as tokens:
        broker = SecuredBroker(version, folder, ca, ports, f"{tokens}/token")
        config = folder / "server.properties"
        config.write_text(properties_text(_properties(folder, ca, ports, tokens)))
        logging = folder / "log.properties"
        syntax = VERSIONS[version].log_syntax
        logging.write_text(log_config_text(str(folder / "server.log"), syntax))
        distribution = resolve(version)

        def argv(main_class: str, *arguments: str) -> list[str]:
            archive = distribution.archive(main_class)
            process = JavaProcess(
                main_class=main_class,
                class_path=distribution.class_path(),
                arguments=arguments,
                log_config=str(logging),
                log_syntax=syntax,
                archive=str(archive) if archive else None,
                java=distribution.java.path,
            ).argv()
            allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens}/jwks,{tokens}/token"
            return [process[0], allowed, *process[1:]]

        subprocess.run(argv(FORMAT, "format", "-t", CLUSTER_ID, "-c", str(config)), check=True, timeout=60)
        with (folder / "out.log").open("wb") as out:
            process = subprocess.Popen(argv(BROKER, str(config)), stdout=out, stderr=out)
        try:
            plain = Endpoint("127.0.0.1", ports["PLAINTEXT"])

            def ready() -> bool:
                assert process.poll() is None, (folder / "server.log").read_text()[-3000:]
                try:
                    return metadata(plain).brokers == (1,)
                except ConnectionError:
                    return False

            wait_until(ready, within_s=60, awaiting="the broker to serve")
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                (result,) = set_scram_credentials(
                    plain,
                    {SCRAM_USER: Secret(PASSWORD)},
                    mechanism,  # type: ignore[arg-type]
                    timeout_s=10,
                ).values()
                assert result.error == 0, result
            yield broker
        finally:
            process.kill()
            process.wait()


_LISTENERS = ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")


def _properties(folder: Path, ca: CertificateAuthority, ports: dict[str, int], tokens: str) -> dict[str, str]:
    own = ca.issue("broker", ["127.0.0.1", "localhost"])
    at = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(
            [*(f"{name}:{name}" for name in _LISTENERS), "CONTROLLER:PLAINTEXT"]
        ),
        "listeners": ",".join(at.values()),
        "advertised.listeners": ",".join(at[name] for name in _LISTENERS),
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": own.chain,
        "ssl.keystore.key": own.key.reveal(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": ca.certificate,
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.oauthbearer.jwks.endpoint.url": f"{tokens}/jwks",
        "sasl.oauthbearer.expected.audience": _AUDIENCE,
        "sasl.oauthbearer.expected.issuer": _ISSUER,
    }
    for listener in ("sasl_ssl", "sasl_plaintext"):
        prefix = f"listener.name.{listener}"
        properties |= {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            f"{prefix}.plain.sasl.jaas.config": jaas_line(PLAIN_MODULE, {f"user_{USER}": PASSWORD}),
            f"{prefix}.scram-sha-256.sasl.jaas.config": jaas_line(SCRAM_MODULE, {}),
            f"{prefix}.scram-sha-512.sasl.jaas.config": jaas_line(SCRAM_MODULE, {}),
            f"{prefix}.oauthbearer.sasl.jaas.config": jaas_line(OAUTH_MODULE, {}),
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
        }
    return properties


@contextmanager
def token_endpoint() -> Iterator[str]:
    """The URL of a server of tokens (client credentials) and of the key that signs them."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    numbers = key.public_key().public_numbers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            jwk = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1"}
            self._answer(200, {"keys": [{**jwk, "n": _number(numbers.n), "e": _number(numbers.e)}]})

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            wanted = base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
            if self.headers["Authorization"] != f"Basic {wanted}":
                self._answer(401, {"error": "invalid_client"})
                return
            now = int(time.time())
            claims = {"sub": CLIENT, "iss": _ISSUER, "aud": _AUDIENCE, "iat": now, "exp": now + 600}
            claims["scope"] = form.get("scope", ["kafka"])[0]
            head = _part(json.dumps({"alg": "RS256", "kid": "1", "typ": "JWT"}).encode())
            signed = f"{head}.{_part(json.dumps(claims).encode())}"
            signature = key.sign(signed.encode(), padding.PKCS1v15(), SHA256())
            token = f"{signed}.{_part(signature)}"
            self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": 600})

        def _answer(self, status: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int) -> str:
    return _part(value.to_bytes((value.bit_length() + 7) // 8))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
