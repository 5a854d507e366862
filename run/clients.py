"""Which of the user's producer and consumer settings a client gets, besides those that the scenario fixes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkers.transactions.answers import TIMEOUT_MS
from harness.cluster.client_settings import NONE, PRODUCER, ClientSettings, Value
from harness.cluster.load import NO_SHAPE, MessageShape
from harness.errors import UsageError
from harness.kafka.model import Endpoint
from workloads.protocol.spec import ProducerSpec, StreamLoad, Via

DELIVERY = "delivery.timeout.ms"
_IDEMPOTENCE, _IN_FLIGHT = "enable.idempotence", "max.in.flight.requests.per.connection"
_JAVA_DELIVERY_S = 120.0
"""The default of delivery.timeout.ms, which bounds the time of a user's retries if nothing else does."""
_IN_FLIGHT_BYTES, _LEAST_IN_FLIGHT = 32 << 20, 100
CALM_FETCHES = {"fetch.min.bytes": 100_000, "fetch.wait.max.ms": 200}
"""A consumer fetches new messages every 200 ms. By default it would fetch each message on its own, which
costs brokers more than the producers do."""
_SMALL_BATCHES = {"batch.num.messages": 4}
"""An idempotent librdkafka producer polls without pause, and takes a whole core, while five messages of a
partition are in flight and more are queued: during a cut, for seconds. Batches of four avoid that, and are
enough up to `_SMALL_BATCHES_RATE`."""
_SMALL_BATCHES_RATE = 200.0


@dataclass(frozen=True, kw_only=True)
class UserClients:
    """The user's client settings. Clients of a run get them where the scenario fixes nothing."""

    producer: ClientSettings = NONE
    consumer: ClientSettings = NONE
    shape: MessageShape = NO_SHAPE
    """What the messages of background streams are like."""

    def shaped(self, load: StreamLoad) -> StreamLoad:
        """The load with such messages; as many may be in flight as 32 MiB hold."""
        shape = self.shape
        if shape == NO_SHAPE:
            return load
        sizes = shape.sizes or (load.size_bytes,)
        room = max(_LEAST_IN_FLIGHT, _IN_FLIGHT_BYTES * len(sizes) // sum(sizes))
        return replace(
            load,
            sizes=shape.sizes,
            keys=shape.keys,
            skew=shape.skew,
            max_in_flight=min(load.max_in_flight, room),
        )


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


@dataclass(frozen=True, kw_only=True)
class ProducerSetting:
    """The settings of one of the producers that are compared with each other."""

    name: str
    fixed: Mapping[str, Value] = field(default_factory=dict)
    """By Java's names; they override the user's."""


def compared(user: ClientSettings) -> tuple[ProducerSetting, ProducerSetting]:
    """The user's producer, and the same one with acks=1 for comparison, or with acks=all if it has not."""
    acks = choose(user, {}).fields.get("acks", -1)
    described = ProducerSetting(name="acks=all" if acks == -1 else f"acks={acks}")
    if acks == -1:
        fixed: dict[str, Value] = {"acks": 1, "enable.idempotence": False}
        return described, ProducerSetting(name="acks=1", fixed=fixed)
    return described, ProducerSetting(name="acks=all", fixed={"acks": -1})


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


def stream_spec(
    name: str,
    rate: float,
    *,
    writer: int,
    brokers: tuple[Endpoint, ...],
    user: UserClients,
    fixed: Mapping[str, Value],
    via: Via = "librdkafka",
    idempotence: bool = True,
) -> ProducerSpec:
    """The producer of a background stream: idempotent, acks=all, unless the user or ``fixed`` say otherwise.

    ``fixed`` settings (Java's names) override the user's; ``writer`` is its number in the history; without
    ``idempotence`` the brokers know no idempotent producers, or the user may not have one.
    """
    choice = choose(user.producer, fixed)
    small_batches = _SMALL_BATCHES if rate <= _SMALL_BATCHES_RATE else {}
    fields: dict[str, Any] = {
        "acks": -1,
        "idempotent": True,
        "retries": 1_000_000,
        # When a message times out, librdkafka starts a new producer epoch and sends the others again:
        # duplicates. And a broker accepts any first sequence number of a producer that it does not
        # know: with several requests in flight, an early one that was refused is then missing for
        # good, although it is reported as written.
        "delivery_timeout_s": 120.0,
        **choice.fields,
    }
    fields["idempotent"] = fields["idempotent"] and idempotence
    return ProducerSpec(
        writer=writer,
        name=name,
        brokers=brokers,
        via=via,
        role="stream",
        config={
            "max.in.flight.requests.per.connection": 1,
            **({} if choice.sets_batches else small_batches),
            **choice.config,
        },
        **fields,
    )


def transactional(spec: ProducerSpec, transactional_id: str) -> ProducerSpec:
    """The producer of a background stream with a transactional id, and Kafka's `transaction.timeout.ms`.

    No message may take longer. Raises UsageError for a producer whose settings exclude transactions.
    """
    if spec.acks != -1 or not spec.idempotent:
        raise UsageError(
            f"The producer {spec.name} has acks={spec.acks} and enable.idempotence="
            f"{str(spec.idempotent).lower()}, and transactions need an idempotent one with acks=all; change "
            "these settings, or leave the transactions out."
        )
    limit_s = TIMEOUT_MS / 1000
    return replace(
        spec,
        transactional_id=transactional_id,
        transaction_timeout_s=limit_s,
        delivery_timeout_s=min(spec.effective_delivery_timeout_s, limit_s),
    )
