"""What a broken connection proves: the request was never sent, or it was sent and not answered."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from harness.kafka.model import Endpoint
from harness.kafka.wire.connection import Connection, NoAnswerError, NotSentError, Question
from harness.kafka.wire.metadata import api_versions
from harness.kafka.wire.produce import produce_once

Behaviour = Callable[[socket.socket], None]


@contextmanager
def server(*behaviours: Behaviour) -> Iterator[Endpoint]:
    """Accepts one connection after the other and treats each as requested."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for behave in behaviours:
                peer, _ = listener.accept()
                with peer:
                    behave(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Endpoint(*listener.getsockname()[:2])
        thread.join(5)


def receive(peer: socket.socket) -> bytes:
    size = struct.unpack(">i", peer.recv(4))[0]
    return peer.recv(size)


def read_and_close(peer: socket.socket) -> None:
    receive(peer)


def answer(peer: socket.socket) -> None:
    number = receive(peer)[4:8]
    body = bytes(ApiVersionsResponse(error_code=0, api_keys=[]).encode(version=0))
    peer.sendall(struct.pack(">i", 4 + len(body)) + number + body)


def void(_: object) -> None:
    """Nothing."""


def unused_address() -> Endpoint:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Endpoint(*listener.getsockname()[:2])


def test_nobody_listens() -> None:
    with pytest.raises(NotSentError, match="cannot be reached"):
        api_versions(unused_address())
    assert produce_once(unused_address(), "t", 0, b"x").status == "unsent"


def test_the_answer_never_comes() -> None:
    with server(read_and_close) as address, pytest.raises(NoAnswerError):
        api_versions(address)
    with server(read_and_close) as address:
        assert produce_once(address, "t", 0, b"x").status == "silent"


def test_a_broker_that_does_not_answer_in_time() -> None:
    release = threading.Event()
    with server(lambda peer: void(release.wait(5))) as address:
        produced = produce_once(address, "t", 0, b"x", answer_within_s=0.1)
        release.set()
    assert produced.status == "silent"
    assert "timed out" in produced.detail


def test_acks_0_asks_for_no_answer() -> None:
    with server(read_and_close) as address:
        assert produce_once(address, "t", 0, b"x", acks=0).status == "unasked"


def test_a_kept_connection_that_was_closed_is_replaced() -> None:
    with server(answer, answer) as address, Connection(address) as connection:
        assert api_versions(connection) == {}
        assert api_versions(connection) == {}


class Asking:
    """Sends the same request again and again, and notes what was built, parsed and received."""

    def __init__(self) -> None:
        self.built = self.parsed = 0
        self.requests: list[bytes] = []

    def again(self, connection: Connection, key: str) -> tuple[int, ...]:
        question = Question(
            key=key, request=self._build, response=ApiVersionsResponse, version=0, parse=self._parse
        )
        return connection.ask(question)

    def _build(self) -> ApiVersionsRequest:
        self.built += 1
        return ApiVersionsRequest()

    def _parse(self, decoded: ApiVersionsResponse) -> tuple[int, ...]:
        self.parsed += 1
        return tuple(entry.api_key for entry in decoded.api_keys)

    def answers(self, *api_keys: int) -> Behaviour:
        """Answer one request after the other with these API keys, one in each response."""

        def behave(peer: socket.socket) -> None:
            for api_key in api_keys:
                self.requests.append(receive(peer))
                entry = ApiVersionsResponse.ApiVersion(api_key=api_key, min_version=0, max_version=1)
                body = bytes(ApiVersionsResponse(error_code=0, api_keys=[entry]).encode(version=0))
                peer.sendall(struct.pack(">i", 4 + len(body)) + self.requests[-1][4:8] + body)

        return behave


def test_a_broker_that_throttles_may_answer_later() -> None:
    """It reads the next request when the time that its answer states is over (KIP-219)."""
    over = threading.Event()

    def throttle(peer: socket.socket) -> None:
        for ms in (400, 0):
            number = receive(peer)[4:8]
            stated = ApiVersionsResponse(error_code=0, api_keys=[], throttle_time_ms=ms)
            body = bytes(stated.encode(version=1))
            peer.sendall(struct.pack(">i", 4 + len(body)) + number + body)
            over.wait(ms / 1000)

    with server(throttle) as endpoint, Connection(endpoint, timeout_s=0.15) as connection:
        connection.call(ApiVersionsRequest(), ApiVersionsResponse, 1)
        assert connection.muted
        connection.call(ApiVersionsRequest(), ApiVersionsResponse, 1)
        assert not connection.muted


def test_a_response_that_equals_the_last_one_is_not_decoded_again() -> None:
    asking = Asking()
    with server(asking.answers(7, 7, 8, 7)) as address, Connection(address) as connection:
        found = [asking.again(connection, "same") for _ in range(4)]
    assert found == [(7,), (7,), (8,), (7,)]
    assert found[0] is found[1]
    assert (asking.built, asking.parsed) == (1, 3)
    numbers = [struct.unpack(">i", request[4:8])[0] for request in asking.requests]
    assert numbers == sorted(set(numbers)), "each request has a correlation id of its own"
    assert len({request[:4] + request[8:] for request in asking.requests}) == 1


def test_another_key_is_another_request_and_another_response() -> None:
    asking = Asking()
    with server(asking.answers(7, 7)) as address, Connection(address) as connection:
        assert asking.again(connection, "one") == asking.again(connection, "other") == (7,)
    assert (asking.built, asking.parsed) == (2, 2)


def test_a_repeated_request_is_sent_once_more_on_a_new_connection() -> None:
    asking = Asking()
    with server(asking.answers(7), asking.answers(8)) as address, Connection(address) as connection:
        assert asking.again(connection, "same") == (7,)
        assert asking.again(connection, "same") == (8,)


def test_a_node_that_closes_the_first_request_may_speak_another_protocol() -> None:
    with server(read_and_close) as address, pytest.raises(NoAnswerError, match="speak PLAINTEXT[?]$"):
        api_versions(address)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x50", "speaks TLS; set security.protocol to SSL or SASL_SSL"),
        (b"HTTP/1.1 400 Bad Request", "does not speak Kafka's protocol"),
        (struct.pack(">i", -1), "does not speak Kafka's protocol"),
    ],
)
def test_answers_that_are_none_of_kafka_s(said: bytes, reason: str) -> None:
    def talk(peer: socket.socket) -> None:
        receive(peer)
        peer.sendall(said)

    with server(talk) as address, pytest.raises(NoAnswerError, match=reason):
        api_versions(address)
