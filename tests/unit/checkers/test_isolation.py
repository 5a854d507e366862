"""The anomalies of the unit tests of Jepsen's Kafka workload, as histories after their descriptions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.histories import History
from tests.oracles import duckdb_plan, findings_of
from tests.transaction_anomalies import unanswered
from tests.transactions import judged, ordered

Op = tuple[str, int, int]


class Ops:
    """Transactions as lists of operations: (`send`, partition, offset), (`poll`, partition, offset)."""

    def __init__(self) -> None:
        self.history = History()
        self.records: dict[tuple[int, int], dict[str, Any]] = {}
        self.now = 0
        self.ends: dict[int, str] = {}

    def txn(
        self, writer: int, ops: list[Op], *, reported: str = "committed", isolation: str = "read_committed"
    ) -> Ops:
        """One transaction of a producer and a consumer of the same number."""
        self.now += 1000
        self.history.add("transactions", ns=self.now, writer=writer, txn=1, event="begin")
        place = {"writer": writer, "txn": 1}
        for seq, (kind, partition, offset) in enumerate(ops):
            self.now += 10
            if kind == "send":
                key = {"writer": writer, "seq": seq, "producer_id": writer, "producer_epoch": 0}
                self.records[partition, offset] = key | {"transactional": True, "control": False}
                times = {"sent_ns": self.now, "done_ns": self.now + 1}
                self.history.send(seq, "ok", offset, partition=partition, **place, **times)
            else:
                self.history.add(
                    "reads", topic="t", partition=partition, reader=writer, ns=self.now, offset=offset,
                    isolation=isolation, txn_writer=writer, txn=1, writer=None, seq=None,
                )  # fmt: skip
        self.history.add("transactions", ns=self.now + 5, writer=writer, txn=1, event=reported)
        self.ends[writer] = reported
        return self

    def done(self) -> History:
        """The logs, with a marker of each producer at their end; and what stands where something was read."""
        for row in self.history.rows.get("reads", []):
            record = self.records[row["partition"], row["offset"]]
            row |= {"writer": record["writer"], "seq": record["seq"]}
        for partition in {partition for partition, _ in self.records}:
            log = [{"offset": o, **r} for (p, o), r in sorted(self.records.items()) if p == partition]
            for writer in {record["writer"] for record in log}:
                kind = "abort" if self.ends[writer] == "aborted" else "commit"
                end = {"offset": log[-1]["offset"] + 1, "writer": None, "seq": None, "producer_id": writer}
                log.append(
                    end | {"producer_epoch": 0, "control": True, "transactional": True, "marker": kind}
                )
            self.history.logs(log, partition=partition)
        return self.history


X, Y = 0, 1
G0 = Ops().txn(1, [("send", X, 0), ("send", Y, 1)]).txn(2, [("send", X, 1), ("send", Y, 0)])
G0.txn(3, [("poll", X, 0), ("poll", X, 1)])
G1C = Ops().txn(1, [("send", X, 0), ("poll", Y, 0)]).txn(2, [("send", Y, 0), ("poll", X, 0)])
G1C_WW = Ops().txn(1, [("send", X, 0), ("send", Y, 2)]).txn(2, [("poll", X, 0), ("send", Y, 1)])
G1A = Ops().txn(1, [("send", X, 0), ("send", Y, 0)], reported="aborted").txn(2, [("poll", X, 0)])
G1B = Ops().txn(1, [("send", X, 0), ("send", X, 1)]).txn(2, [("poll", X, 0)])
OWN = Ops().txn(1, [("send", X, 0), ("poll", X, 0)])
FINE = Ops().txn(1, [("send", X, 0), ("send", X, 1)]).txn(2, [("poll", X, 0), ("poll", X, 1), ("send", Y, 0)])
DIRTY = Ops().txn(1, [("send", X, 0), ("poll", X, 0)], isolation="read_uncommitted")

CASES: dict[str, tuple[str, Ops, set[tuple[str, bool, tuple[str, ...]]], dict[str, int]]] = {
    "g0": ("a write cycle, which Kafka allows", G0, {("G0", True, ("1/1", "2/1"))}, {}),
    "g1c-pure-wr": (
        "two transactions are visible to each other",
        G1C,
        {("G1c", False, ("1/1", "2/1"))},
        {"circular_read": 1},
    ),
    "g1c-ww-wr": (
        "it read what the other one wrote, and wrote before it: Kafka does not order writes by commits",
        G1C_WW,
        {("G1c", True, ("1/1", "2/1"))},
        {},
    ),
    "g1a": ("a failed write was observed", G1A, {("G1a", False, ("1/1", "2/1"))}, {"aborted_read": 1}),
    "g1b": ("a poll may end anywhere", G1B, {("G1b", True, ("1/1", "2/1"))}, {}),
    "precommitted-read": (
        "a transaction observed its own write",
        OWN,
        {("precommitted_read", False, ("1/1",))},
        {"precommitted_read": 1},
    ),
    "read-uncommitted": (
        "a reader of uncommitted records may do so",
        DIRTY,
        {("precommitted_read", True, ("1/1",))},
        {},
    ),
    "fine": ("one transaction reads all of another one's", FINE, set(), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_an_anomaly_between_transactions_is_named(name: str, tmp_path: Path) -> None:
    sentence, ops, expected, findings = CASES[name]
    found = judged(ops.done(), tmp_path)
    seen = {(row["anomaly"], row["allowed"], tuple(row["transactions"])) for row in found["anomalies"]}
    assert seen == expected, sentence
    classes = [row["class"] for row in found["findings"]]
    assert {name: classes.count(name) for name in classes} == findings, sentence


def kept(*offsets: int) -> History:
    history = History()
    for offset in offsets:
        history.send(offset, offset=offset)
    return history.logs([(offset, offset) for offset in offsets])


def polled(history: History, *polls: tuple[int, ...], reader: int = 1, start: int = 10_000) -> History:
    """A reader's polls, each with the offsets that it returned."""
    for number, offsets in enumerate(polls):
        for place, offset in enumerate(offsets):
            history.read(offset, offset, start + 1000 * number + place, reader=reader, poll=number)
    return history


