"""What is wrong with a cluster file: one sentence with the line, the key, its value and the remedy."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.secrets import shown, shown_text

Place = tuple[str | int, ...]
"""Path to a value: `("az", 0, "brokers")`."""

_SYNTAX: tuple[tuple[str, str], ...] = (
    ("Invalid value", "write text in quotes, {quoted}"),
    ("Cannot overwrite a value", "it has a value or a table already; keep one of them"),
    ("Cannot declare", "the file has this table already; write it once, with all its keys"),
    ("Cannot mutate", "it has a value already; write all its keys in one place"),
    ("Expected '=' after a key", "write key = value"),
    ("Expected ']' at the end of a table", "end the line with ]"),
    ("Expected ']]' at the end of an array", "end the line with ]]"),
    (
        "Expected newline or end of document",
        "end the line after the value, and write text in quotes, {quoted}",
    ),
    ("Unterminated string", "end the text with a quote"),
    ("Unclosed array", "end the list with ]"),
    ("Integer too large", "write a number of at most 64 bits"),
    ("Nested too deeply", "no setting is nested; take the tables and lists apart"),
)
"""Beginnings of the library's messages, and what to do."""
_TYPES = {"str": "text in quotes", "int": "a whole number without quotes", "object": "a table"}


def syntax(path: Path, text: str, error: tomllib.TOMLDecodeError) -> str:
    """A sentence for a file that is not TOML."""
    lines = text.splitlines()
    match = re.search(r"\(at line (\d+), column \d+\)", str(error))
    reason, somewhere, _ = str(error).partition(" (at ")
    number = int(match[1]) if match else len(lines)
    line = shown_text(lines[number - 1].strip()) if 0 < number <= len(lines) else ""
    remedy = next((remedy for start, remedy in _SYNTAX if reason.startswith(start)), "correct the line")
    key, _, value = line.partition("=")
    quoted = f'{key.strip()} = "{value.split("#")[0].strip()}"'
    place = f"{path}:{number}: {line}" if somewhere else path
    return f"{place}: {reason[0].lower()}{reason[1:]}; {remedy.format(quoted=quoted)}."


def shape(path: Path, text: str, data: Mapping[str, Any], known_keys: Sequence[str]) -> str | None:
    """A sentence for a table that is not of the right kind; None if all are."""
    azs = data.get("az")
    if isinstance(azs, dict):
        name, inner = next(iter(azs.items()), ("", None))
        if isinstance(inner, dict):
            return (
                f'{_header(path, text, "az", name)}: [az.{name}]: write [[az]], and name = "{name}" below it.'
            )
        return f"{_header(path, text, 'az')}: [az] is a single table; write [[az]], with two brackets."
    if azs is not None and (not isinstance(azs, list) or not azs):
        return f"{at(path, text, ('az',))}: az = {shown_text(repr(azs))}: write an [[az]] table for each AZ."
    for key, value in data.items():
        if key in known_keys or not isinstance(value, dict | list):
            continue
        near = difflib.get_close_matches(key, known_keys, n=1)
        inner = (
            next((name for name, table in value.items() if isinstance(table, dict)), "")
            if isinstance(value, dict)
            else ""
        )
        if near:
            table = (
                f"[{near[0]}.{inner}]"
                if inner and near[0] == "topic"
                else "[[az]]"
                if near[0] == "az"
                else f"[{near[0]}]"
            )
            where = _header(path, text, key, inner) if inner else _header(path, text, key)
            return f"{where}: there is no table {key!r}; did you mean {table}?"
        return f"{_header(path, text, key)}: there is no table {key!r}; use {', '.join(known_keys)}."
    return None


def value(
    path: Path, text: str, data: Mapping[str, Any], problem: str, keys: Mapping[str, Sequence[str]]
) -> str:
    """A sentence for a message of msgspec, which ends in the place: `... - at `$.az[0].brokers``.

    ``keys`` has the keys that the file knows, by `file`, `az` and `security`.
    """
    message, _, tail = problem.partition(" - at `$")
    place = _place(tail.rstrip("`"))
    unknown = re.search(r"unknown field `(.+)`", message)
    missing = re.search(r"missing required field `(.+)`", message)
    if unknown:
        allowed = ", ".join(keys[str(place[0]) if place[:1] in (("az",), ("security",)) else "file"])
        return f"{at(path, text, (*place, unknown[1]))}: there is no key {unknown[1]!r} here; use {allowed}."
    if missing:
        what = "an [[az]] table for each AZ" if missing[1] == "az" else f'{missing[1]} = "..."'
        return f"{at(path, text, place)}: {missing[1]} is missing; add {what}."
    node: Any = data
    for step in place:
        node = node[step]
    key = next((step for step in reversed(place) if isinstance(step, str)), "")
    where = at(path, text, place)
    if key == "az" and isinstance(node, list):
        return f"{where}: the file has {len(node)} AZs; {_limit(message)} are possible."
    type_match = re.match(r"Expected `(\w+)`", message)
    remedy = _TYPES.get(type_match[1], message) if type_match else message
    if type_match and (limit := re.search(r"([<>]=) (\d+)", message)):
        remedy = f"a number of {'at most' if limit[1] == '<=' else 'at least'} {limit[2]}"
    return f"{where}: {key} = {shown(key, repr(node))}: write {remedy}."


def _limit(message: str) -> str:
    limit = re.search(r"length ([<>]=) (\d+)", message)
    return f"{'at most' if limit and limit[1] == '<=' else 'at least'} {limit[2] if limit else '?'}"


def _place(tail: str) -> Place:
    """The steps of a path such as `.az[0].brokers`."""
    steps = re.findall(r"\.([A-Za-z_-]+)|\[(\d+)\]", tail)
    return tuple(name or int(number) for name, number in steps)


def _header(path: Path, text: str, *names: str) -> str:
    """The line of a table's header, else of the first line that begins with its name."""
    pattern = r"\s*\.\s*".join(rf"['\"]?{re.escape(name)}['\"]?" for name in names if name)
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(rf"\s*(\[\[?\s*)?{pattern}\s*[].=]", line):
            return f"{path}:{number}"
    return str(path)


def at(path: Path, text: str, place: Place) -> str:
    """`cluster.toml:12`, as closely as the text shows it: the key's line, else that of its table."""
    index = next((step for step in place if isinstance(step, int)), -1)
    key = next((step for step in reversed(place) if isinstance(step, str)), "")
    table, header = -1, 0
    if place[:1] == ("security",) and (where := _key_line(text, "security", key)):
        return f"{path}:{where}"
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(r"\s*\[\[\s*az\s*\]\]", line):
            table += 1
            header = number if table == index else header
        elif table == index and key and re.match(rf"\s*['\"]?{re.escape(key)}['\"]?\s*=", line):
            return f"{path}:{number}"
    return f"{path}:{header}" if header else str(path)


def _key_line(text: str, table: str, key: str) -> int:
    """The line of a key in a table of which there is one; the table's own without the key; 0: none."""
    header, inside = 0, False
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(r"\s*\[", line):
            inside = bool(re.match(rf"\s*\[\s*{re.escape(table)}\s*\]", line))
            header = number if inside else header
        elif inside and re.match(rf"\s*['\"]?{re.escape(key)}['\"]?\s*=", line):
            return number
    return header
