"""Messages that configuration or a client's request removed, and messages that only look like it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from report.words.causes import cause_in_words, cause_of
from tests.histories import History
from tests.unit.checkers.test_causes import lives

EARLY_START = cause_in_words("log_start_moved", {})
NO_EVIDENCE = cause_in_words("unexplained_loss", {})
NOT_RECORDED = cause_in_words("retention_not_recorded", {})

S = 1_000_000_000
PLACE = {"topic": "t", "partition": 0}
DAYS = "604800000"


def run(
    *,
    start: int = 2,
    retention_ms: str = DAYS,
    retention_bytes: str = "-1",
    policy: str = "delete",
    asked: bool = True,
    client: str = "librdkafka",
    read_s: int = 60,
    **replica: Any,
) -> History:
    """Messages 0 to 3, sent at 1, 2, 3 and 4 s; the log begins at ``start`` and was read at ``read_s``."""
    history = History()
    history.add("writers", writer=1, name="one", client=client, acks=-1)
    for seq in range(4):
        history.send(seq, offset=seq, broker=1, sent_ns=(seq + 1) * S, done_ns=(seq + 1) * S + 1000)
    for broker in (1, 2, 3):
        history.log(broker, [(seq, seq) for seq in range(start, 4)])
        row = {"leader": broker == 1, "in_sync": True, "ns": read_s * S, "log_start": start, "leo": 4}
        history.replica(broker, **row | {"cleanup": policy} | replica)
    values = {"cleanup.policy": policy, "retention.ms": retention_ms, "retention.bytes": retention_bytes}
    values["message.timestamp.type"] = "CreateTime"
    for key, value in values.items() if asked else ():
        history.add("configs", scope="topic", name="t", key=key, value=value)
    return history


def reported(history: History, kind: str, offset: int | None, ns: int, **more: Any) -> History:
    """A line of broker 1's log."""
    return history.add(
        "log_events", **{"ns": ns, "host": "broker1", "kind": kind, "offset": offset} | PLACE | more
    )


def operator(history: History, mechanism: str, ns: int, **targets: Any) -> History:
    """An action of the run."""
    row = {"fault": 1, "name": mechanism, "kind": "operator", "moment": "injected", "mechanism": mechanism}
    return history.add("faults", ns=ns, targets=json.dumps({"partitions": ["t/0"]} | targets), **row)


def recreated(deleted_ns: int) -> History:
    """Messages 0 and 1 were sent to a topic that was deleted and created again; 2 and 3 to the new one."""
    history = run(start=0)
    for row in history.rows["sends"][2:]:
        row["offset"] -= 2
    history.rows["copies"] = []
    history.logs([(0, 2), (1, 3)])
    for row in history.rows["replicas"]:
        row["leo"] = 2
    return operator(history, "delete_topic", deleted_ns)


CASES: dict[str, tuple[History, str]] = {
    "by time": (run(retention_ms="3000"), "retention by time: retention.ms=3000"),
    "by time, as the log says": (
        reported(run(retention_ms="3000"), "log_start", 2, 40 * S),
        "retention by time: retention.ms=3000",
    ),
    "by time, of messages whose timestamps are not known": (
        run(retention_ms="100000000", client="program"),
        "retention by time: retention.ms=100000000",
    ),
    "by time, since a change of the configuration": (
        operator(run(), "configure", 5 * S, properties={"retention.ms": "3000"}),
        "retention by time: retention.ms=3000",
    ),
    "by size": (run(retention_bytes="1000", size_bytes=1200), "retention by size: retention.bytes=1000"),
    "by size, of a log of unknown size": (
        run(retention_bytes="1000"),
        "retention by size: retention.bytes=1000",
    ),
    "by time or size": (
        run(retention_ms="3000", retention_bytes="1000"),
        "retention by time or size: retention.ms=3000, retention.bytes=1000",
    ),
    "by size, as the log says": (
        reported(run(retention_ms="3000", retention_bytes="1000"), "segment_oversized", 0, 40 * S),
        "retention by size: retention.bytes=1000",
    ),
    "records deleted by the run": (
        operator(run(), "delete_records", 5 * S, before_offset=2),
        "records deleted: a client's request deleted those before offset 2",
    ),
    "records deleted by somebody, as the log says": (
        reported(run(), "records_deleted", 2, 5 * S),
        "records deleted: a client's request deleted those before offset 2",
    ),
    "topic deleted": (recreated(int(2.5 * S)), "topic deleted: t was deleted"),
    "topic deleted by somebody, as the controller's log says": (
        reported(recreated(-1), "topic_deleted", None, int(2.5 * S), partition=None),
        "topic deleted: t was deleted",
    ),
    "compaction": (run(policy="compact"), "compaction: the topic is compacted"),
    **{
        f"retention {value:.5} that Kafka refuses": (run(retention_ms=value), NOT_RECORDED)
        for value in ("--5", "9" * 5000, "²")
    },
    "configuration not recorded": (
        run(asked=False),
        "not known: retention may have removed it; the topic's configuration was not recorded",
    ),
}
"""Histories in which messages 0 and 1 were removed for a documented reason."""


def clock(history: History, ns: int, by_s: float, host: str = "broker1") -> History:
    """The clock of a host jumps."""
    return operator(history, "clock_shift", ns, hosts=[host], by_s=by_s, partitions=[])


