"""Looks up single messages in a history, for the findings whose promise depends on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from checkers.evidence import Evidence
from checkers.promises.facts import Message
from checkers.spark.views import table_frame
from checkers.tables.source import Source
from checkers.transactions.answers import ABORTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT = 10_000
"""At most this many messages are looked up; a promise that depends on a further message is unknown."""
_NAMED = "named_in_findings"

_LATER = f"""
    SELECT n.writer, n.seq, bool_or(later.sent_ns < l.done_ns) AS overlapped
    FROM {_NAMED} n
    JOIN life l ON l.writer = n.writer AND l.seq = n.seq
    JOIN life later ON later.writer = n.writer AND later.seq > n.seq AND later.topic = l.topic
        AND later.partition = l.partition AND later.outcome = 'ok' AND later.found_offset < l.found_offset
    GROUP BY n.writer, n.seq"""
_PRODUCERS = f"""
    SELECT writer, seq, count(DISTINCT producer_id) AS sessions,
        count(DISTINCT producer_id, producer_epoch) AS epochs, max(done_ns - sent_ns) AS took_ns
    FROM {_NAMED} GROUP BY writer, seq"""


def messages_of(
    session: SparkSession,
    source: Source,
    evidence: Evidence,
    findings_of: Callable[[Sequence[str]], pa.Table],
    classes: AbstractSet[str],
    life: DataFrame,
) -> dict[tuple[int, int], Message]:
    """Messages by writer and seq; ``classes`` are those of the findings."""
    listed = [name for name in ("aborted_read", "duplicated", "out_of_order") if name in classes]
    rows = findings_of(listed).select(["class", "writer", "seq"]).to_pylist() if listed else []
    named: dict[str, set[tuple[int, int]]] = {}
    for row in rows:
        if row["writer"] is not None and row["seq"] is not None and _needed(row, evidence):
            named.setdefault(row["class"], set()).add((row["writer"], row["seq"]))
    messages: dict[tuple[int, int], Message] = {}
    if "aborted_read" in named:
        frame = _named(session, named["aborted_read"])
        columns = frame.join(life, ["writer", "seq"]).select("writer", "seq", "outcome", "txn", "state")
        for row in columns.toArrow().to_pylist():
            messages[row["writer"], row["seq"]] = Message(
                outcome=row["outcome"], aborted=row["txn"] is not None and _aborted(evidence, row)
            )
    if "out_of_order" in named:
        _named(session, named["out_of_order"]).createOrReplaceTempView(_NAMED)
        life.createOrReplaceTempView("life")
        for row in session.sql(_LATER).toArrow().to_pylist():
            messages[row["writer"], row["seq"]] = Message(overlapped=row["overlapped"])
        session.catalog.dropTempView(_NAMED)
    if "duplicated" in named:
        frame = table_frame(session, source, "copies").filter("producer_id >= 0")
        times = life.select("writer", "seq", "sent_ns", "done_ns")
        records_of = frame.join(_named(session, named["duplicated"]), ["writer", "seq"])
        records_of.join(times, ["writer", "seq"]).createOrReplaceTempView(_NAMED)
        for row in session.sql(_PRODUCERS).toArrow().to_pylist():
            messages[row["writer"], row["seq"]] = Message(
                sessions=row["sessions"], epochs=row["epochs"], took_ns=row["took_ns"]
            )
        session.catalog.dropTempView(_NAMED)
    return messages


def _aborted(evidence: Evidence, row: dict[str, Any]) -> bool:
    if row["state"] == "aborted":
        return True
    transactions = evidence.transactions
    rows = transactions.find(np.array([row["writer"]]), np.array([row["txn"]]))
    return int(transactions.reported_of(rows)[0]) == ABORTED


def _needed(row: dict[str, Any], evidence: Evidence) -> bool:
    writer = evidence.writers.get(row["writer"], {})
    if row["class"] == "duplicated":
        return bool(writer.get("idempotent"))
    return row["class"] != "out_of_order" or writer.get("client") == "raw"


def _named(session: SparkSession, messages: AbstractSet[tuple[int, int]]) -> DataFrame:
    return session.createDataFrame(sorted(messages)[:LIMIT], "writer int, seq bigint")
