"""The user's settings applied to a scenario: which value takes precedence, what is refused, what is recorded.

A broker property of the user overrides the scenario's, which overrides the base configuration. A scenario's
topics keep the properties that the scenario gives them, because its claims depend on them, unless the user
names the topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.cluster.client_settings import (
    CANONICAL,
    PRODUCER,
    ClientSettings,
    Value,
    check_client,
)
from harness.cluster.compression import compress
from harness.cluster.followed import TOPIC_DEFAULTS, IgnoredSetting, Use, in_words, not_followed
from harness.cluster.librdkafka_names import in_java_names
from harness.cluster.load import message_shape
from harness.cluster.owned import is_left_out, split_owned
from harness.cluster.possible import MIN_INSYNC, Arrangement, consequences, refuse_impossible
from harness.cluster.settings import (
    Setting,
    Settings,
    is_placeholder,
    own_topics,
    values,
    wrong_value,
)
from harness.cluster.setup import Setup
from harness.cluster.timings import Timings, effective_times, require_possible
from harness.errors import InvalidRunError, ProcessDiedError, UsageError
from harness.kafka.broker_properties import PROPERTIES
from harness.kafka.config import BASE_BROKER, OF_MODE
from harness.kafka.model import Topic
from harness.kafka.versions import INTER_BROKER_PROTOCOL, KafkaVersion, version_key
from harness.lab.model import Topology
from harness.secrets import holds_secret, shown, shown_properties
from run.clients import NO_CLIENTS, UserClients
from run.configs import same_value
from run.scenario import Scenario
from workloads.protocol.results import Configuration

_ZSTD_SINCE = (2, 1)
"""The inter-broker protocol from which on brokers accept zstd (KIP-110)."""
_BROKER_DEFAULTS = {of_topics: of_brokers for of_brokers, of_topics in TOPIC_DEFAULTS.items()}
_ASSIGNMENTS_NAMED = 6
"""The assignments of a topic's partitions that a note names one by one, at most."""
_ZOOKEEPER_ONLY = ("zookeeper.",)
_KRAFT_ONLY = ("controller.quorum.", "broker.session.timeout.ms", "broker.heartbeat.interval.ms")
"""Beginnings of broker properties that exist in one metadata mode only; the other mode ignores them."""


@dataclass(frozen=True, kw_only=True)
class AppliedSettings:
    """A scenario as it will run."""

    scenario: Scenario
    timings: Timings
    clients: UserClients = NO_CLIENTS
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """`settings` of `run.json`."""
    notes: tuple[str, ...] = ()
    """What the user should know: properties without effect, and those that a scenario keeps."""
    not_followed: tuple[IgnoredSetting, ...] = ()
    """The user's settings that this run does not apply; one of the notes names them all."""
    consequences: tuple[str, ...] = ()
    """A sentence for each setting that is possible but decides what a fault costs; among the notes."""
    given: Settings = field(default_factory=Settings)
    """The user's settings as they are applied, times compressed."""
    warnings: tuple[str, ...] = ()
    """The notes on what is not followed, and on what decides much; a series says each of them once."""


