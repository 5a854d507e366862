"""What the messages of background streams are like: the table `[load]` of a cluster file, and `--set load.…`.

How they are batched and compressed are settings of the producer; how many there are is a command's `--rate`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.cluster.settings import Setting, nearest, whole
from harness.errors import UsageError, quoted
from harness.texts import text_file

SIZE, SIZE_FILE, KEYS, SKEW = "size", "size-file", "keys", "skew"
_NAMES = (SIZE, SIZE_FILE, KEYS, SKEW)
LARGEST = 1_000_000
"""Bytes of a value; brokers accept a little more by default (`message.max.bytes`)."""
_MOST_SIZES = 1000
"""Sizes that are kept of a file; they are as frequent as those in the file."""
MOST_KEYS = 10_000


@dataclass(frozen=True, kw_only=True)
class MessageShape:
    """Sizes and keys of messages."""

    sizes: tuple[int, ...] = ()
    """Bytes of values, each of them as likely; empty: a stream's own size."""
    keys: int = 0
    """How many keys there are; 0: messages have none."""
    skew: float = 0.0
    """Key ``k``, from 1 on, is as likely as 1/k to the power of this (Zipf's law); 0: all are alike."""


NO_SHAPE = MessageShape()


def message_shape(given: Mapping[str, Setting]) -> MessageShape:
    """The shape that the user has set. Raises UsageError with place, key, value and remedy."""
    for setting in given.values():
        if setting.key not in _NAMES:
            near = nearest(setting.key, _NAMES)
            remedy = f"did you mean {near}?" if near else f"[load] has {', '.join(_NAMES)}."
            raise UsageError(f"{setting.place}: {quoted(setting.key)} is no setting of a load: {remedy}")
    if SIZE in given and SIZE_FILE in given:
        raise UsageError(
            f"{given[SIZE_FILE].place}: size-file: {given[SIZE]} is given, too; keep one of them."
        )
    if SKEW in given and KEYS not in given:
        raise UsageError(f"{given[SKEW].place}: skew: messages have no keys; give keys, too.")
    sizes: tuple[int, ...] = ()
    if SIZE in given:
        sizes = tuple(_number(given[SIZE], text, 1, LARGEST) for text in given[SIZE].value.split(","))
    if SIZE_FILE in given:
        sizes = _of_file(given[SIZE_FILE])
    keys = _number(given[KEYS], given[KEYS].value, 1, MOST_KEYS) if KEYS in given else 0
    return MessageShape(sizes=sizes, keys=keys, skew=_skew(given[SKEW]) if SKEW in given else 0.0)


def _number(setting: Setting, text: str, least: int, most: int) -> int:
    number = whole(text.strip())
    if number is None or not least <= number <= most:
        raise UsageError(
            f"{setting.place}: {setting.key}: {quoted(text.strip(), 40)}: give whole numbers from {least} to "
            f"{most}."
        )
    return number


def _skew(setting: Setting) -> float:
    try:
        skew = float(setting.value)
    except ValueError:
        skew = math.nan
    if not 0 <= skew <= 10:
        raise UsageError(
            f"{setting.place}: skew: {quoted(setting.value, 40)}: give a number from 0 (all keys alike) to "
            "10."
        )
    return skew


def _of_file(setting: Setting) -> tuple[int, ...]:
    """The sizes of a file, one a line, in rising order; of many, quantiles."""
    place = f"{setting.place}: size-file {quoted(setting.value, 80)}"
    text = text_file(Path(setting.value), place, "name a file with a size in bytes on each line")
    sizes = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        size = whole(line.strip())
        if size is None or not 1 <= size <= LARGEST:
            raise UsageError(
                f"{place}, line {number}: {quoted(line.strip(), 40)}: give a size in bytes from 1 to "
                f"{LARGEST}."
            )
        sizes.append(size)
    if not sizes:
        raise UsageError(f"{place} has no sizes; write one on each line.")
    sizes.sort()
    if len(sizes) <= _MOST_SIZES:
        return tuple(sizes)
    return tuple(sizes[int((part + 0.5) / _MOST_SIZES * len(sizes))] for part in range(_MOST_SIZES))
