"""The properties with which somebody's clients reach a cluster: `client.properties`, or librdkafka's names.

`read_client_config` returns the security as one value for all of acked's clients, and the other properties as
settings. Only `ClientSecurity` ever holds a secret of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar, get_args
from urllib.parse import urlsplit

from harness.cluster.client_settings import is_of_client
from harness.cluster.settings import Setting, nearest
from harness.cluster.settings_files import single_properties
from harness.errors import UsageError
from harness.kafka.security import PROTOCOLS, ClientSecurity, Mechanism, SecurityProtocol
from harness.secrets import Secret, shown
from harness.texts import text_file

if TYPE_CHECKING:
    from harness.cluster.key_stores import OwnCertificate

T = TypeVar("T")
P = ParamSpec("P")

_MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)[1:]
_ALIASES: Mapping[str, str] = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Names of librdkafka and of Kafka 4.1 and later (KIP-1139) → the names that are used here."""
_HARMLESS = frozenset(
    {
        *("ssl.protocol", "ssl.enabled.protocols", "ssl.provider", "ssl.cipher.suites", "ssl.curves.list"),
        *("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation"),
        *("ssl.sigalgs.list", "ssl.truststore.type", "ssl.keystore.type", "security.providers"),
        *("sasl.login.callback.handler.class", "sasl.login.class", "sasl.oauthbearer.method"),
        *("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"),
        *("sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"),
        *("sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds"),
        *("sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"),
        *("sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),
        *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
    }
)
"""Properties whose defaults serve acked's clients: they are read and not followed."""
_READ = frozenset(
    {
        *("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config"),
        *("sasl.username", "sasl.password", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
        *("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope"),
        *("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates"),
        *("ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key", "ssl.key.password"),
        *("ssl.keystore.certificate.chain", "ssl.endpoint.identification.algorithm"),
        *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem"),
        *("ssl.key.location", "ssl.key.pem", "ssl.keystore.type", "ssl.truststore.type"),
    }
)
"""Properties that decide how a client reaches the cluster: those that a typing error may mean."""
_MODULES = ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule")
_JAAS = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)"
    r"(?P<options>(?:\s+[\w.]+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s;\"']+))*)\s*;\s*",
    re.IGNORECASE | re.DOTALL,
)
_JAAS_OPTION = re.compile(
    r"([\w.]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;\"']+))", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """What such a file says."""

    security: ClientSecurity
    settings: Mapping[str, Setting]
    """All others, by their names in the file: `bootstrap.servers`, those of producers and consumers."""


def read_client_config(path: Path, option: str = "--client-config") -> ClientConfig:
    """Read a client's properties in Java's or librdkafka's names; ``option`` is what names the file.

    Files that it names are relative to the current folder, as in Java. Raises UsageError, whose sentence has
    the place and the property, and no secret; UnfitError if a store of Java cannot be read here.
    """
    reader = _Reader(path, option)
    security = reader.security()
    return ClientConfig(security=security, settings=reader.others())


class _Reader:
    def __init__(self, path: Path, option: str) -> None:
        self._path = path
        self._values: dict[str, tuple[str, str, str]] = {}
        """Value, place and name in the file, by the name that is used here."""
        text = text_file(path, f"{option} {path}", "name a file of properties", or_latin_1=True)
        for one in single_properties(path, text, "producer"):
            name = _ALIASES.get(one.key, one.key)
            if name in self._values and self._values[name][0] != one.value.strip():
                raise UsageError(
                    f"{one.place}: {one.key} has a value already ({self._values[name][1]}); set it once."
                )
            self._values[name] = (one.value.strip(), one.place, one.key)
        self._read: set[str] = set()

    def security(self) -> ClientSecurity:
        protocol = self._protocol()
        tls, sasl = protocol in ("SSL", "SASL_SSL"), protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        for key in self._values:
            if key.startswith(("ssl.", "sasl.", "https.")) and "${" in self._peek(key):
                raise self._wrong(key, "acked calls no config provider; write the value itself")
        given = {**(self._sasl() if sasl else {}), **(self._tls() if tls else {})}
        return ClientSecurity(protocol=protocol, **given)  # type: ignore[arg-type]

    def others(self) -> dict[str, Setting]:
        """What `security` has not read. Raises UsageError for security that no client of acked would have."""
        others = {}
        for name, (value, place, key) in self._values.items():
            of_security = name.startswith(("ssl.", "sasl.", "https.", "enable.sasl.", "enable.ssl."))
            if name in self._read or name in _HARMLESS or (of_security and self._unused(name)):
                continue
            if not of_security and is_of_client(key):
                others[key] = Setting.given(key, value, place)
                continue
            if meant := nearest(name, _READ):
                raise UsageError(f"{place}: {key}: no client has this property; did you mean {meant}?")
            if of_security:
                raise UsageError(
                    f"{place}: {key}: acked's clients do not have this property; docs/security.md lists "
                    "those that they have. Remove the line."
                )
            others[key] = Setting.given(key, value, place)
        return others

    def _unused(self, name: str) -> bool:
        """Whether the protocol makes no use of it, as in Java."""
        protocol = self._protocol()
        if name.startswith(("sasl.", "enable.sasl.")):
            return not protocol.startswith("SASL")
        return not protocol.endswith("SSL")

    def _protocol(self) -> SecurityProtocol:
        text = self._text("security.protocol").upper()
        if not text:
            key = next((key for key in self._values if key.startswith(("ssl.", "sasl."))), None)
            if key is None:
                return "PLAINTEXT"
            raise UsageError(
                f"{self._place(key)}: {key} has no effect without security.protocol, whose default is "
                "PLAINTEXT; add security.protocol=SASL_SSL, or what the listener speaks."
            )
        for protocol in PROTOCOLS:
            if text == protocol:
                return protocol
        raise self._wrong("security.protocol", f"use {', '.join(PROTOCOLS)}")

    def _sasl(self) -> dict[str, object]:
        mechanism = self._text("sasl.mechanism")
        if mechanism not in _MECHANISMS:
            stated = "sasl.mechanism" if mechanism else "security.protocol"
            was = "" if mechanism else ", and sasl.mechanism is missing, whose default is GSSAPI"
            raise self._wrong(stated, f"acked's clients speak {', '.join(_MECHANISMS)}{was}")
        module, options = self._jaas()
        fitting = {"PLAIN": _MODULES[0], "OAUTHBEARER": _MODULES[2]}.get(mechanism, _MODULES[1])
        if module and module != fitting:
            raise self._wrong("sasl.jaas.config", f"{mechanism} needs {fitting}")
        if options.get("tokenauth", "").lower() == "true":
            raise self._wrong("sasl.jaas.config", "acked has no delegation tokens; name user and password")
        given: dict[str, object] = {"mechanism": mechanism}
        if mechanism == "OAUTHBEARER":
            return given | self._oauth(options)
        username = options.get("username") or self._text("sasl.username")
        password = options.get("password") or self._text("sasl.password")
        if not username or not password:
            missing = "password" if username else "user"
            raise UsageError(
                f"{self._path}: {mechanism} needs a user and a password, and the {missing} is missing; set "
                "sasl.jaas.config, or sasl.username and sasl.password."
            )
        return given | {"username": username, "password": Secret(password)}

    def _oauth(self, options: Mapping[str, str]) -> dict[str, object]:
        client = options.get("clientId") or self._text("sasl.oauthbearer.client.id")
        secret = options.get("clientSecret") or self._text("sasl.oauthbearer.client.secret")
        url = self._text("sasl.oauthbearer.token.endpoint.url")
        scope = options.get("scope") or self._text("sasl.oauthbearer.scope")
        extensions = {
            name.removeprefix("extension_"): value
            for name, value in options.items()
            if name.startswith("extension_")
        }
        for pair in filter(None, self._text("sasl.oauthbearer.extensions").split(",")):
            name, _, value = pair.partition("=")
            extensions[name.strip()] = value.strip()
        if not client or not secret or not url:
            raise UsageError(
                f"{self._path}: acked gets tokens of OAUTHBEARER with client credentials; set clientId and "
                "clientSecret in sasl.jaas.config, and sasl.oauthbearer.token.endpoint.url."
            )
        if urlsplit(url).scheme not in ("http", "https"):
            raise self._wrong("sasl.oauthbearer.token.endpoint.url", "name a URL with https:// or http://")
        return {
            "username": client,
            "password": Secret(secret),
            "token_url": url,
            "scope": scope,
            "extensions": tuple(extensions.items()),
        }

    def _jaas(self) -> tuple[str, dict[str, str]]:
        """Login module, without its package, and options of `sasl.jaas.config`; empty without it."""
        line = self._text("sasl.jaas.config")
        if not line:
            return "", {}
        parsed = _JAAS.fullmatch(line)
        if parsed is None:
            raise self._wrong(
                "sasl.jaas.config", 'write MODULE required username="…" password="…"; with the semicolon'
            )
        module = parsed["module"].rpartition(".")[2]
        if module not in _MODULES:
            raise self._wrong("sasl.jaas.config", f"acked has the login modules {', '.join(_MODULES)}")
        options = {}
        for name, double, single, bare in _JAAS_OPTION.findall(parsed["options"]):
            options[name] = re.sub(r"\\(.)", r"\1", double or single) or bare
        return module, options

    def _tls(self) -> dict[str, object]:
        names = self._text("ssl.endpoint.identification.algorithm", "https").lower()
        if names not in ("https", "none", ""):
            raise self._wrong("ssl.endpoint.identification.algorithm", "use https, or nothing")
        verifies = self._text("enable.ssl.certificate.verification", "true").lower()
        if verifies not in ("true", "false"):
            raise self._wrong("enable.ssl.certificate.verification", "use true or false")
        own = self._own()
        return {
            "ca": self._trusted(),
            "certificate": own.chain if own else "",
            "key": own.key if own else Secret(),
            "verifies_names": names == "https",
            "verifies_certificates": verifies == "true",
        }

    def _trusted(self) -> str:
        from harness.cluster import key_stores  # loads a library of its own

        password = Secret(self._text("ssl.truststore.password"))
        for key in ("ssl.truststore.certificates", "ssl.ca.pem"):
            if self._text(key):
                return self._made(key, key_stores.certificates, self._text(key))
        location = self._text("ssl.truststore.location")
        if location and self._text("ssl.truststore.type").upper() != "PEM":
            return self._made(
                "ssl.truststore.location",
                key_stores.trusted_of_store,
                self._file("ssl.truststore.location"),
                password,
            )
        for key in ("ssl.truststore.location", "ssl.ca.location"):
            if self._text(key) not in ("", "probe"):
                return self._made(key, key_stores.certificates, self._content(key))
        return ""

    def _own(self) -> OwnCertificate | None:
        from harness.cluster import key_stores

        key_password = Secret(self._text("ssl.key.password"))
        password = Secret(self._text("ssl.keystore.password"))
        for chain_key, key_key in (
            ("ssl.keystore.certificate.chain", "ssl.keystore.key"),
            ("ssl.certificate.pem", "ssl.key.pem"),
            ("ssl.certificate.location", "ssl.key.location"),
        ):
            chain, key = self._text(chain_key), self._text(key_key)
            if not chain and not key:
                continue
            if not chain or not key:
                there, missing = (chain_key, key_key) if chain else (key_key, chain_key)
                raise self._wrong(there, f"set {missing} as well")
            in_file = chain_key.endswith(".location")
            chain_text = self._content(chain_key) if in_file else chain
            key_text = self._content(key_key) if in_file else key
            return key_stores.OwnCertificate(
                self._made(chain_key, key_stores.certificates, chain_text),
                self._made(key_key, key_stores.private_key, key_text, key_password),
            )
        location = "ssl.keystore.location"
        if not self._text(location):
            return None
        if self._text("ssl.keystore.type").upper() == "PEM":
            return self._made(location, key_stores.own_certificate, self._content(location), key_password)
        return self._made(location, key_stores.own_of_store, self._file(location), password, key_password)

    def _made(self, key: str, make: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """What ``make`` makes of the value of a property; its ValueError becomes a sentence."""
        try:
            return make(*given, **named)
        except ValueError as error:
            raise self._wrong(key, str(error)) from None

    def _content(self, key: str) -> str:
        file = self._file(key)
        return text_file(file, f"{self._place(key)}: {key}={file}", "name a file in PEM")

    def _file(self, key: str) -> Path:
        file = Path(self._text(key))
        if not file.is_file():
            why = (
                "it is not a file"
                if file.exists()
                else f"there is no such file (current folder: {Path.cwd()})"
            )
            raise self._wrong(key, f"{why}; name one")
        return file

    def _text(self, key: str, default: str = "") -> str:
        """The value of a property; from now on it counts as read."""
        self._read.add(key)
        return self._values[key][0] if key in self._values else default

    def _peek(self, key: str) -> str:
        return self._values[key][0]

    def _place(self, key: str) -> str:
        return self._values[key][1] if key in self._values else str(self._path)

    def _wrong(self, key: str, remedy: str) -> UsageError:
        value, place, name = self._values[key]
        return UsageError(f"{place}: {name}={shown(name, value)}: {remedy}.")
