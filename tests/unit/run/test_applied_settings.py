"""The user's settings applied to scenarios: precedence, origins, and what the harness owns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cluster.client_settings import NONE, check_client
from harness.cluster.settings import NO_SETTINGS, Setting, Settings
from harness.cluster.settings_files import read_options
from harness.cluster.setup import ONE_TRANSACTION_PARTITION, Setup
from harness.errors import InvalidRunError, ProcessDiedError, UsageError
from harness.kafka.model import Topic
from harness.kafka.versions import kafka_version
from harness.lab.layout import three_azs
from run.catalogue import find
from run.clients import choose
from run.scenario import Scenario
from run.settings import AppliedSettings, apply, check_took_effect, explained_refusal, producer_origins
from scenarios.catalogue import all_scenarios
from workloads.protocol.results import Configuration


def applied(name: str, *options: str, kafka: str = "", mode: str = "", factor: float = 1) -> AppliedSettings:
    scenario = find(name)
    settings = replace(read_options(options), compress_time=factor)
    mode = mode or scenario.mode
    version = kafka_version(kafka or scenario.kafka)
    return apply(scenario, settings, topology=three_azs(mode), mode=mode, version=version)


def test_without_settings_every_scenario_stays_as_it_is() -> None:
    """Set-up, claims, and clients; so the brokers' files are those of before as well."""
    for scenario in all_scenarios().values():
        used = apply(
            scenario,
            NO_SETTINGS,
            topology=three_azs(scenario.mode),
            mode=scenario.mode,
            version=kafka_version(scenario.kafka),
        )
        assert used.scenario == scenario, scenario.name
        assert not used.notes
        assert not used.clients.producer.given


def test_the_user_wins_over_the_scenario_and_the_scenario_over_the_base() -> None:
    used = applied("follower-az-isolated", "broker.zookeeper.session.timeout.ms=18000")
    assert used.scenario.setup.broker_config == {
        "zookeeper.session.timeout.ms": "18000",
        "replica.lag.time.max.ms": "12000",
    }
    broker = used.manifest["broker"]
    assert broker["zookeeper.session.timeout.ms"] == {
        "value": "18000",
        "origin": "user",
        "place": "--set",
        "instead_of": "6000",
    }
    assert broker["replica.lag.time.max.ms"] == {"value": "12000", "origin": "scenario"}
    assert broker["request.timeout.ms"] == {"value": "3000", "origin": "default"}
    assert (used.timings.session_s, used.timings.lag_s) == (18, 12)


def test_a_scenarios_topics_keep_what_it_gives_them_unless_they_are_named() -> None:
    used = applied(
        "kraft-leader-az-isolated",
        "topic.min.insync.replicas=3",
        "topic.retention.ms=99",
        "topic.led-inside-min1.min.insync.replicas=2",
    )
    configs = {topic.name: dict(topic.config) for topic in used.scenario.setup.topics}
    assert configs["led-inside-min1"] == {"min.insync.replicas": "2", "retention.ms": "99"}
    assert configs["led-outside-min1"] == {"min.insync.replicas": "1", "retention.ms": "99"}
    assert used.scenario.setup.stream_config == {"min.insync.replicas": "3", "retention.ms": "99"}
    assert [sentence.split("=")[0] for sentence in used.notes] == [
        f"topic {name} keeps the scenario's min.insync.replicas"
        for name in ("led-inside-min2", "led-outside-min1", "led-outside-min2")
    ]
    origins = used.manifest["topics"]["led-outside-min1"]
    assert {key: entry["origin"] for key, entry in origins.items()} == {
        "min.insync.replicas": "scenario",
        "retention.ms": "user",
    }


def test_topics_of_ones_own() -> None:
    used = applied("canary", "topic.orders.partitions=2", "topic.orders.retention.ms=99")
    assert used.scenario.setup.own_topics == (
        Topic(
            "orders", (1, 2, 3), partitions=2, config={"retention.ms": "99"}, placed=((1, 2, 3), (2, 3, 1))
        ),
    )


def test_a_run_creates_a_hundred_partitions_at_most() -> None:
    """An assessment would take some of them."""
    assert applied("canary", "topic.orders.partitions=100").scenario.setup.own_topics[0].partitions == 100
    with pytest.raises(UsageError, match="partitions = 101: a run creates 100 at most; describe fewer, or"):
        applied("canary", "topic.orders.partitions=101")


@pytest.mark.parametrize("mode", ["zookeeper", "kraft-combined"])
def test_dedicated_controllers_get_the_users_broker_properties(mode: str) -> None:
    kafka = "2.7.1" if mode == "zookeeper" else "3.9.1"
    used = applied("leader-az-isolated", "broker.num.io.threads=5", mode=mode, kafka=kafka)
    assert used.scenario.setup.controller_config == {"num.io.threads": "5"}


