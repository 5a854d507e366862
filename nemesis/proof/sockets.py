"""The TCP sockets of a host and the bytes that each has sent and received, as `ss -tino` shows them.

This module asks the kernel by sock_diag instead of running `ss`, because it also needs the last state of a
socket that was just destroyed. The kernel reports that to its listeners. Standard library of Python 3.6 only;
the probe agent runs it inside a host.
"""

from __future__ import annotations

import errno
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import TypeAlias

SocketRow: TypeAlias = "dict[str, object]"
"""One socket: `local` and `remote` (address and port), `state`, `orphan`, `timer`, and counters in bytes."""
Key: TypeAlias = "tuple[str, int, str, int]"
"""Local address and port, remote address and port."""

STATES = (
    *("", "ESTAB", "SYN-SENT", "SYN-RECV", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT"),
    *("CLOSED", "CLOSE-WAIT", "LAST-ACK", "LISTEN", "CLOSING", "NEW-SYN-RECV"),
)
TIMERS = ("off", "on", "keepalive", "timewait", "persist")
_SOCK_DIAG = 4
_BY_FAMILY = 20
_TCP_OF_BOTH_FAMILIES = 18
"""The older request, which finds IPv4 and IPv6 sockets in one walk through the kernel's table: a walk through
many buckets takes milliseconds."""
_REQUEST_DUMP = 0x301
_ALL_STATES = 0xFFFF
_DONE, _ERROR = 3, 2
_DESTROYED_TCP4, _DESTROYED_TCP6 = 1 << 0, 1 << 2
_INFO = 2
_HEADER = struct.Struct("=IHHII")
_MESSAGE = 72
_TCP_INFO = {"rto_us": ("=I", 8), "acked": ("=Q", 120), "received": ("=Q", 128), "notsent": ("=I", 144)}
_SENT, _SENT_AGAIN = ("=Q", 200), ("=Q", 208)
_BUFFER_BYTES = 4 << 20


def sockets(chosen: Iterable[Key]) -> dict[Key, SocketRow]:
    """The sockets of these connections that exist now, in any state, also without a process."""
    keys = set(chosen)
    return {key: row for key, row in _dump() if key in keys}


def connected(remote: str, port: int) -> list[SocketRow]:
    """Established connections to a port of an address."""
    return [row for key, row in _dump() if key[2:] == (remote, port) and row["state"] == "ESTAB"]


def backlog(remotes: Iterable[str]) -> list[SocketRow]:
    """Connections to these addresses with unacknowledged data that a timer sends again."""
    addresses = set(remotes)
    return [
        row
        for (*_, remote, _), row in _dump()
        if remote in addresses
        and row["state"] not in ("SYN-SENT", "SYN-RECV", "NEW-SYN-RECV")
        and row.get("backoff", 0)
        and int(str(row["send_q"])) > (row["state"] in ("FIN-WAIT-1", "LAST-ACK", "CLOSING"))
    ]


class SocketWatch:
    """Remembers the last state of connections' sockets when the kernel destroys them."""

    def __init__(self, keys: Iterable[Key]) -> None:
        """Listens until `close`."""
        self._keys = set(keys)
        self._destroyed: dict[Key, SocketRow] = {}
        self._socket = _netlink(_DESTROYED_TCP4 | _DESTROYED_TCP6)
        threading.Thread(target=self._listen, name="sockets", daemon=True).start()

    def destroyed(self) -> dict[Key, SocketRow]:
        """What was destroyed so far."""
        return dict(self._destroyed)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except OSError as error:
                if error.errno == errno.ENOBUFS:  # more events at once than the buffer holds
                    continue
                return
            for key, row in _rows(data):
                if key in self._keys:
                    self._destroyed[key] = row


def _netlink(groups: int = 0) -> socket.socket:
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
    netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    netlink.bind((0, groups))
    return netlink


def _dump() -> Iterator[tuple[Key, SocketRow]]:
    with _netlink() as asked:
        request = struct.pack("=BBBB48xII", socket.AF_INET, 0, 0, 1 << (_INFO - 1), _ALL_STATES, 0)
        header = _HEADER.pack(_HEADER.size + len(request), _TCP_OF_BOTH_FAMILIES, _REQUEST_DUMP, 1, 0)
        asked.send(header + request)
        done = False
        while not done:
            data = asked.recv(1 << 18)
            done = any(kind in (_DONE, _ERROR) for kind, _ in _messages(data))
            yield from _rows(data)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def _rows(data: bytes) -> Iterator[tuple[Key, SocketRow]]:
    for kind, body in _messages(data):
        if kind not in (_BY_FAMILY, _TCP_OF_BOTH_FAMILIES) or len(body) < _MESSAGE:
            continue
        family, state, timer, _ = struct.unpack_from("4B", body)
        port, remote_port = struct.unpack_from("!HH", body, 4)
        local, remote = _address(family, body[8:24]), _address(family, body[24:40])
        expires_ms, unread, unacknowledged, _, inode = struct.unpack_from("=5I", body, 52)
        row: SocketRow = {
            "local": [local, port],
            "remote": [remote, remote_port],
            "state": STATES[state] if state < len(STATES) else str(state),
            "orphan": inode == 0,
            "timer": TIMERS[timer] if timer < len(TIMERS) else str(timer),
            "expires_ms": expires_ms,
            "recv_q": unread,
            "send_q": unacknowledged,
        }
        info = _attribute(body[_MESSAGE:], _INFO)
        if info is not None and len(info) >= _SENT_AGAIN[1] + 8:
            values = {name: _at(info, place) for name, place in _TCP_INFO.items()}
            sent = _at(info, _SENT) - _at(info, _SENT_AGAIN) + values.pop("notsent")
            row.update(values, written=sent, backoff=info[4])
        yield (local, port, remote, remote_port), row


def _at(info: bytes, place: tuple[str, int]) -> int:
    value: int = struct.unpack_from(place[0], info, place[1])[0]
    return value


def _attribute(data: bytes, number: int) -> bytes | None:
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return None
        if kind == number:
            return data[at + 4 : at + length]
        at += (length + 3) & ~3
    return None


def _address(family: int, raw: bytes) -> str:
    """The IPv4 address, also of an IPv6 socket; Java opens only those."""
    if family == socket.AF_INET:
        return socket.inet_ntoa(raw[:4])
    if raw[:12] == bytes(10) + b"\xff\xff":
        return socket.inet_ntoa(raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)