POLLS: dict[str, tuple[str, History, dict[str, int]]] = {
    "poll-skip": (
        "polls skip what others saw; 5 is a gap",
        polled(kept(1, 2, 3, 4, 6, 7), (1, 2), (4,), (7,)),
        {"skip": 2},
    ),
    "int-poll-skip": ("one poll skips", polled(kept(1, 2, 4), (1, 4)), {"skip": 1}),
    "nonmonotonic-poll": (
        "it goes back", polled(kept(1, 2, 3, 4), (1, 2, 3), (2, 3, 4)), {"non_monotonic": 1}
    ),
    "int-nonmonotonic-poll": ("one poll goes back", polled(kept(1, 2, 3), (3, 1)), {"non_monotonic": 1}),
    "int-nonmonotonic-poll-same": ("and repeats", polled(kept(2, 3), (2, 3), (3,)), {"non_monotonic": 1}),
    "with-seek": (
        "between its polls it sought",
        polled(kept(1, 2, 3, 4), (1, 2, 3), (2, 3, 4)).add(
            "groups", ns=10_500, group="", reader=1, event="sought", topic="t", partition=0, offset=2
        ),
        {},
    ),
    "nonmonotonic-send": (
        "the later messages of one producer stand before its earlier ones",
        History().send(0, offset=3).send(1, offset=4).send(2, offset=1).send(3, offset=2)
        .logs([(1, 2), (2, 3), (3, 0), (4, 1)]),
        {"out_of_order": 2},
    ),
    "duplicate": (
        "one value at two offsets",
        History().send(1, offset=1).send(2, "info").logs([(1, 1), (2, 2), (3, 1)]),
        {"duplicated": 1},
    ),
    "inconsistent-offsets": (
        "two values were acknowledged at one offset: one of them is lost",
        History().send(1, offset=0).send(2, offset=0).logs([(0, 2)]),
        {"lost": 1},
    ),
    "lost-write": (
        "a and b were acknowledged below what was read",
        polled(History().send(0, offset=0).send(1, offset=1).send(2, "info").logs([(2, 2)]), (2,)),
        {"lost": 2},
    ),
    "lost-write-atomic": (
        "nobody told the producer of its transaction; one message can be read, and another one is nowhere",
        unanswered("java", reported="unknown").read(0, 0, 20_000),
        {"torn_transaction": 1},
    ),
}  # fmt: skip


def in_transactions(history: History, *polls: tuple[str, tuple[int, ...]]) -> History:
    """One reader's polls, each in a transaction of writer 7 that ended in this way."""
    for number, (end, offsets) in enumerate(polls):
        start = 10_000 + 1000 * number
        place = {"writer": 7, "txn": number}
        history.add("transactions", ns=start, event="begin", **place)
        for at, offset in enumerate(offsets):
            history.read(offset, offset, start + 1 + at, reader=1, txn_writer=7, txn=number)
        if end != "unknown":
            history.add("transactions", ns=start + 500, event=end, **place)
    return history


