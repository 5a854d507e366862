"""The catalogue: every scenario is complete, and a wrong name is answered with the nearest."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.run.catalogue import all_scenarios, find


def test_every_scenario_says_what_it_is() -> None:
    """Name, title, faults and outcome for `acked list`; claims with distinct names."""
    for scenario in all_scenarios().values():
        assert scenario.title, scenario.name
        assert scenario.outcome, scenario.name
        for version in scenario.versions or (scenario.kafka,):
            names = [claim["name"] for claim in scenario.declared(version)["claims"]]
            assert len(set(names)) == len(names), (scenario.name, version)


def test_the_nearest_name_is_offered() -> None:
    """A slip of the finger."""
    with pytest.raises(UsageError, match="did you mean 'leader-az-isolated'"):
        find("leader-az-isolatd")
