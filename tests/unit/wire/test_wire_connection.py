"""What a broken connection proves: the request was never sent, or it was sent and not answered."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from harness.kafka.model import Address
from harness.kafka.wire.connection import Connection, NoAnswerError, NotSentError
from harness.kafka.wire.metadata import api_versions
from harness.kafka.wire.produce import produce_once

Behaviour = Callable[[socket.socket], None]


@contextmanager
def server(*behaviours: Behaviour) -> Iterator[Address]:
    """Accepts one connection after the other and treats each as requested."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for behave in behaviours:
                peer, _ = listener.accept()
                with peer:
                    behave(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[:2]
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


def unused_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address: Address = listener.getsockname()[:2]
    return address


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
