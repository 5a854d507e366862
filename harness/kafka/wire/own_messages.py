"""Requests that kafka-python lacks, as classes of its kind, made of `harness.kafka.wire.schemas`."""

from __future__ import annotations

import types
from typing import Any

from kafka.protocol.api_message import ApiMessage


def message(name: str) -> Any:
    """The class of a request or response, by the name of its schema."""
    return types.new_class(name, (ApiMessage,), {"load_json": "harness.kafka.wire.schemas"})
