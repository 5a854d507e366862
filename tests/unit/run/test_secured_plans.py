"""What a plan of a run says about security that the chosen versions cannot have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cluster.settings import NO_SETTINGS, Settings
from harness.errors import UsageError
from harness.kafka.security import ListenerSecurity
from run.catalogue import find
from run.client_choice import ClientChoice
from run.session import plan_run

SECURED = Settings(security=ListenerSecurity.asked("sasl_ssl", "", "--secure sasl_ssl"))


def test_a_secured_run_says_so() -> None:
    _, applied = plan_run(find("no-fault"), lab="embedded", settings=SECURED)
    assert "the listeners speak SASL_SSL with SCRAM-SHA-512" in applied.notes
    assert applied.manifest["security"] == {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512"}
    _, plain = plan_run(find("no-fault"), lab="embedded")
    assert not any("listeners" in note for note in plain.notes)


@pytest.mark.parametrize(
    ("kafka", "client", "sentence"),
    [
        ("1.1.1", ClientChoice(), "--secure sasl_ssl: SASL_SSL needs Kafka 2.7 or newer, and this is 1.1.1"),
        (
            "2.7.1",
            ClientChoice(name="java", version="2.4.1"),
            "a Java client of 2.7 or newer, and --client-version is 2.4.1",
        ),
    ],
)
def test_versions_that_are_too_old(kafka: str, client: ClientChoice, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan_run(find("no-fault"), lab="embedded", kafka=kafka, client=client, settings=SECURED)
    assert sentence in refused.value.message
    plan_run(find("no-fault"), lab="embedded", kafka=kafka, client=client, settings=replace(NO_SETTINGS))
