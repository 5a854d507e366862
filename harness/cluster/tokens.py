"""The token endpoint of a cluster whose clients use OAUTHBEARER: it grants tokens, and shows their key.

It takes client credentials (RFC 6749 §4.4). A token is a JWT (RFC 7519), and the key is in a set (RFC 7517).
The endpoint runs in the harness, whose address no fault cuts off: a client without a token would say nothing
about Kafka.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from harness.errors import LabError
from harness.kafka.security import OAUTH_MODULE, jaas_line
from harness.secrets import Secret

ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The system property of Java without which Kafka asks no URL for a token or a key, from 3.9.1 and 4.0 on."""
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_ISSUER, _AUDIENCE, _KEY_ID = "acked", "kafka", "1"
_LIFETIME_S = 3600
_LONGEST_REQUEST = 10_000
_IDLE_S = 10.0


class TokenEndpoint:
    """A server of tokens at one address."""

    def __init__(self, clients: Mapping[str, Secret], address: str, port: int) -> None:
        """``clients`` has the secret of each client id; ``port`` is where `start` will listen."""
        self._clients = dict(clients)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._at = (address, port)
        self._server: _Server | None = None
        url = f"http://{address}:{port}"
        self.url = f"{url}/token"
        """Where tokens are granted."""
        self._keys_url = f"{url}/keys"
        self.system_properties = {ALLOWED_URLS: f"{self.url},{self._keys_url}"}
        """Java's system properties of brokers and clients that use it."""

    def start(self) -> None:
        """Serve until `close`. Raises LabError if the address cannot be listened on."""
        try:
            self._server = _Server(self._at, self._handler())
        except OSError as error:
            place = ":".join(map(str, self._at))
            raise LabError(f"The token endpoint cannot listen on {place} ({error.strerror}).") from error
        threading.Thread(target=self._server.serve_forever, name="tokens", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def broker_properties(self, listeners: tuple[str, ...]) -> dict[str, str]:
        """How brokers and controllers verify its tokens on these listeners."""
        properties = {
            "sasl.oauthbearer.jwks.endpoint.url": self._keys_url,
            "sasl.oauthbearer.expected.audience": _AUDIENCE,
            "sasl.oauthbearer.expected.issuer": _ISSUER,
        }
        for listener in listeners:
            prefix = f"listener.name.{listener}.oauthbearer"
            properties[f"{prefix}.sasl.jaas.config"] = jaas_line(OAUTH_MODULE, {})
            properties[f"{prefix}.sasl.server.callback.handler.class"] = _VALIDATOR
        return properties

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _IDLE_S

            def do_GET(self) -> None:
                self._answer(200, endpoint._keys())

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                form = parse_qs(self.rfile.read(min(length, _LONGEST_REQUEST)).decode(errors="replace"))
                client = endpoint._client(self.headers.get("Authorization", ""))
                if client is None:
                    self._answer(401, {"error": "invalid_client"})
                elif form.get("grant_type") != ["client_credentials"]:
                    self._answer(400, {"error": "unsupported_grant_type"})
                else:
                    self._answer(200, endpoint._granted(client, form.get("scope", ["kafka"])[0]))

            def _answer(self, status: int, content: object) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: requests hold secrets."""

        return Handler

    def _client(self, authorization: str) -> str | None:
        for client, secret in self._clients.items():
            expected = base64.b64encode(f"{client}:{secret.reveal()}".encode()).decode()
            if compare_digest(authorization.encode(), f"Basic {expected}".encode()):
                return client
        return None

    def _granted(self, client: str, scope: str) -> dict[str, Any]:
        now = int(time.time())
        head = {"alg": "RS256", "kid": _KEY_ID, "typ": "JWT"}
        # Clocks of hosts may differ, and a token from the future is refused.
        times = {"iat": now - 60, "exp": now + _LIFETIME_S}
        claims = {"sub": client, "iss": _ISSUER, "aud": _AUDIENCE, "scope": scope, **times}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        token = f"{signed}.{_encoded(signature)}"
        return {"access_token": token, "token_type": "Bearer", "expires_in": _LIFETIME_S}

    def _keys(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        public = {name: _number(value) for name, value in (("n", numbers.n), ("e", numbers.e))}
        return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, **public}]}


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Nothing: a client may be killed, or cut off, while it asks."""


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8))
