"""The topic, the producers and the duration that follow from a description."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from cli.options import with_rate
from harness.cluster.client_settings import ClientSettings, Value
from harness.cluster.settings import NO_SETTINGS, Setting, Settings, TopicShape
from harness.cluster.timings import Timings
from harness.errors import UsageError
from harness.lab.layout import THREE_AZS, AvailabilityZone, Layout
from run.clients import choose
from studies.assess import process
from studies.assess.battery import battery
from studies.assess.described import (
    MOST_PARTITIONS,
    TOPIC,
    assessed_topics,
    default_times,
    for_runs,
    header,
    hold_s,
    leaders,
    led_inside,
    only_topics,
    producers,
    rate_of,
    setup,
    topic_names,
)
from studies.assess.series import describe, forecast, seconds, timings
from studies.series.job import Job

TWO = Layout(tuple(AvailabilityZone(name=name, brokers=3) for name in ("north", "south"))).topology(
    "zookeeper"
)
THREE = THREE_AZS.topology("zookeeper")
CASES = {case.name: case for case in battery(THREE, "zookeeper")}
TWO_CASES = {case.name: case for case in battery(TWO, "zookeeper")}
ISOLATED = CASES["isolate-az1.roles-az1"]


def table(**values: str) -> Mapping[str, Setting]:
    keys = {name.replace("_", "."): value for name, value in values.items()}
    return {key: Setting(key=key, value=value, place="test") for key, value in keys.items()}


def test_every_az_leads_partitions_on_either_side_of_the_fault() -> None:
    assert leaders(ISOLATED, THREE) == (1, 2, 3)
    assert [led_inside(ISOLATED, leader) for leader in (1, 2, 3)] == [True, False, False]
    killed = TWO_CASES["kill-broker1.roles-here"]
    assert leaders(killed, TWO) == (1, 2, 3)  # broker 1, broker 3 of the same AZ, and one of the other AZ
    assert [led_inside(killed, leader) for leader in (1, 2, 3)] == [True, False, False]


def test_the_topic_without_a_description() -> None:
    made = setup(ISOLATED, THREE, NO_SETTINGS)
    (topic,) = made.topics
    assert (topic.name, topic.assignment) == (TOPIC, ((1, 2, 3), (2, 3, 1), (3, 1, 2)))
    assert topic.config == {"min.insync.replicas": "2"}
    assert made.for_layout and made.brokers == (1, 2, 3)


def test_sessions_are_placed() -> None:
    kept = setup(CASES["cut-az1-az2.roles-az1"], THREE, NO_SETTINGS)
    lost = setup(CASES["cut-az1-az2.roles-az1.sessions-lost"], THREE, NO_SETTINGS)
    assert (kept.zookeeper_sessions["broker2"], kept.zookeeper_pins) == ("zookeeper3", {})
    assert (lost.zookeeper_sessions["broker2"], lost.zookeeper_pins) == (
        "zookeeper2",
        {"broker2": ("zookeeper2",)},
    )


def test_replicas_are_spread_over_the_azs() -> None:
    """Three replicas in two AZs of three brokers: never all in one."""
    (topic,) = setup(TWO_CASES["isolate-north.roles-north"], TWO, NO_SETTINGS).topics
    racks = {host.node_id: host.az for host in TWO.role("broker")}
    assert [replicas[0] for replicas in topic.assignment] == [1, 2]
    assert all(len({racks[replica] for replica in replicas}) == 2 for replicas in topic.assignment)


def test_a_described_topic() -> None:
    """Its replicas and properties are the user's; only the places of its leaders are not."""
    settings = Settings(
        topics={"orders": table(min_insync_replicas="4")},
        shapes={"orders": TopicShape(replication_factor=6, place="test")},
    )
    (topic,) = setup(TWO_CASES["isolate-north.roles-north"], TWO, settings).topics
    assert topic.name == "orders"
    assert topic.config == {}  # the run applies what the user has set
    assert {len(replicas) for replicas in topic.assignment} == {6}
    run = for_runs(settings)
    assert (run.shapes, set(run.topics)) == ({}, {"orders"})


