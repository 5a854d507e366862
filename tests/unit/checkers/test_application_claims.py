"""Sentences about applications of Kafka Streams, on hand-written rows: true, false, and unknown."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from checkers.claims.builders.applications import application
from harness.history.schema import TABLES
from tests.runs.stored import judge_tables

APP = application("app", "in")
MARKS = {"begin": 100, "restored": 200, "read": 300, "converged": 400}
INPUTS = [
    {"topic": "in", "partition": 0, "broker": 1, "offset": seq, "writer": 7, "seq": seq} for seq in range(4)
]

SENDS = [
    {"topic": "in", "partition": 0, "writer": 7, "seq": seq, "sent_ns": seq, "outcome": "ok", "offset": seq}
    for seq in range(4)
]


def read(seq: int, offset: int, topic: str = "out", isolation: str = "read_committed") -> dict[str, Any]:
    where = {"topic": topic, "partition": 0, "offset": offset}
    return {**where, "reader": 5, "ns": 250, "writer": 7, "seq": seq, "isolation": isolation}


def instance(event: str, ns: int = 150, member: str = "m", **more: Any) -> dict[str, Any]:
    return {"ns": ns, "application": "app", "reader": 1, "member": member, "event": event, **more}


def stored(*counts: int) -> list[dict[str, Any]]:
    rows = [instance("stored", partition=0, word=f"7/{n}", count=count) for n, count in enumerate(counts)]
    return [instance("started", ns=50, words=2), *rows]


READ = [read(seq, seq) for seq in range(4)]
TWICE = [*READ, read(2, 9)]
EXACTLY = APP.counts("out", after="begin", before="read")
AT_LEAST = APP.counts("out", after="begin", before="read", once=False)
STORE = APP.store_counts("m", after="begin", before="restored")
MORE = APP.store_counts("m", after="begin", before="restored", exactly=False)


@pytest.mark.parametrize(
    ("query", "reads", "applications", "holds"),
    [
        (EXACTLY, READ, [], True),
        (EXACTLY, TWICE, [], False),
        (EXACTLY, READ[1:], [], False),
        (EXACTLY, [*READ, read(1, 9, isolation="read_uncommitted")], [], True),
        (AT_LEAST, TWICE, [], True),
        (AT_LEAST, TWICE[1:], [], False),
        (APP.counts("out", after="begin", before="read", at_least=5), READ, [], None),
        (STORE, [], stored(2, 2), True),
        (STORE, [], stored(2, 3), False),
        (STORE, [], stored(2), False),
        (MORE, [], stored(2, 3), True),
        (MORE, [], stored(2, 1), False),
        (STORE, [], [], None),
    ],
)
def test_counts(query: Any, reads: list[Any], applications: list[Any], holds: bool | None) -> None:
    assert judged(query, reads, applications) is holds


@pytest.mark.parametrize(("offsets", "holds"), [((0, 1, 2, 3), False), ((0, 1, 2, 3, 1), True), ((), False)])
def test_written_again(offsets: tuple[int, ...], holds: bool) -> None:
    written = [
        {"topic": "out", "partition": 0, "broker": broker, "offset": offset, "writer": 7, "seq": seq}
        for offset, seq in enumerate(offsets)
        for broker in (1, 2)
    ]
    assert judged(APP.is_written_again("out"), [], [], written) is holds
    assert judged(APP.is_written_again("out", at_least=2), [], [], written) is False


def test_who_processes() -> None:
    both = [
        instance("state", state="RUNNING", partitions=[0]),
        instance("state", member="n", state="RUNNING", partitions=[1]),
    ]
    all_by_m = APP.is_processed_by("m", partitions=2, at="restored")
    by_both = APP.is_processed_by("m", "n", partitions=2, at="restored")
    assert judged(by_both, [], both) is True
    assert judged(all_by_m, [], both) is False
    later = [*both, instance("state", ns=180, state="RUNNING", partitions=[0, 1])]
    assert judged(all_by_m, [], later) is True
    assert judged(by_both, [], later[:1]) is False


def judged(
    query: str,
    reads: list[dict[str, Any]],
    applications: list[dict[str, Any]],
    written: list[dict[str, Any]] | None = None,
) -> bool | None:
    marks = [{"ns": ns, "name": name, "text": name} for name, ns in MARKS.items()]
    replicas = [
        {"topic": "in", "partition": 0, "broker": 1, "complete": True, "ns": 450, "leo": 4, "leader": True}
    ]
    rows: dict[str, list[dict[str, Any]]] = {
        "copies": [*INPUTS, *(written or [])],
        "reads": reads,
        "applications": applications,
    }
    rows |= {"marks": marks, "sends": SENDS, "replicas": replicas}
    tables = {name: pa.Table.from_pylist(some, schema=TABLES[name].arrow()) for name, some in rows.items()}
    claim = {"name": "c", "says": "It is so.", "section": "1", "holds": query}
    (result,) = judge_tables(tables, {"claims": [claim]})
    return {"confirmed": True, "refuted": False, "unknown": None}[result.status]
