"""The properties of a client program: a specification by the names of Kafka's documentation.

Specifications hold further settings by librdkafka's names (`config`), which are translated to Java's names
here. Settings that only librdkafka has are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.kafka.security import ClientSecurity
from workloads.protocol.spec import ApplicationSpec, ConfigValue, ConsumerSpec, ProducerSpec

_RENAMED = {
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.max.bytes": "max.request.size",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
}
_ONLY_LIBRDKAFKA = frozenset(
    {
        "batch.num.messages",
        "fetch.error.backoff.ms",
        "log_level",
        "socket.timeout.ms",
        "topic.metadata.refresh.fast.interval.ms",
    }
)
"""Settings of librdkafka without a counterpart."""
_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""Java names an assignor by its class (KIP-429 for the cooperative one)."""
_KILOBYTES = {"queue.buffering.max.kbytes": "buffer.memory"}


def producer_properties(spec: ProducerSpec) -> dict[str, str]:
    """The complete properties of a producer."""
    properties = _properties(spec, spec.librdkafka_config())
    # The Java client refuses a delivery time-out below linger.ms + request.timeout.ms.
    room = int(properties["delivery.timeout.ms"]) - int(properties["linger.ms"])
    properties["request.timeout.ms"] = str(max(1, min(int(properties["request.timeout.ms"]), room)))
    properties.setdefault("max.block.ms", properties["delivery.timeout.ms"])
    if spec.role == "scripted":
        properties.setdefault("batch.size", "0")  # one message a batch, so that attempts can be counted
    return properties


def consumer_properties(spec: ConsumerSpec) -> dict[str, str]:
    """The complete properties of a consumer: a member of a group, or a consumer with assigned partitions."""
    config = spec.librdkafka_config()
    timeout = config.pop("socket.timeout.ms", None)
    properties = _properties(spec, config)
    if timeout is not None:
        properties["request.timeout.ms"] = _text(timeout)
    if "session.timeout.ms" in properties:  # KIP-848: the brokers set it, and the client refuses it.
        session = int(properties["session.timeout.ms"])
        properties.setdefault("heartbeat.interval.ms", str(min(3000, session // 3)))
    properties.setdefault("max.poll.records", "1000")
    if not spec.group:
        del properties["group.id"]
    return properties


OF_CONSUMER_GROUPS = (
    *("auto.offset.reset", "enable.auto.commit", "group.protocol", "isolation.level"),
    *("partition.assignment.strategy", "session.timeout.ms"),
)
"""Properties of consumers that share consumers refuse: the brokers decide them for each share group."""


def share_consumer_properties(spec: ConsumerSpec) -> dict[str, str]:
    """The complete properties of a share consumer that acknowledges each record (KIP-932)."""
    config = {key: value for key, value in spec.librdkafka_config().items() if key not in OF_CONSUMER_GROUPS}
    timeout = config.pop("socket.timeout.ms", None)
    properties = _properties(spec, config)
    if timeout is not None:
        properties["request.timeout.ms"] = _text(timeout)
    properties.setdefault("max.poll.records", "100")
    return {**properties, "share.acknowledgement.mode": "explicit"}


def application_properties(spec: ApplicationSpec) -> dict[str, str]:
    """The complete properties of an instance of an application of Kafka Streams."""
    brokers = spec.brokers
    config: dict[str, ConfigValue] = {
        "application.id": spec.application,
        "bootstrap.servers": ",".join(map(str, brokers)),
        "client.id": spec.name,
        "processing.guarantee": spec.guarantee,
        "state.dir": spec.state_dir,
        "num.standby.replicas": spec.standbys,
        "commit.interval.ms": int(spec.commit_every_s * 1000),
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "metadata.max.age.ms": 5000,
        **spec.config,
    }
    if config.get("group.protocol") != "streams":  # KIP-1071: the brokers set it.
        config.setdefault("session.timeout.ms", 6000)
        config.setdefault("heartbeat.interval.ms", 1500)
    return _secured({key: _text(value) for key, value in config.items()}, brokers[0].security)


def _properties(spec: ProducerSpec | ConsumerSpec, config: Mapping[str, ConfigValue]) -> dict[str, str]:
    """The properties by Java's names, with Java's own way of writing what security needs."""
    security = spec.brokers[0].security
    own = security.librdkafka()
    return _secured(renamed({key: value for key, value in config.items() if key not in own}), security)


def _secured(properties: dict[str, str], security: ClientSecurity) -> dict[str, str]:
    """Properties with what connections to these listeners need."""
    if not security.plaintext:  # Java's time for the connection ends before the handshake.
        properties["socket.connection.setup.timeout.ms"] = "1000"
    return properties | security.java()


def renamed(config: Mapping[str, ConfigValue]) -> dict[str, str]:
    """Settings by librdkafka's names, translated to Java's; those that only librdkafka has are left out."""
    by_java_name = {}
    for key, value in config.items():
        if key in _KILOBYTES:
            by_java_name[_KILOBYTES[key]] = str(int(value) * 1024)
        elif key == "partition.assignment.strategy":
            names = (name.strip() for name in _text(value).split(","))
            by_java_name[key] = ",".join(_ASSIGNORS.get(name, name) for name in names)
        elif key not in _ONLY_LIBRDKAFKA:
            by_java_name[_RENAMED.get(key, key)] = _text(value)
    return by_java_name


def _text(value: ConfigValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
