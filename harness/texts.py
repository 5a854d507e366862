"""Text files: reading what users write, also TOML and YAML, and writing a file as a whole."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from harness.errors import UsageError, quoted

LONGEST_FILE = 1 << 20
"""Bytes."""
DEEPEST = 32
"""Tables and lists inside each other."""
_INTEGERS = range(-(1 << 63), 1 << 63)
"""What TOML asks of an implementation."""


def text_file(file: Path, place: object, remedy: str, *, or_latin_1: bool = False) -> str:
    """The text of a UTF-8 file, with or without a byte order mark; or, if allowed, of an ISO-8859-1 file.

    Raises UsageError, ``place`` cannot be read, with the reason and ``remedy``: for a file that is missing,
    is a FIFO or a device, holds NUL, or has more than `LONGEST_FILE` bytes.
    """
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO would wait for a writer
        with os.fdopen(opened, "rb") as source:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise UsageError(f"{place} cannot be read: it is not a regular file; {remedy}.")
            content = source.read(LONGEST_FILE + 1)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            if not or_latin_1:
                raise
            text = content.decode("latin-1")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{place} cannot be read: {reason}; {remedy}.") from None
    except ValueError:  # NUL in its name
        raise UsageError(f"{place} cannot be read: that is no name of a file; {remedy}.") from None
    if len(content) > LONGEST_FILE:
        raise UsageError(f"{place} is longer than 1 MiB; {remedy}.")
    if "\0" in text:
        raise UsageError(f"{place} cannot be read: it is not text; {remedy}.")
    return text


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises TOMLDecodeError, also for what the library lets through or fails at: integers that do not fit into
    64 bits, and tables and lists that are nested more than `DEEPEST` deep.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise _nested(text) from None
    except ValueError:  # Python converts no text of more than 4,300 digits
        raise _large(text) from None
    level: list[Any] = [data]
    for _ in range(DEEPEST):
        values = [value for one in level for value in (one.values() if isinstance(one, dict) else one)]
        if any(isinstance(value, int) and value not in _INTEGERS for value in values):
            raise _large(text)
        level = [value for value in values if isinstance(value, dict | list)]
    if level:
        raise _nested(text)
    return data


def parse_yaml(text: str, place: object) -> list[Any]:
    """The documents of a YAML text, of its plain types. Raises UsageError with the line."""
    import yaml  # takes 20 ms, and few commands read YAML

    try:
        return list(yaml.load_all(text, yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UsageError(f"{place}{line}: this is not YAML: {error.problem}; correct the line.") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{place}: this is not YAML: {quoted(error)}; name another file.") from None


def scalar_text(value: object) -> str:
    """A value of YAML as Kafka writes it; empty for a list or mapping, which no property is."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ""


def _nested(text: str) -> tomllib.TOMLDecodeError:
    return _problem("Nested too deeply", text, rf"(?:[^.\[{{\n]*[.\[{{]){{{DEEPEST}}}")


def _large(text: str) -> tomllib.TOMLDecodeError:
    return _problem("Integer too large", text, r".*?[0-9a-fA-F_]{17}")


def _problem(reason: str, text: str, pattern: str) -> tomllib.TOMLDecodeError:
    """An error in the form of the library's, at the first line with the pattern."""
    for number, line in enumerate(text.split("\n"), start=1):
        if re.match(pattern, line):
            return tomllib.TOMLDecodeError(f"{reason} (at line {number}, column 1)")
    return tomllib.TOMLDecodeError(reason)