def test_every_described_topic_is_assessed() -> None:
    """Each with its own replicas and properties, and under a name of its own in every run of a cluster."""
    settings = Settings(
        topics={"orders": table(min_insync_replicas="4"), "audit": table(retention_ms="9")},
        shapes={
            "orders": TopicShape(replication_factor=6, place="test"),
            "plain": TopicShape(replication_factor=2, place="test"),
        },
    )
    assert topic_names(settings) == ("orders", "plain", "audit")
    made = setup(TWO_CASES["isolate-north.roles-north"], TWO, settings, number=3)
    assert [
        (topic.name, len(topic.assignment[0]), topic.partitions, dict(topic.config)) for topic in made.topics
    ] == [
        ("orders-3", 6, 2, {}),
        ("plain-3", 2, 2, {"min.insync.replicas": "1"}),
        ("audit-3", 3, 2, {"min.insync.replicas": "2"}),
    ]
    run = for_runs(settings, 3)
    assert (run.shapes, set(run.topics)) == ({}, {"orders-3", "audit-3"})


def test_topics_are_chosen_by_their_names() -> None:
    settings = Settings(
        topics={"orders": table(), "audit": table(retention_ms="9")},
        shapes={"orders": TopicShape(place="test")},
    )
    assert topic_names(only_topics(settings, ["ord*"])) == ("orders",)
    assert topic_names(only_topics(settings, ["audit", "orders"])) == ("orders", "audit")
    with pytest.raises(UsageError, match="no described topic is named 'x'; there are: orders, audit"):
        only_topics(settings, ["audit", "x"])


@pytest.mark.parametrize(
    ("partitions", "led_by"),
    [
        (0, (1, 2, 3)),  # in each AZ a leader that is hit, and one that is not
        (1, (1,)),  # hit
        (2, (1, 2)),  # hit, and not
        (3, (1, 2, 3)),
        (4, (1, 2, 3, 4)),
        (6, (1, 2, 3, 4, 5, 6)),
        (8, (1, 1, 2, 2, 3, 4, 5, 6)),
    ],
)
def test_described_partitions_are_created_and_their_leaders_spread(
    partitions: int, led_by: tuple[int, ...]
) -> None:
    settings = Settings(shapes={"orders": TopicShape(partitions=partitions, place="test")})
    (topic,) = setup(TWO_CASES["kill-broker1.roles-here"], TWO, settings).topics
    assert tuple(replicas[0] for replicas in topic.assignment) == led_by
    assert topic.partitions == len(topic.topic_partitions) == len(led_by)


def test_many_partitions_are_bounded_and_a_note_says_so() -> None:
    """All topics together: the large ones share what the small ones leave. Every broker leads as many."""
    many = TopicShape(partitions=300, place="test")
    settings = Settings(
        shapes={
            "orders": many,
            "other": replace(many, replication_factor=2),
            "one": TopicShape(partitions=1),
            "four": TopicShape(partitions=4),
        },
        topics={"few": table()},
    )
    topics = setup(ISOLATED, THREE, settings).topics
    assert {topic.name: topic.partitions for topic in topics} == {
        "orders": 21,
        "other": 22,
        "one": 1,
        "four": 4,
        "few": 3,
    }
    (alone,) = setup(ISOLATED, THREE, Settings(shapes={"orders": many})).topics
    assert alone.partitions == MOST_PARTITIONS == 48
    assert Counter(replicas[0] for replicas in alone.assignment) == {1: 16, 2: 16, 3: 16}
    text = header("2.7.1", "zookeeper", THREE, settings, Timings())
    assert text["topic orders"] == (
        "21 of 300 partitions (a run has 48 at most, led by the brokers in turn), replication factor 3, "
        "min.insync.replicas=2"
    )


