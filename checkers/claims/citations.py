"""Where in a history a claim's answer comes from: time range, sources, partitions, offsets, writers, tables.

It is read from the claim's own SQL, in the forms that `checkers.claims.builders` writes, so that no further
query runs. From SQL of another form less can be read, but nothing wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from checkers.claims.moments import Moments, marks_named
from harness.history.schema import TABLES

_GUARD = re.compile(
    r"\{(?:heard|tailed|log|final):[^{}]+\}\s*(?:>=|IS NOT NULL)(?:\s*\{mark\??:[^{}]+\}(?: - \d+)?)?"
)
"""Conditions that ask whether somebody looked at a moment. They stand for the end of a window."""
_BOUND = re.compile(r"(>=?|<=?)\s*\{mark\??:([^{}]+)\}(?: \+ (\d+))?")
_SOURCE = re.compile(r"\b(?:source|host) = '([^']+)'|\{(?:heard|tailed|log):((?!store\})[^{}]+)\}")
_BROKER = re.compile(r"\bbroker = (\d+)")
_PARTITION = re.compile(r"\btopic = '([^']+)' AND partition = (\d+)")
_OFFSET = re.compile(r"(?<!\.)\boffset (?:=|<=?|>=?) (\d+)|\bmin\(offset\) = (\d+)")
_WRITERS = re.compile(r"\bwriter_name (?:= |IN \(|LIKE )((?:'[^']*'(?:, )?)+)")
_TABLES = re.compile(
    rf"\b(?:FROM|JOIN) ({'|'.join([*TABLES, 'life', 'findings', 'truth', 'controllers'])})\b"
)
_BEHIND = {"truth": "views", "controllers": "views", "life": "sends"}


@dataclass(frozen=True, kw_only=True)
class Citation:
    """The part of a history that a claim is decided by; empty where its SQL does not name it."""

    from_ns: int | None = None
    """Begin of the window; None: the begin of the run."""
    to_ns: int | None = None
    """End of the window; None: the end of the run."""
    marks: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Hosts whose statements or logs are asked: `broker1`."""
    partitions: tuple[str, ...] = ()
    """As `topic/partition`."""
    offsets: tuple[int, ...] = ()
    writers: tuple[str, ...] = ()
    """Names of producers; `%` stands for any text."""
    tables: tuple[str, ...] = ()
    """Tables of the history, `life` and `findings`."""


def cite(queries: Iterable[str], moments: Moments) -> Citation:
    """What some queries of one claim look at."""
    text = "\n".join(queries)
    bare = _GUARD.sub("", text)
    bounds = [
        (sign[0], at + int(later or 0))
        for sign, name, later in _BOUND.findall(bare)
        if (at := moments.of("mark", name)) is not None
    ]
    begins = [ns for sign, ns in bounds if sign == ">"]
    ends = [ns for sign, ns in bounds if sign == "<"]
    sources = [one or other for one, other in _SOURCE.findall(text)]
    sources += [f"broker{number}" for number in _BROKER.findall(text)]
    offsets = {int(one or other) for one, other in _OFFSET.findall(text)}
    writers = [name for listed in _WRITERS.findall(text) for name in re.findall(r"'([^']*)'", listed)]
    return Citation(
        from_ns=min(begins, default=None),
        to_ns=max(ends, default=None),
        marks=_once(marks_named(text)),
        sources=_once(sorted(sources)),
        partitions=_once(f"{topic}/{number}" for topic, number in _PARTITION.findall(text)),
        offsets=tuple(sorted(offsets)),
        writers=_once(writers),
        tables=_once(_BEHIND.get(name, name) for name in _TABLES.findall(text)),
    )


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
