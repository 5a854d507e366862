"""Findings in groups, what a history reached, and which promises it put to the test, on histories by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.records import facts_text
from checkers.tables.output import FINDING
from harness.history.schema import TABLES
from harness.history.tables import write_table
from studies.search.findings import (
    CLEARED,
    SEQUENCE_REFUSED,
    findings_of,
    select,
    weightiest,
)
from studies.search.reached import TESTABLE, exercised, reached
from studies.search.schedule import Producer, Schedule, TopicPlan
from studies.steps.step import Step

SCHEDULE = Schedule(
    kafka="3.6.2",
    mode="kraft",
    controller="controller2",
    topics=(TopicPlan(name="t1"), TopicPlan(name="t2", min_insync=1, unclean=True)),
    producers=(Producer(az="az1"), Producer(az="az2", acks=1, idempotent=False, in_flight=3)),
)


def written(folder: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    for name, table in TABLES.items():
        rows = [dict(row) for row in tables.get(name, ())]
        write_table(folder, name, pa.Table.from_pylist(rows, schema=table.arrow()))
    manifest = {"status": "complete", "kafka": "3.6.2", "mode": "kraft", "schema_version": 1}
    (folder / "run.json").write_text(json.dumps(manifest))
    judgement = {"run": "here", "fates": {"kept": 3, "lost": 0}, "promises": [], "findings_by_class": {}}
    (folder / "judgement.json").write_text(json.dumps(judgement))
    return folder


def view(ns: int, leader: int, epoch: int, *isr: int) -> dict[str, Any]:
    key = {"source": "broker1", "subject": "partition", "topic": "t1-3", "partition": 0}
    return {"ns": ns, **key, "leader": leader, "epoch": epoch, "isr": list(isr)}


def fault(moment: str, ns: int, mechanism: str, *hosts: str) -> dict[str, Any]:
    targets = json.dumps({"hosts": list(hosts)})
    about = {"fault": 1, "name": mechanism, "kind": "process", "mechanism": mechanism}
    return {"ns": ns, **about, "moment": moment, "targets": targets}


WRITERS = (
    {"writer": 1, "name": "producer-1b", "acks": -1, "idempotent": True, "client": "librdkafka"},
    {"writer": 2, "name": "producer-2a", "acks": 1, "idempotent": False, "client": "librdkafka"},
)


def found(name: str, **columns: Any) -> dict[str, Any]:
    return {**dict.fromkeys(FINDING.names), "class": name, **columns}


def mark(finding: str, **facts: object) -> dict[str, object]:
    return {"ns": 1, "name": f"finding-{finding}", "facts": facts_text(finding=finding, **facts)}


def no_recovery(*incomplete: str, only: bool = True, without_candidates: bool = False) -> dict[str, object]:
    return mark(
        "no-recovery",
        incomplete=list(incomplete),
        only_incomplete=only,
        without_candidates=without_candidates,
    )


@pytest.mark.parametrize(
    ("fault", "without_candidates", "bug"),
    [("configure", True, CLEARED), ("configure", False, ""), ("kill", True, "")],
)
def test_a_partition_lost_its_candidates_to_a_change(
    tmp_path: Path, fault: str, without_candidates: bool, bug: str
) -> None:
    """Only a change of min.insync.replicas explains that nobody may lead; a process that ended is new."""
    marks = [
        no_recovery(only=False, without_candidates=without_candidates),
        mark("client-stuck", producer="producer-1b", settings="acks=all"),
        mark("broker-down", host="broker2"),
    ]
    schedule = msgspec.structs.replace(SCHEDULE, steps=(Step(fault=fault),))
    seen = findings_of(written(tmp_path, {"marks": marks}), schedule)
    expected = {"no-recovery": bug, "client-stuck": bug, "broker-down": ""}
    assert {one.name: one.known_bug for one in seen} == expected
    assert {one.weight for one in seen if one.known_bug != bug or not bug} == {"new"}


STUCK = "KAFKA-12686, KAFKA-12751"


@pytest.mark.parametrize(
    ("unrecovered", "isr_is_known", "explained"),
    [
        (no_recovery("t1/0"), True, True),
        (no_recovery("t1/0"), False, False),
        (no_recovery("t1/0", "t1/1"), True, False),
        (no_recovery("t1/0", only=False), True, False),
        (no_recovery(only=False), True, False),
        (no_recovery("t2/0"), True, False),
    ],
)
def test_what_follows_from_a_stuck_isr_is_known_with_it(
    tmp_path: Path, unrecovered: dict[str, object], isr_is_known: bool, explained: bool
) -> None:
    """Only a cluster in which nothing else is wrong. (The promise table explains transactions that hang.)"""
    marks = [
        unrecovered,
        mark("client-stuck", producer="producer-1b", settings="acks=all"),
        mark("broker-down", host="broker2"),
    ]
    rows = [
        found(
            "not_converged",
            topic="t1",
            partition=0,
            promise="broken",
            known_bug=STUCK if isr_is_known else None,
        ),
    ]
    folder = written(tmp_path, {"marks": marks, "writers": WRITERS})
    (tmp_path / "findings.parquet").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=FINDING), tmp_path / "findings.parquet" / "part.parquet")
    seen = findings_of(folder, SCHEDULE)
    assert {one.name: one.weight for one in seen} == {
        "not_converged": "known" if isr_is_known else "new",
        "no-recovery": "known" if explained else "new",
        "client-stuck": "known" if explained else "new",
        "broker-down": "new",
    }


@pytest.mark.parametrize(
    ("refusal", "signature"),
    [
        (45, f"client-stuck: {SEQUENCE_REFUSED}: fatal error of the client library [acks=all, 5 in flight]"),
        (-192, "client-stuck: fatal error of the client library [acks=all, 5 in flight]"),
    ],
)
def test_a_producer_that_its_library_stopped_is_told_from_one_that_is_stuck(
    tmp_path: Path, refusal: int, signature: str
) -> None:
    """Only a refused sequence number of the same producer is the known reason."""
    marks = [
        mark("client-stuck", producer="producer-1b", settings="acks=all, 5 in flight"),
        mark("client-stuck", producer="producer-2a", settings="acks=1, 3 in flight"),
    ]
    errors = ((1, refusal), (1, -150), (2, 45))
    sends = [
        {"topic": "t1-3", "partition": 0, "writer": writer, "seq": seq, "sent_ns": 1, "outcome": "fail"}
        | {"error": error}
        for seq, (writer, error) in enumerate(errors)
    ]
    seen = findings_of(written(tmp_path, {"writers": WRITERS, "marks": marks, "sends": sends}), SCHEDULE)
    assert {one.signature for one in seen} == {"client-stuck [acks=1, 3 in flight]", signature}
    assert [one.weight for one in seen] == (["new", "known"] if refusal == 45 else ["new", "new"])


@pytest.mark.parametrize(
    ("events", "weight"),
    [
        (("started", "paused", "resumed", "exited"), "not promised"),
        (("started", "exited"), "new"),
        (("started", "ready", "paused", "resumed", "exited"), "new"),
        (("paused", "resumed", "started", "exited"), "new"),
        (("started", "paused", "killed", "started", "exited"), "new"),
    ],
)
def test_a_broker_may_give_up_a_start_during_which_it_was_paused(
    tmp_path: Path, events: tuple[str, ...], weight: str
) -> None:
    """What ends without a pause, after its start, or elsewhere, is unexplained."""
    processes = [
        *({"ns": ns, "host": "broker1", "event": event} for ns, event in enumerate(events)),
        {"ns": 9, "host": "broker2", "event": "started"},
    ]
    folder = written(tmp_path, {"processes": processes})
    line = "[KafkaServer id=1] Fatal error during KafkaServer startup. Prepare to shutdown"
    rows = [
        found("process_exit", detail=facts_text(host="broker1", status=1)),
        found("server_error", detail=facts_text(host="broker1", level="error", text=line)),
        found("server_error", detail=facts_text(host="broker2", level="error", text=line)),
        found("server_error", detail=facts_text(host="broker1", level="error", text="something else")),
    ]
    (tmp_path / "findings.parquet").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=FINDING), tmp_path / "findings.parquet" / "part.parquet")
    weights = [one.weight for one in findings_of(folder, SCHEDULE) for _ in range(one.count)]
    assert weights == (["new"] * 2 + ["not promised"] * 2 if weight == "not promised" else ["new"] * 4)


def test_findings_are_grouped_by_what_they_mean(tmp_path: Path) -> None:
    marks = [
        {"ns": 1, "name": "begin", "text": "x"},
        mark("client-stuck", producer="producer-2a", settings="acks=1, 3 in flight"),
    ]
    folder = written(tmp_path, {"writers": WRITERS, "marks": marks})
    lost = {"promise": "not promised", "promise_row": "acks-1-leader", "topic": "t2-3", "writer": 2}
    led = partial(facts_text, broker=1, leader=2, elected="before")
    broken = {"promise": "broken", "promise_row": "committed", "topic": "t1-3", "writer": 1}
    error = {"promise": "not promised", "promise_row": "log-lines"}
    rows = [
        *(
            found("lost", **lost, seq=number, cause="deposed_leader", cause_facts=led(epoch=number))
            for number in range(3)
        ),
        found("lost", **lost | {"known_bug": "KAFKA-15489"}, seq=9),
        found("lost", **broken, seq=1),
        found(
            "server_error",
            **error,
            detail=facts_text(host="broker1", level="error", text="[Log 7] cannot 12"),
        ),
        found(
            "server_error",
            **error,
            detail=facts_text(host="broker2", level="error", text="[Log 8] cannot 13"),
        ),
        found("undetermined", promise="unknown", topic="t1-3"),
    ]
    (tmp_path / "findings.parquet").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=FINDING), tmp_path / "findings.parquet" / "part.parquet")
    groups = findings_of(folder, SCHEDULE)
    because = "deposed_leader"
    unclean = "acks=1, 3 in flight, min.insync.replicas=1, unclean election"
    assert [(group.weight, group.count, group.signature) for group in groups] == [
        ("new", 1, "lost: broken: committed [acks=all, idempotent, 5 in flight, min.insync.replicas=2]"),
        ("new", 1, "client-stuck [acks=1, 3 in flight]"),
        ("new", 2, "server_error: broker# error [Log #] cannot #"),
        ("unknown", 1, "undetermined: unknown [min.insync.replicas=2]"),
        ("known", 1, f"lost: not promised: KAFKA-15489 [{unclean}]"),
        ("not promised", 3, f"lost: not promised: acks-1-leader: {because} [{unclean}]"),
    ]
    worst = weightiest(groups)
    assert worst is not None and worst.name == "lost"
    assert [one.known_bug for one in select(groups, "kafka-15489")] == ["KAFKA-15489"]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    second = 1_000_000_000
    return written(
        tmp_path,
        {
            "writers": WRITERS,
            "views": [
                view(second, 1, 0, 1, 2, 3),
                view(5 * second, -1, 1, 2, 3),
                view(6 * second, 2, 2, 2, 3),
                view(9 * second, 2, 2, 1, 2, 3),
                {"ns": 2, "source": "controller2", "subject": "controller", "controller": 12},
            ],
            "faults": [
                fault("injected", 4 * second, "kill", "broker1", "controller2"),
                fault("healed", 8 * second, "kill", "broker1", "controller2"),
            ],
            "processes": [
                {"ns": 4 * second, "host": "broker1", "event": "killed"},
                {"ns": 8 * second, "host": "broker1", "event": "started"},
                *({"ns": 1, "host": f"broker{number}", "event": "ready"} for number in (1, 2, 3)),
            ],
            "log_events": [
                {
                    "ns": 6 * second,
                    "host": "broker2",
                    "kind": "became_leader",
                    "topic": "t1-3",
                    "partition": 0,
                },
                {"ns": 6 * second, "host": "broker2", "kind": "error", "text": "x"},
            ],
            "sends": [
                {
                    "topic": "t1-3",
                    "partition": 0,
                    "writer": 1,
                    "seq": 1,
                    "sent_ns": 1,
                    "outcome": "ok",
                    "error": 0,
                },
                {
                    "topic": "t1-3",
                    "partition": 0,
                    "writer": 2,
                    "seq": 1,
                    "sent_ns": 1,
                    "outcome": "info",
                    "error": 7,
                },
            ],
            "configs": [
                {"scope": "topic", "name": "t1-3", "key": key, "value": value}
                for key, value in (
                    ("min.insync.replicas", "2"),
                    ("unclean.leader.election.enable", "false"),
                    ("flush.messages", "9223372036854775807"),
                )
            ],
        },
    )


def test_what_a_history_reached(history: Path) -> None:
    assert reached(history) == {
        "fate kept",
        "log became_leader (broker)",
        "order 0-L",
        "order -L+",
        "elections 1",
        "ISR of 3, led",
        "ISR of 2, no leader",
        "ISR of 2, led",
        "fault kill hits leader controller",
        "error 7 (info, acks 1)",
    }


def test_a_promise_is_put_to_the_test_by_the_fault_that_could_break_it(history: Path) -> None:
    """The leader is killed: acks=all must survive it, and acks=1 need not."""
    tested = exercised(history)
    assert tested["crash-of-some"] > 0
    assert "power-loss-flushed" not in tested
    assert set(tested) <= set(TESTABLE)


def test_transactions_are_reached_and_put_to_the_test(history: Path) -> None:
    plain = exercised(history)
    assert not {"transaction-atomicity", "transaction-ends"} & set(plain)
    assert not any(one.startswith("transaction ") for one in reached(history))
    transactional = [{**WRITERS[0], "transactional_id": "t1-3-producer-1"}, WRITERS[1]]
    ends = [("begin", 0), ("committing", 0), ("unknown", 48)]
    rows = [
        {"ns": ns, "writer": 1, "txn": 0, "event": event, "error": error}
        for ns, (event, error) in enumerate(ends)
    ]
    for name, table in (("writers", transactional), ("transactions", rows)):
        write_table(history, name, pa.Table.from_pylist(table, schema=TABLES[name].arrow()))
    assert {"transaction-atomicity", "transaction-ends"} <= set(exercised(history))
    assert [one for one in reached(history) if one.startswith("transaction ")] == [
        "transaction unknown, error 48"
    ]


def test_what_share_groups_learnt_is_reached(history: Path) -> None:
    about = {"group": "t1-3-group-1", "reader": 3, "topic": "t1-3", "partition": 0, "offset": 0}
    rows = [
        {"ns": 1, "event": "acquired", "delivery_count": 2, **about},
        {"ns": 2, "event": "acknowledged", "answer": "accept", **about},
        {"ns": 3, "event": "answered", "answer": "accept", "error": 6, "asked_ns": 2, **about},
    ]
    before = reached(history)
    write_table(history, "shares", pa.Table.from_pylist(rows, schema=TABLES["shares"].arrow()))
    assert reached(history) - before == {"share delivery 2", "share answer accept, error 6"}


def test_a_share_group_that_is_stuck_is_told_from_a_consumer_group(tmp_path: Path) -> None:
    marks = [mark("client-stuck", group=1), mark("client-stuck", group=2, settings="share group")]
    seen = findings_of(written(tmp_path, {"marks": marks}), SCHEDULE)
    assert {one.signature for one in seen} == {"client-stuck", "client-stuck [share group]"}
