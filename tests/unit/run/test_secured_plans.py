"""What a plan of a run says about security that the chosen versions cannot have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.options import PlaceOptions
from cli.series import SeriesCluster, misfits
from harness.cluster.settings import NO_SETTINGS, Settings
from harness.errors import UsageError
from harness.kafka.security import ListenerSecurity
from run.catalogue import find
from run.client_choice import ClientChoice
from run.session import plan_run
from studies.series.plan import own_jobs

SECURED = Settings(security=ListenerSecurity.asked("sasl_ssl", "", "--secure sasl_ssl"))
WITH_TOKENS = Settings(security=ListenerSecurity.asked("sasl_ssl", "oauthbearer", "--secure sasl_ssl"))


def test_a_secured_run_says_so() -> None:
    _, applied = plan_run(find("no-fault"), lab="embedded", settings=SECURED)
    assert "the listeners speak SASL_SSL with SCRAM-SHA-512" in applied.notes
    assert applied.manifest["security"] == {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512"}
    _, plain = plan_run(find("no-fault"), lab="embedded")
    assert not any("listeners" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("settings", "kafka", "client", "sentence"),
    [
        (
            SECURED,
            "1.1.1",
            ClientChoice(),
            "--secure sasl_ssl: SASL_SSL with SCRAM-SHA-512 needs Kafka 2.7 or newer, and this is 1.1.1",
        ),
        (
            SECURED,
            "2.7.1",
            ClientChoice(name="java", version="2.4.1"),
            "a Java client of 2.7 or newer, and --client-version is 2.4.1",
        ),
        (WITH_TOKENS, "2.7.1", ClientChoice(), "SASL_SSL with OAUTHBEARER needs Kafka 3.4 or newer"),
        (
            WITH_TOKENS,
            "3.9.1",
            ClientChoice(name="java", version="2.7.1"),
            "a Java client of 3.4 or newer, and --client-version is 2.7.1",
        ),
    ],
)
def test_versions_that_are_too_old(
    settings: Settings, kafka: str, client: ClientChoice, sentence: str
) -> None:
    with pytest.raises(UsageError) as refused:
        plan_run(find("no-fault"), lab="embedded", kafka=kafka, client=client, settings=settings)
    assert sentence in refused.value.message
    plan_run(find("no-fault"), lab="embedded", kafka=kafka, client=client, settings=replace(NO_SETTINGS))


def test_a_secured_series_leaves_out_what_is_too_old() -> None:
    scenarios = {name: find(name) for name in ("kip-279-gap", "no-fault")}
    jobs = own_jobs(list(scenarios.values()))
    place = PlaceOptions(lab="embedded", runs=Path("runs"))
    secured = misfits(jobs, scenarios, SeriesCluster(place=place, settings=SECURED, file=None))
    assert [job.scenario for job in secured] == ["kip-279-gap"]
    assert "needs Kafka 2.7 or newer, and this is 1.1.1" in secured[jobs[0]]
    assert misfits(jobs, scenarios, SeriesCluster(place=place, settings=NO_SETTINGS, file=None)) == {}