def apply(
    scenario: Scenario, settings: Settings, *, topology: Topology, mode: str, version: KafkaVersion
) -> AppliedSettings:
    """The scenario with the user's settings. Raises UsageError.

    ``scenario`` has the brokers of the layout already (`run.placement.place`).
    """
    setup = scenario.setup
    for key, value in setup.broker_config.items():
        if holds_secret(key, value):
            raise UsageError(
                f"Scenario {scenario.name} sets {key}={shown(key, value)} of its brokers, and no broker here "
                f"gets a secret; remove it."
            )
    settings = replace(
        settings, producer=in_java_names(settings.producer), consumer=in_java_names(settings.consumer)
    )
    settings, foreign = _of_mode(settings, mode)
    settings, compressed = compress(settings, effective_times(setup.broker_config, mode))
    users, owned = split_owned(settings.broker, topology, mode, setup, version)
    settings = replace(settings, broker=users)
    _refuse_impossible(settings, version)
    users = {key: setting for key, setting in users.items() if key not in setup.coordinator_config}
    clients = UserClients(
        producer=check_client("producer", settings.producer),
        consumer=check_client("consumer", settings.consumer),
        shape=message_shape(settings.load),
    )
    _refuse_keys_that_are_compacted(clients, settings)
    broker_config = {**setup.broker_config, **values(users)}
    timings = Timings.of(broker_config, mode)
    require_possible(users, broker_config, mode)
    kept: list[str] = []
    stream = Topic(setup.stream_topic, ())
    with_config = replace(
        setup,
        broker_config=broker_config,
        controller_config={**setup.controller_config, **values(users)},
        topics=tuple(_configured(topic, settings, kept) for topic in setup.topics),
        stream_config=_configured(stream, settings, kept).config,
        own_topics=own_topics(
            settings,
            [*(topic.name for topic in setup.topics), setup.stream_topic],
            topology,
            setup.brokers,
        ),
    )
    arrangement = Arrangement(
        brokers=len(setup.brokers),
        broker=_effective(_base(mode, version), setup.broker_config, users),
        producer=settings.producer,
        consumer=settings.consumer,
        topics=(*with_config.topics, *with_config.own_topics, *with_config.internal_topics),
        least_in_sync={
            topic.name: entries[MIN_INSYNC]
            for topic in (*with_config.topics, *with_config.own_topics)
            if MIN_INSYNC in (entries := {**settings.topic, **settings.topics.get(topic.name, {})})
        },
    )
    refuse_impossible(arrangement)
    use = Use(
        setup=replace(with_config, broker_config=setup.broker_config),
        own_topics=with_config.own_topics,
        unclean_config="zookeeper" in mode or version.unclean_config,
    )
    decisive = tuple(consequences(arrangement))
    left_out = (
        *foreign,
        *owned,
        *not_followed(settings.broker, use),
        *clients.producer.not_followed,
        *clients.consumer.not_followed,
    )
    warnings = (*decisive, *((f"not followed: {in_words(left_out)}",) if left_out else ()))
    secured = () if settings.security.plaintext else (f"the listeners speak {settings.security}",)
    notes = (
        *secured,
        *compressed,
        *kept,
        *warnings,
        *(f"topic {topic.name}: {_assigned(topic)}" for topic in with_config.own_topics),
    )
    return AppliedSettings(
        scenario=replace(scenario.at(timings), setup=with_config),
        timings=timings,
        clients=clients,
        manifest={
            "broker": _origins(_base(mode, version), setup.broker_config, users),
            "topics": {
                topic.name: _topic_origins(topic, setup, settings)
                for topic in (*with_config.topics, *with_config.own_topics)
            },
            "producer": _given(clients.producer, settings.producer),
            "consumer": _given(clients.consumer, settings.consumer),
            "load": {key: {"value": one.value, "place": one.place} for key, one in settings.load.items()},
            "compress_time": settings.compress_time,
            "security": {
                "protocol": settings.security.protocol,
                "mechanism": settings.security.mechanism,
            },
            "not_followed": [one.as_json() for one in left_out],
            "said": list(notes),
        },
        notes=notes,
        not_followed=left_out,
        consequences=decisive,
        warnings=warnings,
        given=settings,
    )


def _refuse_keys_that_are_compacted(clients: UserClients, settings: Settings) -> None:
    """Raise UsageError for keys where brokers remove a message when there is a later one with its key."""
    for entries in (settings.topic, *settings.topics.values()) if clients.shape.keys else ():
        policy = entries.get("cleanup.policy")
        if policy is not None and "compact" in policy.value:
            raise UsageError(
                f"{policy}: brokers remove messages of such a topic by their keys, and those would count as "
                "lost; leave keys out of [load], or use delete."
            )


def unsecurable(settings: Settings, version: KafkaVersion) -> str:
    """Why the version cannot have the security that is asked for, as a sentence; empty if it can."""
    security = settings.security
    if security.plaintext or version_key(version.version) >= version_key(security.oldest):
        return ""
    return (
        f"{security.place}: {security} needs Kafka {security.oldest} or newer, and this is "
        f"{version.label}; use another version."
    )


