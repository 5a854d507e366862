"""A transaction that is open for a leader and over for its coordinator hung until something ended it."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from checkers.evidence import SMALL, evidence_of
from checkers.transactions import hung
from checkers.transactions.hung import hung_transactions
from harness.history.schema import TABLES
from report.words.details import detail_in_words
from tests.mutants import Mutant, mutated
from tests.sampling import every

S = 1_000_000_000
Rows = list[dict[str, Any]]


def led(*states: tuple[float, int | None], broker: int = 2) -> Rows:
    """What the leader of `t/0` knows of producer 7: seconds, and where its open transaction begins."""
    fixed = {"topic": "t", "partition": 0, "broker": broker, "producer_id": 7}
    return [{**fixed, "ns": int(s * S), "transaction_start": start} for s, start in states]


def coordinated(*states: tuple[float, str, str], broker: int = 3, producer: int = 7) -> Rows:
    """What a coordinator knows of `orders`: seconds, state, partitions."""
    fixed = {"broker": broker, "transactional_id": "orders", "producer_id": producer}
    return [{**fixed, "ns": int(s * S), "state": state, "partitions": parts} for s, state, parts in states]


def elected(*leaders: tuple[float, int]) -> Rows:
    """Who is elected leader of `t/0`, and when."""
    fixed = {"source": "broker3", "subject": "partition", "topic": "t", "partition": 0, "isr": [2, 3]}
    return [
        {**fixed, "ns": int(s * S), "leader": leader, "epoch": epoch}
        for epoch, (s, leader) in enumerate(leaders)
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
    (finding,) = findings(OPEN, OVER)
    assert (finding["class"], finding["topic"], finding["partition"], finding["offset"]) == (
        "hung_transaction",
        "t",
        0,
        4,
    )
    assert "broker2 from 1.0 s to 6.0 s" in detail_in_words(finding)
    assert "orders (producer id 7) is CompleteCommit on broker3" in detail_in_words(finding)
    assert [json.loads(row) for row in finding["evidence"]] == [
        {
            "table": "producer_states",
            "ns": 1 * S,
            "what": "broker2: producer id 7 has a transaction open in t/0 since offset 4",
        },
        {"table": "transaction_states", "ns": 2 * S, "what": "broker3: orders is CompleteCommit"},
    ]


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


PlantedTables = tuple[Rows, Rows, Rows]


def planted(seed: int) -> PlantedTables:
    """Answers of brokers 2 and 3 about producer 7, answers of coordinators, and elections, in 24 seconds."""
    rng = random.Random(seed)
    producers: Rows = []
    for broker in (2, 3):
        start: int | None = None
        for second in range(24):
            if rng.random() < 0.2:
                start = rng.choice((None, None, second))
            if rng.random() < 0.7:
                producers += led((second, start), broker=broker)
    transactions, said = [], ("Empty", "")
    for second in range(24):
        if rng.random() < 0.15:
            said = rng.choice(
                (("Empty", ""), ("CompleteAbort", ""), ("Ongoing", "t/0"), ("Ongoing", "s/0,t/1"))
            )
        if rng.random() < rng.choice((0.2, 0.8)):
            transactions += coordinated((second, *said), broker=3 if rng.random() < 0.95 else 1)
    times = sorted(rng.sample(range(24), rng.randint(0, 3)))
    return producers, transactions, elected(*((second, rng.choice((2, 3))) for second in times))


def hung_by_seconds(producers: Rows, transactions: Rows, views: Rows) -> set[tuple[int, int]]:
    """Broker and first offset of what hung, by looking at every second alone: three in a row are enough."""
    answers = sorted(transactions, key=lambda row: row["ns"])
    over: dict[int, int] = {}
    for one, other in pairwise(answers):
        quiet = all(
            row["state"] in ("Empty", "CompleteAbort") or "t/0" not in row["partitions"].split(",")
            for row in (one, other)
        )
        if quiet and one["broker"] == other["broker"] and other["ns"] - one["ns"] <= 5 * S:
            over |= dict.fromkeys(range(one["ns"] // S, other["ns"] // S), one["broker"])
    hung = set()
    for broker in (2, 3):
        rows = [row for row in producers if row["broker"] == broker]
        last = rows[-1]["transaction_start"] if rows else None
        for start in {row["transaction_start"] for row in rows} - {None, last}:
            seconds = [row["ns"] // S for row in rows if row["transaction_start"] == start]
            run, before = 0, None
            for second in range(seconds[0], seconds[-1]):
                leads = not views or _leader(views, second) == broker
                coordinator = over.get(second)
                if not leads or coordinator is None:
                    run, before = 0, None
                    continue
                run = run + 1 if coordinator == before else 1
                before = coordinator
                if run >= 3:
                    hung.add((broker, start))
    return hung


def _leader(views: Rows, second: int) -> int:
    """The newest leader that was elected by then; before the first election, the one that it elected."""
    return int(next((row for row in reversed(views) if row["ns"] <= second * S), views[0])["leader"])


def _broker(finding: dict[str, Any]) -> int:
    return int(json.loads(finding["detail"])["broker"])


def hung_differences(numbers: range) -> list[int]:
    """The planted histories of which the two disagree."""
    different = []
    for number in numbers:
        tables = planted(number)
        by_checker = {(_broker(row), row["offset"]) for row in findings(*tables)}
        if by_checker != hung_by_seconds(*tables):
            different.append(number)
    return different


def test_planted_answers_are_judged_as_second_by_second() -> None:
    """About one history in four has a finding."""
    assert sum(bool(hung_by_seconds(*planted(number))) for number in range(500)) > 50
    assert hung_differences(range(500)) == []


MUTANTS = {
    "two seconds are enough": Mutant(hung._overlap, "HUNG_S * 1e9", "2 * 1e9"),
    "a coordinator may be silent": Mutant(hung._without_silence, "SILENT_S * 1e9", "9 * 1e9"),
    "another coordinator goes on for it": Mutant(
        hung._without_silence, 'last["broker"] == row["broker"]', "True"
    ),
    "a deposed leader counts": Mutant(
        hung._led, "yield event.ns if place else -math.inf, next(later, math.inf)", "yield event.ns, math.inf"
    ),
    "what is still open at the end counts": Mutant(hung._open, "stretches[:-1]", "stretches"),
    "other partitions of a transaction count": Mutant(
        hung._over, """or place not in (row["partitions"] or "").split(",")""", ""
    ),
}


@pytest.mark.parametrize("name", every(6, MUTANTS))
def test_a_mutant_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Within the same histories."""
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutant.function, "__code__", mutated(mutant).__code__)
    assert any(hung_differences(range(first, first + 50)) for first in range(0, 500, 50))
