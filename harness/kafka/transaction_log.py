"""Records of `__transaction_state`: what coordinators write about each transactional id, in every version."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from harness.kafka.batches import Record

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""Names of `TransactionState`, by their numbers."""
_ID = struct.Struct(">hh")
"""Version of the key, and the length of the id."""
_VALUE = struct.Struct(">hqhib")
"""Version, producer id, producer epoch, time-out, state; later versions append to it."""


class LoggedTransaction(NamedTuple):
    """What the newest record of a transactional id says."""

    state: str
    """One of `STATES`."""
    producer_id: int
    producer_epoch: int
    offset: int


def newest(records: Iterable[Record], transactional_id: str) -> LoggedTransaction | None:
    """The newest record about an id; None if there is none."""
    encoded_id = transactional_id.encode()
    newest_entry = None
    for record in records:
        if record.key is None or record.value is None or len(record.value) < _VALUE.size:
            continue
        if record.key[_ID.size :] != encoded_id:
            continue
        _, producer_id, epoch, _, state = _VALUE.unpack_from(record.value)
        if 0 <= state < len(STATES):
            newest_entry = LoggedTransaction(STATES[state], producer_id, epoch, record.offset)
    return newest_entry
