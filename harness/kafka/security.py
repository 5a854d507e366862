"""How a client proves to a listener who it is, and the listener to the client: one value for every library.

The values come from a user's file (`harness.cluster.client_config`) or belong to a lab. An `Endpoint` carries
one, so that whoever has an endpoint can speak to it. Secrets are `Secret`s, and the rest is not shown either:
a certificate tells much about its owner, and a user name may be the key of an API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from harness.errors import UsageError
from harness.secrets import Secret

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
"""security.protocol of a listener."""
Mechanism = Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
"""sasl.mechanism of a client; empty: it uses no SASL."""

HANDSHAKE_S = 3.0
"""Longest time for TLS and SASL on a new connection. An idle machine needs 40 to 130 ms, a busy one more."""
PROTOCOLS: tuple[SecurityProtocol, ...] = get_args(SecurityProtocol)
OF_USERS: tuple[Mechanism, ...] = get_args(Mechanism)[1:]
"""Mechanisms for which acked makes users."""
DEFAULT_MECHANISM: Mechanism = "SCRAM-SHA-512"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
"""Java classes that `sasl.jaas.config` and `sasl.login.callback.handler.class` name."""


@dataclass(frozen=True, kw_only=True)
class ClientSecurity:
    """The security protocol of a listener, and what a client needs to speak it."""

    protocol: SecurityProtocol = "PLAINTEXT"
    """security.protocol"""
    mechanism: Mechanism = ""
    """sasl.mechanism"""
    username: str = field(default="", repr=False)
    """The user of PLAIN and SCRAM; with OAUTHBEARER, the client id at the token endpoint."""
    password: Secret = field(default=Secret(), repr=False)
    """The user's password; with OAUTHBEARER, the client's secret at the token endpoint."""
    token_url: str = field(default="", repr=False)
    """The token endpoint of OAUTHBEARER, which grants tokens for client credentials (RFC 6749 §4.4)."""
    scope: str = field(default="", repr=False)
    """The scope of the token; empty: the endpoint's default."""
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """SASL extensions that are sent with the token (KIP-342)."""
    ca: str = field(default="", repr=False)
    """Certificates in PEM that a broker's chain may end with; empty: those that the library trusts anyway."""
    certificate: str = field(default="", repr=False)
    """The client's own certificate and its chain, in PEM; empty: it shows none."""
    key: Secret = field(default=Secret(), repr=False)
    """The private key of ``certificate``, in PEM (PKCS #8, not encrypted)."""
    verifies_names: bool = True
    """Whether the certificate of a broker must have the name or address that the client connects to."""
    verifies_certificates: bool = True
    """Whether the chain of a broker is verified. Only librdkafka and acked's requests can leave that out."""

    @property
    def plaintext(self) -> bool:
        """Whether there is neither TLS nor SASL."""
        return self.protocol == "PLAINTEXT"

    @property
    def handshake_s(self) -> float:
        """Time for TLS and SASL on a new connection, beyond that for TCP."""
        return 0.0 if self.plaintext else HANDSHAKE_S

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Whether the client authenticates itself with SASL."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def librdkafka(self) -> dict[str, str | bool]:
        """The properties of a librdkafka client, with secrets; none for PLAINTEXT, its default."""
        if self.plaintext:
            return {}
        config: dict[str, str | bool] = {"security.protocol": self.protocol}
        if self.sasl:
            config["sasl.mechanism"] = self.mechanism
            if self.mechanism == "OAUTHBEARER":
                config |= {
                    "sasl.oauthbearer.method": "oidc",
                    "sasl.oauthbearer.client.id": self.username,
                    "sasl.oauthbearer.client.secret": self.password.reveal(),
                    "sasl.oauthbearer.token.endpoint.url": self.token_url,
                }
                if self.scope:
                    config["sasl.oauthbearer.scope"] = self.scope
                if self.extensions:
                    config["sasl.oauthbearer.extensions"] = ",".join(f"{k}={v}" for k, v in self.extensions)
            else:
                config |= {"sasl.username": self.username, "sasl.password": self.password.reveal()}
        if self.tls:
            config["ssl.endpoint.identification.algorithm"] = "https" if self.verifies_names else "none"
            config["enable.ssl.certificate.verification"] = self.verifies_certificates
            if self.ca:
                config["ssl.ca.pem"] = self.ca
            if self.certificate:
                config |= {"ssl.certificate.pem": self.certificate, "ssl.key.pem": self.key.reveal()}
        return config

    def java(self) -> dict[str, str]:
        """The properties of a Java client (2.7 or later: KIP-651), secrets included; none for PLAINTEXT.

        A Java client always verifies the chain of a broker. The class of OAUTHBEARER is in 3.4 and later.
        """
        if self.plaintext:
            return {}
        properties: dict[str, str] = {"security.protocol": self.protocol}
        if self.sasl:
            properties |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas()}
            if self.mechanism == "OAUTHBEARER":
                properties["sasl.login.callback.handler.class"] = OAUTH_HANDLER
                properties["sasl.oauthbearer.token.endpoint.url"] = self.token_url
        if self.tls:
            properties["ssl.endpoint.identification.algorithm"] = "https" if self.verifies_names else ""
            if self.ca:
                properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.ca}
            if self.certificate:
                properties |= {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.certificate.chain": self.certificate,
                    "ssl.keystore.key": self.key.reveal(),
                }
        return properties

    def _jaas(self) -> str:
        if self.mechanism == "OAUTHBEARER":
            options = {"clientId": self.username, "clientSecret": self.password.reveal()}
            options |= {"scope": self.scope} if self.scope else {}
            options |= {f"extension_{name}": value for name, value in self.extensions}
            return jaas_line(OAUTH_MODULE, options)
        module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
        return jaas_line(module, {"username": self.username, "password": self.password.reveal()})


