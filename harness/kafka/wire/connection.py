"""One blocking connection to one broker or controller; requests are encoded by kafka-python's codecs.

Endpoints are used exactly as given: nothing bootstraps, follows metadata or picks another broker.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import socket
import ssl
import struct
import time
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from harness.kafka.model import Endpoint
from harness.kafka.wire.authentication import SecurityError, authenticate, tls_context, tls_refusal

CLIENT_ID = "acked"
_allowed: frozenset[int] | None = None
"""API keys of the requests that may be sent; None: all."""

T = TypeVar("T")

_CORRELATION = struct.Struct(">i")
_REMEMBERED = 4
"""Questions of one connection that are not built again; the observer alternates between two."""
_LONGEST_RESPONSE = 1 << 28
"""Bytes; acked asks for less than a tenth of that."""
_TLS_ALERT = b"\x15\x03"
"""How a TLS listener's answer to anything else begins (RFC 8446 §5.1)."""
_LONGEST_HEADER = 1 << 10
"""Bytes of the tagged fields in a response's header; brokers send none."""
_IN_FRAME = 8
"""Where a framed request holds its correlation id: after the size, the API key and the API version."""


@contextlib.contextmanager
def only(requests: Collection[type]) -> Iterator[None]:
    """Meanwhile no thread of this process sends a request of another class: ValueError is raised instead."""
    global _allowed
    before, _allowed = _allowed, frozenset(cast(Any, one).API_KEY for one in requests)
    try:
        yield
    finally:
        _allowed = before


@dataclass(frozen=True, kw_only=True)
class Question(Generic[T]):
    """A request that may be sent again and again, and what to make of the response."""

    key: Hashable
    """What tells it from other requests with the same response class and version."""
    request: Callable[[], Any]
    """Builds the request."""
    response: type
    version: int
    parse: Callable[[Any], T]
    """What it makes of a decoded response is returned more than once, so nobody may change it."""


@dataclass
class _Repeated:
    """A request that is sent again and again, and the last response to it."""

    frame: bytearray
    body: bytearray = field(default_factory=bytearray)
    """The response without its correlation id; empty before the first one."""
    result: object = None
    throttled_ms: int = 0
    """As the response states it."""


class NotSentError(ConnectionError):
    """The request was not sent: there was no connection, or it broke before the whole frame was written."""


class RefusedError(NotSentError):
    """The request was not sent: TLS or SASL failed for a reason that the next attempt would meet as well.

    The message is a clause with the remedy.
    """


class NoAnswerError(ConnectionError):
    """The request was sent, but no complete response came: what the broker did with it is unknown."""


