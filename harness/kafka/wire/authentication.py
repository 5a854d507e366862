"""TLS and SASL of a raw connection, by Python's `ssl` and the SASL mechanisms of kafka-python."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from harness.errors import printable, shortened
from harness.kafka.security import ClientSecurity

UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
_SASL_AUTHENTICATE = 36
_ROUNDS = 10
"""Most requests of one authentication; SCRAM takes two."""
_LONGEST_ANSWER = 1 << 20
"""Bytes of a token endpoint's answer."""
_TOKEN_S = 10.0
_QUOTED = 120
"""Characters of a broker's message that an error quotes."""

Exchange = Callable[[Any, Any, int], Any]
"""Sends a request (with its response class and version) on the new connection, and returns the response."""


class SecurityError(ConnectionError):
    """The node answers, but refuses the client or is refused by it: trying again does not help.

    The text is a clause with the reason and the remedy; it holds no secret.
    """


@lru_cache(maxsize=16)
def tls_context(security: ClientSecurity) -> ssl.SSLContext:
    """TLS settings of clients with this security. Raises SecurityError for material that does not load."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As with a trust store of Java, a chain may end with a broker's own certificate or an intermediate CA.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = security.verifies_names and security.verifies_certificates
    if not security.verifies_certificates:
        context.verify_mode = ssl.CERT_NONE
    try:
        if security.ca:
            context.load_verify_locations(cadata=security.ca)
        else:
            context.load_default_certs()
        if security.certificate:
            _load_own(context, f"{security.certificate}\n{security.key.reveal()}")
    except (ssl.SSLError, ValueError) as error:
        raise SecurityError(f"TLS cannot use these certificates ({_reason(error)})") from None
    return context


def _load_own(context: ssl.SSLContext, pem: str) -> None:
    """Python takes the client's key from a file alone: one in memory, which has no name."""
    file = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "w") as writer:
            writer.write(pem)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


def authenticate(security: ClientSecurity, exchange: Exchange) -> float:
    """Complete a new connection: wait for the broker's first answer, then authenticate with SASL.

    The first answer also shows that the broker takes the client's certificate; with TLS 1.3 a client does not
    learn that before. Returns the seconds until the broker expects to be asked again; 0: never (KIP-368).
    Raises SecurityError if it refuses the client, and what ``exchange`` raises.
    """
    answer = exchange(ApiVersionsRequest(), ApiVersionsResponse, 0)
    if not security.sasl:
        return 0.0
    versions = {entry.api_key: entry.max_version for entry in answer.api_keys}
    if _SASL_AUTHENTICATE not in versions:
        raise SecurityError("its Kafka is older than 1.0, and acked speaks the SASL of later ones (KIP-152)")
    offered = exchange(SaslHandshakeRequest(mechanism=security.mechanism), SaslHandshakeResponse, 1)
    if offered.error_code == UNSUPPORTED_SASL_MECHANISM:
        names = shortened(printable(", ".join(offered.mechanisms)), _QUOTED)
        raise SecurityError(f"it has not enabled {security.mechanism}; set sasl.mechanism to one of: {names}")
    if offered.error_code == ILLEGAL_SASL_STATE:
        rest = security.protocol.removeprefix("SASL_")
        raise SecurityError(f"it does not ask for SASL; set security.protocol to {rest}")
    if offered.error_code:
        raise SecurityError(f"it answers the SASL handshake with error {offered.error_code}")
    version = min(1, versions[_SASL_AUTHENTICATE])
    return _exchange_tokens(security, exchange, version) / 1000


def _exchange_tokens(security: ClientSecurity, exchange: Exchange, version: int) -> int:
    """Carry the mechanism's messages; the lifetime of the session in ms, 0 without a limit."""
    client = _mechanism(security)
    lifetime_ms = 0
    for _ in range(_ROUNDS):
        request = SaslAuthenticateRequest(auth_bytes=client.auth_bytes())
        answer = exchange(request, SaslAuthenticateResponse, version)
        if answer.error_code:
            said = shortened(printable(answer.error_message or f"error {answer.error_code}"), _QUOTED)
            raise SecurityError(
                f"it refuses the user of {security.mechanism}: {said}; correct user and password"
            )
        try:
            client.receive(answer.auth_bytes)
        except (ValueError, KeyError) as error:
            raise SecurityError(
                f"it does not prove that it knows the password of {security.mechanism} ({_reason(error)})"
            ) from None
        if client.is_done():
            lifetime_ms = answer.session_lifetime_ms if version else 0
            break
    if not client.is_authenticated():
        raise SecurityError(f"{security.mechanism} did not come to an end with it; correct user and password")
    return int(lifetime_ms)


