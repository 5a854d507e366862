"""Translation between the protocol's dataclasses and JSON, driven by their type hints."""

from __future__ import annotations

from typing import TypeAlias, TypeVar, cast

import msgspec

from harness.errors import shortened

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
T = TypeVar("T")
_LONGEST_REASON = 120
"""Characters; a reason may name a field that another program has written."""


def to_json(value: object) -> Json:
    """A dataclass as nested JSON objects, one per dataclass; other values as they are."""
    return cast(Json, msgspec.to_builtins(value))


def from_json(kind: type[T], data: object) -> T:
    """The value of type ``kind`` that `to_json` wrote. Fields that are absent get their defaults.

    Raises ValueError with the field if ``data`` does not fit the type hints.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        name = kind.__name__ if isinstance(kind, type) else str(kind)
        raise ValueError(f"{name}: {shortened(str(error), _LONGEST_REASON)}") from None
