"""How a message carries its own identity, so that a log read alone is enough to recognise it.

The value of a record is ASCII: ``acked1 <writer> <seq> <topic>/<partition> <label> <padding> <crc32>``,
with ``-`` for an absent label or padding. The checksum covers all that stands before it.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

_MAGIC = b"acked1"


@dataclass(frozen=True)
class Identity:
    """Who a message says it is; ``intact`` is false when its checksum does not hold."""

    writer: int
    seq: int
    home: str
    label: str | None
    intact: bool


def encode(writer: int, seq: int, topic: str, partition: int, label: str = "", size_bytes: int = 0) -> bytes:
    """The record value of a message, padded to at least ``size_bytes``."""
    name = "_".join(label.split()) or "-"  # a blank would end the field
    head = b"%s %d %d %s/%d %s " % (_MAGIC, writer, seq, topic.encode(), partition, name.encode())
    missing = size_bytes - len(head) - 9
    body = head + (b"x" * missing if missing > 0 else b"-") + b" "
    return body + b"%08x" % zlib.crc32(body)


def decode(value: bytes | None) -> Identity | None:
    """The identity in a record value, or None for a record that no writer of ours sent."""
    if not value or not value.startswith(_MAGIC):
        return None
    parts = bytes(value).split(b" ")
    if len(parts) != 7:
        return None
    try:
        writer, seq = int(parts[1]), int(parts[2])
        intact = int(parts[6], 16) == zlib.crc32(value[: len(value) - len(parts[6])])
    except ValueError:
        return None
    label = parts[4].decode(errors="replace")
    return Identity(writer, seq, parts[3].decode(errors="replace"), None if label == "-" else label, intact)
