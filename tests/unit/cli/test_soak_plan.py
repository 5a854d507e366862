"""What the options of `acked soak` ask for."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from cli.options import SettingOptions
from cli.soak import SoakOptions, _plan, _require_logs, _require_transactions
from harness.cluster.settings import NO_SETTINGS
from harness.errors import UnfitError, UsageError
from nemesis.catalogue import FAULTS
from run.client_choice import LIBRDKAFKA, ClientChoice
from studies.assess.series import describe

TARGET = describe(None, "3.9.1", "kraft", NO_SETTINGS)


def test_faults_of_the_battery_come_in_turn() -> None:
    plan = _plan(SoakOptions(faults="isolate-az1*", for_="2h", every="90s"), TARGET)
    assert (plan.for_s, plan.every_s) == (7200, 90)
    one, other = islice(plan.rounds(12.0, 6), 2)
    assert one == other and one.says == "Isolating az1"
    assert [step.until.after_s for step in one.steps] == [12.0]


def test_without_a_choice_no_fault_needs_a_prepared_cluster() -> None:
    rounds = _plan(SoakOptions(), TARGET).rounds(12.0, 6)
    kinds = {step.fault for one in islice(rounds, 40) for step in one.steps}
    assert {"cut", "kill", "pause"} <= kinds
    assert not any(FAULTS[kind].preparation for kind in kinds)
    assert list(_plan(SoakOptions(faults="none"), TARGET).rounds(12.0, 6)) == []


def test_a_seed_makes_the_same_rounds_again() -> None:
    first, again = (list(islice(_plan(SoakOptions(search=7), TARGET).rounds(9.0, 2), 20)) for _ in range(2))
    assert first == again and len({one.steps for one in first}) > 10
    assert all(step.partition < 2 for one in first for step in one.steps)


def test_one_source_of_faults_is_enough(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="use one of them"):
        _plan(SoakOptions(faults="kill-*", search=7), TARGET)
    with pytest.raises(UsageError, match="at least one message"):
        _plan(SoakOptions(rate=0.0), TARGET)
    with pytest.raises(UsageError, match="need disks or clocks of their own"):
        _plan(SoakOptions(faults="power-all*"), TARGET)


def test_a_version_that_shows_no_followers_log_is_refused() -> None:
    with pytest.raises(UnfitError, match="shows no follower's log"):
        _require_logs(describe(None, "0.10.2.2", "zookeeper", NO_SETTINGS))


def test_transactions_that_there_cannot_be_are_refused() -> None:
    _require_transactions(100, TARGET, LIBRDKAFKA)
    with pytest.raises(UsageError, match="between 1 and"):
        _require_transactions(-1, TARGET, LIBRDKAFKA)
    with pytest.raises(UsageError, match="--client java: only streams of librdkafka"):
        _require_transactions(100, TARGET, ClientChoice(name="java"))
    settings = SettingOptions(sets=["producer.acks=1"]).read()
    with pytest.raises(UsageError, match="transactions need acks=all"):
        _require_transactions(100, describe(None, "3.9.1", "kraft", settings), LIBRDKAFKA)
