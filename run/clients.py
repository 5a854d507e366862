"""Which of the user's producer and consumer settings a client gets, besides those that the scenario fixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.cluster.client_settings import NONE, PRODUCER, ClientSettings, Value
from harness.errors import UsageError

DELIVERY = "delivery.timeout.ms"
_IDEMPOTENCE, _IN_FLIGHT = "enable.idempotence", "max.in.flight.requests.per.connection"
_JAVA_DELIVERY_S = 120.0
"""The default of delivery.timeout.ms, which bounds the time of a user's retries if nothing else does."""


@dataclass(frozen=True, kw_only=True)
class UserClients:
    """The user's client settings. Clients of a run get them where the scenario fixes nothing."""

    producer: ClientSettings = NONE
    consumer: ClientSettings = NONE


NO_CLIENTS = UserClients()


@dataclass(frozen=True, kw_only=True)
class ProducerChoice:
    """The settings of one producer."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `ProducerSpec`."""
    config: Mapping[str, Value] = field(default_factory=dict)
    """Its `config`: further settings by librdkafka's names."""
    kept: tuple[str, ...] = ()
    """Java names of the user's properties that the scenario's own values override."""

    @property
    def sets_batches(self) -> bool:
        """Whether the user sets how messages are batched."""
        return not {"batch.size", "linger.ms"}.isdisjoint(self.config)


def choose(user: ClientSettings, fixed: Mapping[str, Value]) -> ProducerChoice:
    """The user's producer settings where the scenario has none of its own (``fixed``, by Java names).

    As with Java clients, a producer whose acks, retries or requests in flight exclude idempotence is not
    idempotent, unless idempotence itself was fixed: then those settings give way. Raises UsageError for a
    property that producers do not have.
    """
    unknown = sorted(set(fixed) - set(PRODUCER))
    if unknown:
        raise UsageError(f"The scenario sets {unknown[0]}, and producers have no such property; remove it.")
    if not user.given:
        return ProducerChoice(fields=_fields(fixed), config=_config(fixed))
    properties = dict(user.given)
    kept = [key for key in properties if key in fixed and properties[key] != fixed[key]]
    if {"retries", "request.timeout.ms"} & set(fixed) and DELIVERY in properties and DELIVERY not in fixed:
        del properties[DELIVERY]  # the scenario's own value follows from its retries
        kept.append(DELIVERY)
    properties |= fixed
    if properties.get(_IDEMPOTENCE) is True or _IDEMPOTENCE not in properties:
        against = [key for key, excludes in _excluding(properties).items() if excludes]
        if fixed.get(_IDEMPOTENCE) is True:
            kept += against
            for key in against:
                del properties[key]
        elif against:
            kept += [_IDEMPOTENCE] if properties.get(_IDEMPOTENCE) else []
            properties[_IDEMPOTENCE] = False
    if "retries" in properties and "retries" not in fixed:
        properties.setdefault(DELIVERY, int(_JAVA_DELIVERY_S * 1000))
    fields = _fields(properties)
    return ProducerChoice(fields=fields, config=_config(properties), kept=tuple(dict.fromkeys(kept)))


def _excluding(properties: Mapping[str, Value]) -> dict[str, bool]:
    return {
        "acks": properties.get("acks", -1) != -1,
        "retries": properties.get("retries", 1) == 0,
        _IN_FLIGHT: int(properties.get(_IN_FLIGHT, 1)) > 5,
    }


_FIELDS = {
    "acks": ("acks", 1),
    _IDEMPOTENCE: ("idempotent", 1),
    "retries": ("retries", 1),
    "request.timeout.ms": ("request_timeout_s", 1000),
    DELIVERY: ("delivery_timeout_s", 1000),
}
"""Java name → field of `ProducerSpec`, and how many of Java's units its unit is."""


def _fields(properties: Mapping[str, Value]) -> dict[str, Any]:
    return {
        name: properties[key] if units == 1 else float(properties[key]) / units
        for key, (name, units) in _FIELDS.items()
        if key in properties
    }


def _config(properties: Mapping[str, Value]) -> dict[str, Value]:
    others = {key: value for key, value in properties.items() if key not in _FIELDS}
    return ClientSettings(given=others).librdkafka("producer")
