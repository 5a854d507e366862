"""How many concurrent clusters a machine can run, and the error if that is too many."""

from __future__ import annotations

import pytest

from harness.errors import UnfitError
from studies.series.capacity import Machine, choose

USUAL = Machine(cores=2, available_gib=20.0)


def test_two_cores_carry_three_clusters() -> None:
    """A large machine runs as many, unless more are requested."""
    assert choose(0, 54, USUAL).clusters == 3
    assert choose(0, 54, Machine(cores=64, available_gib=500.0)).clusters == 3
    assert choose(12, 54, Machine(cores=64, available_gib=500.0)).clusters == 12


@pytest.mark.parametrize("small", [Machine(1, 20.0), Machine(8, 2.0), Machine(1, 0.5)])
def test_a_small_machine_carries_one(small: Machine) -> None:
    assert choose(0, 54, small).clusters == 1


def test_more_than_the_cores_carry_is_run_with_a_warning() -> None:
    choice = choose(5, 54, USUAL)
    assert choice.clusters == 5
    assert "2 cores carry about 3 clusters" in choice.warning
    assert not choose(3, 54, USUAL).warning


def test_more_than_the_memory_holds_is_refused() -> None:
    """The error names a number that fits."""
    with pytest.raises(UnfitError, match=r"--parallel 60: 54 clusters need 42 GiB .*; use 24 or fewer"):
        choose(60, 54, USUAL)


def test_no_more_clusters_than_runs_are_needed() -> None:
    """With one run left, any number is accepted."""
    assert choose(500, 1, USUAL).clusters == 1
    assert choose(4, 0, USUAL).clusters == 1


def test_this_machine_has_cores_and_memory() -> None:
    here = Machine.here()
    assert here.cores >= 1
    assert here.available_gib > 0
