"""One real broker on loopback with a listener for each way of proving who a client is; and a token endpoint.

Started by tests themselves, outside acked's labs: it stands for a cluster that somebody else runs.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.artifacts.distribution import resolve
from harness.cluster.certificates import CertificateAuthority
from harness.cluster.tokens import TokenEndpoint
from harness.kafka.java import BROKER, CLUSTER_ID, FORMAT, JavaProcess, log_config_text, properties_text
from harness.kafka.model import Endpoint
from harness.kafka.security import PLAIN_MODULE, SCRAM_MODULE, ClientSecurity, jaas_line
from harness.kafka.versions import VERSIONS
from harness.kafka.wire.metadata import metadata
from harness.kafka.wire.rights import set_scram_credentials
from harness.secrets import Secret
from harness.waiting import wait_until

USER, SCRAM_USER, PASSWORD = "alice", "al,i=ce", 'p"\\,= ä1'
"""Characters that JAAS, SCRAM or both write in another way."""
CLIENT, CLIENT_SECRET = "client-1", "cl1ent-s3cret-of-tokens"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


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
    *free, token_port = _free_ports(len(_LISTENERS) + 2)
    ports = dict(zip((*_LISTENERS, "CONTROLLER"), free, strict=True))
    tokens = TokenEndpoint({CLIENT: Secret(CLIENT_SECRET)}, "127.0.0.1", token_port)
    with closing(tokens):
        tokens.start()
        broker = SecuredBroker(version, folder, ca, ports, tokens.url)
        config = folder / "server.properties"
        config.write_text(properties_text(_properties(folder, ca, ports, tokens)))
        logging = folder / "log.properties"
        syntax = VERSIONS[version].log_syntax
        logging.write_text(log_config_text(str(folder / "server.log"), syntax))
        distribution = resolve(version)

        def argv(main_class: str, *arguments: str) -> tuple[str, ...]:
            archive = distribution.archive(main_class)
            return JavaProcess(
                main_class=main_class,
                class_path=distribution.class_path(),
                arguments=arguments,
                log_config=str(logging),
                log_syntax=syntax,
                archive=str(archive) if archive else None,
                java=distribution.java.path,
                system_properties=tokens.system_properties,
            ).argv()

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


def _properties(
    folder: Path, ca: CertificateAuthority, ports: dict[str, int], tokens: TokenEndpoint
) -> dict[str, str]:
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
    }
    with_sasl = ("sasl_ssl", "sasl_plaintext")
    properties |= tokens.broker_properties(with_sasl)
    for listener in with_sasl:
        prefix = f"listener.name.{listener}"
        properties |= {
            f"{prefix}.sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            f"{prefix}.plain.sasl.jaas.config": jaas_line(PLAIN_MODULE, {f"user_{USER}": PASSWORD}),
            f"{prefix}.scram-sha-256.sasl.jaas.config": jaas_line(SCRAM_MODULE, {}),
            f"{prefix}.scram-sha-512.sasl.jaas.config": jaas_line(SCRAM_MODULE, {}),
        }
    return properties


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
