"""The configuration of a librdkafka producer as the library itself states it (`debug=conf`)."""

from __future__ import annotations

import logging
import re
import time

from confluent_kafka import KafkaException, Producer

from harness.secrets import redacted
from workloads.protocol.results import Configuration
from workloads.protocol.spec import ProducerSpec

_LINE = re.compile(r"\]:\s{2,}([a-z][a-z0-9_.]+) = (.*)$")
_STATED_S = 2.0


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        match = _LINE.search(record.getMessage())
        if match:
            self.values[match[1]] = match[2]


def stated_configuration(spec: ProducerSpec) -> Configuration:
    """The configuration of such a producer, or why the library refuses it."""
    lines = _Lines()
    logger = logging.Logger(spec.name)
    logger.addHandler(lines)
    config = {**spec.librdkafka_config(), "debug": "conf", "log_level": 7}
    try:
        producer = Producer(config, logger=logger)
    except KafkaException as error:
        return Configuration({}, refused=redacted(error.args[0].str(), config))
    end = time.monotonic() + _STATED_S
    while "message.timeout.ms" not in lines.values and time.monotonic() < end:
        producer.poll(0.05)
    return Configuration(lines.values)
