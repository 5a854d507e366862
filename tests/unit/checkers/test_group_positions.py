"""Positions of groups that were not in the log, groups that stood still, and what looks like either."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence import gather
from checkers.groups.findings import group_findings
from checkers.groups.steps import StreamStep, causes_of_steps
from checkers.promises.facts import facts_of
from checkers.promises.judging import judge
from checkers.tables.output import FINDING
from checkers.tables.source import open_source
from report.words.causes import cause_in_words, cause_of
from report.words.details import detail_in_words
from tests.histories import History

EARLY_START = cause_in_words("log_start_moved", {})

Row = dict[str, Any]
S = 10**9
PLACE: Row = {"topic": "t", "partition": 0}
TOPIC = {"retention.ms": "3000", "retention.bytes": "-1", "cleanup.policy": "delete"}


def history(
    groups: Sequence[Row],
    reads: Sequence[tuple[int, int, int]],
    *,
    marks: Sequence[Row] = (),
    views: Sequence[Row] = (),
    topic: dict[str, str] | None = None,
    **tables: Sequence[Row],
) -> History:
    """A group `g`: its events, what its members received (reader, s, offset), watermarks and views."""
    made = History()
    for row in groups:
        made.add("groups", **{"group": "g", **PLACE, **row})
    for reader, second, offset in reads:
        made.read(offset, offset, second * S, reader=reader, group="g", isolation="read_committed")
    for row in marks:
        made.add("watermarks", **{**PLACE, "log_start": 0, "high_watermark": row["leo"], **row})
    for row in views:
        made.add("views", **{"subject": "partition", **PLACE, **row})
    for key, value in (topic or {}).items():
        made.add("configs", scope="topic", name="t", key=key, value=value)
    for name, rows in tables.items():
        for row in rows:
            made.add(name, **row)
    return made


def found(made: History, folder: Path) -> list[Row]:
    return group_findings(gather(open_source(made.write(folder))))


def assigned(reader: int, second: int, offset: int | None, **more: Any) -> Row:
    row = {
        "ns": second * S,
        "asked_ns": second * S - 1,
        "event": "assigned",
        "reader": reader,
        "offset": offset,
    }
    return row | {"error": 0} | more


def event(name: str, reader: int, second: int, **more: Any) -> Row:
    return {"ns": second * S, "asked_ns": second * S - 1, "event": name, "reader": reader, **more}


def leads(broker: int, epoch: int, second: int, isr: tuple[int, ...] = (1, 2, 3), **more: Any) -> Row:
    return {
        "ns": second * S,
        "source": "zookeeper1",
        "leader": broker,
        "epoch": epoch,
        "isr": list(isr),
    } | more


def log(broker: int, second: int, leo: int, **more: Any) -> Row:
    return {"ns": second * S, "broker": broker, "leo": leo, **more}


COMMITTED = (
    assigned(1, 1, 0),
    event("committed", 1, 11, offset=22),
    event("lost", 1, 27),
    assigned(1, 54, 22),
)
"""KAFKA-20507: a member committed 22, and was assigned the partition again with that offset."""
RECEIVED = ((1, 9, 0), *((1, 10, offset) for offset in range(1, 22)))
AGAIN = ((1, 55, 0), (1, 55, 1))
UNCLEAN = (leads(1, 0, 0), leads(1, 0, 8, (1,)), leads(2, 2, 27, (2,)))
LOGS = (log(1, 5, 12), log(2, 5, 12), log(1, 10, 22))
"""Broker 2 had 12 records when it became leader, broker 1 had 22."""


def test_a_group_starts_again_since_an_unclean_election_cut_the_log(tmp_path: Path) -> None:
    made = history(COMMITTED, [*RECEIVED, *AGAIN], marks=LOGS, views=UNCLEAN)
    (reset,) = found(made, tmp_path)
    assert (reset["class"], reset["offset"], reset["found_offset"], reset["count"]) == (
        "group_reset",
        22,
        0,
        22,
    )
    assert cause_of(reset) == (
        "unclean election: broker2 became leader in epoch 2 although the in-sync replicas were [1]"
    )
    assert [(row["table"], row["ns"] // S) for row in map(json.loads, reset["evidence"])] == [
        ("groups", 54),
        ("views", 27),
        ("watermarks", 5),
        ("reads", 55),
    ]
    evidence = gather(open_source(tmp_path))
    step = StreamStep(group="g", reader=1, ns=55 * S, before_reader=1, before_ns=10 * S, back=True)
    assert causes_of_steps(evidence, "t", 0, [step]).own.to_pylist() == [False]


def wiped(second: int, *partitions: str) -> Row:
    targets = json.dumps({"hosts": ["broker2"], "partitions": list(partitions)})
    row = {
        "ns": second * S,
        "fault": 1,
        "name": "wipe t/0 on broker2",
        "kind": "storage",
        "mechanism": "wipe",
    }
    return row | {"moment": "injected", "targets": targets}


def test_a_group_starts_again_since_the_log_was_wiped_or_cut(tmp_path: Path) -> None:
    views = (leads(2, 0, 0, (2,)), leads(2, 2, 27, (2,)))
    marks = (log(2, 10, 22), log(2, 28, 0))
    made = history(COMMITTED, [*RECEIVED, *AGAIN], marks=marks, views=views, faults=[wiped(26, "t/0")])
    (reset,) = found(made, tmp_path / "wiped")
    assert cause_of(reset).startswith("last in-sync replica wiped")
    cut = {"ns": 28 * S, "host": "broker1", "kind": "truncated", **PLACE, "offset": 12}
    made = history(
        COMMITTED, [*RECEIVED, *AGAIN], marks=LOGS, views=(UNCLEAN[0], UNCLEAN[2]), log_events=[cut]
    )
    for row in made.rows["views"]:
        row["isr"] = [1, 2, 3]
    (reset,) = found(made, tmp_path / "cut")
    assert cause_of(reset) == "truncated: broker1 truncated its log to offset 12"


BACK = {
    "the leader has the position": history(
        COMMITTED, [*RECEIVED, *AGAIN], marks=(*LOGS, log(2, 20, 22)), views=UNCLEAN
    ),
    "the election was before the commit": history(
        COMMITTED, [*RECEIVED, *AGAIN], marks=LOGS, views=(leads(1, 0, 0), leads(2, 2, 9, (2,)))
    ),
    "nobody was elected": history(COMMITTED, [*RECEIVED, *AGAIN], marks=LOGS, views=UNCLEAN[:1]),
    "a clean election": history(
        COMMITTED, [*RECEIVED, *AGAIN], marks=LOGS, views=(leads(1, 0, 0), leads(2, 2, 27))
    ),
    "nobody watched the logs": history(COMMITTED, [*RECEIVED, *AGAIN], views=UNCLEAN),
    "it sought": history(
        [*COMMITTED, event("sought", 1, 54, offset=0)], [*RECEIVED, *AGAIN], marks=LOGS, views=UNCLEAN
    ),
    "it goes on at its position": history(
        COMMITTED, [*RECEIVED, (1, 55, 22), (1, 55, 23)], marks=LOGS, views=UNCLEAN
    ),
    "another group": history(
        [row | {"group": "other"} for row in COMMITTED], [*RECEIVED, *AGAIN], marks=LOGS, views=UNCLEAN
    ),
}


@pytest.mark.parametrize("name", BACK)
def test_a_member_that_goes_back_was_not_reset_by_a_truncation(tmp_path: Path, name: str) -> None:
    assert found(BACK[name], tmp_path) == []


SLOW = (assigned(1, 1, 0), event("committed", 1, 11, offset=22), event("lost", 1, 16), assigned(1, 40, 22))
"""A member was away while retention removed what it had not received."""
LED = (leads(1, 0, 0),)
RETIRED = (log(1, 10, 22), log(1, 20, 122), log(1, 30, 122, log_start=100))


def promise_of(finding: Row, folder: Path) -> str:
    facts = facts_of(gather(open_source(folder)))
    return judge(dict.fromkeys(FINDING.names) | finding, facts).promise


def test_retention_removes_what_a_group_has_not_received(tmp_path: Path) -> None:
    made = history(SLOW, [*RECEIVED, (1, 41, 100), (1, 41, 101)], marks=RETIRED, views=LED, topic=TOPIC)
    (reset,) = found(made, tmp_path)
    assert (reset["class"], reset["offset"], reset["found_offset"]) == ("group_reset", 22, 100)
    assert cause_of(reset) == "retention by time: retention.ms=3000"
    assert [row["table"] for row in map(json.loads, reset["evidence"])] == [
        *("groups", "configs", "watermarks", "reads")
    ]
    assert promise_of(reset, tmp_path) == "not promised"


def test_retention_overtakes_a_member_that_keeps_its_partition(tmp_path: Path) -> None:
    made = history(SLOW[:2], [*RECEIVED, (1, 41, 100), (1, 41, 101)], marks=RETIRED, views=LED, topic=TOPIC)
    (reset,) = found(made, tmp_path)
    assert (reset["offset"], reset["found_offset"]) == (22, 100)


def test_a_log_that_begins_late_without_retention_breaks_a_promise(tmp_path: Path) -> None:
    off = TOPIC | {"retention.ms": "-1"}
    made = history(SLOW, [*RECEIVED, (1, 41, 100)], marks=RETIRED, views=LED, topic=off)
    (reset,) = found(made, tmp_path)
    assert cause_of(reset) == EARLY_START
    assert promise_of(reset, tmp_path) == "broken"


DATED: Row = {"writer": 1, "name": "w", "client": "raw"}
DELETED: Row = {"host": "broker1", "kind": "records_deleted", **PLACE, "offset": 100}


@pytest.mark.parametrize(
    ("topic", "tables", "cause"),
    [
        pytest.param({"retention.ms": "60000"}, {"writers": [DATED]}, EARLY_START, id="too early"),
        pytest.param(
            {"retention.ms": "60000"},
            {"writers": [DATED | {"client": "program"}]},
            "retention by time: retention.ms=60000",
            id="a program chose the timestamps",
        ),
        pytest.param({"cleanup.policy": "compact"}, {}, EARLY_START, id="nothing is deleted by age"),
        pytest.param(
            {"retention.ms": "-1", "retention.bytes": "2000"},
            {},
            "retention by size: retention.bytes=2000",
            id="by size",
        ),
        pytest.param(
            {"retention.ms": "-1"},
            {"log_events": [DELETED | {"ns": 29 * S}]},
            "records deleted: a client's request deleted those before offset 100",
            id="on request",
        ),
        pytest.param(
            {"retention.ms": "-1"},
            {"log_events": [{"ns": 29 * S, "host": "broker1", "kind": "topic_deleted", "topic": "t"}]},
            "topic deleted: t was deleted",
            id="with the topic",
        ),
        pytest.param(
            {"retention.ms": "-1"},
            {"log_events": [{"ns": 5 * S, "host": "broker1", "kind": "topic_deleted", "topic": "t"}]},
            EARLY_START,
            id="the topic was deleted before",
        ),
    ],
)
def test_why_a_log_begins_above_a_position(
    tmp_path: Path, topic: dict[str, str], tables: dict[str, list[Row]], cause: str
) -> None:
    made = history(SLOW, [*RECEIVED, (1, 41, 100)], marks=RETIRED, views=LED, topic=TOPIC | topic, **tables)
    (reset,) = found(made, tmp_path)
    assert cause_of(reset) == cause
    assert promise_of(reset, tmp_path) == ("broken" if cause == EARLY_START else "not promised")


def test_a_log_that_begins_late_for_an_unknown_reason_is_not_judged(tmp_path: Path) -> None:
    made = history(SLOW, [*RECEIVED, (1, 41, 100)], marks=RETIRED, views=LED)
    (reset,) = found(made, tmp_path)
    assert cause_of(reset).startswith("not known: retention may have removed it")
    assert promise_of(reset, tmp_path) == "unknown"


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param((*RETIRED[:2], log(1, 30, 122, log_start=22)), id="the log begins at the position"),
        pytest.param((*RETIRED[:2], log(1, 43, 122, log_start=100)), id="retention came later"),
        pytest.param((*RETIRED[:2], log(2, 30, 122, log_start=100)), id="on a follower"),
    ],
)
def test_a_member_that_goes_ahead_was_not_reset(tmp_path: Path, marks: tuple[Row, ...]) -> None:
    made = history(SLOW, [*RECEIVED, (1, 41, 100)], marks=marks, views=LED, topic=TOPIC)
    assert [row["class"] for row in found(made, tmp_path)] == []


# ---- groups that stand still

OFFSETS: Row = {"topic": "__consumer_offsets"}
JOINED = {"topic": None, "partition": None, "protocol": "classic", "session_ms": 6000}
STOOD = (
    event("joined", 1, 1, **JOINED),
    assigned(1, 1, 0),
    event("committed", 1, 11, offset=12),
    event("lost", 1, 18),
    event("joined", 1, 44, **JOINED),
    assigned(1, 44, 12),
)
"""As with Kafka 2.7.1: the only replica of __consumer_offsets was down from 14 s to 38 s."""
READ = tuple((1, 10, offset) for offset in range(12))
NO_COORDINATOR = (
    leads(2, 0, 0),
    leads(1, 0, 0, (1,), **OFFSETS),
    leads(-1, 1, 18, (1,), **OFFSETS),
    leads(1, 2, 38, (1,), **OFFSETS),
)
ARRIVED = (log(2, 10, 12), log(2, 22, 22))


def test_a_group_stands_still_without_a_coordinator(tmp_path: Path) -> None:
    made = history(STOOD, [*READ, (1, 45, 12)], marks=ARRIVED, views=NO_COORDINATOR)
    (stall,) = found(made, tmp_path)
    assert (stall["class"], stall["offset"]) == ("group_stalled", 12)
    assert cause_of(stall) == "no coordinator: __consumer_offsets/0 had no leader for 20.0 s"
    assert detail_in_words(stall) == "nobody owned it for 22.0 s"
    assert [(row["table"], row["ns"] // S) for row in map(json.loads, stall["evidence"])] == [
        ("groups", 18),
        ("watermarks", 22),
        ("views", 18),
        ("groups", 44),
    ]
    assert promise_of(stall, tmp_path) == "not promised"


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ([event("commit_failed", 1, 30, offset=12, error=14)], "coordinator loading"),
        ([event("commit_failed", 1, 30, offset=12, error=82)], "member fenced"),
        ([event("joined", 2, 30, **JOINED)], "rebalance: 14.0 s passed from the first join"),
        ([], "not known"),
    ],
)
def test_why_a_group_stands_still(tmp_path: Path, more: list[Row], cause: str) -> None:
    made = history([*STOOD, *more], [*READ, (1, 45, 12)], marks=ARRIVED, views=NO_COORDINATOR[:2])
    (stall,) = found(made, tmp_path)
    assert cause_of(stall).startswith(cause)


def cut_client(until: int) -> tuple[Row, Row]:
    row = {"fault": 1, "name": "isolate client3", "kind": "link", "mechanism": "cut"}
    row["targets"] = json.dumps({"links": ["client3 -> broker1"]})
    return row | {"ns": 12 * S, "moment": "injected"}, row | {"ns": until * S, "moment": "healed"}


STILL: dict[str, History] = {
    "nothing arrived": history(STOOD, [*READ, (1, 45, 12)], marks=ARRIVED[:1], views=NO_COORDINATOR),
    "it arrived late": history(
        STOOD, [*READ, (1, 45, 12)], marks=(ARRIVED[0], log(2, 30, 22)), views=NO_COORDINATOR
    ),
    "the transaction was open": history(
        STOOD,
        [*READ, (1, 45, 12)],
        marks=(ARRIVED[0], log(2, 22, 22, last_stable_offset=12)),
        views=NO_COORDINATOR,
    ),
    "it was quick": history(
        [*STOOD[:4], event("joined", 1, 32, **JOINED), assigned(1, 32, 12)],
        READ,
        marks=ARRIVED,
        views=NO_COORDINATOR,
    ),
    "its sessions are longer": history(
        [row | {"session_ms": 10_000} if row["event"] == "joined" else row for row in STOOD],
        READ,
        marks=ARRIVED,
        views=NO_COORDINATOR,
    ),
    "its sessions are not known": history(
        [row | {"session_ms": None} if row["event"] == "joined" else row for row in STOOD],
        READ,
        marks=ARRIVED,
        views=NO_COORDINATOR,
    ),
    "the member left, and another one came": history(
        [*STOOD[:3], event("revoked", 1, 18), event("joined", 2, 44, **JOINED), assigned(2, 44, 12)],
        [*READ, (2, 45, 12)],
        marks=ARRIVED,
        views=NO_COORDINATOR,
    ),
    "another member owned the partition": history(
        [*STOOD[:3], event("lost", 1, 18), assigned(2, 19, 12), event("revoked", 2, 43), *STOOD[4:]],
        [*READ, (1, 45, 12)],
        marks=ARRIVED,
        views=NO_COORDINATOR,
    ),
    "the partition had no leader": history(
        STOOD, [*READ, (1, 45, 12)], marks=ARRIVED, views=(*NO_COORDINATOR, leads(-1, 1, 23), leads(2, 2, 35))
    ),
    "the client was cut off": history(
        STOOD, [*READ, (1, 45, 12)], marks=ARRIVED, views=NO_COORDINATOR, faults=cut_client(36)
    ),
}


@pytest.mark.parametrize("name", STILL)
def test_a_group_that_does_not_stand_still(tmp_path: Path, name: str) -> None:
    assert [row for row in found(STILL[name], tmp_path) if row["class"] == "group_stalled"] == []


def test_a_cut_that_was_healed_early_explains_no_stall(tmp_path: Path) -> None:
    made = history(STOOD, [*READ, (1, 45, 12)], marks=ARRIVED, views=NO_COORDINATOR, faults=cut_client(24))
    assert [row["class"] for row in found(made, tmp_path)] == ["group_stalled"]
