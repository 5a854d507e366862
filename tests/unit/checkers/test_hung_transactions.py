"""A transaction that is open for a leader and over for its coordinator hung until something ended it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from checkers.evidence import SMALL, evidence_of
from checkers.transactions.hung import hung_transactions
from harness.history.schema import TABLES

S = 1_000_000_000
Rows = list[dict[str, Any]]


def led(*found: tuple[float, int | None], broker: int = 2) -> Rows:
    """What the leader of `t/0` knows of producer 7: seconds, and where its open transaction begins."""
    fixed = {"topic": "t", "partition": 0, "broker": broker, "producer_id": 7}
    return [{**fixed, "ns": int(s * S), "transaction_start": start} for s, start in found]


def coordinated(*found: tuple[float, str, str], broker: int = 3, producer: int = 7) -> Rows:
    """What a coordinator knows of `orders`: seconds, state, partitions."""
    fixed = {"broker": broker, "transactional_id": "orders", "producer_id": producer}
    return [{**fixed, "ns": int(s * S), "state": state, "partitions": parts} for s, state, parts in found]


def elected(*found: tuple[float, int]) -> Rows:
    """Who is elected leader of `t/0`, and when."""
    fixed = {"source": "broker3", "subject": "partition", "topic": "t", "partition": 0, "isr": [2, 3]}
    return [
        {**fixed, "ns": int(s * S), "leader": leader, "epoch": epoch}
        for epoch, (s, leader) in enumerate(found)
    ]


def findings(producers: Rows, transactions: Rows, views: Rows | None = None) -> Rows:
    tables = {name: TABLES[name].arrow().empty_table() for name in SMALL}
    for name, rows in (
        ("producer_states", producers),
        ("transaction_states", transactions),
        ("views", views or []),
    ):
        tables[name] = pa.Table.from_pylist(rows, schema=TABLES[name].arrow())
    return list(hung_transactions(evidence_of(tables)))


OPEN = led((1, 4), (3, 4), (5, 4), (7, 4), (8, None))
OVER = coordinated(
    (1, "Ongoing", "t/0"), (2, "CompleteCommit", ""), (5, "CompleteCommit", ""), (9, "Empty", "")
)


def test_a_transaction_that_its_coordinator_has_forgotten_hung() -> None:
    (found,) = findings(OPEN, OVER)
    assert (found["class"], found["topic"], found["partition"], found["offset"]) == (
        "hung_transaction",
        "t",
        0,
        4,
    )
    assert "broker2 from 1.0 s to 6.0 s" in found["detail"]
    assert "orders (producer id 7) is CompleteCommit on broker3" in found["detail"]


@pytest.mark.parametrize(
    ("producers", "transactions"),
    [
        pytest.param(OPEN, [], id="nobody says anything of the transaction"),
        pytest.param(led((1, 4), (3, 4), (7, 4)), OVER, id="still open at the end: the final logs tell"),
        pytest.param(led((1, 4), (4, 4), (20, None)), OVER, id="the leader was silent after 4 s"),
        pytest.param(
            OPEN,
            coordinated((1, "Ongoing", "t/0"), (2, "CompleteCommit", ""), (3, "CompleteCommit", "")),
            id="the coordinator was silent after 3 s",
        ),
        pytest.param(
            OPEN, coordinated((1, "Ongoing", "t/0"), (9, "Ongoing", "t/0")), id="the coordinator knows of it"
        ),
        pytest.param(
            OPEN,
            coordinated((1, "PrepareCommit", "s/1,t/0"), (9, "PrepareCommit", "t/0")),
            id="its marker is under way",
        ),
        pytest.param(
            OPEN,
            [*OVER, *coordinated((4, "Ongoing", "t/0"), broker=1)],
            id="another coordinator knows of it in between",
        ),
        pytest.param(
            OPEN,
            [
                *coordinated((0.9, "PrepareCommit", ""), broker=1),
                *coordinated((5.4, "PrepareCommit", "s/1"), (6, "CompleteCommit", "")),
            ],
            id="it began after the last answer of a coordinator that was killed",
        ),
        pytest.param(
            led((1, 4), (8, 4), (9, None)),
            coordinated((0.9, "CompleteCommit", ""), (6.1, "PrepareCommit", "s/1")),
            id="its coordinator was silent for more than five seconds",
        ),
        pytest.param(
            led((1, 4), (3, 4), (3.5, 6), (5, 6), (7, None)), OVER, id="two transactions, neither for long"
        ),
        pytest.param(OPEN, [row | {"producer_id": 8} for row in OVER], id="another producer"),
    ],
)
def test_what_is_no_hung_transaction(producers: Rows, transactions: Rows) -> None:
    assert findings(producers, transactions) == []


def test_a_leader_that_was_deposed_says_nothing_that_counts() -> None:
    assert len(findings(OPEN, OVER, elected((0, 2), (7.5, 1)))) == 1
    assert findings(OPEN, OVER, elected((0, 2), (4, 1))) == []
    other = [*led((1, 4), (3, 4), (5, 4), broker=1), *led((6, None))]
    assert findings(other, OVER) == [], "it has no end at the broker that said it was open"


def test_a_follower_without_the_marker_says_nothing_that_counts() -> None:
    assert findings(OPEN, OVER, elected((0, 1))) == []
    assert findings(OPEN, OVER, elected((2, 1))) == [], "the first leader that is known led before"
    assert len(findings(OPEN, OVER, elected((0, 1), (2.5, 2)))) == 1, "it is elected without the marker"
    assert findings(OPEN, OVER, elected((0, 1), (5, 2))) == [], "it leads for a second"
    assert len(findings(OPEN, OVER, elected((0, 2), (0.5, 2), (0.7, 2)))) == 1, "it is elected again"


def test_an_open_transaction_without_this_partition_does_not_cover_it() -> None:
    ongoing = coordinated((1, "Ongoing", "t/1"), (5, "Ongoing", "t/1,t/10"), (9, "Ongoing", "s/0"))
    assert len(findings(OPEN, ongoing)) == 1
