"""Translation between the protocol's dataclasses and JSON, driven by their type hints."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from functools import cache
from typing import Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
T = TypeVar("T")


def to_json(value: object) -> Json:
    """A dataclass as nested JSON objects, one per dataclass; other values as they are."""
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    return cast(Json, plain)


def from_json(kind: type[T], data: Json) -> T:
    """The value of type ``kind`` that `to_json` wrote. Fields that are absent get their defaults.

    Raises ValueError with the field and its value if ``data`` does not fit the type hints.
    """
    return cast(T, _value(kind, data, kind.__name__ if isinstance(kind, type) else str(kind)))


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


def _value(hint: object, data: Json, place: str) -> object:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        if data in arguments:
            return data
    elif origin in (Union, types.UnionType):
        return _first_fitting(arguments, data, place)
    elif origin is tuple:
        if isinstance(data, list):
            return _items(arguments, data, place)
    elif origin is not None and issubclass(cast(type, origin), Mapping):
        if isinstance(data, dict):
            return {key: _value(arguments[1], item, f"{place}[{key!r}]") for key, item in data.items()}
    elif isinstance(hint, type):
        return _plain(hint, data, place)
    raise _misfit(hint, data, place)


def _first_fitting(hints: tuple[object, ...], data: Json, place: str) -> object:
    for hint in hints:
        try:
            return _value(hint, data, place)
        except ValueError:
            continue
    raise _misfit(" or ".join(_name(hint) for hint in hints), data, place)


def _items(hints: tuple[object, ...], data: list[Json], place: str) -> tuple[object, ...]:
    if len(hints) == 2 and hints[1] is ...:
        hints = (hints[0],) * len(data)
    if len(hints) != len(data):
        raise _misfit(f"{len(hints)} items", data, place)
    return tuple(
        _value(hint, item, f"{place}[{index}]")
        for index, (hint, item) in enumerate(zip(hints, data, strict=True))
    )


def _plain(kind: type, data: Json, place: str) -> object:
    if is_dataclass(kind) and isinstance(data, dict):
        return _record(kind, data, place)
    if issubclass(kind, tuple) and isinstance(data, list):  # a NamedTuple
        items = _items(tuple(_hints(kind).values()), data, place)
        return cast(type, kind)(*items)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(data, kind) and not (isinstance(data, bool) and kind is not bool):
        return data
    raise _misfit(kind, data, place)


def _record(kind: type, data: dict[str, Json], place: str) -> object:
    hints = _hints(kind)
    unknown = sorted(data.keys() - hints.keys())
    if unknown:
        raise ValueError(f"{place} has no field {unknown[0]!r}; its fields are {', '.join(hints)}.")
    values = {name: _value(hints[name], item, f"{place}.{name}") for name, item in data.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{place} is incomplete: {error}.") from None


def _name(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _misfit(wanted: object, data: Json, place: str) -> ValueError:
    return ValueError(f"{place} is {data!r}, but must be {_name(wanted)}.")