@pytest.mark.parametrize(
    ("mode", "option"),
    [
        ("zookeeper", "inter.broker.listener.name=PLAINTEXT"),
        ("zookeeper", "zookeeper.connect=198.18.0.11:2181,198.18.0.12:2181,198.18.0.13:2181"),
        ("zookeeper", "security.inter.broker.protocol=PLAINTEXT"),
        ("kraft", "controller.quorum.voters=11@198.18.0.41:9093,12@198.18.0.42:9093,13@198.18.0.43:9093"),
        ("kraft", "process.roles=broker"),
        ("kraft-combined", "process.roles=broker,controller"),
    ],
)
def test_what_the_harness_sets_may_be_said_again(mode: str, option: str) -> None:
    name = "canary" if mode == "zookeeper" else "kraft-leader-az-isolated"
    assert applied(name, f"broker.{option}", mode=mode).scenario.setup.controller_config == {}


@pytest.mark.parametrize(
    "option",
    [
        "broker.id=1",
        "broker.rack=az1",
        "listeners=PLAINTEXT://198.18.0.21:9092",
        "advertised.listeners=PLAINTEXT://198.18.0.21:9092",
        "log.dirs=/var/lib/kafka",
        "log.dir=/var/lib/kafka",
        "zookeeper.connect=localhost:2181",
        "process.roles=broker",
        "node.id=1",
        "controller.quorum.voters=1@localhost:9093",
        "listener.security.protocol.map=PLAINTEXT:SSL",
        "security.inter.broker.protocol=SSL",
        "inter.broker.listener.name=REPLICATION",
        "ssl.keystore.location=/k",
        "sasl.enabled.mechanisms=PLAIN",
        "listener.name.internal.ssl.keystore.location=/k",
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
    ],
)
def test_what_the_harness_owns_is_left_out_and_named(option: str) -> None:
    used = applied("canary", f"broker.{option}")
    key, _, value = option.partition("=")
    assert key not in used.scenario.setup.broker_config
    assert key not in used.manifest["broker"]
    (note,) = used.notes
    because = "acked gives each node its identity, listeners, directories and quorum"
    if key.startswith(("ssl.", "sasl.", "security.", "listener.name.")) or key in (
        "listener.security.protocol.map",
        "authorizer.class.name",
    ):
        because = "[security] or --secure says what the listeners speak"
    assert note == f"not followed: {key} ({because})"
    assert value not in note.removeprefix(f"not followed: {key}") or value in because
    assert used.manifest["not_followed"] == [
        {"table": "broker", "key": key, "place": "--set", "because": because}
    ]


@pytest.mark.parametrize(
    "option",
    [
        "metric.reporters=io.confluent.metrics.reporter.ConfluentMetricsReporter",
        "kafka.metrics.reporters=kafka.metrics.KafkaCSVMetricsReporter,com.example.Reporter",
        "create.topic.policy.class.name=com.example.Policy",
        "remote.log.storage.system.enable=true",
        "rsm.config.chunk.size=4194304",
    ],
)
def test_what_needs_somebodys_classes_is_left_out_and_named(option: str) -> None:
    used = applied("canary", f"broker.{option}")
    key = option.partition("=")[0]
    assert key not in used.scenario.setup.broker_config
    assert used.notes == (f"not followed: {key} (the brokers here have Kafka's own classes alone)",)


def test_classes_of_kafka_are_kept() -> None:
    used = applied("canary", "broker.kafka.metrics.reporters=kafka.metrics.KafkaCSVMetricsReporter")
    assert used.scenario.setup.broker_config == {
        "kafka.metrics.reporters": "kafka.metrics.KafkaCSVMetricsReporter"
    }
    assert not used.notes


def test_all_owned_properties_of_a_file_are_in_one_note() -> None:
    used = applied("canary", "broker.broker.id=7", "broker.num.io.threads=4", "broker.log.dirs=/x")
    (note,) = used.notes
    assert note.startswith("not followed: broker.id, log.dirs (acked gives")
    assert used.scenario.setup.broker_config == {"num.io.threads": "4"}


