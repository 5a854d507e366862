"""librdkafka's names of client properties, in terms of Java's: people's files use both.

Source: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.cluster.settings import Setting, whole
from harness.errors import UsageError

JAVA_NAMES: Mapping[str, str] = {
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
ALONE = frozenset(
    {
        *("api.version.fallback.ms", "api.version.request", "api.version.request.timeout.ms"),
        *("batch.num.messages",),
        *("broker.address.family", "broker.address.ttl", "broker.version.fallback", "debug"),
        *("delivery.report.only.error", "enable.auto.offset.store", "enable.gapless.guarantee"),
        *("enable.partition.eof", "fetch.error.backoff.ms", "log.connection.close", "log.queue"),
        *("log.thread.name", "log_level", "message.copy.max.bytes"),
        *("offset.store.method", "partitioner", "queue.buffering.backpressure.threshold"),
        *("queue.buffering.max.messages", "queued.max.messages.kbytes", "queued.min.messages"),
        *("queuing.strategy", "receive.message.max.bytes", "socket.blocking.max.ms"),
        *("socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable"),
        *("statistics.interval.ms", "sticky.partitioning.linger.ms"),
        *("topic.blacklist", "topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.cnt"),
        *("topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.sparse"),
    }
)
"""Properties that only librdkafka has."""
WHY_ALONE = "only librdkafka has it, and acked sets what Java clients have as well"
_KILOBYTE = 1024


def in_java_names(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings by Java's names; each still says what the user wrote.

    Raises UsageError if two names of a property have different values.
    """
    by_java_name = {key: setting for key, setting in settings.items() if key not in JAVA_NAMES}
    for key, setting in settings.items():
        java = JAVA_NAMES.get(key)
        if java is None or java == "bootstrap.servers":
            by_java_name[key] = setting
            continue
        translated = setting
        if key == "queue.buffering.max.kbytes" and (kilobytes := whole(setting.value)) is not None:
            translated = replace(setting, value=str(kilobytes * _KILOBYTE))
        if java in by_java_name and by_java_name[java].value != translated.value:
            raise UsageError(f"{setting}: {by_java_name[java].place} sets {java} already; keep one of them.")
        by_java_name.setdefault(java, translated)
    return by_java_name
