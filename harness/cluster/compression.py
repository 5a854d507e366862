"""`--compress-time`: the user's time settings divided by a factor, so that production settings run faster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from harness.cluster.settings import Setting, Settings, whole
from harness.errors import UsageError

BROKER_TIMES = (
    *("zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms", "replica.lag.time.max.ms"),
    *("replica.fetch.wait.max.ms", "replica.fetch.backoff.ms", "replica.socket.timeout.ms"),
    *("replica.high.watermark.checkpoint.interval.ms", "request.timeout.ms", "controller.socket.timeout.ms"),
    *("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"),
    *("broker.session.timeout.ms", "broker.heartbeat.interval.ms", "controller.quorum.fetch.timeout.ms"),
    *("controller.quorum.election.timeout.ms", "controller.quorum.election.backoff.max.ms"),
    *("controller.quorum.request.timeout.ms", "leader.imbalance.check.interval.seconds"),
)
PRODUCER_TIMES = (
    *("delivery.timeout.ms", "linger.ms", "metadata.max.age.ms", "reconnect.backoff.max.ms"),
    *("reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms"),
    *("socket.connection.setup.timeout.ms", "metadata.recovery.rebootstrap.trigger.ms"),
)
CONSUMER_TIMES = (
    *("fetch.max.wait.ms", "heartbeat.interval.ms", "metadata.max.age.ms", "reconnect.backoff.max.ms"),
    *("reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms"),
    *("session.timeout.ms", "socket.connection.setup.timeout.ms"),
    "metadata.recovery.rebootstrap.trigger.ms",
)
"""The properties that are divided, by table: how soon a failure is noticed, and how often to retry."""

FLOORS: Mapping[str, tuple[int, str]] = {
    "zookeeper.session.timeout.ms": (1000, "the ZooKeeper nodes here grant no shorter session"),
    "broker.session.timeout.ms": (1000, "a busy machine would fence brokers without a fault"),
    "replica.lag.time.max.ms": (1000, "a busy machine would shrink ISRs without a fault"),
    "request.timeout.ms": (500, "a busy machine would miss answers without a fault"),
    "controller.quorum.fetch.timeout.ms": (1000, "a busy machine would elect leaders without a fault"),
    "controller.quorum.election.timeout.ms": (500, "a busy machine would elect leaders without a fault"),
    "broker.heartbeat.interval.ms": (100, "the brokers would do little else"),
    "socket.connection.setup.timeout.ms": (1000, "librdkafka accepts no shorter one"),
}
"""The shortest times that Kafka, ZooKeeper, the clients or the machine bear, in ms."""

_BROKER_ORDER = (
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("replica.fetch.wait.max.ms", "request.timeout.ms"),
    ("replica.fetch.wait.max.ms", "zookeeper.session.timeout.ms"),
    ("replica.fetch.wait.max.ms", "broker.session.timeout.ms"),
    ("replica.fetch.backoff.ms", "replica.lag.time.max.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("controller.quorum.fetch.timeout.ms", "broker.session.timeout.ms"),
    ("controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms"),
    ("zookeeper.session.timeout.ms", "replica.lag.time.max.ms"),
    ("broker.session.timeout.ms", "replica.lag.time.max.ms"),
    ("request.timeout.ms", "replica.lag.time.max.ms"),
    ("request.timeout.ms", "zookeeper.session.timeout.ms"),
    ("request.timeout.ms", "broker.session.timeout.ms"),
)
"""Pairs whose order decides what happens first: a division that changes the order is refused."""


def compress(settings: Settings, below: Mapping[str, str]) -> tuple[Settings, tuple[str, ...]]:
    """The settings with their times divided, and a sentence that lists them with old and new values.

    ``below`` are the effective broker properties without the user's. They are short already and are not
    divided. Raises UsageError if there is nothing to divide, if a time would become too short, or if the
    order of two times would change.
    """
    factor = settings.compress_time
    if factor == 1:
        return settings, ()
    divided = replace(
        settings,
        broker=_divided(settings.broker, BROKER_TIMES, factor),
        producer=_divided(settings.producer, PRODUCER_TIMES, factor),
        consumer=_divided(settings.consumer, CONSUMER_TIMES, factor),
    )
    changes = [
        (f"{table}.{key}", old, new)
        for table in ("broker", "producer", "consumer")
        for key, old in getattr(settings, table).items()
        if (new := getattr(divided, table)[key]).value != old.value
    ]
    if not changes:
        raise UsageError(
            f"--compress-time {factor:g} divides time settings of yours, and you set none; set one, such as "
            f"broker.replica.lag.time.max.ms=30000, or leave the option out."
        )
    for name, old, new in changes:
        least, why = FLOORS.get(old.key, (1, "it must not be 0")) if name.startswith("broker") else (1, "")
        if int(new.value) < least <= int(old.value):
            raise UsageError(
                f"--compress-time {factor:g}: {name}={old.value} would become {new.value}, below {least}: "
                f"{why}; use a smaller factor."
            )
    _keep_order(settings, divided, below)
    listed = "; ".join(f"{name} {old.value} -> {new.value}" for name, old, new in changes)
    return divided, (f"times are divided by {factor:g}: {listed}",)


def _divided(table: Mapping[str, Setting], times: tuple[str, ...], factor: float) -> dict[str, Setting]:
    return {
        key: replace(setting, value=str(max(1, round(number / factor))))
        if key in times and (number := whole(setting.value) or 0) > 0
        else setting
        for key, setting in table.items()
    }


def _keep_order(settings: Settings, divided: Settings, below: Mapping[str, str]) -> None:
    before = {**below, **{key: setting.value for key, setting in settings.broker.items()}}
    after = {**below, **{key: setting.value for key, setting in divided.broker.items()}}
    for one, other in _BROKER_ORDER:
        numbers = [whole(config.get(key, "")) for config in (before, after) for key in (one, other)]
        first, second, third, fourth = numbers
        if first is None or second is None or third is None or fourth is None:
            continue
        if _order(first, second) != _order(third, fourth):
            raise UsageError(
                f"--compress-time {settings.compress_time:g} would reverse the order of {one}={first} and "
                f"{other}={second}, to {third} and {fourth}; use a smaller factor, or set both."
            )


def _order(one: int, other: int) -> int:
    return (one > other) - (one < other)


def declared_times() -> tuple[str, ...]:
    """Every time setting that is divided, for the documentation's test."""
    return tuple(dict.fromkeys(chain(BROKER_TIMES, PRODUCER_TIMES, CONSUMER_TIMES)))