@pytest.mark.parametrize(
    ("name", "option", "note"),
    [
        ("canary", "default.replication.factor=2", "acked assigns the replicas of the topics"),
        ("canary", "num.partitions=3", "acked chooses the partitions of the topics"),
        ("canary", "auto.create.topics.enable=true", "every topic exists before a client asks for it"),
        ("canary", "replica.selector.class=kafka.Selector", "no consumer here names its rack"),
        (
            "exactly-once-az-isolated",
            "offsets.topic.num.partitions=50",
            "acked creates __consumer_offsets itself",
        ),
        (
            "transaction-coordinator-isolated",
            "transaction.state.log.num.partitions=50",
            "acked creates __transaction_state itself",
        ),
        ("configuration-matrix", "min.insync.replicas=3", "has its own min.insync.replicas"),
    ],
)
def test_what_acked_decides_itself_is_named(name: str, option: str, note: str) -> None:
    used = applied(name, f"broker.{option}")
    (sentence,) = (one for one in used.notes if one.startswith("not followed: "))
    assert option in sentence
    assert note in sentence


def test_a_search_keeps_its_coordinators() -> None:
    """All schedules of its cluster find one partition, also after one without transactions."""
    setup = Setup(
        topics=(Topic("t", (1, 2, 3)),), broker_config={**ONE_TRANSACTION_PARTITION}, for_layout=True
    )
    scenario = Scenario(name="schedule", title="", body=print, setup=setup)
    used = apply(
        scenario,
        read_options(["broker.transaction.state.log.num.partitions=50"]),
        topology=three_azs("zookeeper"),
        mode="zookeeper",
        version=kafka_version(scenario.kafka),
    )
    assert used.scenario.setup.broker_config == ONE_TRANSACTION_PARTITION
    assert [one.setting.key for one in used.not_followed] == ["transaction.state.log.num.partitions"]


@pytest.mark.parametrize(
    "option",
    [
        "min.insync.replicas=2",
        "message.max.bytes=2000000",
        "compression.type=lz4",
        "offsets.retention.minutes=1",
        "log.retention.ms=1000",
        "auto.create.topics.enable=false",
    ],
)
def test_what_brokers_decide_is_followed(option: str) -> None:
    used = applied("canary", f"broker.{option}")
    key, _, value = option.partition("=")
    assert used.not_followed == ()
    assert used.scenario.setup.broker_config[key] == value


def test_topics_of_ones_own_follow_the_brokers_defaults() -> None:
    options = (
        "broker.default.replication.factor=2",
        "broker.num.partitions=4",
        "topic.mine.retention.ms=1000",
    )
    used = applied("canary", *options)
    (own_topic,) = used.scenario.setup.own_topics
    assert [len(replicas) for replicas in own_topic.assignment] == [2, 2, 2, 2]
    assert used.not_followed == ()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["broker.zookeeper.session.timeout.ms=500"],
            "the ZooKeeper nodes here grant sessions from 1000 to 60000 ms",
        ),
        (["broker.zookeeper.session.timeout.ms=90000"], "grant sessions from 1000 to 60000"),
        (["topic.t.partitions=3"], "the scenario assigns the replicas of its topic 't' itself"),
        (["topic.o.replication-factor=4"], "replication-factor = 4, but the cluster has 3 brokers"),
        (["broker.default.replication.factor=4"], r"must be at most the number of brokers \(3\)"),
        (
            ["topic.o.replication-factor=1", "topic.o.min.insync.replicas=2"],
            "--set: topic 'o': min.insync.replicas=2, but the replication factor is 1",
        ),
        (
            ["broker.transaction.state.log.min.isr=3", "broker.transaction.state.log.replication.factor=2"],
            "no transaction could begin",
        ),
    ],
)
def test_what_cannot_work_is_refused(options: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as refused:
        applied("canary", *options)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("option", "kafka"),
    [
        ("broker.socket.connection.setup.timeout.ms=2000", "1.1.1"),
        ("broker.log.message.format.version=2.7", "4.3.1"),
        ("broker.confluent.support.metrics.enable=true", "2.7.1"),
    ],
)
def test_properties_that_the_version_lacks_are_left_out_and_named(option: str, kafka: str) -> None:
    """Brokers pass over them as well, with a warning in their logs."""
    name = "kraft-leader-az-isolated" if kafka[0] == "4" else "canary"
    user = applied(name, option, kafka=kafka)
    key = option.partition("=")[0].removeprefix("broker.")
    assert f"not followed: {key} (Kafka {kafka} has no such broker property)" in user.notes
    assert key not in user.scenario.setup.broker_config


