"""ZooKeeper's four-letter words: the plain-text questions that a node answers without a session."""

from __future__ import annotations

import socket


def ask(address: str, word: str, *, port: int = 2181, timeout_s: float = 1.0) -> str:
    """What the node at ``address`` answers to ``word``. Raises OSError when it does not."""
    with socket.create_connection((address, port), timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(word.encode())
        parts = []
        while part := connection.recv(4096):
            parts.append(part)
    return b"".join(parts).decode(errors="replace")


def mode(address: str, *, port: int = 2181, timeout_s: float = 1.0) -> str | None:
    """`leader`, `follower` or `standalone`; None for a node that is down or outside of a quorum."""
    try:
        answer = ask(address, "srvr", port=port, timeout_s=timeout_s)
    except OSError:
        return None
    for line in answer.splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ").strip()
    return None


def watchers(address: str, path: str, *, port: int = 2181, timeout_s: float = 1.0) -> frozenset[str]:
    """Sessions (hexadecimal) whose watch on the znode ``path`` this node keeps; none for a node that is down.

    A node knows the watches of its own clients only: ask all of them for all watches.
    """
    try:
        answer = ask(address, "wchp", port=port, timeout_s=timeout_s)
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
