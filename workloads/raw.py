"""The raw client: one ProduceRequest per message to one named broker, no metadata, no retry.

Where a claim counts exact copies, every attempt must be an operation of its own with its own answer.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from types import TracebackType

from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record import MemoryRecordsBuilder

from workloads.outcomes import NO_ANSWER, NOT_CONNECTED, TIMED_OUT

_FRAME = struct.Struct(">i")


@dataclass(frozen=True)
class RawAnswer:
    """The answer to one attempt; ``left`` is false when the request never left the client."""

    error: int
    offset: int | None
    left: bool


def split_address(text: str) -> tuple[str, int]:
    """`address:port` as a pair."""
    address, _, port = text.rpartition(":")
    return address, int(port)


def encode_batch(value: bytes, produce_version: int) -> bytes:
    """One record in a batch of its own: message format 2 from ProduceRequest v3 on, format 1 before."""
    builder = MemoryRecordsBuilder(2 if produce_version >= 3 else 1, 0, 1 << 24)
    builder.append(int(time.time() * 1000), None, value)
    builder.close()
    return bytes(builder.buffer())


class RawConnection:
    """A connection to one broker, opened when first needed and again after it broke. Not thread-safe."""

    def __init__(self, broker: str, connect_timeout_s: float) -> None:
        """``broker`` is `address:port`."""
        self._address = split_address(broker)
        self._connect_timeout_s = connect_timeout_s
        self._socket: socket.socket | None = None
        self._correlation = 0

    def produce(
        self,
        topic: str,
        partition: int,
        value: bytes,
        *,
        acks: int,
        timeout_s: float,
        version: int = 7,
        grace_s: float = 1.0,
    ) -> RawAnswer:
        """Send one message once. The broker gets ``timeout_s``, its answer ``grace_s`` more.

        Never raises for what the network or the broker does: the answer says it.
        """
        body = self._request(topic, partition, encode_batch(value, version), acks, timeout_s, version)
        try:
            link = self._connected()
        except OSError:
            return RawAnswer(NOT_CONNECTED, None, left=False)
        deadline = time.monotonic() + timeout_s + grace_s
        try:
            link.settimeout(timeout_s + grace_s)
            link.sendall(body)
            if acks == 0:
                return RawAnswer(0, None, left=True)
            size = _FRAME.unpack(_read_exactly(link, 4, deadline))[0]
            response = _read_exactly(link, size, deadline)
        except TimeoutError:
            self.close()
            return RawAnswer(TIMED_OUT, None, left=True)
        except OSError:
            self.close()
            return RawAnswer(NO_ANSWER, None, left=True)
        return self._answer(response, version)

    def close(self) -> None:
        """Close the connection; the next `produce` opens a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, self._connect_timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _request(
        self, topic: str, partition: int, batch: bytes, acks: int, timeout_s: float, version: int
    ) -> bytes:
        part = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            version=version,
            transactional_id=None,
            acks=acks,
            timeout_ms=int(timeout_s * 1000),
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[part])],
        )
        self._correlation += 1
        request.with_header(correlation_id=self._correlation, client_id="acked-raw")
        encoded: bytes = request.encode(header=True, framed=True)
        return encoded

    def _answer(self, response: bytes, version: int) -> RawAnswer:
        try:
            decoded = ProduceResponse.decode(response, version=version, header=True)
            part = decoded.responses[0].partition_responses[0]
            offset = part.base_offset if part.base_offset >= 0 else None
            return RawAnswer(int(part.error_code), offset, left=True)
        except (ValueError, IndexError, struct.error):
            self.close()
            return RawAnswer(NO_ANSWER, None, left=True)


def _read_exactly(link: socket.socket, size_bytes: int, deadline: float) -> bytes:
    chunks = bytearray()
    while len(chunks) < size_bytes:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        link.settimeout(left_s)
        chunk = link.recv(size_bytes - len(chunks))
        if not chunk:
            raise ConnectionResetError
        chunks += chunk
    return bytes(chunks)