def test_a_typing_error_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no such broker property; did you mean min\.insync\.replicas\?"):
        applied("canary", "broker.min.insync.replica=2")


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("log.retention.minutes=3days", "give a whole number"),
        ("num.io.threads=0", "give a whole number of at least 1"),
        ("num.io.threads=99999999999", "give a whole number of at least 1"),
        ("delete.topic.enable=yes", "use true or false"),
        ("log.cleanup.policy=compact,remove", "use compact, delete"),
        ("log.cleaner.min.cleanable.ratio=half", "give a number."),
        ("compression.type=none", "use gzip, lz4, producer, snappy, uncompressed, zstd"),
        ("compression.type=${CODEC}", "this is a placeholder; write its value"),
        ("num.io.threads={{ threads }}", "this is a placeholder; write its value"),
    ],
)
def test_values_that_no_broker_takes_are_refused(option: str, remedy: str) -> None:
    with pytest.raises(UsageError) as refused:
        applied("canary", f"broker.{option}")
    assert f"--set: {option}: {remedy}" in refused.value.message


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("min.insync.replicas=two", "give a whole number of at least 1"),
        ("o.cleanup.policy=remove", "use compact, delete"),
        ("o.retention.ms={{ retention }}", "this is a placeholder; write its value"),
    ],
)
def test_values_that_no_topic_takes_are_refused(option: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=remedy):
        applied("canary", "topic.o.partitions=1", f"topic.{option}")


def test_another_protocol_than_that_of_the_version_is_refused() -> None:
    with pytest.raises(UsageError, match="the version asked for is 2.7.1@2.6; ask for 2.7.1@2.5"):
        applied("canary", "broker.inter.broker.protocol.version=2.5", kafka="2.7.1@2.6")


@pytest.mark.parametrize("table", ["broker", "topic.t", "producer"])
@pytest.mark.parametrize("kafka", ["1.1.1", "2.7.1@2.0"])
def test_zstd_is_refused_where_brokers_do_not_know_it(table: str, kafka: str) -> None:
    sentence = rf"compression.type=zstd: brokers accept zstd from .* 2.1 on, and these have {kafka[-3:]}"
    with pytest.raises(UsageError, match=sentence):
        applied("canary", f"{table}.compression.type=zstd", kafka=kafka)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_accepted(codec: str) -> None:
    options = [f"{table}.compression.type={codec}" for table in ("broker", "topic.t", "producer")]
    used = applied("canary", *options)
    assert used.clients.producer.librdkafka("producer") == {"compression.type": codec}
    assert used.scenario.setup.topics[0].config["compression.type"] == codec


def test_one_file_serves_both_metadata_modes() -> None:
    """Properties of the other mode are left out: some versions do not know them."""
    both = ("broker.zookeeper.session.timeout.ms=18000", "broker.broker.session.timeout.ms=9000")
    with_zookeeper = applied("leader-az-isolated", *both)
    assert with_zookeeper.scenario.setup.broker_config == {"zookeeper.session.timeout.ms": "18000"}
    assert with_zookeeper.notes == (
        "not followed: broker.session.timeout.ms=9000 (it has no effect in mode zookeeper)",
    )
    with_kraft = applied("leader-az-isolated", *both, kafka="3.9.1", mode="kraft")
    assert with_kraft.scenario.setup.broker_config == {"broker.session.timeout.ms": "9000"}
    assert (with_zookeeper.timings.session_s, with_kraft.timings.session_s) == (18, 9)


PRODUCTION = (
    "broker.zookeeper.session.timeout.ms=18000",
    "broker.replica.lag.time.max.ms=30000",
    "broker.request.timeout.ms=30000",
)


def test_times_are_divided_and_listed() -> None:
    used = applied("canary", *PRODUCTION, "producer.delivery.timeout.ms=120000", factor=5)
    assert used.scenario.setup.broker_config == {
        "zookeeper.session.timeout.ms": "3600",
        "replica.lag.time.max.ms": "6000",
        "request.timeout.ms": "6000",
    }
    assert used.clients.producer.given == {"delivery.timeout.ms": 24000}
    assert used.notes == (
        "times are divided by 5: broker.zookeeper.session.timeout.ms 18000 -> 3600; "
        "broker.replica.lag.time.max.ms 30000 -> 6000; broker.request.timeout.ms 30000 -> 6000; "
        "producer.delivery.timeout.ms 120000 -> 24000",
    )
    assert used.manifest["compress_time"] == 5


