"""The token endpoint: who gets a token, and what the token and the key set say."""

from __future__ import annotations

import base64
import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from harness.cluster.tokens import ALLOWED_URLS, TokenEndpoint
from harness.errors import LabError
from harness.kafka.security import ClientSecurity
from harness.kafka.wire.authentication import SecurityError, _granted
from harness.secrets import Secret


@pytest.fixture
def tokens() -> Iterator[TokenEndpoint]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    endpoint = TokenEndpoint({"alice": Secret("s3cret:+/")}, "127.0.0.1", port)
    with closing(endpoint):
        endpoint.start()
        yield endpoint


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def alice(tokens: TokenEndpoint) -> ClientSecurity:
    return ClientSecurity(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        username="alice",
        password=Secret("s3cret:+/"),
        token_url=tokens.url,
        scope="orders",
    )


def test_a_token_is_signed_with_the_key_that_is_shown(tokens: TokenEndpoint) -> None:
    token, lifetime_s = _granted(alice(tokens))
    head, claims, signature = token.split(".")
    said = json.loads(decoded(claims))
    assert (said["sub"], said["scope"], said["aud"]) == ("alice", "orders", "kafka")
    assert lifetime_s <= said["exp"] - said["iat"]
    keys_url = tokens.broker_properties(())["sasl.oauthbearer.jwks.endpoint.url"]
    (key,) = json.load(urllib.request.urlopen(keys_url, timeout=5))["keys"]
    assert json.loads(decoded(head))["kid"] == key["kid"]
    numbers = (int.from_bytes(decoded(key[name])) for name in ("e", "n"))
    public = rsa.RSAPublicNumbers(*numbers).public_key()
    public.verify(decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), SHA256())
    with pytest.raises(InvalidSignature):
        public.verify(decoded(signature), f"{head}.{head}".encode(), padding.PKCS1v15(), SHA256())


@pytest.mark.parametrize("change", [{"password": Secret("other")}, {"username": "bob"}])
def test_a_wrong_secret_gets_none(tokens: TokenEndpoint, change: dict[str, str]) -> None:
    with pytest.raises(SecurityError, match="answers 401; correct client id, client secret and scope"):
        _granted(replace(alice(tokens), **change))  # type: ignore[arg-type]


def test_a_broken_request_is_not_shown(tokens: TokenEndpoint, capfd: pytest.CaptureFixture[str]) -> None:
    address, port = tokens.url.removeprefix("http://").partition("/")[0].split(":")
    with socket.create_connection((address, int(port))) as client:
        client.sendall(b"POST /token HTTP/1.0\r\nContent-Length: many\r\n\r\n")
        assert client.recv(100) == b""
    _granted(alice(tokens))
    assert capfd.readouterr() == ("", "")


def test_java_is_told_that_it_may_ask_there(tokens: TokenEndpoint) -> None:
    keys_url = tokens.broker_properties(("sasl_ssl",))["sasl.oauthbearer.jwks.endpoint.url"]
    assert tokens.system_properties == {ALLOWED_URLS: f"{tokens.url},{keys_url}"}


def test_an_address_in_use(tokens: TokenEndpoint) -> None:
    port = int(tokens.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(LabError, match=f"cannot listen on 127.0.0.1:{port} "):
        TokenEndpoint({}, "127.0.0.1", port).start()
