"""The table of broker properties agrees with what brokers told in stored runs (DescribeConfigs)."""

from __future__ import annotations

import pytest

from harness.kafka import broker_properties
from harness.kafka.broker_properties import PROPERTIES, exists_in
from harness.kafka.versions import DEFAULT, VERSIONS, kafka_version
from tests.broker_properties import properties_of
from tests.runs.stored import read_stored

RUNS = {
    "2.7.1": "leader-az-isolated",
    "3.6.2": "versions/kraft-controller-az-isolated@3.6.2",
    "3.9.1": "versions/delayed-end-txn-java@3.9.1",
    "4.3.1": "versions/kraft-zombie-controller@4.3.1",
}


@pytest.mark.parametrize("version", RUNS)
def test_it_has_what_brokers_of_a_version_have(version: str) -> None:
    told = {
        row["key"]: row["value"]
        for row in read_stored(RUNS[version]).tables["configs"].to_pylist()
        if row["scope"] == "broker"
    }
    expected = {name for name in PROPERTIES if exists_in(name, kafka_version(version))}
    assert set(told) - expected == set()
    assert expected - set(told) == set()
    assert {name: value for name, value in told.items() if value and PROPERTIES[name].remedy(value)} == {}


def test_it_has_the_newest_version() -> None:
    """If not: `python -m tests.broker_properties`."""
    assert list(VERSIONS)[-1] == broker_properties._NEWEST


@pytest.mark.cluster
def test_it_has_what_the_jars_have() -> None:
    assert set(properties_of(DEFAULT)) == {name for name in PROPERTIES if exists_in(name, VERSIONS[DEFAULT])}
