"""The list of Kafka versions."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.kafka.versions import VERSIONS, kafka_version, version_key


def test_versions_go_from_old_to_new() -> None:
    assert list(VERSIONS) == sorted(VERSIONS, key=version_key)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_resolves_itself_and_one_logging_binding(version: str) -> None:
    names = [entry.name for entry in VERSIONS[version].coordinates]
    assert names[0] in ("kafka_2.12", "kafka_2.13")
    assert len([name for name in names if name.startswith(("slf4j-", "log4j-slf4j"))]) == 1


def test_later_versions_keep_the_capabilities_of_earlier_ones() -> None:
    entries = list(VERSIONS.values())
    for trait in (
        *("record_epochs", "epoch_truncation", "alter_isr", "resigns_when_cut_off", "pre_vote"),
        "dynamic_quorum",
    ):
        values = [getattr(entry, trait) for entry in entries]
        assert values == sorted(values), trait


def test_an_unknown_version_names_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(
        UsageError, match=r"3\.9\.0 has not been tested.*did you mean 3\.9\.1.*0\.10\.2\.2.*--force"
    ):
        kafka_version("3.9.0")


def test_a_forced_version_is_treated_as_the_one_before_it() -> None:
    forced = kafka_version("3.8.0", force=True)
    assert (forced.version, forced.known) == ("3.8.0", False)
    assert forced.logging == VERSIONS["3.7.0"].logging
    assert str(forced.coordinates[0]) == "org.apache.kafka:kafka_2.13:3.8.0"


@pytest.mark.parametrize("text", ["latest", "", "2.7.x"])
def test_text_that_is_no_version(text: str) -> None:
    with pytest.raises(UsageError, match="is not a Kafka version"):
        kafka_version(text, force=True)


def test_a_mode_that_a_version_lacks() -> None:
    with pytest.raises(UsageError, match=r"Kafka 2\.7\.1 runs here in mode zookeeper, not 'kraft'"):
        kafka_version("2.7.1").require_mode("kraft")


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        ("3.7.1", "did you mean 3.7.0 or 3.7.2?"),
        ("3.9.3", "did you mean 3.9.2?"),
        ("2.0.1", "did you mean 1.1.1 or 2.4.1?"),
        ("9.9.9", "did you mean 4.4.0?"),
        ("0.9.0", "did you mean 0.10.2.2?"),
    ],
)
def test_the_nearest_known_versions_are_suggested(version: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        kafka_version(version)
    assert hint in refused.value.message
