"""Translation between the protocol's dataclasses and JSON, driven by their type hints."""

from __future__ import annotations

from typing import TypeAlias, TypeVar, cast

import msgspec

from harness.errors import shortened
from harness.secrets import Secret

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
T = TypeVar("T")
_LONGEST_REASON = 120
"""Characters; a reason may name a field that another program has written."""


def to_json(value: object) -> Json:
    """A dataclass as nested JSON objects, one per dataclass; other values as they are.

    Secrets are revealed: the JSON is for the pipe between the harness and its agents alone.
    """
    return cast(Json, msgspec.to_builtins(value, enc_hook=_revealed))


def from_json(kind: type[T], data: object) -> T:
    """The value of type ``kind`` that `to_json` wrote. Fields that are absent get their defaults.

    Raises ValueError with the field if ``data`` does not fit the type hints.
    """
    try:
        return msgspec.convert(data, kind, dec_hook=_hidden)
    except msgspec.ValidationError as error:
        name = kind.__name__ if isinstance(kind, type) else str(kind)
        raise ValueError(f"{name}: {shortened(str(error), _LONGEST_REASON)}") from None


def _revealed(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError(f"{type(value).__name__} has no JSON")


def _hidden(kind: type, data: object) -> object:
    if kind is Secret and isinstance(data, str):
        return Secret(data)
    raise ValueError(f"{kind.__name__} is not read from JSON")
