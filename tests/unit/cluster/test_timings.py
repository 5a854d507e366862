"""Times that follow from the effective settings."""

from __future__ import annotations

from dataclasses import fields

import pytest

from harness.cluster.timings import BASE, Timings
from run.catalogue import find
from scenarios.catalogue import all_scenarios

PRODUCTION = {
    "zookeeper.session.timeout.ms": "18000",
    "broker.session.timeout.ms": "9000",
    "replica.lag.time.max.ms": "30000",
    "request.timeout.ms": "30000",
}


@pytest.mark.parametrize("mode", ["zookeeper", "kraft", "kraft-combined", "migration"])
def test_the_base_configuration_has_the_base_timings(mode: str) -> None:
    assert Timings.of({}, mode) == BASE


def test_what_the_catalogue_is_written_for() -> None:
    """With the base configuration, cuts last as long and deadlines are as late as they have always been."""
    assert (BASE.session_end_s, BASE.shrink_s, BASE.change_s, BASE.converge_s) == (15, 20, 15, 40)
    assert (BASE.harmless_s, BASE.cut_s, BASE.quorum_cut_s, BASE.lagged_s) == (10, 12, 12, 12)
    assert (BASE.all_checked_s, BASE.held_s, BASE.patience_s, BASE.recovery_s) == (4, 5, 20, 0)


@pytest.mark.parametrize(("mode", "session_s"), [("zookeeper", 18), ("kraft", 9), ("migration", 18)])
def test_production_settings_get_the_time_that_they_need(mode: str, session_s: float) -> None:
    """Deadlines and cuts are longer than what they wait for; sessions end after 1.1 time-outs at most."""
    timings = Timings.of(PRODUCTION, mode)
    assert (timings.session_s, timings.lag_s, timings.request_s) == (session_s, 30, 30)
    assert timings.session_end_s > 1.1 * session_s + 2
    assert min(timings.shrink_s, timings.lagged_s, timings.cut_s, timings.harmless_s) > 1.5 * 30
    assert timings.change_s > max(1.1 * session_s, 1.5 * 30)
    assert timings.converge_s > 30 + session_s
    assert timings.all_checked_s > 30 / 2
    assert timings.held_s > 30
    assert timings.patience_s > timings.session_end_s


def test_followers_know_a_high_watermark_after_a_fetch_wait() -> None:
    """A parked fetch keeps the news of it for `replica.fetch.wait.max.ms`."""
    patient = Timings.of({"replica.fetch.wait.max.ms": "20000"}, "zookeeper")
    assert patient.recovery_s > 20


def test_shorter_settings_shorten_no_deadline() -> None:
    short = Timings(**{field.name: getattr(BASE, field.name) / 4 for field in fields(Timings)})
    for deadline in ("session_end_s", "shrink_s", "change_s", "converge_s", "recovery_s"):
        assert getattr(short, deadline) == getattr(BASE, deadline)


def test_what_is_no_number_is_left_to_the_brokers() -> None:
    assert Timings.of({"replica.lag.time.max.ms": "soon"}, "zookeeper") == BASE


def test_claims_name_the_effective_times() -> None:
    claims = {claim.name: claim for claim in find("leader-az-isolated").at(Timings(session_s=18)).claims}
    said = claims["failover-in-time"]
    assert said.says.endswith("with 18 s it takes 36 s at most.")
    assert str(int(36e9)) in said.holds
    assert len(claims) == len(find("leader-az-isolated").claims)


def test_timed_claims_are_those_of_the_scenario_at_its_own_settings() -> None:
    """A claim that is written for other times is written for the scenario's own in the same way."""
    for scenario in all_scenarios().values():
        own = Timings.of(scenario.setup.broker_config, scenario.mode)
        assert scenario.at(own) == scenario, scenario.name
