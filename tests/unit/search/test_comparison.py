"""The same schedules on two sides, on a simulated fleet: numbers, turns, differences, resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.cluster.settings import NO_SETTINGS
from harness.errors import BadDataError, UsageError
from report import search as report
from report.kinds import KINDS, kind_of
from run.client_choice import LIBRDKAFKA, parse_client
from studies.search.comparison import SIDES, SearchComparison, Side
from studies.search.findings import RunFinding
from studies.search.hunt import SearchPlan, TriedSchedule
from studies.search.schedule import Schedule
from studies.series.fleet import MOST_RUNS
from studies.series.planned import worked_in
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
    assert said[1] == "schedule 1: 3.6.2: lost (known bug: KAFKA-15489) | 4.3.1: nothing else"
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


COMPARISONS = next(kind for kind in KINDS if kind.file == "compare.json")


def compared(world: World, older: tuple[RunFinding, ...], newer: tuple[RunFinding, ...]) -> Any:
    """A stored comparison of nine schedules, read again."""
    world.finds = lambda schedule, turn: older if world.version == "3.6.2" else newer
    comparison = made(world)
    ran(comparison, 9)
    comparison.document(1.0)
    assert kind_of(comparison.path) is COMPARISONS
    return COMPARISONS.read(comparison.path)


def test_a_comparison_begins_with_what_kafka_did(world: World) -> None:
    document = compared(world, (EXPECTED, ZOMBIE), (EXPECTED,))
    opening = COMPARISONS.opening(document)
    assert opening.answer == (
        "Kafka broke a promise with 3.6.2, and none with 4.3.1. They differ: “lost (known bug: KAFKA-15489)” "
        "came in 9 of 9 runs with 3.6.2 and 0 of 9 runs with 4.3.1."
    )
    assert (opening.tone, opening.word) == ("cost", "they differ")
    page = COMPARISONS.page(document, lambda run: "there.html")
    assert page.count("<h2>What d") == 2 and page.count('<h3 id="schedule-') == 9
    assert '<a href="1/index.html">the search with 3.6.2</a>' in page
    assert page.count('<span class="lane">') == sum(len(one["score"]) for one in document["differences"])
    assert "| lost (known bug: KAFKA-15489) | acks=all | ≠ | known | 9 of 9" in COMPARISONS.markdown(document)
    junit = COMPARISONS.junit(document)
    assert 'tests="3"' in junit and junit.count("<failure") == 1, "a broken promise fails"


def test_a_comparison_without_difference_says_so(world: World) -> None:
    document = compared(world, (EXPECTED,), (EXPECTED,))
    assert COMPARISONS.opening(document).answer == (
        "Kafka broke no promise with 3.6.2 and 4.3.1. No finding is more frequent with one than chance "
        "explains."
    )
    assert "Nothing was found with any." in COMPARISONS.opening(document | {"groups": []}).answer
    nothing = COMPARISONS.opening(document | {"judged": 0, "groups": []})
    assert (nothing.tone, nothing.word) == ("void", "no result")


def test_a_comparison_and_its_searches_are_under_way_together(world: World) -> None:
    comparison = made(world)
    at_work: list[bool] = []
    stopped = comparison.run(
        1,
        lambda side, record: at_work.append(worked_in(comparison.path) and worked_in(side.search.path)),
        lambda begun, runs: begun < 1,
    )
    assert (stopped, at_work) == (False, [True, True])
    assert not worked_in(comparison.path)