def _mechanism(security: ClientSecurity) -> Any:
    """kafka-python's client of the mechanism, before its first message."""
    kind = get_sasl_mechanism(security.mechanism)
    if security.mechanism == "OAUTHBEARER":
        return kind(sasl_oauth_token_provider=_Token(security))
    username = security.username
    if security.mechanism.startswith("SCRAM"):  # RFC 5802, which kafka-python leaves to its caller
        username = username.replace("=", "=3D").replace(",", "=2C")
    return kind(
        sasl_plain_username=username,
        sasl_plain_password=security.password.reveal(),
        sasl_mechanism=security.mechanism,
    )


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    """The token of one connection."""

    def __init__(self, security: ClientSecurity) -> None:
        super().__init__()
        self._security = security

    def token(self) -> str:
        return _TOKENS.of(self._security)

    def extensions(self) -> dict[str, str]:
        return dict(self._security.extensions)


class _Tokens:
    """Tokens that are valid, so that each connection does not ask the endpoint for one of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[ClientSecurity, tuple[str, float]] = {}

    def of(self, security: ClientSecurity) -> str:
        """A token for these credentials. Raises SecurityError or OSError."""
        with self._lock:
            token, until = self._held.get(security, ("", 0.0))
            if time.monotonic() >= until:
                token, lifetime_s = _granted(security)
                # As Java's login does by default, it is renewed after 80 % of its lifetime.
                self._held[security] = (token, time.monotonic() + 0.8 * lifetime_s)
            return token


_TOKENS = _Tokens()


def _granted(security: ClientSecurity) -> tuple[str, float]:
    """A new token, and for how many seconds it is valid."""
    fields = {"grant_type": "client_credentials", **({"scope": security.scope} if security.scope else {})}
    credentials = b64encode(f"{security.username}:{security.password.reveal()}".encode()).decode()
    request = urllib.request.Request(
        security.token_url,
        data=urllib.parse.urlencode(fields).encode(),
        headers={"Authorization": f"Basic {credentials}", "Accept": "application/json"},
    )
    context = ssl.create_default_context()
    if security.ca:
        context.load_verify_locations(cadata=security.ca)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _NoRedirects)
    try:
        with opener.open(request, timeout=_TOKEN_S) as answer:
            granted = json.loads(answer.read(_LONGEST_ANSWER))
        return str(granted["access_token"]), float(granted.get("expires_in", 0))
    except urllib.error.HTTPError as error:
        raise SecurityError(
            f"its token endpoint answers {error.code}; correct client id, client secret and scope"
        ) from None
    except urllib.error.URLError as error:
        raise OSError(f"its token endpoint cannot be reached: {error.reason}") from None
    except (ValueError, KeyError, TypeError):
        raise SecurityError("its token endpoint grants no access_token; correct its URL") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would hand the client's secret on to another server."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


_TRUST = "name a trust store with the CA that signed it"
_REMEDIES = {
    "match": "connect to a name that it has, or set ssl.endpoint.identification.algorithm to nothing",
    "expired": "it has to be renewed on the broker",
    "not yet valid": "see whether the clocks of both machines are right",
}
"""What to do about a certificate, by a word of what OpenSSL says of it; else `_TRUST`."""


def tls_refusal(error: ssl.SSLError, security: ClientSecurity) -> str:
    """Why the TLS handshake failed, as a clause with the remedy; empty if another attempt may succeed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        said = str(error.verify_message).rstrip(".")
        remedy = next((one for word, one in _REMEDIES.items() if word in said), _TRUST)
        return f"its certificate is not accepted: {shortened(printable(said), _QUOTED)}; {remedy}"
    reason = error.reason or ""
    if "ALERT" in reason and ("CERTIFICATE" in reason or "CA" in reason.split("_") or "HANDSHAKE" in reason):
        own = "use one that it trusts" if security.certificate else "name a key store with one that it trusts"
        # Java's TLS says of an expired certificate only that it is unknown.
        if "EXPIRED" in reason or (security.certificate and valid_for_s(security.certificate) < 0):
            own = "it has expired: renew it"
        return f"it refuses the client's certificate ({_words(reason)}); {own}"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL"):
        return (
            f"it does not speak TLS, which {security.protocol} needs; correct security.protocol or the port"
        )
    return f"TLS failed ({_words(reason)})" if "ALERT" in reason else ""


def valid_for_s(chain: str) -> float:
    """How long the first certificate of a chain in PEM is still valid; negative after its end."""
    from cryptography import x509

    end = x509.load_pem_x509_certificate(chain.encode()).not_valid_after_utc
    return (end - datetime.now(UTC)).total_seconds()


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")


def _reason(error: Exception) -> str:
    return shortened(printable(_words(getattr(error, "reason", None) or str(error))), _QUOTED)
