"""Who decides what a broker setting decides in production: the brokers here as well, or acked itself.

`DECIDERS` names the settings for which acked decides, and when. Every other one is the brokers', which get it
as it is. What is not followed is said once, before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cluster.possible import (
    DEFAULT_FACTOR,
    LONGEST_VALUE,
    OFFSETS_FACTOR,
    TRANSACTION_FACTOR,
    TRANSACTION_MIN_ISR,
)
from harness.cluster.settings import Setting
from harness.cluster.setup import ONE_TRANSACTION_PARTITION, Setup
from harness.kafka.model import Topic

NUM_PARTITIONS, AUTO_CREATE, UNCLEAN = (
    "num.partitions",
    "auto.create.topics.enable",
    "unclean.leader.election.enable",
)


@dataclass(frozen=True, kw_only=True)
class IgnoredSetting:
    """A setting of the user's that is not applied."""

    table: str
    """`broker`, `producer` or `consumer`."""
    setting: Setting
    because: str
    owned: bool = False
    """acked sets it itself in every run; its value, which may be a secret, is not shown."""

    def as_json(self) -> dict[str, Any]:
        """As `run.json` has it."""
        value = {} if self.owned else {"value": self.setting.value}
        place = {"table": self.table, "key": self.setting.key, "place": self.setting.place}
        return {**place, **value, "because": self.because}


@dataclass(frozen=True, kw_only=True)
class Use:
    """What a run does by itself."""

    setup: Setup
    own_topics: Sequence[Topic] = ()
    """The topics that the user describes besides those of the set-up."""
    unclean_config: bool = True
    """Whether this version follows `unclean.leader.election.enable` in its metadata mode."""


@dataclass(frozen=True, kw_only=True)
class Decider:
    """Settings that acked decides in some runs."""

    keys: tuple[str, ...]
    """Names, or beginnings of names that end with a dot."""
    when: Callable[[Use], bool]
    because: str
    chosen: Callable[[Use, str], str] = lambda use, key: ""
    """The value that acked uses instead; a setting with this value is not named."""


DECIDERS: tuple[Decider, ...] = (
    Decider(
        keys=(DEFAULT_FACTOR,),
        when=lambda use: not use.own_topics and DEFAULT_FACTOR not in use.setup.follows,
        because="acked assigns the replicas of the topics",
    ),
    Decider(
        keys=(NUM_PARTITIONS,),
        when=lambda use: not use.own_topics and NUM_PARTITIONS not in use.setup.follows,
        because="acked chooses the partitions of the topics",
    ),
    Decider(
        keys=(AUTO_CREATE,),
        when=lambda use: True,
        because="every topic exists before a client asks for it",
        chosen=lambda use, key: "false",
    ),
    Decider(
        keys=(OFFSETS_FACTOR, "offsets.topic.num.partitions"),
        when=lambda use: bool(use.setup.offsets_log),
        because="acked creates __consumer_offsets itself",
        chosen=lambda use, key: str(len(use.setup.offsets_log)) if key == OFFSETS_FACTOR else "1",
    ),
    Decider(
        keys=(TRANSACTION_FACTOR, TRANSACTION_MIN_ISR, "transaction.state.log.num.partitions"),
        when=lambda use: TRANSACTION_FACTOR in use.setup.coordinator_config,
        because="acked creates __transaction_state itself",
        chosen=lambda use, key: ONE_TRANSACTION_PARTITION[key],
    ),
    Decider(
        keys=("offsets.", "group."),
        when=lambda use: "groups" in use.setup.without,
        because="no consumer here is a member of a group",
    ),
    Decider(
        keys=("transaction.", "transactional.", "producer.id."),
        when=lambda use: "transactions" in use.setup.without,
        because="no producer here is transactional",
    ),
    Decider(
        keys=("replica.selector.class",),
        when=lambda use: True,
        because="no consumer here names its rack",
    ),
    Decider(
        keys=(UNCLEAN,),
        when=lambda use: not use.unclean_config,
        because="this version ignores it with KRaft: KAFKA-12670",
        chosen=lambda use, key: "false",
    ),
)
"""The first entry that fits decides."""

TOPIC_DEFAULTS: Mapping[str, str] = {
    "compression.type": "compression.type",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.segment.bytes": "segment.bytes",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
    UNCLEAN: UNCLEAN,
}
"""Broker settings that are defaults of topic settings."""


def not_followed(settings: Mapping[str, Setting], use: Use) -> tuple[IgnoredSetting, ...]:
    """The broker settings that this run does not follow."""
    return tuple(_found(settings, use))


def _found(settings: Mapping[str, Setting], use: Use) -> Iterator[IgnoredSetting]:
    for key, setting in settings.items():
        decider = next((one for one in DECIDERS if _speaks_of(one, key) and one.when(use)), None)
        if decider is not None:
            if setting.value.lower() != decider.chosen(use, key):
                yield IgnoredSetting(table="broker", setting=setting, because=decider.because)
        elif topic := _overriding(key, setting, use):
            yield IgnoredSetting(
                table="broker", setting=setting, because=f"topic {topic} has its own {TOPIC_DEFAULTS[key]}"
            )


def _speaks_of(decider: Decider, key: str) -> bool:
    return any(key.startswith(name) if name.endswith(".") else key == name for name in decider.keys)


def _overriding(key: str, setting: Setting, use: Use) -> str:
    """A topic whose own value differs from the brokers'; empty if there is none."""
    of_topic = TOPIC_DEFAULTS.get(key, "")
    topics = (*use.setup.topics, *use.own_topics)
    names = (one.name for one in topics if one.config.get(of_topic, setting.value) != setting.value)
    return next(names, "")


def in_words(settings: Iterable[IgnoredSetting]) -> str:
    """The settings, grouped by the reason; empty if there is none."""
    groups: dict[str, dict[str, None]] = {}
    for one in settings:
        value = one.setting.value if len(one.setting.value) <= LONGEST_VALUE else "…"
        shown = one.setting.key if one.owned else f"{one.setting.key}={value}"
        groups.setdefault(one.because, {})[shown] = None
    return "; ".join(f"{', '.join(keys)} ({because})" for because, keys in groups.items())
