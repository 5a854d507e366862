"""Claims about fencing that hold only since Kafka 4.3, on a stored run rewritten to what 4.3 does."""

from __future__ import annotations

import pytest

from run.catalogue import find
from tests.runs.mutants import Recorded
from tests.runs.stored import StoredRun, judge_tables, read_stored
from tests.runs.turning import judge_mutants

NAME = "fenced-zombie-producer-isr-of-one"
TURNED = {
    "marker-skipped": "leader-stands",
    "leader-does-not-know": "acknowledged-lost",
    "fenced-is-read": "decided-otherwise",
}
"""Each claim that holds since 4.3 only, and a mutant that makes it false."""


def as_since_4_3() -> StoredRun:
    """The successor is answered at once, the fenced producer's last message stands where the marker stood."""
    run = read_stored(NAME)
    recorded = Recorded(run.tables)
    marks = recorded.rows("marks")
    for mark in marks:
        mark["facts"] = (mark["facts"] or "").replace('"error":51', '"error":0') or None
    sends = recorded.rows("sends")
    (late,) = (row for row in sends if row["label"] == "w5")
    late |= {"outcome": "ok", "error": 0, "offset": 5}
    copies = recorded.rows("copies")
    (first,) = (row for row in copies if (row["offset"], row["broker"]) == (0, 1))
    for number, row in enumerate(copies):
        if row["marker"] == "abort":
            copies[number] = first | {
                "broker": row["broker"],
                "offset": 5,
                "epoch": row["epoch"],
                "seq": late["seq"],
            }
    reads = recorded.rows("reads")
    one = reads[-1]
    for reader, ns in {row["reader"]: row["ns"] for row in reads}.items():
        reads += [
            one
            | {
                "reader": reader,
                "ns": ns,
                "offset": row["offset"],
                "writer": row["writer"],
                "seq": row["seq"],
            }
            for row in copies
            if row["writer"] == late["writer"] and row["broker"] == 1
        ]
    reads.sort(key=lambda row: (row["ns"], row["reader"], row["offset"]))
    changed = recorded.having(marks=marks, sends=sends, copies=copies, reads=reads)
    assert changed is not None
    return StoredRun(NAME, changed.tables, find(NAME).declared("4.3.0"), "4.3.0", run.mode)


@pytest.fixture(scope="module")
def run() -> StoredRun:
    return as_since_4_3()


def test_they_are_the_claims_that_hold_since_4_3() -> None:
    scenario = find(NAME)
    assert {claim.name for claim in scenario.claims if claim.since == "4.3.0"} == set(TURNED)


def test_they_hold_where_the_marker_is_left_out(run: StoredRun) -> None:
    claims = {claim.name: claim for claim in judge_tables(run.tables, run.declared)}
    assert {name: claims[name].status for name in TURNED} == dict.fromkeys(TURNED, "confirmed")
    stored = {claim.name: claim.status for claim in judge_tables(read_stored(NAME).tables, run.declared)}
    assert {stored[name] for name in TURNED} == {"refuted"}


def test_each_is_turned_by_its_mutant(run: StoredRun) -> None:
    turned = dict(judge_mutants(run, sorted(TURNED.values())))
    assert not [claim for claim, mutant in TURNED.items() if claim not in turned.get(mutant, ())]


@pytest.mark.parametrize("epoch", [1, 2], ids=["written again", "of another epoch"])
def test_a_marker_that_the_coordinator_writes_again_counts_once(epoch: int) -> None:
    """Seen on 3.9.1: the leader got the held-up request after the heal, and the next leader another one."""
    stored = read_stored(NAME)
    recorded = Recorded(stored.tables)
    copies = recorded.rows("copies")
    markers = [row for row in copies if row["marker"] == "abort"]
    assert {row["producer_epoch"] for row in markers} == {1}
    (first,) = {row["offset"] for row in markers}
    for row in copies:
        row["offset"] += row["offset"] > first
    again = [row | {"offset": first + 1, "producer_epoch": epoch} for row in markers]
    changed = recorded.having(copies=[*copies, *again])
    assert changed is not None
    claims = {claim.name: claim.status for claim in judge_tables(changed.tables, stored.declared)}
    assert claims["kept-and-aborted"] == ("confirmed" if epoch == 1 else "refuted")
