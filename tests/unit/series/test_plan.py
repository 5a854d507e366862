"""The plan of a series: its jobs, those that remain, and their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.errors import UsageError
from harness.kafka.versions import kafka_version
from run.catalogue import find, select
from run.session import with_protocol
from scenarios.catalogue import all_scenarios
from studies.series.job import Job
from studies.series.plan import longest_first, own_jobs, parse_versions, plan, remaining

ZOMBIE = replace(find("kraft-zombie-controller"), name="example", versions=("3.6.2", "3.9.1", "4.3.1"))
"""Of KRaft alone, with a difference between versions."""


def test_globs_choose_scenarios() -> None:
    """They keep the catalogue's order, whatever the order of the globs."""
    chosen = [scenario.name for scenario in select(["no-fault", "leader-az*"])]
    assert chosen == [name for name in all_scenarios() if name == "no-fault" or name.startswith("leader-az")]
    assert len(select(["*"])) == len(all_scenarios())
    assert select([]) == []


def test_a_glob_that_matches_nothing_is_refused() -> None:
    """A misspelt name is found before the series starts."""
    with pytest.raises(UsageError, match="'no-fualt'"):
        select(["no-fault", "no-fualt"])


def test_repeats_come_in_rounds() -> None:
    """If a series ends early, every job has run once before any runs twice."""
    names = [job.scenario for job in own_jobs(select(["no-fault", "bridge"]), 2)]
    assert names == [*names[:2], *names[:2]]


def test_a_series_with_another_client() -> None:
    """Runs of one scenario with two clients are different jobs, of which `--resume` may miss one."""
    (librdkafka,) = own_jobs(select(["no-fault"]))
    (java,) = own_jobs(select(["no-fault"]), client="java")
    assert str(java) == "no-fault on 2.7.1 zookeeper with java"
    assert remaining([java], [librdkafka]) == [java]


def test_the_longest_comes_first_in_each_round() -> None:
    """Jobs that never ran come first; the order of rounds stays."""
    jobs = [
        Job(scenario=name, version="2.7.1", mode="zookeeper")
        for name in ("no-fault", "bridge", "canary", "flapping-link")
    ] * 2
    seconds = dict(zip(jobs, (12.0, 40.0), strict=False)) | {jobs[3]: 20.0}
    ordered = [job.scenario for job in longest_first(jobs, seconds)]
    assert ordered == ["canary", "bridge", "flapping-link", "no-fault"] * 2
    assert longest_first(jobs, {}) == jobs


def test_what_is_left_of_a_plan() -> None:
    """A job that is planned twice and ran once remains once."""
    one, two = (
        Job(scenario="no-fault", version="2.7.1", mode="zookeeper"),
        Job(scenario="bridge", version="2.7.1", mode="zookeeper"),
    )
    assert remaining([one, two, one, two], [one]) == [two, one, two]
    assert remaining([one], [one, one, two]) == []


def test_a_scenario_brings_its_own_versions_and_modes() -> None:
    """Without a selection, each runs on the versions and modes in which it differs."""
    jobs = plan([replace(ZOMBIE, modes=("kraft", "kraft-combined"))])
    assert [(job.version, job.mode) for job in jobs] == [
        (version, mode) for version in ("3.6.2", "3.9.1", "4.3.1") for mode in ("kraft", "kraft-combined")
    ]


def test_impossible_combinations_give_no_cell() -> None:
    """2.7.1 has no KRaft mode here and 3.8.1 no ZooKeeper mode, and the scenario is for KRaft."""
    asked = parse_versions("3.8.1, 2.7.1")
    both = replace(ZOMBIE, modes=("zookeeper", "kraft"))
    jobs = plan([both], asked, ("kraft", "zookeeper"))
    assert [(job.version, job.mode) for job in jobs] == [("2.7.1", "zookeeper"), ("3.8.1", "kraft")]
    assert plan([ZOMBIE, both], parse_versions("2.7.1"), ("zookeeper",)) == jobs[:1]
    with pytest.raises(UsageError, match=r"be run: 2\.7\.1 kraft; example runs in mode kraft"):
        plan([ZOMBIE], parse_versions("2.7.1"))


def test_versions_are_sorted_and_known() -> None:
    """They come oldest first and once each; a typing error is answered with the nearest one."""
    assert [v.version for v in parse_versions("4.1.0,0.10.2.2,2.7.1,4.1.0")] == ["0.10.2.2", "2.7.1", "4.1.0"]
    with pytest.raises(UsageError, match=r"did you mean 3\.9\.2"):
        parse_versions("3.9.11")


def test_an_older_protocol_is_a_column_of_its_own() -> None:
    """2.7.1 with the protocol of 2.6 is a version of its own; a protocol that is not older is rejected."""
    assert [v.label for v in parse_versions("2.7.1@2.6,2.7.1")] == ["2.7.1", "2.7.1@2.6"]
    older = kafka_version("2.7.1@2.6")
    assert (older.version, older.protocol, older.alter_isr) == ("2.7.1", "2.6", False)
    (job,) = plan([replace(ZOMBIE, modes=("zookeeper",))], (older,))
    assert str(job) == "example on 2.7.1@2.6 zookeeper"
    config = with_protocol(ZOMBIE, older).setup.broker_config
    assert config == {"inter.broker.protocol.version": "2.6"}
    assert kafka_version("3.9.1@2.6").modes == ("zookeeper",)
    for wrong in ("2.7.1@2.7", "2.7.1@", "3.8.1@2.6"):
        with pytest.raises(UsageError, match="protocol|not a Kafka version"):
            kafka_version(wrong)
