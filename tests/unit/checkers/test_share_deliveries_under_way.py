"""An accept that is carried out for a later delivery, which the member has not received yet."""

from __future__ import annotations

from collections.abc import Sequence
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


def _states(stored_count: int) -> list[dict[str, Any]]:
    """What is stored at 20 s: the group is done with the record, with this delivery count."""
    base = {"group": "g", "topic": "t", "partition": 0, "ns": 20 * S, "timestamp_ms": 1, "leader_epoch": 0}
    update = {**base, "snapshot": False, "snapshot_epoch": 0}
    return [
        {**base, "snapshot": True, "snapshot_epoch": 0, "state_epoch": 1, "log_offset": 0, "start_offset": 7},
        {**update, "log_offset": 1, "start_offset": 7, "first_offset": 7, "last_offset": 7}
        | {"state": "acknowledged", "delivery_count": stored_count},
    ]


def _write(
    folder: Path,
    shares: list[dict[str, Any]],
    states: list[dict[str, Any]],
    views: Sequence[dict[str, Any]] = (),
) -> None:
    tables = {
        "sends": [],
        "copies": [],
        "replicas": [],
        "views": [*views],
        "shares": shares,
        "share_states": states,
    }
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows, TABLES[name].arrow()), folder / f"{name}.parquet")


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
    _write(folder, shares, _states(stored_count))
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


@pytest.mark.parametrize(
    ("error", "elected_s", "cause"),
    [
        pytest.param(
            6, 9, "earlier_leader", id="the next leader refuses what the member had from the last one"
        ),
        pytest.param(121, 9, "unexplained", id="the leader that has handed it out refuses"),
        pytest.param(6, 13, "unexplained", id="the accept was one of an earlier leader"),
    ],
)
def test_a_client_may_keep_a_record_from_a_leader_that_was_replaced(
    tmp_path: Path, error: int, elected_s: int, cause: str
) -> None:
    shares = [
        {"ns": 0, "group": "g", "reader": reader, "member": "m", "event": "started"} for reader in (1, 2)
    ] + [
        _row(10 * S, "acquired", delivery_count=1, lock_ms=30_000),
        _row(11 * S, "acknowledged", answer="accept"),
        _row(12 * S, "answered", answer="accept", asked_ns=11 * S, error=0),
        _row(14 * S, "acquired", delivery_count=1, lock_ms=30_000, reader=2),
        _row(15 * S, "acknowledged", answer="accept", reader=2),
        _row(16 * S, "answered", answer="accept", asked_ns=15 * S, error=error, reader=2),
    ]
    views = [
        {
            "ns": ns * S,
            "source": "broker2",
            "subject": "partition",
            "topic": "t",
            "partition": 0,
            "leader": leader,
            "epoch": epoch,
        }
        | {"isr": [2, 3], "replicas": [1, 2, 3]}
        for ns, leader, epoch in ((1, 1, 0), (elected_s, 2, 1))
    ]
    _write(tmp_path, shares, _states(1), views)
    findings = share_findings(gather(open_source(tmp_path)), TopicPartition("t", 0), ())
    assert [(row["class"], row["cause"]) for row in findings] == [("accept_lost", cause)]