BY_CLOCK = cause_in_words("clock_ahead", {"retention_ms": DAYS, "fault_name": "clock_shift"})
LOOKALIKES: dict[str, tuple[History, str]] = {
    "younger than retention allows": (run(), EARLY_START),
    "removed before it was old enough, though it is by now": (
        reported(run(retention_ms="30000"), "log_start", 2, 5 * S),
        EARLY_START,
    ),
    "old for a broker whose clock is ahead": (clock(run(), 5 * S, 691_200), BY_CLOCK),
    "old for such a broker, with the time until it was gone": (clock(run(), 5 * S, 604_790), BY_CLOCK),
    "old for a broker without a replica": (clock(run(), 5 * S, 691_200, "broker4"), EARLY_START),
    "old for a controller": (clock(run(), 5 * S, 691_200, "controller1"), EARLY_START),
    "not even old for such a broker": (clock(run(), 5 * S, 518_400), EARLY_START),
    "young for a broker whose clock is behind": (clock(run(), 5 * S, -691_200), EARLY_START),
    "without a limit, whatever the clock": (clock(run(retention_ms="-1"), 5 * S, 691_200), EARLY_START),
    "gone before the clock jumped": (clock(run(), 61 * S, 691_200), EARLY_START),
    "larger than the log ever was": (run(retention_bytes="1000", size_bytes=200), EARLY_START),
    "retention without limits": (run(retention_ms="-1"), EARLY_START),
    "records of another partition deleted": (
        operator(run(), "delete_records", 5 * S, before_offset=2, partitions=["t/1"]),
        EARLY_START,
    ),
    "only what is before that offset": (
        operator(run(), "delete_records", 5 * S, before_offset=0),
        EARLY_START,
    ),
    "another topic deleted": (operator(run(), "delete_topic", 5 * S, partitions=["t-2/0"]), EARLY_START),
    "configuration of another topic changed": (
        operator(run(), "configure", 5 * S, properties={"retention.ms": "3000"}, partitions=["t-2/0"]),
        EARLY_START,
    ),
}
"""Histories in which it looks like one, and which nothing documents, or only a clock explains."""


def fates(history: History, folder: Path) -> list[tuple[str, str | None]]:
    rows = sorted(lives(history, folder), key=lambda row: row["seq"])
    return [(row["fate"], cause_of(row) or None) for row in rows]


def findings(folder: Path) -> list[dict[str, Any]]:
    return [row for path in folder.glob("findings/*") for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("name", CASES)
def test_a_documented_removal_is_a_cause(tmp_path: Path, name: str) -> None:
    history, cause = CASES[name]
    kept = ("kept", None)
    assert fates(history, tmp_path) == [("retired", cause), ("retired", cause), kept, kept]
    assert not findings(tmp_path)


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_removal_that_nothing_documents_is_a_loss(tmp_path: Path, name: str) -> None:
    history, cause = LOOKALIKES[name]
    lost, kept = ("lost", cause), ("kept", None)
    assert fates(history, tmp_path) == [lost, lost, kept, kept]
    losses = findings(tmp_path)
    assert [(row["class"], row["offset"]) for row in losses] == [("lost", 0), ("lost", 1)]
    assert json.loads(losses[0]["evidence"][-1]) == {
        "table": "replicas",
        "ns": 60 * S,
        "what": "the log of broker1 begins at offset 2",
    }


def test_a_gap_above_the_log_start_is_a_loss_whatever_retention_says(tmp_path: Path) -> None:
    history = run(start=1, retention_ms="3000")
    history.rows["copies"] = [row for row in history.rows["copies"] if row["seq"] != 2]
    assert [fate for fate, _ in fates(history, tmp_path)] == ["retired", "kept", "lost", "kept"]
    assert [cause_of(row) or None for row in findings(tmp_path)] == [NO_EVIDENCE]


def test_what_was_sent_to_the_new_topic_is_not_explained_by_the_deletion(tmp_path: Path) -> None:
    history = recreated(int(2.5 * S))
    history.rows["copies"] = [row for row in history.rows["copies"] if row["seq"] != 3]
    assert [fate for fate, _ in fates(history, tmp_path)] == ["retired", "retired", "kept", "lost"]


def test_without_the_deletion_the_same_is_a_loss(tmp_path: Path) -> None:
    history = recreated(0)
    history.rows.pop("faults")
    assert [fate for fate, _ in fates(history, tmp_path)] == ["lost", "lost", "kept", "kept"]


def test_a_deleted_topic_that_does_not_exist_any_more_needs_no_read(tmp_path: Path) -> None:
    history = recreated(int(2.5 * S))
    history.rows["copies"], history.rows["sends"] = [], history.rows["sends"][:2]
    other = {"topic": "t", "partition": 1}
    history.rows["replicas"] = [row | other for row in history.rows["replicas"]]
    assert [fate for fate, _ in fates(history, tmp_path)] == ["retired", "retired"]
    assert not findings(tmp_path)


def test_an_acknowledgement_without_an_offset_proves_no_loss_if_retention_removed_anything(
    tmp_path: Path,
) -> None:
    history = run(retention_ms="3000")
    history.rows["sends"][0]["offset"] = None
    assert fates(history, tmp_path)[0] == ("retired", "retention by time: retention.ms=3000")
