"""The views of blocked readers and of when transactions became readable, against brute force."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from checkers.ask.sql import query
from checkers.claims.understood import make_empty_tables, refused
from checkers.judge import judge_history, judge_import
from checkers.run_folder import NOTHING_DECLARED
from report.model.blocked import blocked_readers
from report.model.tables import RunTables
from tests.histories import History

pytestmark = pytest.mark.spark

OFFSETS = 4


def drawn(seed: int) -> History:
    """Transactions of two records in each of two partitions, and the watermarks of three replicas."""
    draw, history = random.Random(seed), History()
    history.add("writers", writer=1, name="p", transactional_id="x", client="raw")
    for txn in range(2):
        begin = draw.randrange(0, 30)
        history.add("transactions", ns=begin, writer=1, txn=txn, event="begin")
        history.add("transactions", ns=begin + 1, writer=1, txn=txn, event="committing")
        if draw.random() < 0.7:
            history.add("transactions", ns=begin + 2, writer=1, txn=txn, event="committed")
    for partition in (0, 1):
        log: list[dict[str, Any]] = []
        for txn in range(2):
            seq = 2 * txn + partition
            history.send(seq, offset=len(log), txn=txn, partition=partition)
            kind = draw.choice(("commit", "commit", "abort"))
            log.append(_record(len(log), seq))
            log.append(_record(len(log), None) | {"control": True, "marker": kind, "coordinator_epoch": 0})
        history.logs(log, partition=partition)
        for broker in (1, 2, 3):
            history.replica(
                broker, partition=partition, leader=broker == 1, leo=OFFSETS, high_watermark=OFFSETS
            )
            for ns in sorted(draw.sample(range(60), draw.randrange(0, 12))):
                high = draw.randrange(OFFSETS + 1)
                stable = draw.choice((None, *range(high + 1)))
                place = {"topic": "t", "partition": partition, "broker": broker}
                history.add("watermarks", ns=ns, high_watermark=high, last_stable_offset=stable, **place)
        for ns in sorted(draw.sample(range(60), 3)):
            leader = {"topic": "t", "partition": partition, "leader": draw.randrange(1, 4), "epoch": ns}
            history.add("views", ns=ns, source="broker1", subject="partition", **leader)
    return history


def _record(offset: int, seq: int | None) -> dict[str, Any]:
    producer = {"producer_id": 7, "producer_epoch": 0, "transactional": True, "control": False}
    return {"offset": offset, "seq": seq, "writer": None if seq is None else 1, **producer}


def readable(history: History) -> set[tuple[Any, ...]]:
    """Transaction, partition, broker, offset, first and lasting time, leader."""
    rows = history.rows
    moments: set[tuple[Any, ...]] = set()
    for send in rows["sends"]:
        partition, offset = send["partition"], send["offset"]
        marker = next(
            row["marker"]
            for row in rows["copies"]
            if row["partition"] == partition and row["broker"] == 1 and row["offset"] == offset + 1
        )
        if marker == "abort":
            continue
        (begin,) = (
            row["ns"] for row in rows["transactions"] if (row["txn"], row["event"]) == (send["txn"], "begin")
        )
        for broker in (1, 2, 3):
            seen = [
                row
                for row in rows.get("watermarks", [])
                if (row["partition"], row["broker"]) == (partition, broker)
                and row["last_stable_offset"] is not None
            ]
            if not seen:
                continue
            since = None
            for row in seen:
                above = row["last_stable_offset"] > offset
                since = (row["ns"] if since is None else since) if above else None
            first = next((row["ns"] for row in seen if row["last_stable_offset"] > offset), None)
            if first is not None and first < begin:
                first = since
            leaders = [
                row["leader"]
                for row in rows["views"]
                if row["partition"] == partition and first is not None and row["ns"] <= first
            ]
            leader = leaders[-1] if leaders else None
            moments.add((send["txn"], partition, broker, offset, first, since, leader))
    return moments


@pytest.mark.long
def test_when_each_replica_let_readers_have_a_transaction(spark: Any, tmp_path: Path) -> None:
    histories = {f"seed-{seed}": drawn(seed) for seed in range(8)}
    for name, history in histories.items():
        judge_import(spark, history.write(tmp_path / name))
    folders = [tmp_path / name for name in histories]
    text = "SELECT run, txn, partition, broker, offset, first_ns, since_ns, leader FROM readable_since"
    _, rows = query(spark, text, folders)
    _, blocks = query(
        spark, "SELECT run, broker, from_ns, until_ns, offset, txn FROM blocked_readers", folders
    )
    for name, history in histories.items():
        of_history = [row[1:] for row in rows if row[0].endswith(f"/{name}")]
        assert set(of_history) == readable(history) and len(of_history) == len(set(of_history)), name
        assert {row[1:] for row in blocks if row[0].endswith(f"/{name}")} == blocked(tmp_path / name), name
    assert len({row[5:7] for row in rows}) > 20, "different times"
    assert any(None not in row[5:7] and row[5] < row[6] for row in rows), "readable, not readable, readable"


def blocked(folder: Path) -> set[tuple[Any, ...]]:
    """The blocks as the report knows them, each of its replicas."""
    blocks = blocked_readers(RunTables(folder), float, shortest_s=0, merged=False)
    return {
        (
            one.brokers[0],
            int(one.from_s),
            None if one.to_s is None else int(one.to_s),
            one.offset,
            int(one.transaction.rpartition("/")[2]) if one.transaction else None,
        )
        for one in blocks
    }


def test_a_claim_may_ask_when_a_transaction_became_readable(spark: Any, tmp_path: Path) -> None:
    history = drawn(1)
    first = min(row[4] for row in readable(history) if row[4] is not None)
    text = "SELECT min(first_ns) = {} AS holds, min(first_ns) AS observed FROM readable_since"
    claims = [
        {"name": f"at-{ns}", "says": "s", "section": "", "holds": text.format(ns)}
        for ns in (first, first + 1)
    ]
    declared: Any = {**NOTHING_DECLARED, "claims": claims}
    results = judge_history(spark, history.write(tmp_path / "history"), None, declared).claims
    assert [claim.status for claim in results] == ["confirmed", "refuted"]


def test_a_scenario_may_name_the_views_and_the_tables_about_transactions(spark: Any) -> None:
    """Its SQL is checked on empty tables before it runs."""
    make_empty_tables(spark)
    names = ("readable_since", "blocked_readers", "transaction_fates", "transaction_records")
    text = "SELECT count(*) = 0 AS holds, '' AS observed FROM {}"
    claims = [{"name": name, "holds": text.format(name)} for name in (*names, "no_such_table")]
    assert set(refused(spark, {"claims": claims, "expected": []})) == {"no_such_table"}