def _refuse_impossible(settings: Settings, version: KafkaVersion) -> None:
    """Raise UsageError for properties that the version cannot have with this value."""
    if too_old := unsecurable(settings, version):
        raise UsageError(too_old)
    for key, setting in settings.broker.items():
        remedy = PROPERTIES[key].remedy(setting.value) if key in PROPERTIES else ""
        if remedy or is_placeholder(setting.value):
            raise wrong_value(setting, remedy)
        if key == INTER_BROKER_PROTOCOL and version.protocol not in ("", setting.value):
            raise UsageError(
                f"{setting}: the version asked for is {version.label}; ask for "
                f"{version.version}@{setting.value}, or remove the property."
            )
    for setting in all_of_topics(settings):
        of_brokers = _BROKER_DEFAULTS.get(setting.key, "")
        remedy = PROPERTIES[of_brokers].remedy(setting.value) if of_brokers else ""
        if remedy or is_placeholder(setting.value):
            raise wrong_value(setting, remedy)
    of_topics = ((setting.key, setting) for setting in all_of_topics(settings))
    for key, setting in (*settings.broker.items(), *settings.producer.items(), *of_topics):
        if key == "compression.type" and setting.value.lower() == "zstd":
            given = settings.broker.get(INTER_BROKER_PROTOCOL)
            protocol = given.value if given else version.protocol or version.version
            if version_key(protocol.partition("-")[0]) < _ZSTD_SINCE:
                raise UsageError(
                    f"{setting}: brokers accept zstd from inter.broker.protocol.version 2.1 on, and these "
                    f"have {protocol}; use none, gzip, snappy or lz4."
                )


def _of_mode(settings: Settings, mode: str) -> tuple[Settings, tuple[IgnoredSetting, ...]]:
    """The settings without broker properties of other metadata modes, and these."""
    elsewhere = {"zookeeper": _KRAFT_ONLY, "migration": ()}.get(mode, _ZOOKEEPER_ONLY)
    foreign = [
        setting
        for key, setting in settings.broker.items()
        if key.startswith(elsewhere) and not is_left_out(setting)
    ]
    kept = {key: setting for key, setting in settings.broker.items() if setting not in foreign}
    because = f"it has no effect in mode {mode}"
    left_out = tuple(IgnoredSetting(table="broker", setting=setting, because=because) for setting in foreign)
    return replace(settings, broker=kept), left_out


def all_of_topics(settings: Settings) -> Iterator[Setting]:
    """Every topic property that the user has set."""
    for table in (settings.topic, *settings.topics.values()):
        yield from table.values()


def _configured(topic: Topic, settings: Settings, kept: list[str]) -> Topic:
    """A scenario's topic with the user's properties."""
    for key, setting in settings.topic.items():
        own_value = topic.config.get(key, setting.value)
        if own_value != setting.value and key not in settings.topics.get(topic.name, {}):
            kept.append(
                f"topic {topic.name} keeps the scenario's {key}={own_value} ({setting.place}: "
                f"{setting.value}); topic.{topic.name}.{key} would override it"
            )
    config = {
        **values(settings.topic),
        **topic.config,
        **values(settings.topics.get(topic.name, {})),
    }
    return replace(topic, config=config)


def _base(mode: str, version: KafkaVersion) -> dict[str, str]:
    base = {**BASE_BROKER, **OF_MODE[mode]}
    return {key: value for key, value in base.items() if key not in version.unsupported_keys}


def _effective(
    base: Mapping[str, str], scenario: Mapping[str, str], users: Mapping[str, Setting]
) -> dict[str, Setting]:
    """The broker properties that are set, with their places."""
    return {
        **{key: Setting(key=key, value=value, place="docs/configuration.md") for key, value in base.items()},
        **{key: Setting(key=key, value=value, place="the scenario") for key, value in scenario.items()},
        **users,
    }


