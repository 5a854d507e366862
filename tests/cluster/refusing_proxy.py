"""A proxy before a broker that refuses the debugging consumer, as a broker that is not Kafka's may.

It answers FETCH with replica id -3 and ListOffsets with -2 with an error, or ends the connection; everything
else passes unchanged.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse

from harness.kafka.model import Endpoint

_FETCH, _LIST_OFFSETS = 1, 2
_UNSUPPORTED = 35
Refusal = Literal["error", "close"]


@contextmanager
def refusing(broker: Endpoint, port: int, how: Refusal) -> Iterator[None]:
    """Meanwhile the proxy listens on ``port`` of the broker's address."""
    with socket.create_server((broker.host, port)) as listener:
        threading.Thread(target=_serve, args=(listener, broker, how), daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, broker: Endpoint, how: Refusal) -> None:
    while True:
        try:
            client, _ = listener.accept()
            server = socket.create_connection(broker.address)
        except OSError:
            return
        threading.Thread(target=_answers, args=(server, client), daemon=True).start()
        threading.Thread(target=_requests, args=(client, server, how), daemon=True).start()


def _answers(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while data := server.recv(1 << 16):
            client.sendall(data)
    _end(client, server)


def _requests(client: socket.socket, server: socket.socket, how: Refusal) -> None:
    with suppress(OSError, EOFError):
        while True:
            frame = _exactly(client, struct.unpack(">i", _exactly(client, 4))[0])
            refused = _refused(frame)
            if refused is None:
                server.sendall(struct.pack(">i", len(frame)) + frame)
            elif how == "close":
                break
            else:
                client.sendall(struct.pack(">i", len(refused)) + refused)
    _end(client, server)


def _refused(frame: bytes) -> bytes | None:
    """The answer of a broker that refuses; None for a request that passes."""
    key, version, number = struct.unpack(">hhi", frame[:8])
    if key == _FETCH:
        asked = FetchRequest.decode(frame, version=version, header=True)
        if _replica(asked) != -3:
            return None
        return _encoded(FetchResponse(error_code=_UNSUPPORTED, responses=[]), version, number, version >= 12)
    if key == _LIST_OFFSETS:
        asked = ListOffsetsRequest.decode(frame, version=version, header=True)
        if asked.replica_id != -2:
            return None
        topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = [
            topic_class(
                name=topic.name,
                partitions=[
                    topic_class.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index, error_code=_UNSUPPORTED, timestamp=-1, offset=-1
                    )
                    for one in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
        return _encoded(ListOffsetsResponse(topics=topics), version, number, version >= 6)
    return None


def _replica(asked: Any) -> int:
    state = getattr(asked, "replica_state", None)
    return int(state.replica_id if asked.API_VERSION >= 15 and state is not None else asked.replica_id)


def _encoded(response: Any, version: int, number: int, flexible: bool) -> bytes:
    head = struct.pack(">i", number) + (b"\0" if flexible else b"")
    return head + bytes(response.encode(version=version))


def _exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
