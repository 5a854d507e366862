"""The checks that apply to every run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.evidence import gather
from checkers.health import check_health
from checkers.tables.output import FINDINGS, TALLY
from checkers.tables.source import open_source
from harness.history.schema import TABLES
from report.words.causes import cause_of
from report.words.details import detail_in_words

FAULT = [
    {"ns": 100, "fault": 1, "name": "isolate az1", "kind": "link", "moment": "injected"},
    {"ns": 200, "fault": 1, "name": "isolate az1", "kind": "link", "moment": "healed"},
]
OFFLINE = "Controller 2 epoch 1 failed to change state for partition t-0 from OfflinePartition"


def _check(tmp_path: Path, **tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    history, out = tmp_path / "history", tmp_path / "findings"
    history.mkdir()
    out.mkdir()
    for name, rows in {"sends": [], "copies": [], **tables}.items():
        pq.write_table(pa.Table.from_pylist(rows, TABLES[name].arrow()), history / f"{name}.parquet")
    tallies = check_health(gather(open_source(history)), out, TALLY.empty_table())
    parts = [row for path in out.glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert sum(tallies["count"].to_pylist()) == len(parts)
    assert {row["class"] for row in parts} <= set(FINDINGS)
    return parts


def _line(ns: int, text: str, kind: str = "error") -> dict[str, Any]:
    return {"ns": ns, "host": "broker1", "kind": kind, "text": text}


def test_a_history_without_anything_of_the_kind_has_no_such_finding(tmp_path: Path) -> None:
    """Another program's sends and copies contain nothing about processes or logs."""
    assert _check(tmp_path) == []


def test_a_known_complaint_counts_only_before_the_first_fault(tmp_path: Path) -> None:
    """After it, the same line may be an effect of the fault."""
    findings = _check(tmp_path, faults=FAULT, log_events=[_line(50, OFFLINE), _line(150, OFFLINE)])
    assert [(row["class"], row["count"]) for row in findings] == [("server_error", 1)]
    assert OFFLINE in detail_in_words(findings[0])


def test_a_fault_has_effects_while_it_is_being_injected(tmp_path: Path) -> None:
    """As a rolling restart, which is injected when the last broker is back."""
    restart = [dict(FAULT[0], moment="injecting", ns=40), dict(FAULT[0], moment="injected", ns=100)]
    findings = _check(tmp_path, faults=restart, log_events=[_line(30, OFFLINE), _line(50, OFFLINE)])
    assert [row["count"] for row in findings] == [1]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] The write event Timeout(tp="
            "__consumer_offsets-0, key=heartbeat-app) for the timer heartbeat-app failed due to "
            "CoordinatorWriteEvent(name=Timeout(tp=__consumer_offsets-0, key=heartbeat-app)) timed out.",
            id="4.0.1, in the AZ that at-least-once-az-isolated isolates",
        ),
        pytest.param(
            "[GroupCoordinator id=2 topic=__consumer_offsets partition=0] The write event Timeout(key=h-a)"
            " for the timer h-a failed due to For requests intended only for the leader, this error "
            "indicates that the broker is not the current leader. Ignoring it.  (CoordinatorTimerImpl)",
            id="4.3.1, after all brokers were paused",
        ),
    ],
)
def test_a_coordinator_that_was_cut_off_may_complain_about_its_timers(tmp_path: Path, text: str) -> None:
    findings = _check(tmp_path, faults=FAULT, log_events=[_line(50, text), _line(150, text)])
    assert [row["count"] for row in findings] == [1]


def test_some_complaints_of_a_cluster_that_starts_are_known_before_any_fault(tmp_path: Path) -> None:
    lines = [
        "[RaftManager id=2] Unexpected error REQUEST_TIMED_OUT in UPDATE_RAFT_VOTER response: Inbound",
        "Unexpected exception, retries exceeded. tries=4, remaining init limit=9470, connecting to /h:2888",
        "Failed connect to /198.18.0.12:2888 (Learner)",
        "Error closing a command socket  (NIOServerCnxn)",
        "[RaftManager id=2] Unexpected error INVALID_REQUEST in UPDATE_RAFT_VOTER response: Inbound",
    ]
    findings = _check(tmp_path, faults=FAULT, log_events=[_line(50, line) for line in lines])
    assert [line in row["detail"] for row in findings for line in lines] == [
        False,
        False,
        False,
        False,
        True,
    ]


def test_an_unknown_complaint_counts_also_during_a_fault_once_per_wording(tmp_path: Path) -> None:
    """Lines that differ only in numbers count as the same wording."""
    lines = [_line(150, "Disk 1 is odd"), _line(160, "Disk 2 is odd"), _line(170, "Clock is odd")]
    findings = _check(tmp_path, faults=FAULT, log_events=lines)
    assert sorted(row["count"] for row in findings) == [1, 2]


def test_a_line_without_text_is_found(tmp_path: Path) -> None:
    """Another program need not fill that column."""
    line = {"ns": 5, "host": "broker1", "kind": "error", "text": None}
    assert [row["class"] for row in _check(tmp_path, log_events=[line])] == ["server_error"]


def test_fatal_is_always_a_finding(tmp_path: Path) -> None:
    """No fault of this project makes a broker log a fatal error harmlessly."""
    findings = _check(tmp_path, faults=FAULT, log_events=[_line(150, OFFLINE, "fatal")])
    assert [row["class"] for row in findings] == ["server_error"]


