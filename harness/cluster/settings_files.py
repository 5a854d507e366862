"""Settings as people write them: properties files, `--set table.key=value`, and tables of a cluster file.

Whatever is wrong becomes one sentence with the place, the key, its value and the remedy. Secrets end here:
what is kept and what is shown has `harness.secrets.HIDDEN` in their place.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.cluster import property_files
from harness.cluster.property_files import Property
from harness.cluster.settings import (
    NO_SETTINGS,
    SHAPE_KEYS,
    TABLES,
    Setting,
    Settings,
    TopicShape,
    checked_shape,
    split_topic,
)
from harness.errors import UsageError
from harness.secrets import shown, shown_text
from harness.texts import text_file

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")


def read_properties(path: Path, table: str, place: str = "") -> Settings:
    """A file whose properties belong to one table (`harness.cluster.property_files`). Raises UsageError.

    ``place`` names a file that is no option's value in messages. A file that is not UTF-8 is ISO-8859-1, as
    Java reads it.
    """
    named = place or f"--{table}-config {path}"
    return properties_of(path, text_file(path, named, "name a file of properties", or_latin_1=True), table)


def properties_of(path: Path, text: str, table: str) -> Settings:
    """As `read_properties`, of a text that ``path`` stands for in messages."""
    properties = single_properties(path, text, table)
    seen = {one.key: _setting(one.key, one.value, one.place) for one in properties}
    property_files.refuse_foreign(path, seen.keys(), table)
    if table == "topic":
        for setting in seen.values():
            name, key = split_topic([setting.key], setting.place)
            if name:
                raise UsageError(
                    f"{setting}: the file holds properties of every topic; for {name!r} alone use "
                    f"--set topic.{name}.{key}=..., or [topic.{name}] in a cluster file."
                )
    return _in_table(table, seen)


def single_properties(path: Path, text: str, table: str) -> list[Property]:
    """The properties of a text, secrets included, each key once. Raises UsageError."""
    seen: dict[str, Property] = {}
    for one in property_files.read(path, text, table):
        earlier = seen.setdefault(one.key, one)
        if earlier.value.strip() != one.value.strip():
            raise UsageError(
                f"{one.place}: {one.key}={shown(one.key, one.value)}: {earlier.place} sets it to "
                f"{shown(one.key, earlier.value.strip())!r} already; keep one of the lines."
            )
    return list(seen.values())


def read_options(options: Sequence[str]) -> Settings:
    """What `--set` gives, each `broker.key=value` or with another of the tables. Raises UsageError."""
    collected = NO_SETTINGS
    given: dict[str, str] = {}
    for option in options:
        path, equals, value = (part.strip() for part in option.partition("="))
        table, dot, key = path.partition(".")
        option_shown = f"{path}={shown(path, value)}" if equals else shown_text(option)
        if not equals or not dot or not key.strip() or table not in TABLES:
            raise UsageError(
                f"--set {option_shown}: write TABLE.KEY=VALUE, where TABLE is {', '.join(TABLES[:-1])} or "
                f"{TABLES[-1]}, such as broker.replica.lag.time.max.ms=30000."
            )
        if path in given:
            raise UsageError(f"--set {option_shown}: {path} is {given[path]!r} already; set it once.")
        given[path] = shown(path, value)
        collected = _with(collected, table, [key.strip()], value, "--set")
    return collected


def read_tables(data: Mapping[str, Any], path: Path, text: str) -> Settings:
    """The tables of `TABLES` in a cluster file. Raises UsageError."""
    collected = NO_SETTINGS
    lines = dict(_lines(text))
    for table in TABLES:
        content = data.get(table, {})
        if not isinstance(content, dict):
            where = next(
                (
                    f"{path}:{n}"
                    for n, line in enumerate(text.splitlines(), start=1)
                    if re.match(rf"\s*\[\[\s*{table}\b", line)
                ),
                _place(path, lines, [table]),
            )
            raise UsageError(f"{where}: {table} = {shown_text(repr(content))}: write a table, [{table}].")
        for steps, value in _leaves(content):
            place = _place(path, lines, [table, *steps])
            joined = ".".join(steps)
            if not steps or not joined:
                raise UsageError(f"{place}: [{table}] has an empty key; remove it.")
            collected = _with(collected, table, steps, value, place)
        if table == "topic":
            collected = collected.over(_bare_topics(content, path, lines))
    return collected


def _bare_topics(content: Mapping[str, Any], path: Path, lines: Mapping[tuple[str, ...], int]) -> Settings:
    """`[topic.NAME]` without a key: a topic with one partition and the default number of replicas."""
    return Settings(
        shapes={
            name: TopicShape(place=_place(path, lines, ["topic", name]))
            for name, value in content.items()
            if value == {}
        }
    )


def _with(settings: Settings, table: str, steps: Sequence[str], value: Any, place: str) -> Settings:
    """The settings and one more. Raises UsageError."""
    key = ".".join(steps)
    if table != "topic":
        _once(getattr(settings, table), key, place)
        setting = _setting(key, _text(key, value, place), place)
        return _in_table(table, {key: setting}).over(settings)
    name, key = split_topic(steps, place)
    if key in SHAPE_KEYS:
        return _with_shape(settings, name, key, value, place)
    setting = _setting(key, _text(key, value, place), place)
    _once(settings.topics.get(name, {}) if name else settings.topic, key, place)
    topic_settings = Settings(topics={name: {key: setting}}) if name else Settings(topic={key: setting})
    return topic_settings.over(settings)


def _in_table(table: str, entries: Mapping[str, Setting]) -> Settings:
    changes: dict[str, Any] = {table: entries}
    return replace(NO_SETTINGS, **changes)


def _with_shape(settings: Settings, name: str, key: str, value: Any, place: str) -> Settings:
    earlier = settings.shapes.get(name, TopicShape())
    given = {"partitions": earlier.partitions, "replication-factor": earlier.replication_factor}
    given = {known_key: number for known_key, number in given.items() if number}
    before: dict[str, Any] = dict(given)
    if earlier.assignment:
        before["assignment"] = [list(replicas) for replicas in earlier.assignment]
    if key == "assignment" and isinstance(value, str):
        raise UsageError(
            f"{place}: {key}={shown(key, value)}: write the assignment in a cluster file, as lists."
        )
    shape = checked_shape(name, {**before, key: value}, place)
    return Settings(shapes={name: shape}).over(settings)


def _once(table: Mapping[str, Setting], key: str, place: str) -> None:
    if key in table:
        raise UsageError(f"{place}: {key} has a value already ({table[key]}); set it once.")


def _setting(key: str, value: str, place: str) -> Setting:
    if not _KEY.fullmatch(key):
        raise UsageError(
            f"{place}: {shown_text(key)!r} is not a property of Kafka: its names consist of words with dots "
            f"between them, such as replica.lag.time.max.ms."
        )
    setting = Setting.given(key, value.strip(), place)
    if any(letter != "\t" and (letter < " " or "\ud800" <= letter <= "\udfff") for letter in setting.value):
        raise UsageError(f"{place}: {key}={setting.value!r}: a value is one line of text.")
    return setting


def _text(key: str, value: Any, place: str) -> str:
    """A TOML value as Kafka writes it. Raises UsageError."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{place}: {key} = {value}: Kafka has no such number.")
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(one, str | int) for one in value):
        return ",".join(_text(key, one, place) for one in value)
    raise UsageError(
        f"{place}: {key} = {shown(key, value)}: a property is text, a number, true or false, or a list of "
        f"these."
    )


def _leaves(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Path and value of every value in nested tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key), value


_PART = r"""(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_PATH = rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*"
_HEADER, _ENTRY = re.compile(rf"\s*\[{_PATH}\]"), re.compile(rf"{_PATH}=")


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Dotted path and line number of each table and key, as closely as the text shows them."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("[["):
            table = ("[[]]",)
        elif header := _HEADER.match(line):
            table = _words(header[1])
            yield table, number
        elif entry := _ENTRY.match(line):
            yield (*table, *_words(entry[1])), number


def _words(path: str) -> tuple[str, ...]:
    return tuple(word for part in re.findall(_PART, path) for word in part.strip("\"'").split("."))


def _place(path: Path, lines: Mapping[tuple[str, ...], int], steps: Sequence[str]) -> str:
    """`cluster.toml:12`: the key's line, else that of the nearest table around it."""
    words = tuple(word for step in steps for word in step.split("."))
    for length in range(len(words), 0, -1):
        if words[:length] in lines:
            return f"{path}:{lines[words[:length]]}"
    return str(path)
