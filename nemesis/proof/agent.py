"""The agent that probes links from inside a host: one JSON request per line in, one answer out.

Standard library and grammar of Python 3.6 only, because it also runs in hosts of others. It is started
once per host (`python -m nemesis.proof.agent`), so a probe costs a few milliseconds. It ends with its
standard input, and holds nothing but sockets.

A connection is `open`, `refused` (a reset came back: the network works), `silent` (nothing came back) or
`unreachable`. A held connection is `alive` when the peer's kernel acknowledged a byte, `reset`, or `silent`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import select
import socket
import struct
import sys
import termios
import time
from collections.abc import Sequence
from typing import Any

from nemesis.proof.half_open import HalfOpenProbes
from nemesis.proof.sockets import Key, SocketWatch, backlog, connected, sockets

_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)
_RESET = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)


class _HeldSockets:
    """Connections held from before a fault until after it, by a key that the harness chooses."""

    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}

    def send(self, keys: list[str]) -> dict[str, str]:
        """Send a byte on each; returns the state of those that fail at once."""
        states: dict[str, str] = {}
        for key in keys:
            held = self.sockets.get(key)
            if held is None:
                states[key] = "gone"
                continue
            try:
                held.send(b"\0")
            except OSError as error:
                states[key] = "reset" if error.errno in _RESET else "silent"
        return states

    def answers(self, keys: list[str], deadline: float) -> dict[str, str]:
        """Wait until ``deadline`` for the acknowledgements of the bytes sent; returns the states."""
        states: dict[str, str] = {}
        while True:
            for key in keys:
                state = None if key in states else _acknowledged(self.sockets[key])
                if state is not None:
                    states[key] = state
            if len(states) == len(keys) or time.monotonic() >= deadline:
                break
            select.select([], [], [], 0.005)
        return {key: states.get(key, "silent") for key in keys}

    def close(self) -> None:
        for held in self.sockets.values():
            if _unacknowledged(held):  # a reset: the kernel would send them long after the fault
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            held.close()
        self.sockets.clear()


def _acknowledged(held: socket.socket) -> str | None:
    if held.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        return "reset"
    try:
        if held.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
            return "reset"
    except BlockingIOError:
        pass
    except OSError:
        return "reset"
    return None if _unacknowledged(held) else "alive"


def _unacknowledged(held: socket.socket) -> int:
    """Bytes in the send queue."""
    unacknowledged: int = struct.unpack("i", fcntl.ioctl(held, termios.TIOCOUTQ, b"\0\0\0\0"))[0]
    return unacknowledged


def _connect(targets: list[list[Any]], deadline: float) -> tuple[dict[str, str], dict[str, socket.socket]]:
    states: dict[str, str] = {}
    pending: dict[int, tuple[str, socket.socket]] = {}
    opened: dict[str, socket.socket] = {}
    poller = select.poll()
    for key, address, port in targets:
        sock = socket.socket()
        sock.setblocking(False)
        number = sock.connect_ex((address, port))
        if number not in (0, errno.EINPROGRESS):
            states[key] = _named(number)
            sock.close()
            continue
        pending[sock.fileno()] = (key, sock)
        poller.register(sock, select.POLLOUT)
    while pending:
        left_ms = (deadline - time.monotonic()) * 1000
        events = poller.poll(max(left_ms, 0))
        for number, _event in events:
            key, sock = pending.pop(number)
            poller.unregister(number)
            states[key] = _named(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            if states[key] == "open":
                opened[key] = sock
            else:
                sock.close()
        if not events and left_ms <= 0:
            break
    for key, sock in pending.values():
        states[key] = "silent"
        sock.close()
    return states, opened


def _quietly(targets: list[list[Any]]) -> tuple[HalfOpenProbes | None, list[list[Any]]]:
    """Half-open probes that were sent, and the targets that need an ordinary connection instead."""
    if not targets:
        return None, []
    try:
        probes = HalfOpenProbes()
    except PermissionError:
        return None, targets
    for key, address, port in targets:
        probes.send(key, address, port)
    return probes, []


def _named(number: int) -> str:
    if number == 0:
        return "open"
    if number == errno.ECONNREFUSED:
        return "refused"
    return "unreachable" if number in _UNREACHABLE else "silent"


def _flood(address: str, port: int, count: int, size_bytes: int) -> int:
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        for _ in range(count):
            try:
                sent += sock.sendto(b"\0" * size_bytes, (address, port)) > 0
            except OSError as error:  # a rate limit shows as a full queue
                if error.errno not in (errno.EPERM, errno.ENOBUFS, errno.ECONNREFUSED, errno.EAGAIN):
                    raise
    return sent


def _round_trips_ms(address: str, port: int, count: int, within_s: float) -> list[float]:
    taken = []
    for _ in range(count):
        began = time.monotonic()
        _, opened = _connect([["x", address, port]], began + within_s)
        taken.append((time.monotonic() - began) * 1000)
        for sock in opened.values():
            sock.close()
    return taken


class _WatchedSockets:
    """The sockets of connections that a fault holds, by the fault's number."""

    def __init__(self) -> None:
        self._watches: dict[int, tuple[list[Key], SocketWatch]] = {}

    def start(self, fault: int, keys: list[Key]) -> None:
        self.stop(fault)
        self._watches[fault] = keys, SocketWatch(keys)

    def stop(self, fault: int) -> None:
        if fault in self._watches:
            self._watches.pop(fault)[1].close()

    def seen(self, fault: int) -> dict[str, Any]:
        keys, watch = self._watches[fault]
        live = sockets(keys)  # before the destroyed ones, so that no socket is missing from both
        return {"live": list(live.values()), "destroyed": list(watch.destroyed().values())}


def serve(held: _HeldSockets, watched: _WatchedSockets, request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; the functions of this module say what each operation does."""
    deadline = time.monotonic() + request.get("within_s", 0.3)
    operation = request["op"]
    if operation == "connect":
        # These bytes travel while the connections below are opened.
        kept = held.send(request.get("check", []))
        quiet, loud = _quietly(request.get("quiet", []))
        states, opened = _connect(request["targets"] + loud, deadline)
        if quiet is not None:
            states.update(quiet.answers(deadline))
            quiet.close()
        keep = set(request.get("keep", ()))
        for key, sock in opened.items():
            if key in keep:
                held.sockets[key] = sock
            else:
                sock.close()
        kept.update(held.answers([key for key in request.get("check", []) if key not in kept], deadline))
        return {"new": states, "held": kept}
    if operation == "release":
        held.close()
        return {}
    if operation == "flood":
        where = request["address"], request["port"]
        return {"sent": _flood(*where, request["count"], request["size_bytes"])}
    if operation == "round_trips":
        return {"ms": _round_trips_ms(request["address"], request["port"], request["count"], 5.0)}
    if operation == "connections":
        return {"found": [row for address, port in request["to"] for row in connected(address, port)]}
    if operation == "backlog":
        return {"found": backlog(request["to"])}
    if operation == "watch":
        watched.start(request["fault"], [_key(key) for key in request["sockets"]])
        return {}
    if operation == "sockets":
        return watched.seen(request["fault"])
    if operation == "unwatch":
        watched.stop(request["fault"])
        return {}
    return {"error": f"unknown operation {operation!r}"}


def _key(words: list[Any]) -> Key:
    local, port, remote, remote_port = words
    return local, port, remote, remote_port


def main(_arguments: Sequence[str] = ()) -> None:
    """Serve requests until standard input ends."""
    held, watched = _HeldSockets(), _WatchedSockets()
    sys.stdout.write('{"ready": true}\n')
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(serve(held, watched, json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