PLAINTEXT = ClientSecurity()
"""Neither TLS nor SASL."""


@dataclass(frozen=True, kw_only=True)
class ListenerSecurity:
    """What the listeners of a cluster that acked starts speak, and how its clients prove who they are."""

    protocol: SecurityProtocol = "PLAINTEXT"
    mechanism: Mechanism = ""
    """Empty with PLAINTEXT, and with SSL, where clients have certificates."""
    place: str = ""
    """Where the user asked for it: `cluster.toml`, `--secure`."""

    @property
    def plaintext(self) -> bool:
        """Whether there is neither TLS nor SASL."""
        return self.protocol == "PLAINTEXT"

    @property
    def oldest(self) -> str:
        """The oldest Kafka version of brokers and Java clients that can have it.

        2.7 brought stores in PEM (KIP-651) and users of SCRAM by request (KIP-554), and 3.4 the classes of
        OAUTHBEARER under the names that all later versions know.
        """
        return "3.4" if self.mechanism == "OAUTHBEARER" else "2.7"

    def __str__(self) -> str:
        return f"{self.protocol} with {self.mechanism}" if self.mechanism else self.protocol

    @classmethod
    def asked(cls, protocol: str, mechanism: str, place: str) -> ListenerSecurity:
        """What somebody asks for at a place, in any case of letters. Raises UsageError.

        Without a mechanism, SASL uses SCRAM-SHA-512.
        """
        for known in PROTOCOLS:
            if protocol.upper() != known:
                continue
            if not known.startswith("SASL"):
                if mechanism:
                    raise UsageError(
                        f"{place}: {known} has no SASL, so there is no mechanism {mechanism!r}; use SASL_SSL "
                        "or SASL_PLAINTEXT, or leave the mechanism out."
                    )
                return cls(protocol=known, place=place)
            for of_users in OF_USERS:
                if (mechanism.upper() or DEFAULT_MECHANISM) == of_users:
                    return cls(protocol=known, mechanism=of_users, place=place)
            raise UsageError(f"{place}: mechanism {mechanism!r}: use {', '.join(OF_USERS)}.")
        raise UsageError(f"{place}: protocol {protocol!r}: use {', '.join(PROTOCOLS)}.")


NO_LISTENER_SECURITY = ListenerSecurity()


def jaas_line(module: str, options: Mapping[str, str]) -> str:
    """A value of `sasl.jaas.config`: the login module of one client or listener, with its options."""

    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return (
        " ".join([module, "required", *(f"{name}={quoted(value)}" for name, value in options.items())]) + ";"
    )
