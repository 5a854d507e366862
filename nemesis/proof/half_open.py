"""Half-open probes: one SYN and its response; the process behind the port does not notice.

ZooKeeper's peer ports need that: a connection that is opened and closed again makes its leader log an error
and start a thread. The kernel answers an unexpected SYN-ACK with a reset, so nothing stays behind. Standard
library of Python 3.6 only; needs the right to use raw sockets (the fallback is an ordinary connection).
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time

_SYN, _RST, _SYN_ACK = 0x02, 0x04, 0x12
_REPEAT_S = 0.25
_TCP = struct.Struct("!HHIIBBHHH")


class HalfOpenProbes:
    """SYNs without a response yet, by a key that the caller chooses."""

    def __init__(self) -> None:
        """Raises PermissionError if raw sockets are not allowed."""
        self._raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        self._raw.setblocking(False)
        self._reserved: list[socket.socket] = []
        self._waiting: dict[tuple[str, int, int], str] = {}

    def send(self, key: str, address: str, port: int) -> None:
        """Send a SYN from a port that is reserved for this probe."""
        reserved = socket.socket()
        reserved.bind(("", 0))
        self._reserved.append(reserved)
        own_port = reserved.getsockname()[1]
        self._waiting[address, port, own_port] = key
        self._emit(address, port, own_port)

    def answers(self, deadline: float) -> dict[str, str]:
        """`open`, `refused` or, once ``deadline`` has passed, `silent` for each key."""
        states: dict[str, str] = {}
        repeat = time.monotonic() + _REPEAT_S
        while self._waiting:
            left_s = min(deadline, repeat) - time.monotonic()
            if select.select([self._raw], [], [], max(left_s, 0))[0]:
                self._receive(states)
            elif time.monotonic() >= deadline:
                break
            else:
                repeat = time.monotonic() + _REPEAT_S
                for address, port, own_port in self._waiting:
                    self._emit(address, port, own_port)
        states.update(dict.fromkeys(self._waiting.values(), "silent"))
        return states

    def close(self) -> None:
        """Release the ports."""
        self._raw.close()
        for reserved in self._reserved:
            reserved.close()

    def _receive(self, states: dict[str, str]) -> None:
        packet, (address, _) = self._raw.recvfrom(128)
        header = (packet[0] & 0x0F) * 4
        port, own_port = struct.unpack_from("!HH", packet, header)
        flags = packet[header + 13]
        state = "open" if flags & _SYN_ACK == _SYN_ACK else "refused" if flags & _RST else ""
        if state and (address, port, own_port) in self._waiting:
            states[self._waiting.pop((address, port, own_port))] = state

    def _emit(self, address: str, port: int, own_port: int) -> None:
        sequence = int.from_bytes(os.urandom(4), "big")
        head = _TCP.pack(own_port, port, sequence, 0, 5 << 4, _SYN, 64240, 0, 0)
        try:
            pseudo = socket.inet_aton(_own_address(address)) + socket.inet_aton(address)
            checksum = _checksum(pseudo + struct.pack("!BBH", 0, socket.IPPROTO_TCP, len(head)) + head)
            self._raw.sendto(head[:16] + struct.pack("!H", checksum) + head[18:], (address, 0))
        except OSError:  # its network is gone, or a rule of somebody else drops what this host sends
            return


def _own_address(towards: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((towards, 9))
        return str(sock.getsockname()[0])


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
