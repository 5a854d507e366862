"""An accept that is carried out for a later delivery, which the member has not received yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.evidence import gather
from checkers.shares.findings import share_findings
from checkers.tables.source import open_source
from harness.history.schema import TABLES
from harness.kafka.model import TopicPartition

S = 10**9
T = {"topic": "t", "partition": 0, "offset": 7}


def _row(ns: int, event: str, **more: Any) -> dict[str, Any]:
    return {"ns": ns, "group": "g", "reader": 1, "member": "m", "event": event, **T, **more}


def _classes(folder: Path, error: int, stored_count: int) -> list[str]:
    """A member is handed a record, accepts it, and has then received it again, with the count 2.

    ``error``: what its second accept gets; ``stored_count``: the delivery count with which it is done.
    """
    shares = [
        {"ns": 0, "group": "g", "reader": 1, "member": "m", "event": "started"},
        _row(10 * S, "acquired", delivery_count=1, lock_ms=30_000),
        _row(11 * S, "acknowledged", answer="accept"),
        _row(12 * S, "answered", answer="accept", asked_ns=11 * S, error=0),
        _row(13 * S, "acquired", delivery_count=2, lock_ms=30_000),
        _row(14 * S, "acknowledged", answer="accept"),
        _row(15 * S, "answered", answer="accept", asked_ns=14 * S, error=error),
    ]
    base = {"group": "g", "topic": "t", "partition": 0, "ns": 20 * S, "timestamp_ms": 1, "leader_epoch": 0}
    update = {**base, "snapshot": False, "snapshot_epoch": 0}
    states = [
        {**base, "snapshot": True, "snapshot_epoch": 0, "state_epoch": 1, "log_offset": 0, "start_offset": 7},
        {**update, "log_offset": 1, "start_offset": 7, "first_offset": 7, "last_offset": 7}
        | {"state": "acknowledged", "delivery_count": stored_count},
    ]
    for name, rows in (
        ("sends", []),
        ("copies", []),
        ("replicas", []),
        ("shares", shares),
        ("share_states", states),
    ):
        pq.write_table(pa.Table.from_pylist(rows, TABLES[name].arrow()), folder / f"{name}.parquet")
    findings = share_findings(gather(open_source(folder)), TopicPartition("t", 0), ())
    return [row["class"] for row in findings]


@pytest.mark.parametrize(
    ("error", "stored_count", "classes"),
    [
        pytest.param(121, 2, [], id="the accept is stored with the count of the second delivery"),
        pytest.param(121, 1, ["accept_lost"], id="the record was done when it was handed out again"),
        pytest.param(0, 2, ["accept_lost"], id="only the second accept is stored"),
    ],
)
def test_which_delivery_was_accepted(
    tmp_path: Path, error: int, stored_count: int, classes: list[str]
) -> None:
    assert _classes(tmp_path, error, stored_count) == classes