def test_topics_that_are_described_alike_are_assessed_as_one() -> None:
    """Those that differ in anything are assessed each."""
    forty = {f"events-{number}": table(retention_ms="9") for number in range(40)}
    settings = Settings(
        topics={**forty, "audit": table(retention_ms="8"), "orders": table()},
        shapes={
            "orders": TopicShape(partitions=2, place="cluster.toml:90"),
            "returns": TopicShape(partitions=2, place="cluster.toml:95"),
            "wide": TopicShape(partitions=3, place="cluster.toml:99"),
        },
    )
    assert topic_names(settings) == ("orders", "wide", "events-0", "audit")
    text = header("2.7.1", "zookeeper", THREE, settings, Timings())
    assert text["topic events-0"] == (
        "replication factor 3, min.insync.replicas=2; retention.ms=9; stands for 39 topics that are "
        "described alike: events-1, events-2, events-3 and 36 more"
    )
    assert text["topic orders"].endswith("stands for 1 topic that is described alike: returns")
    assert "stands for" not in text["topic audit"]
    made = setup(ISOLATED, THREE, settings, number=2)
    assert [topic.name for topic in made.topics] == ["orders-2", "wide-2", "events-0-2", "audit-2"]
    assert set(for_runs(settings, 2).topics) == {"events-0-2", "audit-2", "orders-2"}
    chosen = only_topics(settings, ["events-1?"])
    assert [(one.name, len(one.alike)) for one in assessed_topics(chosen)] == [("events-10", 9)]


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (
            TopicShape(assignment=((9, 1),), place="c:1"),
            "c:1: topic 'orders': partition 0 is assigned to broker 9",
        ),
        (
            TopicShape(assignment=((1,),), partitions=2, place="c:1"),
            "partitions = 2, but the assignment has 1",
        ),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(shape: TopicShape, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        setup(ISOLATED, THREE, Settings(shapes={"orders": shape}))


def test_an_assignment_of_the_users_own_stays() -> None:
    settings = Settings(shapes={"orders": TopicShape(assignment=((3, 1, 2),), place="test")})
    (topic,) = setup(ISOLATED, THREE, settings).topics
    assert topic.assignment == ((3, 1, 2),)


def test_more_replicas_than_brokers() -> None:
    settings = Settings(shapes={"orders": TopicShape(replication_factor=6, place="cluster.toml:9")})
    with pytest.raises(UsageError, match="cluster.toml:9: topic 'orders': replication-factor = 6, but"):
        setup(ISOLATED, THREE, settings)


@pytest.mark.parametrize(
    "settings",
    [Settings(topic=table(min_insync_replicas="1")), Settings(broker=table(min_insync_replicas="3"))],
)
def test_a_described_minimum_of_replicas_in_sync_counts(settings: Settings) -> None:
    assert setup(ISOLATED, THREE, settings).topics[0].config == {}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["acks=all", "acks=1"]),
        ({"acks": "all"}, ["acks=all", "acks=1"]),
        ({"acks": "1"}, ["acks=1", "acks=all"]),
        ({"acks": "0"}, ["acks=0", "acks=all"]),
    ],
)
def test_the_described_producer_comes_first_and_one_for_comparison(
    given: Mapping[str, str], names: list[str]
) -> None:
    settings = Settings(producer=table(**given))
    assert [producer.name for producer in producers(settings)] == names
    assert producers(settings)[0].fixed == {}


@pytest.mark.parametrize(
    ("given", "request_s", "delivery_s"),
    [
        ({}, 3.0, None),
        ({"delivery.timeout.ms": 9000}, 3.0, 9.0),
        ({"request.timeout.ms": 800}, 0.8, None),
    ],
)
def test_producers_wait_for_an_answer_as_long_as_brokers_do(
    given: Mapping[str, Value], request_s: float, delivery_s: float | None
) -> None:
    """Unless the user says how long; a delivery time-out of the user's stays."""
    choice = choose(ClientSettings(given=given), default_times(given, Timings()))
    assert choice.fields["request_timeout_s"] == request_s
    assert choice.fields.get("delivery_timeout_s") == delivery_s
    assert choice.kept == ()


def test_a_fault_lasts_longer_than_sessions_and_lags() -> None:
    base = hold_s(Timings())
    assert base > 1.5 * Timings().lag_s
    assert hold_s(Timings(session_s=18.0)) - base == pytest.approx(18.0)
    slow = timings(Settings(broker=table(zookeeper_session_timeout_ms="18000")), "zookeeper")
    assert seconds(ISOLATED, THREE, slow) - seconds(ISOLATED, THREE, Timings()) == pytest.approx(18.0)
    short = replace(Settings(broker=table(zookeeper_session_timeout_ms="18000")), compress_time=2.0)
    assert timings(short, "zookeeper").session_s == pytest.approx(9.0)


