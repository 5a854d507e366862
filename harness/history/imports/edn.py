"""Reads EDN, form by form, as far as histories use it: one form, and not the file, is in memory.

A keyword or symbol becomes its name as text, and so does what Clojure prints and a history does not use (a
ratio, a hexadecimal number as in `#object[…]`, a var, `##NaN`). A list, vector or set becomes a list, a map
a dict; the tag of a tagged element is left out. A key of a map that is a collection becomes text. A file may
hold forms one after the other, or one vector of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import quoted
from harness.history.imports.lines import MAX_LONG, Place, lines_of
from harness.texts import DEEPEST

LARGEST = 4_000_000
"""Tokens of one form."""

_TOKEN = re.compile(
    r"""[\s,]+
    |;.*
    |(?P<open>\#?\{|\[|\()
    |(?P<close>[\]\})])
    |(?P<number>[-+]?[0-9]+N?(?=[\s,\]\})("\[{;]|$))
    |:(?P<keyword>[^\s,\[\](){}";]+)
    |"(?P<text>(?:[^"\\]|\\.)*)"
    |(?P<float>[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?M?(?=[\s,\]\})("\[{;]|$))
    |\\(?P<char>[^\s,\[\](){}";]+|.)
    |(?P<skip>\#_)
    |(?P<other>[-+]?[0-9]+/[0-9]+|0[xX][0-9a-fA-F]+|\#[\#'][^\s,\[\](){}";]+)
    |\#(?P<tag>[A-Za-z][^\s,\[\](){}";]*)
    |(?P<symbol>[^\s,\[\](){}";\#\\:0-9\x00-\x1f][^\s,\[\](){}";]*)
    """,
    re.VERBOSE,
)
_CLOSING = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_SYMBOLS = {"nil": None, "true": True, "false": False}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_REMEDY = "is this EDN, as Jepsen writes history.edn?"


def forms_of(file: Path) -> Iterator[tuple[Place, Any]]:
    """The forms of a file, or the elements of its only vector, each with the place at which it ends.

    Raises BadDataError for what is not EDN, is nested too deeply or is too large.
    """
    place = Place(file)
    reader = _Reader(place)
    for line in lines_of(place):
        for form in reader.read(line):
            yield place, form
    reader.finish()


_NOT_SIMPLE = re.compile(r"""["\\;#'()]|[0-9]{19}""")
_KEYWORD = re.compile(r":([^\s,\[\]{}:]+)")
_BLANKS = re.compile(r"[\s,]+")
_NIL = re.compile(r"(?<![\w\"])nil(?![\w\"])")


def _simple_map(line: str) -> dict[Any, Any] | None:
    """The map that is a whole line of keywords, numbers, vectors and maps; None: read the line as usual.

    Such a line becomes JSON, which is parsed ten times as fast. A map becomes an object with one list of its
    keys and values, because JSON has no other keys than texts.
    """
    if _NOT_SIMPLE.search(line):
        return None
    text = _BLANKS.sub(",", '"'.join(_KEYWORD.split(line.strip())))  # quotes each keyword
    if "nil" in text:
        text = _NIL.sub("null", text)
    try:
        form = _SIMPLE.decode(text.replace("{", '{"":[').replace("}", "]}"))
    except (ValueError, TypeError, RecursionError):
        return None
    return form if isinstance(form, dict) else None


def _pairs(object_: dict[str, list[Any]]) -> dict[Any, Any]:
    items = object_[""]
    return dict(zip(items[::2], items[1::2], strict=True))


_SIMPLE = json.JSONDecoder(object_hook=_pairs)


class _Reader:
    """Takes a file's text line by line."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open: list[tuple[str, list[Any]]] = []
        self._streamed = False
        """The forms are the elements of a vector that is still open."""
        self._began = self._ended = False
        self._tokens = 0
        self._skipping: list[int] = []
        """The depths at which the next form is left out (`#_`)."""

    def read(self, line: str) -> Iterator[Any]:
        """The forms that end in this line."""
        at, end = 0, len(line)
        opened = self._open
        if not opened and not self._skipping and not self._ended and line.startswith("{"):
            simple = _simple_map(line)
            if simple is not None:
                self._began = True
                yield simple
                return
        while at < end:
            match = _TOKEN.match(line, at)
            if match is None:
                raise self._place.refusal(f"{quoted(line[at:], 40)} cannot be read", _REMEDY)
            at = match.end()
            kind = match.lastgroup
            if kind is None or kind == "tag":
                continue
            token = match[kind]
            if kind == "open":
                if self._ended:
                    raise self._place.refusal("text follows the vector that should be the file", _REMEDY)
                if not opened and not self._streamed and not self._began and token == "[":
                    self._streamed = self._began = True
                    continue
                self._began = True
                if len(opened) >= DEEPEST:
                    raise self._place.refusal(f"brackets are nested {DEEPEST} levels deep", _REMEDY)
                opened.append((token, []))
                continue
            if kind == "skip":
                self._skipping.append(len(opened))
                continue
            if kind == "close":
                if not opened:
                    if token == "]" and self._streamed:
                        self._streamed, self._ended = False, True
                        continue
                    raise self._place.refusal(f"{token!r} closes nothing", _REMEDY)
                bracket, items = opened.pop()
                if _CLOSING[bracket] != token:
                    raise self._place.refusal(f"{token!r} closes {bracket!r}", _REMEDY)
                form: Any = self._map(items) if bracket == "{" else items
            else:
                form = self._scalar(kind, token)
            if self._skipping and self._skipping[-1] == len(opened):
                self._skipping.pop()
                continue
            self._tokens += 1
            if self._tokens > LARGEST:
                raise self._place.refusal(f"one form has more than {LARGEST} elements", _REMEDY)
            if opened:
                opened[-1][1].append(form)
            else:
                self._tokens = 0
                yield form

    def finish(self) -> None:
        """Raise BadDataError if the file ends within a form."""
        if self._open or self._streamed:
            raise self._place.refusal("the file ends within a form", "is the file complete?")

    def _scalar(self, kind: str, token: str) -> Any:
        if kind == "number":
            value = int(token.rstrip("N")[:40])
            if not -MAX_LONG <= value <= MAX_LONG:
                raise self._place.refusal(f"{quoted(token, 40)} does not fit 64 bits", _REMEDY)
            return value
        if kind == "float":
            return float(token.rstrip("M"))
        if kind == "symbol":
            return _SYMBOLS.get(token, token)
        if kind == "text" and "\\" in token:
            return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPES.get(m[2], m[2]), token)
        return token

    def _map(self, items: list[Any]) -> dict[Any, Any]:
        if len(items) % 2:
            raise self._place.refusal("a map has a key without a value", _REMEDY)
        keys = [str(key) if isinstance(key, list | dict) else key for key in items[::2]]
        return dict(zip(keys, items[1::2], strict=True))
