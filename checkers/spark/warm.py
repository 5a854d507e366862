"""Warms up a session: judges a tiny history once, so that classes are loaded before the real judgement."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.judge import judge_history
from checkers.run_folder import NOTHING_DECLARED, Declaration
from harness.history.schema import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHARED = {"topic": "warm-up", "partition": 0}
_OTHER = {"topic": "warm-up", "partition": 1}
_ROWS: dict[str, list[dict[str, Any]]] = {
    "sends": [
        {
            **place,
            "writer": place["partition"],
            "seq": n,
            "sent_ns": n,
            "done_ns": n,
            "outcome": "ok",
            "offset": n,
        }
        for place in (_SHARED, _OTHER)  # two partitions, so that both of Spark's Python workers start
        for n in (0, 1)
    ],
    "copies": [
        {**place, "broker": 1, "offset": 0, "epoch": 0, "writer": place["partition"], "seq": 0}
        for place in (_SHARED, _OTHER)
    ],
    "views": [{"ns": 1, "source": "broker1", "subject": "partition", "leader": 1, "epoch": 0, **_SHARED}],
    "faults": [{"ns": 0, "fault": 1, "name": "none", "kind": "link", "moment": "injected"}],
    "writers": [{"writer": n, "name": "warm-up", "acks": 1} for n in (0, 1)],
    "marks": [{"ns": 1, "name": "start"}],
}
_CLAIMS = [
    {
        "name": f"warm-up {number}",
        "says": "",
        "section": "",
        "given": "select count(*) > 0 as holds, '' as observed from marks where name = 'start'",
        "holds": query,
        "erratum": None,
    }
    for number, query in enumerate(
        (
            "select count(*) = 1 as holds, concat(count(*), ' lost') as observed from life "
            "where fate = 'lost' and writer_name = 'warm-up'",
            "select max(epoch) = 0 as holds, array_join(collect_set(epoch), ',') as observed "
            "from views where subject = 'partition' and leader = 1",
            "select bool_and(l.fate = 'kept') as holds, min(l.label) as observed from life l "
            "join sends s on s.writer = l.writer and s.seq = l.seq where exists "
            "(select 1 from faults f where f.ns <= s.sent_ns and f.moment = 'injected')",
        )
    )
]
_EXPECTED = [{"finding": "lost", "where": "acks = 1 and acked_during = 'none'", "because": ""}]


def warm_up(session: SparkSession, declared: Declaration | None = None) -> None:
    """Run every code path of a judgement on a tiny history.

    ``declared`` holds a scenario's `claims` and `expected`, whose queries also run, so that Spark has
    compiled their plans when it judges the run.
    """
    chosen: Declaration = (
        declared
        if declared
        else {
            **NOTHING_DECLARED,
            "claims": _CLAIMS,
            "expected": _EXPECTED,
        }
    )
    with tempfile.TemporaryDirectory(prefix="acked-warm-") as scratch:
        folder = Path(scratch)
        for name, rows in _ROWS.items():
            pq.write_table(pa.Table.from_pylist(rows, TABLES[name].arrow()), folder / f"{name}.parquet")
        judge_history(session, folder, None, chosen)
