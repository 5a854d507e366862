"""Kafka's real behaviours with transactions are each named rightly, and nothing else is named."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from report.words.causes import cause_in_words, cause_of
from tests.anomalies.transactions import (
    TRANSACTIONS,
    Story,
    ended,
    ended_by,
    lost_marker,
    still_open,
)
from tests.blocks import blocks_of_rows
from tests.histories import History
from tests.sampling import every
from tests.transactions import judged, ordered

NOT_KNOWN = cause_in_words("unexplained_transaction", {})


@cache
def found_in(name: str) -> Mapping[str, list[dict[str, Any]]]:
    """What is found in one of these histories; several tests look at it."""
    with tempfile.TemporaryDirectory() as folder:
        return judged(TRANSACTIONS[name][1], Path(folder) / "history")


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_names_what_is_wrong_and_nothing_else(name: str) -> None:
    sentence, _, expected = TRANSACTIONS[name]
    findings = found_in(name)["findings"]
    assert {(r["class"], r["partition"], r["offset"], r["seq"]) for r in findings} == expected, sentence
    assert len(findings) == len(expected)


@pytest.mark.parametrize("name", every(12, [*TRANSACTIONS, "operator unknown"]))
def test_blocks_and_split_files_come_to_the_same(name: str, tmp_path: Path) -> None:
    history = TRANSACTIONS[name][1] if name in TRANSACTIONS else aborted_by(None)
    together = judged(history, tmp_path / "together")
    with blocks_of_rows(1):
        one_by_one = judged(history, tmp_path / "one by one", split_rows=2)
    assert {table: ordered(rows) for table, rows in one_by_one.items()} == {
        table: ordered(rows) for table, rows in together.items()
    }


FATES = {
    "committed": [("committed", "all", 2, 2, None)],
    "aborted": [("aborted", "none", 2, 0, None)],
    "late-abort": [("aborted", "none", 1, 0, None), ("committed", "part", 2, 1, "torn_transaction")],
    "late-commit": [("committed", "all", 1, 1, None), ("aborted", "part", 2, 1, "torn_transaction")],
    "late-commit-then-write": [
        ("committed", "all", 1, 1, None),
        ("committed", "part", 2, 1, "hanging_transaction"),
    ],
    "late-commit-alone": [("committed", "all", 1, 1, None), ("unknown", "all", 1, 1, "aborted_read")],
    "lost-marker": [("committed", "none", 1, 0, "hanging_transaction")],
    "lost-marker-committed": [("committed", "all", 1, 1, None), ("committed", "all", 1, 1, None)],
    "halfway-unknown": [("unknown", "part", 2, 1, None)],
    "open": [("open", "none", 1, 0, None)],
    "blocked": [("open", "none", 1, 0, None), ("committed", "none", 1, 0, None)],
    "committed-and-lost": [("committed", "part", 2, 1, None)],
    "no-markers": [("committed", "unknown", 1, 0, None)],
    "missing-of-librdkafka": [("committed", "part", 2, 1, "torn_transaction")],
    "missing-of-raw": [("committed", "part", 2, 1, None)],
    "refused-of-librdkafka": [("committed", "all", 2, 1, None)],
    "retired-of-librdkafka": [("committed", "all", 2, 1, None)],
    "owed": [("committed", "part", 2, 1, None)],
    "late-commit-then-commit": [
        ("committed", "all", 1, 1, None),
        ("committed", "all", 2, 2, "torn_transaction"),
    ],
}
"""What was reported, how much is visible, messages, readable messages, and the finding."""


@pytest.mark.parametrize("name", FATES)
def test_every_transaction_has_a_fate(name: str) -> None:
    fates = found_in(name)["fates"]
    columns = ("reported", "visible", "messages", "readable", "finding")
    assert [tuple(row[column] for column in columns) for row in fates] == FATES[name]


CAUSES = {
    "late-abort": "late marker: a delayed request to abort of transaction 1 ended this transaction",
    "late-commit": "late marker: a delayed request to commit of transaction 1 ended this transaction",
    "late-commit-then-write": "late marker: a delayed request to commit of transaction 1",
    "late-commit-alone": "late marker: a delayed request to commit of transaction 1 ended this transaction",
    "late-produce": "late write: offset 2 stands behind the marker at offset 1 that ended the transaction",
    "late-produce-committed": "late write: offset 2 stands behind the marker at offset 1 that ended the "
    "transaction, and the commit at offset 4 of transaction 2 decided it",
    "lost-marker": "unclean election: its marker is not in the log (broker2 became leader in epoch 1",
    "lost-marker-aborted": "its own marker is not in the log (broker2 became leader in epoch 1",
    "lost-marker-operator": "ended by an operator: the marker at offset 2 has no coordinator epoch",
    "zombie-read": "another producer with the same transactional id had begun a transaction",
    "zombie-before-successor-begins": "another producer with the same transactional id had been given a "
    "producer id before it was sent",
    "timed-out-reported": "aborted by the coordinator, which raised the producer epoch to 1: it timed out or",
    "open-overdue": "not ended by its time-out",
    "halfway-reported": "the marker is missing: the application learned that it committed",
    "missing-of-librdkafka": "missing message: nobody answered for it, and no log has it, although "
    "librdkafka asks for a commit only when every message is acknowledged",
    "owed-overdue": "the coordinator had not finished: broker3 stated PrepareCommit at ",
    "owed-elsewhere": "the marker is missing: the application learned that it committed",
    "owed-no-more": "the marker is missing: the application learned that it committed",
    "owed-another-end": "the marker is missing: the application learned that it committed",
    "late-commit-then-commit": "late marker: a delayed request to commit of transaction 1 ended this "
    "transaction (marker at offset 3 of t/0",
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named(name: str) -> None:
    (finding,) = found_in(name)["findings"]
    assert cause_of(finding).startswith(CAUSES[name])
    tables = [json.loads(text)["table"] for text in finding["evidence"]]
    assert tables, "a cause rests on rows of the history"
    assert ("views" in tables) == ("became leader" in cause_of(finding))


def aborted_in_one_partition(*, raised: bool, asked_earlier: bool) -> History:
    """One partition of a committed transaction got an abort marker; an earlier one ended as asked."""
    story = Story().event(1, "begin").write(1)
    ended(story.marker("abort" if asked_earlier else "commit"), 1, "abort" if asked_earlier else "commit")
    story.event(2, "begin").write(2).write(2, 1)
    story.marker("abort", epoch=int(raised)).marker("commit", 1)
    return ended(story, 2, "commit").done()


def aborted_by(coordinator: int | None) -> History:
    """A committed transaction was aborted by a marker of this coordinator epoch."""
    story = Story().event(1, "begin").write(1)
    ended(story, 1, "commit").marker("abort")
    story.logs[0][-1]["coordinator_epoch"] = coordinator
    return story.done()


def elected_instead(way_out: str, **changed: Any) -> History:
    """The marker is gone, and the election of broker 2 is another one than that which explains it."""
    history = lost_marker(way_out)
    history.rows["views"][-1] |= changed
    return history


def overdue(*, elected_ns: int, asked: bool = False) -> History:
    """Nobody learned of an end, the time-out has passed, and an election was unclean at this time."""
    if asked:
        story = ended(Story().event(1, "begin").write(1), 1, "commit", "unknown")
        history = story.done(ns=story.now + 71 * 10**9, last_stable_offset=0)
    else:
        history = still_open(waited_s=71)
    place = {"subject": "partition", "topic": "t", "partition": 0}
    history.add("views", ns=1, source="broker1", leader=1, epoch=0, isr=[1], **place)
    return history.add("views", ns=elected_ns, source="broker2", leader=2, epoch=1, isr=[2], **place)


def outdated(*, of: str, sent_first: bool) -> History:
    """A record of an earlier epoch is committed, and a producer with the id ``of`` began a transaction."""
    story = Story()
    story.history.add("writers", writer=2, name="q", transactional_id=of, client="raw")
    story.event(1, "begin").write(1).marker("abort", epoch=1)
    if not sent_first:
        story.event(1, "begin", writer=2)
    story.write(1)
    if sent_first:
        story.event(1, "begin", writer=2)
    story.marker("commit", epoch=1)
    story.write(1, writer=2, epoch=2).marker("commit", epoch=2)
    return ended_by(story, 1, 2).done()


MISSING = "the marker is missing: the application learned that it committed"
NO_ELECTION = "its own marker is not in the log: the marker at offset"
NOT_ENDED = "not ended by its time-out"
UNCLEAN = "unclean election: its marker is not in the log (broker2 became leader in epoch 1"
EARLIER_EPOCH = "a record of producer epoch 0 stands behind one of a later epoch"
LOOKALIKES: dict[str, tuple[History, str]] = {
    "overdue, and an election took the marker that the time-out wrote": (
        overdue(elected_ns=65 * 10**9),
        UNCLEAN,
    ),
    "overdue, and an election took the marker that the application asked for": (
        overdue(elected_ns=7_000, asked=True),
        UNCLEAN,
    ),
    "overdue, but the election came before the time-out": (overdue(elected_ns=30 * 10**9), NOT_ENDED),
    "overdue, but the election came before the transaction": (overdue(elected_ns=1_500), NOT_ENDED),
    "overdue, but an answer says that it ended": (
        ended(Story().event(1, "begin").write(1), 1, "commit").done(ns=71 * 10**9, last_stable_offset=0),
        MISSING,
    ),
    "fenced, but it was sent before the successor began": (
        outdated(of="x", sent_first=True),
        EARLIER_EPOCH,
    ),
    "fenced, but the producer that began has another id": (
        outdated(of="y", sent_first=False),
        EARLIER_EPOCH,
    ),
    "no late marker, since it raised the epoch": (
        aborted_in_one_partition(raised=True, asked_earlier=True),
        "aborted by the coordinator, which raised the producer epoch to 1",
    ),
    "no late marker, since nobody had asked to abort": (
        aborted_in_one_partition(raised=False, asked_earlier=False),
        NOT_KNOWN,
    ),
    "no operator, since a coordinator wrote it": (aborted_by(3), NOT_KNOWN),
    "no operator, as far as anybody knows": (aborted_by(None), NOT_KNOWN),
    "elected from the ISR, and the marker hangs": (elected_instead("nothing", leader=1), MISSING),
    "elected from the ISR, and aborted": (elected_instead("abort", leader=1), NO_ELECTION),
    "elected before the transaction ended": (elected_instead("nothing", ns=2500), MISSING),
    "elected in another partition": (elected_instead("abort", partition=1), NO_ELECTION),
}
"""Histories in which everything looks like a cause that is none, and what they come to."""


@pytest.mark.parametrize("name", LOOKALIKES)
def test_what_looks_like_a_cause_is_none(name: str, tmp_path: Path) -> None:
    history, says = LOOKALIKES[name]
    (finding,) = judged(history, tmp_path)["findings"]
    assert cause_of(finding).startswith(says)
    assert finding["evidence"], "what was reported and the markers"


def test_the_marker_that_decided_a_record_is_named() -> None:
    records = found_in("lost-marker-operator")["records"]
    columns = ("offset", "state", "marker", "marker_offset", "marker_epoch", "coordinator_epoch")
    assert [tuple(row[column] for column in columns) for row in records] == [
        (0, "aborted", "abort", 2, 0, -1)
    ]


def test_a_history_without_transactions_writes_nothing(tmp_path: Path) -> None:
    tables = judged(History().send(0, offset=0).logs([(0, 0)]), tmp_path)
    assert not any(tables.values())
    assert not list((tmp_path / "out" / "transactions").rglob("*.parquet"))
