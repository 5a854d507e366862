"""Schedules made, mutated and shrunk, on a simulated run that needs some steps, hosts and settings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.cluster.timings import BASE
from harness.lab.layout import THREE_AZS, AvailabilityZone, Layout
from studies.search.grammar import fresh, mutated
from studies.search.minimise import reductions, shrink, without_steps
from studies.search.rules import decode, problems, require_hosts
from studies.search.schedule import Producer, Schedule
from studies.search.sizes import parts, size
from studies.search.space import Space, space_of
from studies.steps.step import Moment, Step
from tests.property.parts_of_schedules import within

MODES = ("zookeeper", "kraft", "kraft-combined")
WIDE = Layout(tuple(AvailabilityZone(name=f"az{n}", brokers=1 + (n < 3)) for n in range(1, 6)))
SPACES = tuple(
    space_of(kafka="3.6.2", mode=mode, topology=layout.topology(mode), timings=BASE, safe=safe)
    for mode in MODES
    for layout in (THREE_AZS, WIDE)
    for safe in (False, True)
) + (space_of(kafka="4.4.0", mode="kraft", topology=THREE_AZS.topology("kraft"), timings=BASE),)
"""All kinds of clusters; the last one has share groups."""
spaces = st.sampled_from(SPACES)
seeds = st.integers(0, 2**32)
numbers = st.integers(0, 1000)


def valid(schedule: Schedule, space: Space) -> bool:
    require_hosts(schedule, space.topology, "it")
    return not list(problems(schedule)) and decode(schedule.encode(), "it") == schedule


@settings(max_examples=60, deadline=None)
@given(spaces, seeds, numbers)
def test_a_seed_makes_one_valid_schedule(space: Space, seed: int, number: int) -> None:
    schedule = fresh(space, seed, number)
    assert valid(schedule, space)
    assert fresh(space, seed, number).encode() == schedule.encode()
    assert decode(schedule.encode(), "it").encode() == schedule.encode()


@settings(max_examples=60, deadline=None)
@given(spaces, seeds, st.lists(numbers, min_size=1, max_size=6))
def test_a_mutation_is_valid_and_repeatable(space: Space, seed: int, lineage: list[int]) -> None:
    def descend() -> Schedule:
        schedule = fresh(space, seed, 0)
        for number in lineage:
            schedule = mutated(space, schedule, seed, number)
            assert valid(schedule, space)
        return schedule

    assert descend().encode() == descend().encode()


@settings(max_examples=60, deadline=None)
@given(spaces, seeds, numbers)
def test_a_reduction_is_a_smaller_valid_part(space: Space, seed: int, number: int) -> None:
    schedule = fresh(space, seed, number)
    for smaller in reductions(schedule, space.topology):
        assert size(smaller, space.topology) < size(schedule, space.topology)
        assert within(smaller, schedule, space.topology)
        assert valid(smaller, space)


Need = Callable[[Schedule], bool]


def covered(names: tuple[str, ...], space: Space) -> set[str]:
    """All names that some names stand for, themselves included."""
    covered_names = set(names)
    ahead = list(names)
    while ahead:
        inner = [name for name in parts(ahead.pop(), space.topology) if name not in covered_names]
        covered_names.update(inner)
        ahead += inner
    return covered_names


def simulated(schedule: Schedule, space: Space, rng: Random) -> Need:
    """A run that shows a finding if some steps are there, in order, each with a host of each side."""
    some = [step for step in schedule.steps if rng.random() < 0.4][:3]
    needs = [
        (
            step.fault,
            rng.choice(sorted(covered(step.targets, space))) if step.targets else "",
            rng.choice(sorted(covered(step.toward, space))) if step.toward else "",
            rng.choice([0.0, step.until.after_s / 3]),
        )
        for step in some
    ]
    acks = rng.choice([one.acks for one in schedule.producers])

    def fits(step: Step, need: tuple[str, str, str, float]) -> bool:
        fault, target, other, longest_s = need
        return (
            step.fault == fault
            and (not target or target in covered(step.targets, space))
            and (not other or other in covered(step.toward, space))
            and step.until.after_s >= longest_s
        )

    def shows(candidate: Schedule) -> bool:
        left = iter(candidate.steps)
        return all(any(fits(step, need) for step in left) for need in needs) and any(
            one.acks == acks for one in candidate.producers
        )

    assert shows(schedule)
    return shows


def require_shrunk(schedule: Schedule, space: Space, shows: Need) -> int:
    """Shrink a schedule, check each candidate and the result, and return the steps of all candidates."""
    tried: list[Schedule] = []

    def passes(candidate: Schedule) -> bool:
        assert valid(candidate, space)
        assert within(candidate, schedule, space.topology)
        tried.append(candidate)
        return shows(candidate)

    small = shrink(schedule, space.topology, passes)
    assert shows(small)
    assert within(small, schedule, space.topology)
    assert not any(shows(one) for one in reductions(small, space.topology))
    assert len({one.digest for one in tried}) == len(tried), "a schedule was run twice"
    assert shrink(schedule, space.topology, shows).encode() == small.encode()
    return sum(len(one.steps) for one in tried)


@settings(max_examples=50, deadline=None)
@given(spaces, seeds, numbers)
def test_what_is_shrunk_still_shows_it_and_is_minimal(space: Space, seed: int, number: int) -> None:
    schedule = fresh(space, seed, number)
    require_shrunk(schedule, space, simulated(schedule, space, Random(seed ^ number)))


@settings(max_examples=50, deadline=None)
@given(spaces, seeds, numbers)
def test_steps_alone_are_shrunk_until_each_is_needed(space: Space, seed: int, number: int) -> None:
    schedule = fresh(space, seed, number)
    shows = simulated(schedule, space, Random(seed ^ number))
    small = shrink(schedule, space.topology, shows, steps_only=True)
    assert shows(small)
    assert not any(
        shows(without_steps(small, place, place + 1, on_time=on_time))
        for place in range(len(small.steps))
        for on_time in (False, True)
    )
    assert small.topics == schedule.topics
    originals = [replace(step, when=Moment()) for step in schedule.steps]
    assert all(replace(step, when=Moment()) in originals for step in small.steps)


@settings(max_examples=50, deadline=None)
@given(spaces, seeds, numbers, st.data())
def test_steps_that_are_left_begin_when_they_did(
    space: Space, seed: int, number: int, data: st.DataObject
) -> None:
    schedule = fresh(space, seed, number)
    steps = tuple(
        replace(step, when=Moment(after_s=round(place + 0.1, 1))) for place, step in enumerate(schedule.steps)
    )
    schedule = replace(schedule, steps=steps)
    first = data.draw(st.integers(0, len(steps) - 1))
    end = data.draw(st.integers(first + 1, len(steps)))
    left = without_steps(schedule, first, end, on_time=True)
    begins = begin_times(schedule)
    assert begin_times(left) == pytest.approx([*begins[:first], *begins[end:]])


def begin_times(schedule: Schedule) -> list[float]:
    return list(accumulate(step.when.after_s for step in schedule.steps))


def test_a_pair_that_needs_its_distance_is_found() -> None:
    """Two steps show it if the second begins 5 to 6 s after the first; a third step lies between them."""
    space = SPACES[4]
    schedule = next(one for one in (fresh(space, 5, number) for number in range(1000)) if len(one.steps) == 3)
    first, between, last = schedule.steps
    apart = [
        replace(first, when=Moment(after_s=1.0)),
        replace(between, when=Moment(after_s=3.0)),
        replace(last, when=Moment(after_s=2.0)),
    ]

    def shows(one: Schedule) -> bool:
        at_s = {step.fault: time_s for step, time_s in zip(one.steps, begin_times(one), strict=True)}
        return 5.0 <= at_s.get(last.fault, 0.0) - at_s.get(first.fault, 100.0) <= 6.0

    assert len({step.fault for step in apart}) == 3
    schedule = replace(schedule, steps=tuple(apart))
    assert not shows(without_steps(schedule, 1, 2))
    small = shrink(schedule, space.topology, shows, steps_only=True)
    assert [step.fault for step in small.steps] == [first.fault, last.fault]
    assert small.steps[1].when == Moment(after_s=5.0)


@pytest.mark.parametrize(
    "moments, last",
    [
        ([Moment(after_s=2.0), Moment(after_s=0.5)], Moment(after_s=2.5)),
        (
            [Moment(after_s=12.0, event="isr-shrunk"), Moment(after_s=0.5)],
            Moment(after_s=12.0, event="isr-shrunk"),
        ),
        ([Moment(after_s=2.0), Moment(after_s=9.0, event="refused")], Moment(after_s=9.0, event="refused")),
        ([Moment(after_s=400.0), Moment(after_s=400.0)], Moment(after_s=600.0)),
    ],
)
def test_a_step_takes_over_the_moment_of_what_is_removed(moments: list[Moment], last: Moment) -> None:
    schedule = next(
        one for one in (fresh(SPACES[4], 5, number) for number in range(1000)) if len(one.steps) == 2
    )
    steps = tuple(replace(step, when=when) for step, when in zip(schedule.steps, moments, strict=True))
    schedule = replace(schedule, steps=steps)
    (left,) = without_steps(schedule, 0, 1, on_time=True).steps
    assert left.when == last
    assert within(without_steps(schedule, 0, 1, on_time=True), schedule, SPACES[4].topology)
    later = replace(left, when=Moment(after_s=left.when.after_s + 700.0))
    assert not within(replace(schedule, steps=(later,)), schedule, SPACES[4].topology)


@pytest.mark.parametrize("arrow", ["->", "<-"])
def test_a_cut_of_an_az_is_shrunk_to_one_link(arrow: str) -> None:
    space = SPACES[4]
    schedule = next(one for one in (fresh(space, 5, number) for number in range(1000)) if len(one.steps) == 7)
    cut = Step(fault="cut", targets=("az1",), toward=("others",))
    schedule = replace(schedule, steps=(*schedule.steps[:4], cut, *schedule.steps[4:]))

    def shows(one: Schedule) -> bool:
        return any(
            step.fault == "cut"
            and "broker1" in covered(step.targets, space)
            and "controller3" in covered(step.toward, space)
            and step.arrow in ("<->", arrow)
            for step in one.steps
        )

    (step,) = shrink(schedule, space.topology, shows).steps
    assert (step.targets, step.arrow, step.toward) == (("broker1",), arrow, ("controller3",))


def test_a_producer_that_stops_stays_possible_when_steps_vanish() -> None:
    space = SPACES[4]
    short = Producer(az="az2", starts=2, stops=3)
    kill = Step(fault="kill", targets=("leader",))
    schedule = replace(fresh(space, 5, 0), producers=(Producer(az="az1"), short), steps=(kill,) * 3)
    for number in range(300):
        assert valid(mutated(space, schedule, 5, number), space)
    assert all(valid(one, space) for one in reductions(schedule, space.topology))


def test_transactions_that_do_not_matter_are_left_out() -> None:
    space = SPACES[4]
    transactional = Producer(az="az2", transactional=True)
    schedule = replace(fresh(space, 5, 0), producers=(transactional,))
    (left,) = shrink(schedule, space.topology, lambda one: True).producers
    assert not left.transactional
    (kept,) = shrink(schedule, space.topology, lambda one: one.transactional).producers
    assert kept.transactional and kept.idempotent


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_millions_of_steps(seed: int) -> None:
    """A quarter of a million steps for each seed, in schedules that are made, mutated and shrunk."""
    steps = number = 0
    while steps < 250_000:
        number += 1
        space = SPACES[number % len(SPACES)]
        schedule = fresh(space, seed, number)
        for mutation in range(number % 4):
            schedule = mutated(space, schedule, seed, mutation)
        assert valid(schedule, space)
        steps += require_shrunk(schedule, space, simulated(schedule, space, Random(number)))