@pytest.mark.parametrize(
    ("options", "factor", "sentence"),
    [
        ([], 5, "divides time settings of yours, and you set none"),
        (["broker.num.io.threads=5"], 5, "you set none"),
        (
            ["broker.zookeeper.session.timeout.ms=18000"],
            5,
            "order of zookeeper.session.timeout.ms=18000 and replica",
        ),
        (
            ["broker.zookeeper.session.timeout.ms=18000", "broker.replica.lag.time.max.ms=60000"],
            20,
            "zookeeper.session.timeout.ms=18000 would become 900, below 1000: the ZooKeeper nodes",
        ),
        (
            ["broker.replica.lag.time.max.ms=12000"],
            25,
            "replica.lag.time.max.ms=12000 would become 480, below 1000",
        ),
        (
            ["broker.zookeeper.session.timeout.ms=5000", "broker.replica.lag.time.max.ms=30000"],
            5,
            "of request.timeout.ms=3000 and zookeeper.session.timeout.ms=5000, to 3000 and 1000",
        ),
    ],
)
def test_a_division_that_changes_the_order_is_refused(
    options: list[str], factor: float, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence) as refused:
        applied("canary", *options, factor=factor)
    assert "\n" not in refused.value.message


def _producer(**given: str) -> Settings:
    keys = {key.replace("_", "."): value for key, value in given.items()}
    return Settings(
        producer={key: Setting(key=key, value=value, place="--set") for key, value in keys.items()}
    )


def test_what_a_scenario_sets_of_a_stream_takes_effect() -> None:
    """Also what is no field of a producer's specification, and without settings of the user."""
    fixed = {"compression.type": "zstd", "acks": 1}
    choice = choose(NONE, fixed)
    assert (choice.fields, choice.config) == ({"acks": 1}, {"compression.type": "zstd"})
    user = applied("canary", "producer.compression.type=lz4", "producer.linger.ms=9").clients.producer
    choice = choose(user, fixed)
    assert choice.config == {"compression.type": "zstd", "linger.ms": 9}
    assert "compression.type" in choice.kept
    with pytest.raises(UsageError, match=r"The scenario sets compression.typ, and producers have no such"):
        choose(NONE, {"compression.typ": "zstd"})


def test_a_scenarios_own_producer_settings_win() -> None:
    user = check_client("producer", _producer(acks="1", retries="9", linger_ms="5").producer)
    choice = choose(user, {"acks": -1, "enable.idempotence": True})
    assert choice.fields == {"acks": -1, "idempotent": True, "retries": 9, "delivery_timeout_s": 120.0}
    assert choice.config == {"linger.ms": 5}
    assert choice.kept == ("acks",)


def test_settings_that_exclude_idempotence_switch_it_off() -> None:
    """As Java clients do, unless the scenario asks for idempotence."""
    acks_1 = check_client("producer", _producer(acks="1").producer)
    assert choose(acks_1, {}).fields == {"acks": 1, "idempotent": False}
    assert choose(acks_1, {"enable.idempotence": True}).fields == {"idempotent": True}


def test_origins_of_a_streams_producer() -> None:
    """By librdkafka's names, without what identifies it."""
    given = _producer(delivery_timeout_ms="9000").producer
    config = {"client.id": "x", "bootstrap.servers": "y", "message.timeout.ms": 9000, "acks": -1}
    assert producer_origins(config, check_client("producer", given), given) == {
        "message.timeout.ms": {"value": 9000, "origin": "user", "place": "--set"},
        "acks": {"value": -1, "origin": "default"},
    }


def test_a_producer_that_works_with_other_settings_makes_the_run_invalid() -> None:
    user = check_client("producer", _producer(acks="all", linger_ms="5").producer)
    given = {"acks": -1, "linger.ms": 5}
    check_took_effect(
        user, Configuration({"request.required.acks": "-1", "queue.buffering.max.ms": "5"}), given
    )
    with pytest.raises(InvalidRunError, match="given linger.ms as linger.ms=5, but in the library it is 0"):
        used = Configuration({"request.required.acks": "-1", "queue.buffering.max.ms": "0"})
        check_took_effect(user, used, given)
    with pytest.raises(InvalidRunError, match="in the library it is not set"):
        check_took_effect(user, Configuration({}), given)
    with pytest.raises(InvalidRunError, match="librdkafka refuses the settings of the producers: no"):
        check_took_effect(user, Configuration({}, refused="no"), given)


def test_a_broker_that_does_not_start_says_why() -> None:
    died = ProcessDiedError(
        "broker1 ended by itself",
        detail="x\norg.apache.kafka.common.config.ConfigException: Invalid value 0 for configuration "
        "num.io.threads: Value must be at least 1\n\tat y",
    )
    users = read_options(["broker.num.io.threads=0", "broker.log.retention.ms=5"]).broker
    said = explained_refusal(died, users)
    assert said is not None
    assert said.startswith("--set: num.io.threads=0: a broker does not start with it: Invalid value 0 for")
    assert explained_refusal(died, {}) is None
    assert explained_refusal(ProcessDiedError("x", detail="OutOfMemoryError"), users) is None