def _assigned(topic: Topic) -> str:
    """The replicas of a topic's partitions; of many partitions the different assignments."""
    different = [*dict.fromkeys(topic.assignment)]
    if len(different) > _ASSIGNMENTS_NAMED:
        return f"{topic.partitions} partitions with {len(different)} different assignments"
    if topic.partitions <= _ASSIGNMENTS_NAMED:
        return f"replicas {', '.join(map(str, topic.assignment))}"
    return f"{topic.partitions} partitions with replicas {', '.join(map(str, different))}"


def _origins(
    base: Mapping[str, str], scenario: Mapping[str, str], users: Mapping[str, Setting]
) -> dict[str, dict[str, str]]:
    """Value and origin of every property that is set; `default` is the harness's base configuration."""
    origins: dict[str, dict[str, str]] = {}
    for key in dict.fromkeys((*base, *scenario, *users)):
        if key in users:
            below = scenario.get(key, base.get(key))
            origins[key] = {"value": users[key].value, "origin": "user", "place": users[key].place}
            origins[key] |= {} if below is None else {"instead_of": below}
        elif key in scenario:
            origins[key] = {"value": scenario[key], "origin": "scenario"}
        else:
            origins[key] = {"value": base[key], "origin": "default"}
    return origins


def _topic_origins(topic: Topic, setup: Setup, settings: Settings) -> dict[str, dict[str, str]]:
    own = next((one.config for one in setup.topics if one.name == topic.name), {})
    named = settings.topics.get(topic.name, {})
    origins = {}
    for key, value in topic.config.items():
        setting = named.get(key) or (None if key in own else settings.topic.get(key))
        origins[key] = {"value": value, "origin": "user" if setting else "scenario"}
        origins[key] |= {"place": setting.place} if setting else {}
    return origins


def producer_origins(
    config: Mapping[str, Value], client: ClientSettings, settings: Mapping[str, Setting]
) -> dict[str, dict[str, object]]:
    """Value and origin of every property of a background stream's producer, by the names of its library."""
    users = {name: settings[key] for key in client.given for name in (key, PRODUCER[key].librdkafka)}
    return {
        name: {"value": value, "origin": "user", "place": users[name].place}
        if name in users
        else {"value": value, "origin": "default"}
        for name, value in shown_properties(config).items()
        if name not in ("bootstrap.servers", "client.id")
    }


def _given(client: ClientSettings, settings: Mapping[str, Setting]) -> dict[str, dict[str, object]]:
    return {
        key: {"value": value, "origin": "user", "place": settings[key].place}
        for key, value in client.given.items()
    }


def check_took_effect(user: ClientSettings, configuration: Configuration, given: Mapping[str, Value]) -> None:
    """Compare the user's producer settings with the library's own account of its configuration.

    ``given`` is the configuration that the producer was created with. Raises InvalidRunError for the first
    property that is not in effect.
    """
    if configuration.refused:
        raise InvalidRunError(f"librdkafka refuses the settings of the producers: {configuration.refused}.")
    for key in user.given:
        name = PRODUCER[key].librdkafka
        asked = str(given.get(name, "")).lower()
        effective = configuration.values.get(CANONICAL.get(name, name))
        if effective is None or not same_value(asked, effective):
            actual = "it is not set" if effective is None else f"it is {effective}"
            raise InvalidRunError(
                f"The producers were given {key} as {name}={asked}, but in the library {actual}; the run "
                f"would test another configuration."
            )


def explained_refusal(error: ProcessDiedError, users: Mapping[str, Setting]) -> str | None:
    """A sentence for a broker that ended because of the user's properties, from its log; None for others."""
    complaint = _COMPLAINT.search(error.detail) if users else None
    if complaint is None:
        return None
    complaint_text = complaint[1].rstrip(".")
    named = [setting for key, setting in users.items() if key in complaint_text] or list(users.values())
    return f"{'; '.join(map(str, named))}: a broker does not start with it: {complaint_text}."


_COMPLAINT = re.compile(
    r"(?:ConfigException|IllegalArgumentException|NumberFormatException): (?:requirement failed: )?(.+)"
)
