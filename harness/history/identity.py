"""The identity that each message carries in its value, so that it can be recognised in any log.

The value of a record is ASCII: ``acked1 <writer> <seq> <topic>/<partition> <label> <padding> <crc32>``, with
``-`` for an absent label or padding. The checksum covers everything before it. Messages of streams have a
``seq`` of `SEQ_DIGITS` digits, so that all of a topic partition have the same length.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

_MAGIC = b"acked1"
SEQ_DIGITS = 10
CHECKSUM_DIGITS = 8


@dataclass(frozen=True, kw_only=True)
class MessageIdentity:
    """The identity in a record value."""

    writer: int
    seq: int
    home: str
    """`topic/partition` to which the message was sent."""
    label: str | None
    intact: bool
    """Whether the checksum is right."""


def encode(writer: int, seq: int, topic: str, partition: int, label: str = "", size_bytes: int = 0) -> bytes:
    """The record value of a message, padded to ``size_bytes`` if it is shorter."""
    name = "_".join(label.split()) or "-"  # a space would end the field
    head = b"%s %d %d %s/%d %s " % (_MAGIC, writer, seq, topic.encode(), partition, name.encode())
    missing = size_bytes - len(head) - 9
    body = head + (b"x" * missing if missing > 0 else b"-") + b" "
    return body + b"%08x" % zlib.crc32(body)


@dataclass(frozen=True)
class ValueTemplate:
    """The values of a stream's messages in one topic partition, but for number and checksum."""

    head: bytes
    """What comes before the number; the same for all topic partitions of a stream."""
    tail: bytes
    """What comes between number and checksum."""

    @classmethod
    def of(cls, writer: int, topic: str, partition: int, size_bytes: int) -> ValueTemplate:
        """That of a topic partition; values are padded to ``size_bytes`` if they are shorter."""
        head, tail = cls.unpadded(writer, topic, partition)
        missing = size_bytes - len(head) - SEQ_DIGITS - len(tail) - 1 - CHECKSUM_DIGITS
        return cls(head, tail + (b"x" * missing if missing > 0 else b"-") + b" ")

    @staticmethod
    def unpadded(writer: int, topic: str, partition: int) -> tuple[bytes, bytes]:
        """What comes before the number, and between the number and the padding."""
        return b"%s %d " % (_MAGIC, writer), b" %s/%d - " % (topic.encode(), partition)

    def value(self, seq: int) -> bytes:
        """The record value of a message. ``seq`` is below 10 to the power of `SEQ_DIGITS`."""
        body = b"%s%010d%s" % (self.head, seq, self.tail)
        return body + b"%08x" % zlib.crc32(body)


def named(value: bytes | None) -> tuple[int, int] | None:
    """Writer and sequence in a record value; None if `decode` finds no identity in it."""
    found = _found(value)
    return None if found is None else (found[0], found[1])


def decode(value: bytes | None) -> MessageIdentity | None:
    """The identity in a record value; None if it has none, because no client of this project sent it."""
    found = _found(value)
    if value is None or found is None:
        return None
    writer, seq, checksum, parts = found
    label = parts[4].decode(errors="replace")
    return MessageIdentity(
        writer=writer,
        seq=seq,
        home=parts[3].decode(errors="replace"),
        label=None if label == "-" else label,
        intact=checksum == zlib.crc32(value[: len(value) - len(parts[6])]),
    )


def _found(value: bytes | None) -> tuple[int, int, int, list[bytes]] | None:
    """Writer, sequence and checksum in a record value, and its fields."""
    if not value or not value.startswith(_MAGIC):
        return None
    parts = value.split(b" ")
    if len(parts) != 7:
        return None
    try:
        writer, seq, checksum = int(parts[1]), int(parts[2]), int(parts[6], 16)
    except ValueError:
        return None
    if not (0 <= writer < 1 << 31 and 0 <= seq < 1 << 63):  # of a damaged record
        return None
    return writer, seq, checksum, parts