@pytest.mark.parametrize(
    ("in_sync", "complete", "expected"), [(False, True, 1), (True, True, 0), (False, False, 0)]
)
def test_a_replica_out_of_sync_at_the_end_is_found_where_all_were_read(
    tmp_path: Path, in_sync: bool, complete: bool, expected: int
) -> None:
    """A partition that was not read completely is undetermined in any case."""
    rows: list[dict[str, Any]] = [
        {"topic": "t", "partition": 0, "broker": 1, "complete": True, "leo": 9, "in_sync": True},
        {"topic": "t", "partition": 0, "broker": 2, "complete": complete, "leo": 3, "in_sync": in_sync},
    ]
    findings = _check(tmp_path, replicas=rows)
    assert [(row["class"], row["brokers"]) for row in findings] == [("not_converged", [2])] * expected


def test_a_process_that_ended_by_itself_and_a_key_without_effect_are_found(tmp_path: Path) -> None:
    """A run stops at both; a stored or imported history may contain them."""
    findings = _check(
        tmp_path,
        processes=[{"ns": 5, "host": "broker2", "event": "exited", "status": 1}],
        configs=[
            {"scope": "broker", "name": "broker1", "key": "k", "value": "1", "asked": "2"},
            {"scope": "broker", "name": "broker1", "key": "l", "value": "1", "asked": None},
        ],
    )
    assert [row["class"] for row in findings] == ["process_exit", "config_mismatch"]
    assert "broker2 ended by itself with status 1" in detail_in_words(findings[0])


@pytest.mark.parametrize(
    ("last", "end", "cause"),
    [
        ("isr_shrinking", 9, "ISR change never answered"),
        ("isr_updated", 9, None),
        ("became_leader", 9, "ISR never expanded"),
        ("became_leader", 8, None),  # the follower has not caught up
    ],
)
def test_an_isr_change_without_an_answer_is_the_cause(
    tmp_path: Path, last: str, end: int, cause: str | None
) -> None:
    """KAFKA-12751 leaves exactly that in the leader's log; if there was an answer, the cause is another."""
    place = {"topic": "t", "partition": 0}
    lines = [_line(ns, "ISR", kind) | place for ns, kind in ((20, last), (10, "isr_updated"))]
    rows: list[dict[str, Any]] = [
        {**place, "broker": 1, "complete": True, "leo": 9, "in_sync": True, "leader": True},
        {**place, "broker": 2, "complete": True, "leo": end, "in_sync": False, "leader": False},
    ]
    findings = _check(tmp_path, replicas=rows, log_events=lines)
    assert [(row["class"], cause_of(row) or None) for row in findings] == [("not_converged", cause)]
    grounds = [json.loads(text) for text in findings[0]["evidence"] or ()]
    assert [(ground["table"], ground["ns"]) for ground in grounds] == ([("log_events", 20)] if cause else [])


def test_events_of_the_same_moment_have_no_order(tmp_path: Path) -> None:
    """Broker logs have milliseconds; the ISR may have been updated after it began to shrink."""
    place = {"topic": "t", "partition": 0}
    rows: list[dict[str, Any]] = [
        {**place, "broker": 1, "complete": True, "leo": 9, "in_sync": True, "leader": True},
        {**place, "broker": 2, "complete": True, "leo": 9, "in_sync": False, "leader": False},
    ]
    for number, kinds in enumerate((("isr_updated", "isr_shrinking"), ("isr_shrinking", "isr_updated"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = [_line(20, "ISR", kind) | place for kind in kinds]
        assert [cause_of(row) or None for row in _check(folder, replicas=rows, log_events=lines)] == [None]


def _replica(broker: int, aborted: list[tuple[int, int]] | None, **more: Any) -> dict[str, Any]:
    named = None if aborted is None else [{"producer_id": p, "first_offset": o} for p, o in aborted]
    state = {"complete": True, "leader": broker == 2, "in_sync": True, "last_stable_offset": 10, "leo": 10}
    return {"topic": "t", "partition": 0, "broker": broker, **state, "aborted": named} | more


@pytest.mark.parametrize(
    ("follower", "leader", "expected"),
    [
        pytest.param({}, {}, None, id="the same"),
        pytest.param({"aborted": [(7, 3)]}, {}, (8, 5), id="the follower lacks one"),
        pytest.param({"aborted": [(7, 3), (8, 5), (9, 6)]}, {}, (9, 6), id="the follower has one more"),
        pytest.param({"aborted": [(7, 3), (9, 5)]}, {}, (8, 5), id="of another producer"),
        pytest.param({"aborted": [(7, 3)], "last_stable_offset": 5}, {}, None, id="not that far yet"),
        pytest.param({"aborted": [(8, 5)], "log_start": 4}, {}, None, id="retention removed it"),
        pytest.param({"aborted": [(7, 3)], "in_sync": False}, {}, None, id="not in sync"),
        pytest.param({"aborted": [(7, 3)], "complete": False}, {}, None, id="not read whole"),
        pytest.param({"aborted": None}, {}, None, id="not known of the follower"),
        pytest.param({"aborted": []}, {"aborted": None}, None, id="not known of the leader"),
    ],
)
def test_a_replica_that_names_other_aborted_transactions_has_diverged(
    tmp_path: Path, follower: dict[str, Any], leader: dict[str, Any], expected: tuple[int, int] | None
) -> None:
    same = [(7, 3), (8, 5)]

    def changed(row: dict[str, Any], by: dict[str, Any]) -> dict[str, Any]:
        if by.get("aborted"):
            by = by | {"aborted": [{"producer_id": p, "first_offset": o} for p, o in by["aborted"]]}
        return row | by

    findings = _check(
        tmp_path, replicas=[changed(_replica(1, same), follower), changed(_replica(2, same), leader)]
    )
    if expected is None:
        assert [row for row in findings if row["class"] == "diverged"] == []
        return
    (row,) = findings
    assert (row["class"], row["offset"], row["brokers"]) == ("diverged", expected[1], [1])
    assert f"producer id {expected[0]} wrote from offset {expected[1]} on" in detail_in_words(row)
