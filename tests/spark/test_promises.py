"""Judging fills the columns about promises; `acked sql` and the judgement show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.ask.sql import query
from checkers.judge import judge_history, judge_import
from checkers.run_folder import NOTHING_DECLARED
from tests.anomalies.messages import CASES
from tests.histories import History, together

pytestmark = pytest.mark.spark
PLACE = ("class", "topic", "partition", "offset", "writer", "seq")
ANSWER = ("promise", "promise_row", "promise_reason", "known_bug")


def _failover(acks: int) -> History:
    """Message 2 was acknowledged by broker 1, and broker 2 leads since then."""
    history = History().send(0, offset=0).send(1, offset=1).send(2, offset=2).logs([(0, 0), (1, 1)])
    history.add("writers", writer=1, name="w", host="client1", client="raw", acks=acks, idempotent=False)
    view = {"source": "zookeeper1", "subject": "partition", "topic": "t", "partition": 0}
    history.add("views", ns=1, leader=1, epoch=0, isr=[1, 2, 3], **view)
    return history.add("views", ns=9000, leader=2, epoch=1, isr=[2, 3], **view)


def _order(done_ns: int) -> History:
    """Two raw messages in the wrong order; the second is sent at 2000 ns."""
    history = History().send(1, offset=1, done_ns=done_ns).send(2, offset=0).logs([(0, 2), (1, 1)])
    return history.add("writers", writer=1, name="w", host="client1", client="raw", acks=1, idempotent=False)


def _twice(*producer_ids: int) -> History:
    """An idempotent producer's message, written twice."""
    rows = [
        {"offset": offset, "seq": 0, "producer_id": number, "producer_epoch": 0, "sequence": 0}
        for offset, number in enumerate(producer_ids)
    ]
    history = History().send(0, offset=0).logs(rows)
    writer = {"name": "w", "host": "client1", "client": "librdkafka", "acks": -1, "idempotent": True}
    return history.add("writers", writer=1, retries=5, **writer)


def _aborted() -> History:
    """A message of an aborted transaction, received by a reader with read_committed."""
    history = History().send(0, offset=0, txn=1).logs([(0, 0)])
    history.add("transactions", ns=2000, writer=1, txn=1, event="aborted")
    return history.read(0, 0, 3000, isolation="read_committed")


RUNS = {
    "acks-1": _failover(1),
    "acks-all": _failover(-1),
    "sent-together": _order(2500),
    "one-after-the-other": _order(1500),
    "one-session": _twice(7, 7),
    "two-sessions": _twice(7, 8),
    "aborted": _aborted(),
}
EXPECTED = {
    "acks-1": ("lost", "not promised", "acks-1-leader"),
    "acks-all": ("lost", "broken", "committed"),
    "sent-together": ("out_of_order", "not promised", "order-of-connections"),
    "one-after-the-other": ("out_of_order", "broken", "order"),
    "one-session": ("duplicated", "broken", "duplicate-idempotent"),
    "two-sessions": ("duplicated", "not promised", "duplicate-of-another-session"),
    "aborted": ("aborted_read", "broken", "read-committed"),
}


def _judged(folder: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    rows = pq.read_table(folder / "findings.parquet").to_pylist()
    return {tuple(row[name] for name in PLACE): tuple(row[name] for name in ANSWER) for row in rows}


@pytest.mark.long
def test_each_finding_is_judged(spark: Any, tmp_path: Path) -> None:
    others = {name: history for name, (_, history, _) in list(CASES.items())[:12]}
    folder = together(RUNS | others, tmp_path / "runs")
    judge_import(spark, folder)
    answers = _judged(folder)
    assert all(answer[0] for answer in answers.values())
    judged = {place[1]: (place[0], *answer[:2]) for place, answer in answers.items() if place[1] in RUNS}
    assert judged == EXPECTED


def test_the_judgement_counts_promises_and_sql_reads_them(spark: Any, tmp_path: Path) -> None:
    folder = _failover(1).write(tmp_path)
    judgement = judge_import(spark, folder)
    (row,) = judgement.promises
    assert (row["promise"], row["row"], row["class"], row["count"]) == (
        "not promised",
        "acks-1-leader",
        "lost",
        1,
    )
    text = "SELECT promise, promise_row, count(*) FROM findings GROUP BY ALL"
    assert query(spark, text, [folder])[1] == [("not promised", "acks-1-leader", 1)]


def test_a_run_without_findings_has_no_promises(spark: Any, tmp_path: Path) -> None:
    history = History().send(0, offset=0).logs([(0, 0)])
    assert judge_import(spark, history.write(tmp_path)).promises == ()


def test_no_table_of_an_earlier_history_is_used(spark: Any, tmp_path: Path) -> None:
    """One session judges one run after the other; `transaction_records` decides about an aborted read."""
    stale = ("transaction_records", "transaction_fates", "findings")
    for name in stale:
        spark.sql("SELECT 'another run' AS writer").createOrReplaceTempView(name)
    folder = _aborted().write(tmp_path)
    judge_import(spark, folder)
    assert [answer[:2] for place, answer in _judged(folder).items() if place[0] == "aborted_read"] == [
        EXPECTED["aborted"][1:]
    ]
    assert not [name for name in stale if spark.catalog.tableExists(name)]


@pytest.mark.parametrize(
    ("acks", "verdict", "expected"), [(1, "as declared", {"lost": 1}), (-1, "violated", {})]
)
def test_a_run_that_promises_judge(
    spark: Any, tmp_path: Path, acks: int, verdict: str, expected: dict[str, int]
) -> None:
    """A loss that Kafka does not promise to prevent is expected; every place of the judgement says so."""
    history = _failover(acks).write(tmp_path)
    judgement = judge_history(spark, history, tmp_path, {**NOTHING_DECLARED, "judged_by": "promises"})
    assert (judgement.verdict, judgement.expected_by_class, judgement.judged_by) == (
        verdict,
        expected,
        "promises",
    )
    rows = pq.read_table(tmp_path / "findings.parquet", columns=["class", "expected"]).to_pylist()
    assert [row["expected"] for row in rows if row["class"] == "lost"] == [acks == 1]
    undeclared = judge_history(spark, history, None)
    assert undeclared.verdict == "violated"
