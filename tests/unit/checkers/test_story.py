"""The events that a story keeps: the state at the send, and the events until the fate was settled."""

from __future__ import annotations

from pathlib import Path

from checkers.ask.story import _relevant, _ReportedEvent
from checkers.ask.transaction import StoryLine, offset_events
from checkers.evidence import gather
from checkers.tables.source import open_source
from tests.histories import History

EVENTS = [
    _ReportedEvent(1, "broker1 says: leader 1", "view of broker1"),
    _ReportedEvent(2, "broker1 says: leader 2", "view of broker1"),
    _ReportedEvent(3, "fault `cut` injected", "fault 1"),
    _ReportedEvent(4, "fault `cut` healed", "fault 1", over=True),
    _ReportedEvent(5, "fault `kill` injected", "fault 2"),
    _ReportedEvent(6, "— a mark"),
    _ReportedEvent(12, "broker2 logged: became leader"),
    _ReportedEvent(30, "broker1 says: leader 3", "view of broker1"),
]


def test_what_came_before_the_send_is_its_latest_state() -> None:
    shown, later = _relevant(EVENTS, since=10, until=20)
    assert shown == [
        (2, "broker1 says: leader 2"),
        (5, "fault `kill` injected"),
        (12, "broker2 logged: became leader"),
    ]
    assert later == 1


def test_an_unsettled_fate_keeps_everything_after_the_send() -> None:
    shown, later = _relevant(EVENTS, since=10, until=None)
    assert (30, "broker1 says: leader 3") in shown
    assert later == 0


def test_the_story_of_a_transaction_has_its_offsets(tmp_path: Path) -> None:
    place = {"group": "g", "reader": 3, "topic": "t", "partition": 0, "txn_writer": 1}
    history = (
        History()
        .add("groups", ns=10, event="sent", offset=5, txn=0, error=0, **place)
        .add("groups", ns=20, event="committed", offset=5, txn=0, error=0, **place)
        .add("groups", ns=30, event="sent", offset=6, txn=1, error=0, **place)
        .add("groups", ns=40, event="commit_failed", offset=6, txn=1, error=48, **place)
        .add("groups", ns=50, event="committed", offset=7, group="g", reader=3, topic="t", partition=0)
    )
    evidence = gather(open_source(history.write(tmp_path)))
    assert list(offset_events(evidence, {"writer": 1, "txn": 0})) == [
        (10, "offset 5 of t/0 for group g handed to it"),
        (20, "offset 5 of t/0 for group g committed"),
    ]
    assert [text for _, text in offset_events(evidence, {"writer": 1, "txn": 1})] == [
        "offset 6 of t/0 for group g handed to it",
        "offset 6 of t/0 for group g not known to be committed (error 48)",
    ]


def test_times_of_a_story_count_from_the_first_fault(tmp_path: Path) -> None:
    fault = {"fault": 0, "name": "cut", "kind": "link"}
    history = (
        History()
        .add("views", ns=1_000_000_000, source="broker1", subject="reachable")
        .add("faults", ns=4_000_000_000, moment="injecting", **fault)
        .add("faults", ns=4_250_000_000, moment="injected", **fault)
        .add("faults", ns=9_000_000_000, moment="healed", **fault)
    )
    evidence = gather(open_source(history.write(tmp_path)))
    assert (evidence.start_ns, evidence.zero) == (1_000_000_000, (4_250_000_000, "cut"))
    assert str(StoryLine.zero(evidence.zero)) == "       at 0 s  the first fault, `cut`, began"
    lines = [StoryLine.at((ns - evidence.zero.ns) / 1e9, "it") for ns in (1_000_000_000, 4_250_000_000)]
    assert [str(line) for line in lines] == ["    −3.250 s  it", "     0.000 s  it"]
