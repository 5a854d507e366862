"""The anomalies of the unit tests of Jepsen's Kafka workload, as histories after their descriptions."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.anomalies.transactions import unanswered
from tests.blocks import blocks_of_rows
from tests.histories import History
from tests.jepsen_polls import POLLS, REASSIGNED, REWINDS, kept
from tests.jepsen_sends import SENDS, same_offsets
from tests.sampling import every
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
    tables = judged(ops.done(), tmp_path)
    seen = {(row["anomaly"], row["allowed"], tuple(row["transactions"])) for row in tables["anomalies"]}
    assert seen == expected, sentence
    classes = [row["class"] for row in tables["findings"]]
    assert {name: classes.count(name) for name in classes} == findings, sentence


ALL = {
    **POLLS,
    **REWINDS,
    **SENDS,
    **REASSIGNED,
    "lost-write-atomic-waiting": (
        "nobody told the producer of its transaction; one message can be read, and another one is nowhere",
        unanswered("java", reported="unknown").read(0, 0, 20_000),
        {"torn_transaction": 1},
    ),
}


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
    steps_back = set()
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
                steps_back.add((offset, ns))
            undone = txn is not None and ends[txn] not in ("committed", None)
            floor = None if not undone else offset if floor is None else min(floor, offset)
            before = (offset, txn)
    return history, steps_back


@pytest.mark.parametrize("seed", every(24, range(24)))
def test_steps_back_are_found_by_checker_and_brute_force(seed: int, tmp_path: Path) -> None:
    for number in range(2):
        history, expected = wandering(10 * seed + number)
        findings = judged(history, tmp_path / str(number))["findings"]
        back = sorted(row["offset"] for row in findings if row["class"] == "non_monotonic")
        assert back == sorted(offset for offset, _ in expected)


@pytest.mark.parametrize("name", every(8, {**REWINDS, **SENDS, **REASSIGNED}))
def test_blocks_and_split_files_change_nothing(name: str, tmp_path: Path) -> None:
    together = judged(ALL[name][1], tmp_path / "together")["findings"]
    with blocks_of_rows(1):
        one_by_one = judged(ALL[name][1], tmp_path / "one by one", split_rows=2)["findings"]
    assert ordered(one_by_one) == ordered(together)


@pytest.mark.parametrize("name", ALL)
def test_what_polls_and_sends_get_wrong_is_named(name: str, tmp_path: Path) -> None:
    sentence, history, expected = ALL[name]
    classes = [row["class"] for row in judged(history, tmp_path)["findings"]]
    assert {name: classes.count(name) for name in classes} == expected, sentence


@pytest.mark.parametrize("stands", [0, 9])
def test_duplicates_do_not_depend_on_order(stands: int, tmp_path: Path) -> None:
    """Whichever of ten messages is at both offsets, and in whatever order the history names them."""
    history = same_offsets(10, stands)
    for seed in range(3):
        shuffled = History(
            {name: random.Random(seed).sample(rows, len(rows)) for name, rows in history.rows.items()}
        )
        classes = {(row["class"], row["seq"]) for row in judged(shuffled, tmp_path / str(seed))["findings"]}
        gone = {("lost_after_read", seq) for seq in range(10) if seq != stands}
        assert classes == {("duplicated", stands)} | gone
