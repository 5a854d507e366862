"""The same schedules on two sides, on a simulated fleet: numbers, turns, differences, resuming."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.cluster.settings import NO_SETTINGS
from harness.errors import BadDataError, UsageError
from report import search as report
from run.client_choice import LIBRDKAFKA, parse_client
from studies.search.comparison import SIDES, SearchComparison, Side
from studies.search.findings import RunFinding
from studies.search.hunt import SearchPlan, TriedSchedule
from studies.search.schedule import Schedule
from studies.series.fleet import MOST_RUNS
from tests.unit.search.conftest import World

ZOMBIE = RunFinding(
    name="lost", weight="known", promise="broken", known_bug="KAFKA-15489", settings="acks=all"
)
EXPECTED = RunFinding(name="lost", weight="not promised", promise="not promised", row="acks-1-leader")


def made(world: World) -> SearchComparison:
    plan = SearchPlan(seed=7, version="3.6.2", mode="kraft", settings=dict(NO_SETTINGS.as_json()))
    plans = [("3.6.2", plan), ("4.3.1", replace(plan, version="4.3.1"))]
    return SearchComparison.create(world.path, plans, None)


def ran(comparison: SearchComparison, count: int) -> list[tuple[str, int]]:
    order: list[tuple[str, int]] = []

    def ended(side: Side, record: TriedSchedule) -> None:
        order.append((side.name, record.number))

    assert comparison.run(1, ended, lambda begun, runs: begun < count) is False
    return order


def digests(comparison: SearchComparison) -> list[dict[int, str]]:
    return [{one.number: one.digest for one in side.search.records} for side in comparison.sides]


def test_the_sides_carry_out_the_same_schedules(world: World) -> None:
    comparison = made(world)
    order = ran(comparison, 25)
    one, other = digests(comparison)
    assert one == other
    assert len(one) == 25
    assert any(record.parent for record in comparison.sides[1].search.records), "mutations, too"
    turns = [name for number, (name, _) in enumerate(order) if number == 0 or order[number - 1][0] != name]
    assert turns == ["3.6.2", "4.3.1"] * 3, f"{MOST_RUNS} at a time"


def test_what_tells_the_sides_apart_comes_first(world: World) -> None:
    def finds(schedule: Schedule, turn: int) -> tuple[RunFinding, ...]:
        return (EXPECTED, ZOMBIE) if world.version == "3.6.2" else (EXPECTED,)

    world.finds = finds
    comparison = made(world)
    ran(comparison, 9)
    document = comparison.document(1.0)
    apart, common = document["groups"]
    assert (apart["signature"], apart["apart"], common["apart"]) == (ZOMBIE.signature, True, False)
    assert [(rate["side"], rate["runs"], rate["of"]) for rate in apart["sides"]] == [
        ("3.6.2", 9, 9),
        ("4.3.1", 0, 9),
    ]
    assert (document["schedules"], document["judged"], len(document["differences"])) == (9, 9, 9)
    assert [side["alone"] for side in document["differences"][0]["sides"]] == [[ZOMBIE.signature], []]
    stored = json.loads((comparison.path / "compare.json").read_text())
    assert (stored["groups"], stored["differences"]) == (document["groups"], document["differences"])
    said = list(report.differences(document))
    assert said[0] == (
        "3.6.2 and 4.3.1: 9 schedules on all sides, 9 of them judged on all; 9 differ in their findings"
    )
    assert said[1] == f"schedule 1: 3.6.2: {ZOMBIE.signature} | 4.3.1: nothing else"
    assert len(report.compared(document).rows) == 2


def test_the_heaviest_difference_comes_first(world: World) -> None:
    new = RunFinding(name="no-recovery", weight="new")

    def finds(schedule: Schedule, turn: int) -> tuple[RunFinding, ...]:
        if world.version == "4.3.1":
            return ()
        return (new,) if len(world.ran) == 4 else (EXPECTED,) if len(world.ran) == 2 else ()

    world.finds = finds
    world.crashes = {5}
    comparison = made(world)
    ran(comparison, 6)
    document = comparison.document(1.0)
    assert [one["number"] for one in document["differences"]] == [4, 2, 5]
    assert [side["verdict"] for side in document["differences"][2]["sides"]] == ["crashed", "crashed"]
    assert (document["schedules"], document["judged"]) == (6, 5)
    assert list(report.differences(document))[3] == "schedule 5: 3.6.2: crashed | 4.3.1: crashed"


def test_a_comparison_is_resumed_where_it_was_interrupted(world: World) -> None:
    straight = made(world)
    ran(straight, 15)
    world.stops_after = len(world.ran) + 13
    comparison = made(world)
    assert comparison.run(1, lambda side, record: None, lambda begun, runs: begun < 15) is True
    assert [len(digest) for digest in digests(comparison)] == [10, 3]
    assert comparison.document(1.0)["schedules"] == 3
    world.stops_after = 10**9
    resumed = SearchComparison.resume(comparison.path)
    order = ran(resumed, 5)
    assert order[:7] == [("4.3.1", number) for number in range(4, 11)]
    assert digests(resumed) == digests(straight)


def test_a_budget_counts_the_runs_of_all_sides(world: World) -> None:
    asked: list[tuple[int, int]] = []

    def may_start(begun: int, runs: int) -> bool:
        asked.append((begun, runs))
        return begun < 3

    made(world).run(1, lambda side, record: None, may_start)
    # One waits while one runs; each is to run on both sides.
    assert asked[:4] == [(0, 2), (1, 4), (2, 5), (3, 6)]


def test_what_is_no_comparison_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match="holds no comparison to resume"):
        SearchComparison.resume(tmp_path)


@pytest.mark.parametrize("sides", [b"{", b"7", b'["\xff"]', b"[" * 9**5], ids=lambda data: str(data[:9]))
def test_a_damaged_comparison_cannot_be_resumed(tmp_path: Path, sides: bytes) -> None:
    (tmp_path / SIDES).write_bytes(sides)
    with pytest.raises(BadDataError, match="holds no comparison to resume"):
        SearchComparison.resume(tmp_path)


def test_the_sides_of_a_comparison() -> None:
    from cli.search import sides_of

    java = parse_client("java@3.9.1")
    assert sides_of("3.6.2, 4.3.1", "", java) == [("3.6.2", "3.6.2", java), ("4.3.1", "4.3.1", java)]
    assert sides_of("librdkafka,java@3.9.1", "4.3.1", LIBRDKAFKA) == [
        ("librdkafka", "4.3.1", LIBRDKAFKA),
        ("java@3.9.1", "4.3.1", java),
    ]
    for text, kafka, client, sentence in (
        ("3.6.2", "", LIBRDKAFKA, "name two or more different"),
        ("3.6.2,3.6.2", "", LIBRDKAFKA, "name two or more different"),
        ("", "", LIBRDKAFKA, "name two or more different"),
        ("3.6.2,java", "", LIBRDKAFKA, "mixes versions and clients"),
        ("3.6.2,4.3.1", "4.3.1", LIBRDKAFKA, "leave --kafka"),
        ("java,librdkafka", "", java, "leave --client out"),
    ):
        with pytest.raises(UsageError, match=sentence):
            sides_of(text, kafka, client)
