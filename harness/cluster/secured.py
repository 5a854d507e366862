"""The security of a cluster that acked starts: certificates, users and rights, made for it at run time.

Three users exist. `acked-broker` is that of brokers and controllers, and `acked-admin` that of the harness:
both may do everything. `acked-client` is that of producers and consumers, and has the rights that they need.
With SSL, each of them is the subject of a certificate; with SASL, it has a password. Brokers and the harness
use PLAIN, because the credentials of SCRAM are part of the metadata, which brokers share only once they run.
With OAUTHBEARER, the harness and the clients get tokens for their passwords, from an endpoint that belongs to
the cluster.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from harness.cluster.certificates import CertificateAuthority
from harness.cluster.key_stores import OwnCertificate
from harness.cluster.tokens import TokenEndpoint
from harness.errors import InvalidRunError
from harness.kafka.model import Endpoint
from harness.kafka.security import PLAIN_MODULE, SCRAM_MODULE, ClientSecurity, ListenerSecurity, jaas_line
from harness.kafka.wire.connection import accepts
from harness.kafka.wire.rights import Acl, ScramMechanism, create_acls, set_scram_credentials
from harness.lab.model import Host, Topology
from harness.secrets import Secret
from harness.waiting import wait_until

BROKER_USER, ADMIN, CLIENT = "acked-broker", "acked-admin", "acked-client"
_ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_GRANTED_WITHIN_S = 30.0
_TOKEN_PORT = 9191


class ClusterSecurity:
    """What the nodes, the harness and the clients of one cluster need. It exists in memory alone."""

    def __init__(self, listeners: ListenerSecurity, topology: Topology, mode: str) -> None:
        """``topology`` are the hosts, to whose addresses their certificates are issued."""
        self.listeners = listeners
        self._quorum = mode != "zookeeper"
        self._own: dict[str, OwnCertificate] = {}
        self._ca = CertificateAuthority()
        self._passwords = {name: secrets.token_urlsafe(24) for name in (BROKER_USER, ADMIN, CLIENT)}
        self._tokens = None
        if listeners.mechanism == "OAUTHBEARER":
            users = {name: Secret(self._passwords[name]) for name in (ADMIN, CLIENT)}
            self._tokens = TokenEndpoint(users, topology.observer_address, _TOKEN_PORT)
        admin = self._client(ADMIN, listeners.mechanism if self._tokens else "PLAIN")
        self.topology = replace(
            topology,
            hosts=tuple(
                replace(host, security=admin) if host.role in ("broker", "controller") else host
                for host in topology.hosts
            ),
            clients=self._client(CLIENT, listeners.mechanism),
        )
        """The hosts, and how the harness and the clients reach them."""

    @property
    def system_properties(self) -> Mapping[str, str]:
        """Java's system properties of the nodes."""
        return {} if self._tokens is None else self._tokens.system_properties

    def start(self) -> None:
        """Serve what nodes and clients ask for, until `close`. Raises LabError."""
        if self._tokens is not None:
            self._tokens.start()

    def close(self) -> None:
        """Stop serving."""
        if self._tokens is not None:
            self._tokens.close()

    def properties(self, host: Host, *, kraft: bool) -> dict[str, str]:
        """The properties of a broker or controller, with secrets, besides those that name its listeners.

        ``kraft`` tells whether it keeps its metadata in a quorum.
        """
        protocol = self.listeners.protocol
        properties = {
            "authorizer.class.name": _STANDARD_AUTHORIZER if kraft else _ACL_AUTHORIZER,
            "super.users": ";".join(self._principal(name) for name in (BROKER_USER, ADMIN)),
        }
        if protocol.endswith("SSL"):
            if host.name not in self._own:
                self._own[host.name] = self._ca.issue(BROKER_USER, [host.address, host.name])
            own = self._own[host.name]
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": own.chain,
                "ssl.keystore.key": own.key.reveal(),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": self._ca.certificate,
                "ssl.client.auth": "required" if protocol == "SSL" else "none",
            }
        if protocol.startswith("SASL"):
            properties |= self._sasl()
        return properties

    def _sasl(self) -> dict[str, str]:
        mechanism = self.listeners.mechanism
        users = {f"user_{name}": password for name, password in self._passwords.items()}
        if mechanism != "PLAIN":
            del users[f"user_{CLIENT}"]
        if self._tokens is not None:
            del users[f"user_{ADMIN}"]
        own = {"username": BROKER_USER, "password": self._passwords[BROKER_USER]}
        line = jaas_line(PLAIN_MODULE, {**own, **users})
        properties = {
            "sasl.enabled.mechanisms": ",".join(dict.fromkeys(("PLAIN", mechanism))),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
        }
        if self._quorum:
            properties["sasl.mechanism.controller.protocol"] = "PLAIN"
        listeners = (self.listeners.protocol.lower(), *(["controller"] if self._quorum else []))
        if self._tokens is not None:
            properties |= self._tokens.broker_properties(listeners)
        for listener in listeners:
            prefix = f"listener.name.{listener}"
            properties[f"{prefix}.plain.sasl.jaas.config"] = line
            if mechanism.startswith("SCRAM"):
                properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = jaas_line(SCRAM_MODULE, {})
        return properties

    def grant(
        self, operator: Callable[[], Endpoint], brokers: Iterable[Host], check: Callable[[], None]
    ) -> None:
        """Create the clients' user and its rights, and wait until each broker knows both.

        ``operator`` is the controller, and ``check`` raises if a process has died. Raises
        InvalidRunError if the cluster refuses, and WaitTimeoutError.
        """
        mechanism = self.listeners.mechanism
        if mechanism.startswith("SCRAM"):
            scram: ScramMechanism = "SCRAM-SHA-256" if mechanism == "SCRAM-SHA-256" else "SCRAM-SHA-512"
            user = {CLIENT: Secret(self._passwords[CLIENT])}
            for result in set_scram_credentials(operator(), user, scram, _GRANTED_WITHIN_S).values():
                _require(result.error, result.message, "user of the clients")
        for result in create_acls(operator(), self._acls(), _GRANTED_WITHIN_S):
            _require(result.error, result.message, "rights of the clients")
        for host in brokers:
            wait_until(
                partial(accepts, self.topology.client_endpoint(host)),
                within_s=_GRANTED_WITHIN_S,
                awaiting=f"{host.name} to admit the clients' user",
                abort=check,
            )

    def _acls(self) -> list[Acl]:
        """What producers, consumers and members of groups need, in every topic and group."""
        user = self._principal(CLIENT)
        return [
            Acl(user, "cluster", "idempotent-write", "kafka-cluster"),  # before 3.0 (KIP-679)
            Acl(user, "transactional-id", "write"),
            Acl(user, "transactional-id", "describe"),
            Acl(user, "group", "read"),
            Acl(user, "topic", "read"),
            Acl(user, "topic", "write"),
        ]

    def _client(self, name: str, mechanism: str) -> ClientSecurity:
        security = ClientSecurity(protocol=self.listeners.protocol)
        if security.tls:
            security = replace(security, ca=self._ca.certificate)
        if security.sasl:
            security = replace(
                security,
                mechanism=mechanism,  # type: ignore[arg-type]
                username=name,
                password=Secret(self._passwords[name]),
            )
            return replace(security, token_url=self._tokens.url) if self._tokens else security
        own = self._ca.issue(name)
        return replace(security, certificate=own.chain, key=own.key)

    def _principal(self, name: str) -> str:
        return f"User:CN={name}" if self.listeners.protocol == "SSL" else f"User:{name}"


def _require(error: int, message: str, what: str) -> None:
    if error:
        raise InvalidRunError(f"The cluster refuses the {what} with error {error} ({message}).")
