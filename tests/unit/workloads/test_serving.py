"""A fatal error does not end what serves the callbacks of a producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from workloads.agent.producers.serving import flush, poll


class _Raising:
    """Stands in for a producer that raises its errors one after the other, as confluent-kafka does."""

    def __init__(self, *errors: KafkaError) -> None:
        self._errors = list(errors)
        self.served = 0

    def poll(self, _within_s: float) -> None:
        if self._errors:
            raise KafkaException(self._errors.pop(0))
        self.served += 1

    flush = poll


def test_a_flush_waits_again_after_a_fatal_error() -> None:
    producer: Any = _Raising(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
    flush(producer, 1.0)
    assert producer.served == 1


def test_a_poll_after_a_fatal_error_serves_again() -> None:
    producer: Any = _Raising(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
    poll(producer, 1.0)
    poll(producer, 1.0)
    assert producer.served == 1


@pytest.mark.parametrize("serve", [poll, flush])
def test_other_errors_are_raised(serve: Callable[[Any, float], None]) -> None:
    with pytest.raises(KafkaException):
        serve(_Raising(KafkaError(KafkaError._STATE, "wrong state")), 1.0)
