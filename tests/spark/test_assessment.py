"""The queries of an assessment on a history that is written by hand: two partitions, three AZs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.ask.sql import query
from checkers.judge import judge
from checkers.spark.views import as_rows
from run.folder import RunFolder
from studies.assess.measure import PROMISED, QUERIES, Measures, measure
from tests.histories import History
from tests.sampling import every

pytestmark = pytest.mark.spark

S = 1_000_000_000
BEGIN, INJECTED, HEAL, RECOVERED, END = 1, 3, 13, 15, 18
"""Seconds of the marks."""
AUDIT = {"topic": "audit", "led": "inside"}
ORDERS = {"topic": "orders", "led": "outside"}
"""Partitions 0 and 1 of the topic, which two runs on one cluster would name differently."""


def history() -> History:
    """Partition 0 is led inside the fault, partition 1 outside.

    A producer with acks=all writes to both every half second. In partition 0 nothing is acknowledged from 4 s
    to 11.5 s; in partition 1 nothing from 5 s to 14 s, so that the gap lasts until the heal. A producer with
    acks=1 writes to partition 0: its second message is lost, its third one stands before the first one,
    and its fourth one is refused.
    Another one sent two messages before the fault, which are in the wrong order as well, and none since.
    A producer with acks=all in az2 writes to partition 1 every second, but for 12.5 s to 17 s, which is due
    to the heal. A message that is acknowledged after the end, and a reader that no mark names, do not count.
    """
    made = History()
    for facts in (
        {"led": "inside", "topic": "t", "partition": 0, "described": "audit"},
        {"led": "outside", "topic": "t", "partition": 1, "described": "orders"},
        {"reader": 9, "az": "az2"},
        {"member": 10, "az": "az1"},
        {"member": 11, "az": "az2"},
    ):
        made.add("marks", ns=int(0.5 * S), name="clients", facts=json.dumps(facts))
    for second, name, text in (
        (BEGIN, "begin", ""),
        (INJECTED, "injected", ""),
        (HEAL, "heal", ""),
        (13.5, "operator", "start broker1"),
        (RECOVERED, "recovered", ""),
        (END, "drained", ""),
    ):
        made.add("marks", ns=int(second * S), name=name, text=text)
    for second, busy in ((INJECTED - 1, 10), (INJECTED + 1, 80), (HEAL + 1, 94), (RECOVERED + 1, 10)):
        made.add("machine", ns=int(second * S), busy=busy)
    made.add("writers", writer=1, name="az1-acks=all", az="az1", acks=-1, role="stream")
    made.add("writers", writer=2, name="az2-acks=1", az="az2", acks=1, role="stream")
    logs: dict[int, list[dict[str, Any]]] = {0: [], 1: []}
    seq = 0
    for partition, quiet in ((0, (4.0, 11.5)), (1, (5.0, 14.0))):
        for half in range(2 * BEGIN, 2 * END + 1):
            if not quiet[0] < half / 2 < quiet[1]:
                seq += 1
                offset = len(logs[partition])
                made.send(
                    seq, offset=offset, partition=partition, sent_ns=half * S // 2 - 1, done_ns=half * S // 2
                )
                logs[partition].append({"offset": offset, "writer": 1, "seq": seq})
    end = len(logs[0])
    for number, offset in ((1, end + 1), (2, end + 7), (3, end)):
        made.send(number, offset=offset, writer=2, sent_ns=2 * S + number, done_ns=2 * S + number + 1)
    made.send(4, "fail", None, writer=2, sent_ns=9 * S, done_ns=10 * S)
    logs[0] += [{"offset": end, "writer": 2, "seq": 3}, {"offset": end + 1, "writer": 2, "seq": 1}]
    made.add("writers", writer=3, name="az3-acks=1", az="az3", acks=1, role="stream")
    end = len(logs[1])
    for number, offset in ((1, end + 1), (2, end)):
        made.send(number, offset=offset, writer=3, partition=1, sent_ns=S // 2 + number, done_ns=S + number)
        logs[1].append({"offset": end + number - 1, "writer": 3, "seq": 3 - number})
    made.add("writers", writer=4, name="az2-acks=all", az="az2", acks=-1, role="stream")
    for number, half in enumerate((*range(3, 26, 2), 34, 36), start=1):
        made.send(
            number,
            offset=len(logs[1]),
            writer=4,
            partition=1,
            sent_ns=half * S // 2 - 1,
            done_ns=half * S // 2,
        )
        logs[1].append({"offset": len(logs[1]), "writer": 4, "seq": number})
    made.send(seq + 1, offset=len(logs[0]), partition=0, sent_ns=39 * S, done_ns=40 * S)
    logs[0].append({"offset": len(logs[0]), "writer": 1, "seq": seq + 1})
    for partition, records in logs.items():
        made.logs(records, partition=partition)
        for broker in (1, 2, 3):
            made.replica(broker, partition=partition, leader=broker == 2, in_sync=True)
        for ns, leader in ((1, partition + 1), (9 * S, 2)):
            made.add(
                "views",
                ns=ns,
                source="zookeeper1",
                subject="partition",
                topic="t",
                partition=partition,
                leader=leader,
                epoch=0 if ns == 1 else 1,
                isr=[1, 2, 3],
            )
    made.add(
        "views",
        ns=0,
        source="zookeeper1",
        subject="partition",
        topic="t",
        partition=0,
        leader=3,
        epoch=0,
        isr=[1, 2, 3],
    )
    for offset, second in enumerate((2, 6, 17)):
        made.read(offset, offset + 1, second * S, reader=9)
    for offset, second in enumerate((8, 11, 14)):
        made.read(offset, offset + 1, second * S, reader=8)
    for offset, (second, member) in enumerate(((2, 10), (5, 10), (11, 11), (15, 11))):
        made.read(offset, offset + 1, second * S, reader=member)
    return made


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("assessed") / "case" / "one"
    history().write(made / "history")
    RunFolder(made).update(scenario="case", status="complete")
    judge(spark, made)
    return made


@pytest.fixture(scope="module")
def measures(spark: Any, folder: Path) -> Measures:
    return measure(spark, [folder])


def rows(measures: Measures, query: str) -> list[dict[str, Any]]:
    return sorted(({k: v for k, v in row.items() if k != "run"} for row in measures[query]), key=repr)


def test_every_query_names_its_run(measures: Measures) -> None:
    assert set(measures) == {*QUERIES, PROMISED}
    assert {row["run"] for query in measures.values() for row in query} == {"case/one"}


@pytest.mark.parametrize("name", every(6, QUERIES))
def test_sql_answers_every_query_in_the_same_way(
    name: str, spark: Any, folder: Path, measures: Measures
) -> None:
    columns, answers = query(spark, QUERIES[name], [folder])
    asked = [dict(zip(columns, answer, strict=True)) for answer in answers]
    by_arrow = [{key: row[key] for key in columns} for row in measures[name]]
    assert sorted(asked, key=repr) == sorted(by_arrow, key=repr)
    assert asked or name == "findings"


def test_messages_are_counted_by_setting_and_place_of_the_leader(measures: Measures) -> None:
    counts = {"lost_after_read": 0, "duplicated": 0, "undetermined": 0}
    assert rows(measures, "messages") == [
        {**AUDIT, "setting": "acks=1", "acknowledged": 3, "lost": 1, **counts},
        {**AUDIT, "setting": "acks=all", "acknowledged": 22, "lost": 0, **counts},
        {**ORDERS, "setting": "acks=1", "acknowledged": 2, "lost": 0, **counts},
        {**ORDERS, "setting": "acks=all", "acknowledged": 32, "lost": 0, **counts},
    ]


def test_messages_in_the_wrong_order(measures: Measures) -> None:
    assert rows(measures, "order") == [{**AUDIT, "setting": "acks=1", "out_of_order": 1}]


def test_findings_and_promises(measures: Measures) -> None:
    """What promises the history decides is for the judgement; each finding is counted once."""
    counted = [
        (row["led"], row["setting"], row["class"], row["findings"]) for row in rows(measures, "promises")
    ]
    assert counted == [("inside", "acks=1", "lost", 1), ("inside", "acks=1", "out_of_order", 1)]
    assert rows(measures, "findings") == []
    assert {row["promise"] for row in measures["promises"]} <= {"broken", "not promised", "unknown"}


def test_what_was_promised(measures: Measures) -> None:
    """Partition 0 got another leader after the fault, partition 1 did not; acks=1 hangs on the leader."""
    assert [
        (row["topic"], row["setting"], row["promise"], row["promise_row"]) for row in rows(measures, PROMISED)
    ] == [
        ("audit", "acks=1", "not promised", "acks-1-leader"),
        ("audit", "acks=all", "kept", "committed"),
        ("orders", "acks=1", "kept", "acks-1-steady"),
        ("orders", "acks=all", "kept", "committed"),
    ]


def test_gaps_of_writes(measures: Measures) -> None:
    """acks=1 was acknowledged at 2 s for the last time: its gap lasts to the end, beyond the heal."""
    assert rows(measures, "writes") == [
        {**AUDIT, "az": "az1", "setting": "acks=all", "write_gap_s": 7.5, "lasted_until_heal": False},
        {**AUDIT, "az": "az2", "setting": "acks=1", "write_gap_s": 16.0, "lasted_until_heal": True},
        {**ORDERS, "az": "az1", "setting": "acks=all", "write_gap_s": 9.0, "lasted_until_heal": True},
        {
            **ORDERS,
            "az": "az2",
            "setting": "acks=all",
            "write_gap_s": 4.5,
            "lasted_until_heal": False,
        },
        {**ORDERS, "az": "az3", "setting": "acks=1", "write_gap_s": 17.0, "lasted_until_heal": True},
    ]


def test_gaps_of_reads(measures: Measures) -> None:
    assert rows(measures, "reads") == [{**AUDIT, "az": "az2", "read_gap_s": 11.0, "lasted_until_heal": True}]


def test_gaps_of_groups_are_those_of_all_members_together(measures: Measures) -> None:
    """One member receives nothing from 5 s on, but another one takes over at 11 s."""
    gap = {"group_gap_s": 6.0, "lasted_until_heal": False}
    assert rows(measures, "groups") == [{**AUDIT, "readers": "group", **gap}]


def test_failover_is_from_the_fault_to_another_leader(measures: Measures) -> None:
    """Partition 0 moved from broker 1 to broker 2; partition 1 stayed on broker 2."""
    assert [
        row | {"failover_s": row["failover_s"] and float(row["failover_s"])}
        for row in rows(measures, "failover")
    ] == [
        {**AUDIT, "moved": 1, "partitions": 1, "failover_s": 6.0},
        {**ORDERS, "moved": 0, "partitions": 1, "failover_s": None},
    ]


def test_recovery_and_what_the_operator_did(measures: Measures) -> None:
    (recovery,) = rows(measures, "recovery")
    assert (float(recovery["fault_s"]), float(recovery["recovery_s"])) == (10.0, 2.0)
    assert rows(measures, "operator") == [{"action": "start broker1"}]


def test_how_busy_the_machine_was(measures: Measures) -> None:
    """From the fault until the recovery; earlier and later seconds do not count."""
    assert rows(measures, "busy") == [{"busy_percent": 87}]


def test_a_run_that_never_recovered_has_no_recovery_time(spark: Any, tmp_path: Path) -> None:
    made = history()
    made.rows["marks"] = [row for row in made.rows["marks"] if row["name"] != "recovered"]
    folder = tmp_path / "case" / "two"
    made.write(folder / "history")
    RunFolder(folder).update(scenario="case", status="complete")
    judge(spark, folder)
    (row,) = measure(spark, [folder])["recovery"]
    assert row["recovery_s"] is None


def test_no_row_of_many_runs_is_lost(spark: Any) -> None:
    """Spark reads the chunks of a table only up to the first empty one."""
    sizes = (1, 0, 10, 2, 7, 1, 3, 31)
    tables = [pa.table({"run": pa.array([number] * size, pa.int32())}) for number, size in enumerate(sizes)]
    rows = as_rows(spark, pa.concat_tables(tables)).collect()
    assert sorted(row.run for row in rows) == [
        number for number, size in enumerate(sizes) for _ in range(size)
    ]