class Connection:
    """A connection that is opened when first needed, and opened again after it broke. Not thread-safe."""

    def __init__(self, endpoint: Endpoint, timeout_s: float = 2.0, *, once: bool = False) -> None:
        """``timeout_s`` bounds connecting by TCP, and each wait for a response.

        TLS and SASL have a time of their own (`ClientSecurity.handshake_s`), because a handshake takes much
        longer than an answer. With ``once`` it is not opened again: requests after it broke raise
        NotSentError.
        """
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self._once = once
        self._opened = False
        self._answered = False
        """Whether a request on the open connection has been answered."""
        self._socket: socket.socket | None = None
        self._until = float("inf")
        """When the broker's session of this connection ends, by the monotonic clock (KIP-368)."""
        self._numbers = itertools.count(1)
        self._repeated: dict[tuple[type, int, Hashable], _Repeated] = {}
        """The questions asked last, the newest at the end."""
        self._muted_until = 0.0
        """Until when the broker reads no request from this connection, by the monotonic clock (KIP-219)."""
        self.topic_ids: dict[str, UUID] = {}
        """Ids of topics, for requests that name them so. Whoever is told that one is wrong clears them."""

    def open(self) -> None:
        """Connect now, for a request that is to be sent later. Raises NotSentError or RefusedError."""
        with self._reaching():
            self._connect(self.timeout_s)

    def call_once(self, request: Any, response: Any, version: int, timeout_s: float | None = None) -> Any:
        """As `call`, but the request is never sent again. Raises NotSentError or NoAnswerError."""
        return self._exchange(request, response, version, timeout_s or self.timeout_s)

    def call(self, request: Any, response: Any, version: int, timeout_s: float | None = None) -> Any:
        """Send ``request`` and return the decoded response of class ``response``.

        If the other side has closed a reused connection, the request is sent once more on a new one; use
        `call_once` for requests that must not be sent twice.

        Raises NotSentError, RefusedError or NoAnswerError.
        """
        return self._persist(lambda: self._exchange(request, response, version, timeout_s or self.timeout_s))

    def ask(self, question: Question[T], timeout_s: float | None = None) -> T:
        """As `call`; what the question makes of the response.

        The request is built and encoded only if it is none of the last `_REMEMBERED` questions. A response
        that equals the last one to this question is not decoded again: the same object is returned.
        """
        response, version = question.response, question.version
        key = (response, version, question.key)
        last = self._repeated.pop(key, None)
        if last is None:
            last = _Repeated(bytearray(self._frame(question.request(), version)))
        self._repeated[key] = last
        if len(self._repeated) > _REMEMBERED:
            del self._repeated[next(iter(self._repeated))]

        def attempt() -> bytearray:
            _CORRELATION.pack_into(last.frame, _IN_FRAME, self._number())
            return self._answer(bytes(last.frame), timeout_s or self.timeout_s)

        body = self._persist(attempt)
        if body != last.body:
            decoded = _decoded(response, body, version)
            last.result, last.throttled_ms = question.parse(decoded), _throttled_ms(decoded)
            last.body = body
        self._mute(last.throttled_ms)
        return cast(T, last.result)

    def _persist(self, attempt: Callable[[], T]) -> T:
        """Try once more on a new connection if the other side has closed the reused one."""
        reused = self._socket is not None
        try:
            return attempt()
        except (NotSentError, NoAnswerError) as error:
            if (
                not reused
                or self._once
                or isinstance(error, RefusedError)
                or isinstance(error.__cause__, TimeoutError)
            ):
                raise
        return attempt()

    def send_only(self, request: Any, version: int) -> None:
        """Send a request to which the broker sends no response (produce with acks=0)."""
        self._send(self._frame(request, version), self.timeout_s)

    def _exchange(self, request: Any, response: Any, version: int, timeout_s: float) -> Any:
        decoded = _decoded(response, self._answer(self._frame(request, version), timeout_s), version)
        self._mute(_throttled_ms(decoded))
        return decoded

    @property
    def muted(self) -> bool:
        """Whether a quota keeps the broker from reading the next request now."""
        return time.monotonic() < self._muted_until

    def _mute(self, throttled_ms: int) -> None:
        """A broker answers at once, and then reads no request for as long as the answer says (KIP-219).

        An answer also shows that it has read the request, so the wait that an earlier answer named is over.
        """
        self._muted_until = time.monotonic() + throttled_ms / 1000

    def _answer(self, frame: bytes, timeout_s: float) -> bytearray:
        """Send a frame and return the response to it, without its correlation id."""
        self._send(frame, timeout_s + max(0.0, self._muted_until - time.monotonic()))
        try:
            answer = self._response()
        except OSError as error:
            closed_at_once = isinstance(error, ConnectionResetError) and not self._answered
            self.close()
            reason = str(error) or type(error).__name__
            if closed_at_once:
                reason += f" at its first request; does the listener speak {self.endpoint.security.protocol}?"
            raise NoAnswerError(f"{self._name} did not answer: {reason}") from error
        self._answered = True
        return answer

    def _response(self) -> bytearray:
        head = self._receive(4)
        size = struct.unpack(">i", head)[0]
        if head[:2] == _TLS_ALERT:
            raise ConnectionError("it speaks TLS; set security.protocol to SSL or SASL_SSL")
        if not _CORRELATION.size <= size <= _LONGEST_RESPONSE:
            raise ConnectionError(f"it does not speak Kafka's protocol (a response of {size} bytes)")
        self._receive(_CORRELATION.size)
        return self._receive(size - _CORRELATION.size)

    def _frame(self, request: Any, version: int) -> bytes:
        if _allowed is not None and request.API_KEY not in _allowed:
            raise ValueError(f"{type(request).__name__} must not be sent to this cluster")
        request.API_VERSION = version
        request.with_header(correlation_id=self._number(), client_id=CLIENT_ID)
        return bytes(request.encode(version=version, header=True, framed=True))

    def _number(self) -> int:
        """The next correlation id."""
        return next(self._numbers) & 0x7FFFFFFF

    def _send(self, frame: bytes, timeout_s: float) -> None:
        with self._reaching():
            connected = self._connect(timeout_s)
            connected.settimeout(timeout_s)
            connected.sendall(frame)

    def _connect(self, timeout_s: float) -> socket.socket:
        if self.broken:
            raise ConnectionError("the connection has broken")
        if not self._once and time.monotonic() >= self._until:
            self.close()
        if self._socket is None:
            self._socket = socket.create_connection(self.endpoint.address, min(timeout_s, self.timeout_s))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self.endpoint.security.plaintext:
                self._secure(self._socket)
            self._opened, self._answered, self._muted_until = True, False, 0.0
        return self._socket

    def _secure(self, plain: socket.socket) -> None:
        """TLS and SASL, as the endpoint needs them. Raises SecurityError or OSError."""
        security = self.endpoint.security
        deadline = time.monotonic() + security.handshake_s

        def limited(connected: socket.socket) -> socket.socket:
            connected.settimeout(max(0.001, deadline - time.monotonic()))
            return connected

        def exchange(request: Any, response: Any, version: int) -> Any:
            assert self._socket is not None
            limited(self._socket).sendall(self._frame(request, version))
            return _decoded(response, self._response(), version)

        try:
            if security.tls:
                encrypted = tls_context(security).wrap_socket(
                    plain, server_hostname=self.endpoint.host, do_handshake_on_connect=False
                )
                self._socket = encrypted
                limited(encrypted)
                encrypted.do_handshake()
            lifetime_s = authenticate(security, exchange)
        except TimeoutError as error:
            raise TimeoutError(
                f"the {security.protocol} handshake did not end within {security.handshake_s:g} s"
            ) from error
        except ssl.SSLEOFError as error:
            raise ConnectionError(
                f"it closed the connection; does the listener speak {security.protocol}?"
            ) from error
        except ssl.SSLError as error:
            if refusal := tls_refusal(error, security):
                raise SecurityError(refusal) from error
            raise
        # As Java's clients do, it is renewed before the broker would close it.
        self._until = time.monotonic() + 0.85 * lifetime_s if lifetime_s else float("inf")

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        """Raise NotSentError, and close the socket, if the other side cannot be reached or refuses."""
        try:
            yield
        except SecurityError as error:
            self.close()
            raise RefusedError(f"{self._name} is not used: {error}") from error
        except OSError as error:
            self.close()
            reason = str(error) or type(error).__name__
            raise NotSentError(f"{self._name} cannot be reached: {reason}") from error

    def _receive(self, size: int) -> bytearray:
        assert self._socket is not None
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            step = self._socket.recv_into(view[got:])
            if step == 0:
                raise ConnectionResetError("the connection was closed")
            got += step
        return data

    @property
    def broken(self) -> bool:
        """Whether it was open, is closed, and is not opened again."""
        return self._once and self._opened and self._socket is None

    @property
    def local(self) -> tuple[str, int] | None:
        """This end of the open connection; None if it is closed. May be asked from any thread."""
        connected = self._socket
        if connected is not None:
            with contextlib.suppress(OSError):  # closed by another thread
                host, port = connected.getsockname()[:2]
                return host, port
        return None

    @property
    def ends(self) -> str:
        """Both ends of the open connection: `198.18.1.2:40112 -> 198.18.1.3:9092`; empty if it is closed."""
        local = self.local
        return f"{local[0]}:{local[1]} -> {self._name}" if local else ""

    @property
    def _name(self) -> str:
        return str(self.endpoint)

    def close(self) -> None:
        """Close the socket, if there is one."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _decoded(response: Any, body: bytearray, version: int) -> Any:
    """A response without its correlation id, decoded. The codec copies all that it takes for the header."""
    header = io.BytesIO(bytes(_CORRELATION.size) + body[:_LONGEST_HEADER])
    response.parse_header(header, version=version)
    return response.decode(memoryview(body)[header.tell() - _CORRELATION.size :], version=version)


def _throttled_ms(response: Any) -> int:
    return int(getattr(response, "throttle_time_ms", 0) or 0)


def accepts(endpoint: Endpoint, timeout_s: float = 1.0) -> bool:
    """Whether a connection can be opened, TLS and SASL included; it is then closed without a request.

    Where there is neither, the kernel accepts it before the broker serves anybody.
    """
    with Connection(endpoint, timeout_s) as connection:
        try:
            connection.open()
        except OSError:
            return False
    return True


Target = Endpoint | Connection
"""An endpoint (a fresh connection for this call) or a Connection that is kept."""


@contextlib.contextmanager
def connected(target: Target, timeout_s: float = 2.0) -> Iterator[Connection]:
    """The connection ``target``, which stays as it is; an endpoint gets one that is closed at the end.

    ``timeout_s`` is that of such a connection (see `Connection`).
    """
    if isinstance(target, Connection):
        yield target
    else:
        with Connection(target, timeout_s) as connection:
            yield connection


def ask(target: Target, question: Question[T], timeout_s: float | None = None) -> T:
    """`Connection.ask` on ``target``."""
    with connected(target) as connection:
        return connection.ask(question, timeout_s)


def exchange(
    target: Target, request: Any, response: Any, version: int, timeout_s: float | None = None
) -> Any:
    """`Connection.call` on ``target``."""
    with connected(target) as connection:
        return connection.call(request, response, version, timeout_s)
