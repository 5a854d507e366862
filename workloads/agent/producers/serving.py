"""Serves the callbacks of a librdkafka producer, also after a fatal error.

After a fatal error, for example when another producer has fenced this one, confluent-kafka raises the error
once from whichever `poll` or `flush` comes next, in whichever thread. The error is the outcome of every
message and of the transaction as well, so nothing is lost by going on: that way their callbacks are served.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaException, Producer


def poll(producer: Producer, within_s: float) -> None:
    """Serve callbacks, as `Producer.poll` does. Raises KafkaException, except for fatal errors."""
    _ends(producer.poll, within_s)


def flush(producer: Producer, within_s: float) -> None:
    """Wait for the outcomes of all messages, as `Producer.flush` does. Raises like `poll`."""
    if not _ends(producer.flush, within_s):
        producer.flush(within_s)


def _ends(serve: Callable[[float], object], within_s: float) -> bool:
    """Whether it ended without a fatal error."""
    try:
        serve(within_s)
    except KafkaException as error:
        if not error.args[0].fatal():
            raise
        return False
    return True