REWINDS: dict[str, tuple[str, History, dict[str, int]]] = {
    "abort-rewinds": (
        "not found: the reader went back after each transaction that was not committed",
        in_transactions(
            kept(0, 1, 2), ("committed", (0,)), ("aborted", (1, 2)), ("unknown", (1, 2)),
            ("committed", (1, 2)),
        ),
        {},
    ),
    "two-aborts-rewind": (
        "not found: it went back to where the first of two transactions without a commit had begun",
        in_transactions(
            kept(0, 1, 2, 3), ("committed", (0,)), ("aborted", (1, 2)), ("unknown", (3,)),
            ("committed", (1, 2, 3)),
        ),
        {},
    ),
    "abort-rewinds-too-far": (
        "found: it went back behind the transaction that was aborted",
        in_transactions(kept(0, 1, 2), ("committed", (0,)), ("aborted", (1, 2)), ("committed", (0, 1, 2))),
        {"non_monotonic": 1},
    ),
    "commit-rewinds": (
        "found: it went back behind a transaction that was committed",
        in_transactions(
            kept(0, 1, 2), ("aborted", (0,)), ("committed", (1,)), ("aborted", (2,)), ("committed", (1, 2))
        ),
        {"non_monotonic": 1},
    ),
    "rewinds-within-an-aborted-transaction": (
        "found: it went back before it gave the transaction up",
        in_transactions(kept(0, 1, 2), ("committed", (0,)), ("aborted", (1, 2, 1))),
        {"non_monotonic": 1},
    ),
    "abort-rewinds-by-seek": (
        "not found: the application sought before it read again",
        in_transactions(
            kept(0, 1, 2), ("committed", (0,)), ("aborted", (1, 2)), ("committed", (1, 2))
        ).add("groups", ns=11_900, group="", reader=1, event="sought", topic="t", partition=0, offset=1),
        {},
    ),
    "abort-does-not-rewind": (
        "not found: a Kafka consumer keeps its position when a producer aborts",
        in_transactions(
            kept(0, 1, 2, 3, 4, 5),
            ("committed", (0,)), ("aborted", (1, 2)), ("aborted", (3, 4)), ("committed", (5,)),
        ),
        {},
    ),
    "unknown-after-abort": (
        "not found, for the same reason",
        in_transactions(
            kept(0, 1, 2, 3, 4), ("committed", (0,)), ("aborted", (1, 2)), ("unknown", (3, 4))
        ),
        {},
    ),
    "int-nonmonotonic-send-info": (
        "not found: nobody told the producer in which order its messages were written",
        polled(
            History().send(0, "info").send(1, "info").send(2, "info", writer=2)
            .logs([(2, 1), {"offset": 3, "writer": 2, "seq": 2}, (4, 0)]),
        ),
        {},
    ),
    "duplicate-of-aborted": (
        "found, at the read: the log has one copy, and the reader was handed it at another offset",
        polled(History().send(0, offset=1).logs([(1, 0)])).read(11, 0, 10_000),
        {"offset_conflict": 1},
    ),
}  # fmt: skip
"""The other cases of those tests; the sentence says why each is found here or not."""


def wandering(seed: int) -> tuple[History, set[tuple[int, int]]]:
    """Readers that go back at random, in transactions that end at random; their steps back by brute force.

    A step back is the offset and the time to which a reader went back for no reason.
    """
    draw, history = random.Random(seed), kept(0, 1, 2, 3)
    ends = {number: draw.choice(("committed", "aborted", "unknown", None)) for number in range(4)}
    for number, end in ends.items():
        if end is not None:
            history.add("transactions", ns=number, writer=7, txn=number, event="begin")
            history.add("transactions", ns=100 + number, writer=7, txn=number, event=end)
    found = set()
    for reader in (1, 2):
        floor, before, txn = None, (-1, None), None
        for place in range(draw.randrange(2, 12)):
            txn = draw.choice((txn, txn, None, *ends))
            offset = draw.choice((before[0] + 1, before[0] + 1, *range(4))) % 4
            ns = 10_000 * reader + place
            polled_in = {"txn_writer": None if txn is None else 7, "txn": txn}
            history.read(offset, offset, ns, reader=reader, **polled_in)
            explained = floor is not None and offset >= floor and txn != before[1]
            if place and offset <= before[0] and not explained:
                found.add((offset, ns))
            undone = txn is not None and ends[txn] not in ("committed", None)
            floor = None if not undone else offset if floor is None else min(floor, offset)
            before = (offset, txn)
    return history, found


@pytest.mark.parametrize("seed", range(12))
def test_steps_back_are_found_by_pieces_sql_and_brute_force(seed: int, tmp_path: Path) -> None:
    for number in range(4):
        history, expected = wandering(10 * seed + number)
        found = ways_to_findings(history, tmp_path / str(number))
        back = sorted(row["offset"] for row in found if row["class"] == "non_monotonic")
        assert back == sorted(offset for offset, _ in expected)


@pytest.mark.parametrize("name", REWINDS)
def test_pieces_and_sql_agree_on_what_a_reader_may_repeat(name: str, tmp_path: Path) -> None:
    ways_to_findings(REWINDS[name][1], tmp_path)


def ways_to_findings(history: History, tmp_path: Path) -> list[dict[str, Any]]:
    """The findings by the fast plan, which are also those of its pieces and of the SQL."""
    whole = judged(history, tmp_path / "whole")["findings"]
    for size in (1, 2):
        cut = judged(history, tmp_path / f"cut-{size}", piece_messages=size, split_rows=2)["findings"]
        assert ordered(cut) == ordered(whole)
    with duckdb_plan(tmp_path / "whole") as general:
        place = ("class", "topic", "partition", "offset", "writer", "seq")
        assert sorted(map(str, findings_of(general))) == sorted(
            str(tuple(row[key] for key in place)) for row in whole
        )
    return whole


@pytest.mark.parametrize("name", [*POLLS, *REWINDS])
def test_what_polls_skip_or_repeat_is_named(name: str, tmp_path: Path) -> None:
    sentence, history, expected = {**POLLS, **REWINDS}[name]
    classes = [row["class"] for row in judged(history, tmp_path)["findings"]]
    assert {name: classes.count(name) for name in classes} == expected, sentence