def test_a_forecast_counts_a_busy_machine_and_the_clusters_that_start_together() -> None:
    jobs = [Job(scenario=name, version="2.7.1", mode="zookeeper") for name in list(CASES)[:8]]

    def seconds(parallel: int, slowdown: float = 1.0) -> float:
        return forecast(CASES, THREE, Timings(), parallel, slowdown).left_s(jobs)

    assert seconds(1) > 1.5 * seconds(3) > 1.5 * 60
    assert 1.2 * seconds(3) < seconds(3, 4.0) < seconds(3, 13.0)
    assert seconds(3, 0.5) == seconds(3)


def test_the_header_says_what_was_assessed() -> None:
    settings = Settings(
        broker=table(zookeeper_session_timeout_ms="18000"),
        topics={"orders": table(min_insync_replicas="4", retention_ms="1000"), "other": table()},
        shapes={"orders": TopicShape(replication_factor=6, place="test")},
        producer=table(acks="1"),
    )
    assert header("2.7.1", "zookeeper", TWO, settings, timings(settings, "zookeeper")) == {
        "cluster": "Kafka 2.7.1, zookeeper; north, south: 3 brokers, 1 ZooKeeper node, 1 client each",
        "topic orders": "replication factor 6, min.insync.replicas=4; retention.ms=1000",
        "topic other": "replication factor 3, min.insync.replicas=2",
        "producers": "acks=1 (described), acks=all (for comparison); in each AZ with a client, "
        "5 messages/s to each partition",
        "settings": "broker.zookeeper.session.timeout.ms=18000, producer.acks=1",
        "fault": "30 s each, as sessions last 18 s and replica.lag.time.max.ms is 6 s",
    }
    bare = header("2.7.1", "zookeeper", THREE, NO_SETTINGS, Timings())
    assert (bare["topic"], bare["settings"]) == (
        "assessed, replication factor 3, min.insync.replicas=2",
        "those of docs/configuration.md",
    )


def test_the_rate_is_kept_for_other_processes_and_told() -> None:
    asked = with_rate(NO_SETTINGS, 250.0)
    assert Settings.from_json(json.loads(json.dumps(asked.as_json()))) == asked
    assert Settings.from_json({k: v for k, v in NO_SETTINGS.as_json().items() if k != "rate"}) == NO_SETTINGS
    assert [rate_of(one) for one in (NO_SETTINGS, asked, NO_SETTINGS.over(asked), for_runs(asked))] == [
        *(5.0, 250.0, 250.0, 250.0),
    ]
    assert with_rate(asked, None) == asked
    body = process.scenario(ISOLATED, THREE, "zookeeper", asked).body
    assert isinstance(body, partial) and body.keywords["rate"] == 250.0
    with pytest.raises(UsageError, match="--rate 0"):
        with_rate(NO_SETTINGS, 0.0)


def test_a_cluster_that_migrates_is_not_assessed() -> None:
    """Its controllers start half-way, so faults could not name them."""
    with pytest.raises(UsageError, match="no mode 'migration' here; use zookeeper, kraft"):
        describe(None, "3.9.1", "migration", NO_SETTINGS)


def test_an_upgrade_ends_with_a_newer_version_that_has_the_mode() -> None:
    assert describe(None, "3.9.1", "kraft", NO_SETTINGS, upgrade_to="4.4.0").upgrade_to == "4.4.0"
    for version, why in (
        ("3.6.2", "--upgrade-to 3.6.2: the upgrade begins with Kafka 3.9.1; name a newer version"),
        ("3.9.1", "name a newer version"),
        ("9.9.9", "9.9.9 has not been tested"),
    ):
        with pytest.raises(UsageError, match=why):
            describe(None, "3.9.1", "kraft", NO_SETTINGS, upgrade_to=version)
    with pytest.raises(UsageError, match="4.4.0 runs here in mode kraft or kraft-combined, not 'zookeeper'"):
        describe(None, "3.9.1", "zookeeper", NO_SETTINGS, upgrade_to="4.4.0")


def test_a_case_in_an_upgrade_has_its_nodes_upgraded_first() -> None:
    case = next(
        case for case in battery(THREE, "zookeeper", "3.9.1") if case.name == "isolate-az1.roles-az1.1-of-3"
    )
    made = setup(case, THREE, NO_SETTINGS)
    assert (made.upgrade_to, made.upgraded) == ("3.9.1", ("broker2",))
    assert setup(ISOLATED, THREE, NO_SETTINGS).upgraded == ()
