"""ZooKeeper's four-letter words: plain-text requests that a node answers without a session."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Mapping

from harness.kafka.model import Endpoint

_CONNECTION = re.compile(r"^ */([^:\s]+):\d+\[\d+\]\(queued=\d+,recved=(\d+)", re.MULTILINE)
"""A line of the answer to `cons`: address, port, and the packets received."""


def send_word(node: Endpoint, word: str, *, timeout_s: float = 1.0) -> str:
    """Send ``word`` to a node and return its answer. Raises OSError if there is none."""
    with socket.create_connection(node.address, timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(word.encode())
        parts = []
        while part := connection.recv(4096):
            parts.append(part)
    return b"".join(parts).decode(errors="replace")


def mode(node: Endpoint, *, timeout_s: float = 1.0) -> str | None:
    """`leader`, `follower` or `standalone`; None for a node that is down or not part of a quorum."""
    try:
        answer = send_word(node, "srvr", timeout_s=timeout_s)
    except OSError:
        return None
    for line in answer.splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ").strip()
    return None


def clients(node: Endpoint, *, timeout_s: float = 1.0) -> frozenset[str]:
    """Addresses of the clients connected to a node; none for a node that is down."""
    return frozenset(received(node, timeout_s=timeout_s))


def received(node: Endpoint, *, timeout_s: float = 1.0) -> Mapping[str, int]:
    """How many packets a node has received over its present connections, by the client's address.

    Each packet, a ping as well, prolongs the client's session. Empty for a node that is down.
    """
    try:
        answer = send_word(node, "cons", timeout_s=timeout_s)
    except OSError:
        return {}
    packets_by_address: Counter[str] = Counter()
    for address, packets in _CONNECTION.findall(answer):
        packets_by_address[address] += int(packets)
    return packets_by_address


def watchers(node: Endpoint, path: str, *, timeout_s: float = 1.0) -> frozenset[str]:
    """Sessions (hexadecimal) that watch the znode ``path`` at this node; none for a node that is down.

    A node knows the watches of its own clients only, so all nodes together give all watches.
    """
    try:
        answer = send_word(node, "wchp", timeout_s=timeout_s)
    except OSError:
        return frozenset()
    sessions: set[str] = set()
    inside = False
    for line in answer.splitlines():
        if line.startswith("/"):
            inside = line.strip() == path
        elif inside and line.strip():
            sessions.add(line.strip())
    return frozenset(sessions)
