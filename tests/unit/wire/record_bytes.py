"""Record batches for tests, built by the libraries that clients use."""

from __future__ import annotations

import struct

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder


def batch(
    offset: int,
    *values: bytes,
    epoch: int = 0,
    compression: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """A batch of format 2 at ``offset`` in leader epoch ``epoch``, as a broker stores it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=int(transactional),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for number, value in enumerate(values):
        builder.append(number, timestamp=1000 + number, key=None, value=value, headers=[])
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, offset)
    struct.pack_into(">i", raw, 12, epoch)
    return bytes(raw)


def message(offset: int, value: bytes, magic: int = 1) -> bytes:
    """A message of format 0 or 1 at ``offset``."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    builder.append(offset, timestamp=1000, key=None, value=value)
    return bytes(builder.build())
