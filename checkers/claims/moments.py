"""Moments that a claim's SQL names in braces, and the function that replaces the names with times.

| name | moment |
|---|---|
| `{mark:cut}` | when the scenario set the mark `cut` (for the last time); a claim without it is unknown |
| `{mark?:cut}` | the same for a mark that a run need not set; null without it |
| `{look:broker1@cut}` | the first look at that source that began at or after a mark; null if there was none |
| `{look:store@cut}` | the same of the metadata store or a kind of node: when those that answer had answered |
| `{heard:broker1}` | the last observation of that source: until then the observer followed it |
| `{heard:store}` | the last answer of the metadata store: until then the observer followed it |
| `{tailed:broker1}` | the last record seen to appear on, or vanish from, a replica of that broker |
| `{log:broker1}` | until when the log of that host was followed; a host without any log event has none |
| `{final:t}` | when the last log of topic `t` that was read to its end was read; `*`: of any topic |

The history records only changes, so a statement holds until the next one, provided that somebody was still
watching. All names except marks tell until when somebody was.

Times are inserted as numbers, not as sub-queries. Sub-queries would be nested in other sub-queries, which
Spark runs in a pool of 16 threads. A sub-query that waits for another keeps its thread, so enough of them
wait for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.tables.source import Source, read_small

_NAME = re.compile(r"\{(mark\??|look|heard|tailed|log|final):([^{}]+)\}")
_MISSING = {
    "mark": "the scenario did not set the mark {!r}",
    "heard": "the history has no observation of {!r}",
    "tailed": "the history saw no record on {!r}",
    "log": "the history has no log of {!r}",
    "final": "no final log of {!r} was read to its end",
}
STORE = "store"
ZOOKEEPER = "zookeeper"
ANY_TOPIC = "*"
_AT = "@"
_TOGETHER_NS = 1_000_000_000
"""First looks at several nodes that end within this time belong together: one of the nodes may lag."""
_OPTIONAL = ("mark?", "look")


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Times in ns by the part of a name that follows the colon."""

    marks: Mapping[str, int] = field(default_factory=dict)
    looks: Mapping[str, int] | None = None
    """None: the history does not tell when looks began, and what was seen last before a mark decides."""
    heard: Mapping[str, int] = field(default_factory=dict)
    tailed: Mapping[str, int] = field(default_factory=dict)
    logs: Mapping[str, int] = field(default_factory=dict)
    final: Mapping[str, int] = field(default_factory=dict)

    def of(self, kind: str, name: str) -> int | None:
        """The time of one name; None if the history does not have it."""
        if kind == "look":
            return self.marks.get(name.partition(_AT)[2]) if self.looks is None else self.looks.get(name)
        tables = {
            "mark": self.marks,
            "heard": self.heard,
            "tailed": self.tailed,
            "log": self.logs,
            "final": self.final,
        }
        return tables[kind].get(name)


@dataclass(frozen=True)
class ResolvedSql:
    """SQL that Spark understands, and the moments that are missing. If any is, the answer is unknown."""

    sql: str
    missing: tuple[str, ...]
    """Sentences without a full stop."""


def resolve(text: str, moments: Moments) -> ResolvedSql:
    """Replace every name in braces by its time in ns, or by a null if the history does not have it."""
    missing: dict[str, None] = {}

    def time(match: re.Match[str]) -> str:
        kind, name = match.groups()
        ns = moments.of(kind.removesuffix("?"), name)
        if ns is not None:
            return f"{ns}L"
        if kind not in _OPTIONAL:
            missing[_MISSING[kind].format(name)] = None
        return "CAST(NULL AS BIGINT)"

    sql = _NAME.sub(time, text)
    return ResolvedSql(sql, tuple(missing))


def names_moments(text: str) -> bool:
    """Whether a text names a moment in braces."""
    return _NAME.search(text) is not None


def read_moments(source: Source, texts: Iterable[str]) -> Moments:
    """The moments of a history, as far as the texts name them."""
    return moments_of(partial(read_small, source), texts)


def moments_of(table: Callable[[str], pa.Table], texts: Iterable[str]) -> Moments:
    """The moments of the history whose tables ``table`` returns by name, as far as the texts name them."""
    named = [groups for text in texts for groups in _NAME.findall(text)]
    kinds = {kind.removesuffix("?") for kind, _ in named}
    marks = _newest(table("marks"), "name", "ns") if kinds & {"mark", "look"} else {}
    if not kinds - {"mark"}:
        return Moments(marks=marks)
    tailed: dict[str, int] = {}
    sightings = table("sightings")
    for column in ("seen_ns", "gone_ns"):
        for broker, ns in _newest(sightings, "broker", column).items():
            tailed[f"broker{broker}"] = max(ns, tailed.get(f"broker{broker}", ns))
    views = table("views")
    heard = _newest(views, "source", "ns")
    for host, ns in tailed.items():
        heard[host] = max(ns, heard.get(host, ns))
    replicas = table("replicas")
    logs = _newest(table("log_events"), "host", "ns")
    # Logs are read completely after the run. A host that was seen after its last log event, for instance when
    # its replicas were read at the end, had logged nothing else by then.
    read = {f"broker{broker}": ns for broker, ns in _newest(replicas, "broker", "ns").items()}
    logs = {host: max(ns, heard.get(host, ns), read.get(host, ns)) for host, ns in logs.items()}
    if store := _store(views):
        heard[STORE] = store
    final = _newest(replicas.filter(replicas["complete"]), "topic", "ns")
    if final:
        final[ANY_TOPIC] = max(final.values())
    return Moments(
        marks=marks,
        looks=_looks(views, marks, {name for kind, name in named if kind == "look"}),
        heard=heard,
        tailed=tailed,
        logs=logs,
        final=final,
    )


def _looks(views: pa.Table, marks: Mapping[str, int], names: Iterable[str]) -> dict[str, int] | None:
    """When the first look after a mark ended, by `source@mark`; None if no row tells when its look began."""
    if "asked_ns" not in views.column_names or views["asked_ns"].null_count == views.num_rows:
        return None
    views = views.append_column("began_ns", pc.coalesce(views["asked_ns"], views["ns"]))
    store = _answers_of_store(views)
    looks: dict[str, int] = {}
    for name in names:
        source, _, mark = name.partition(_AT)
        if mark not in marks:
            continue
        if source == STORE:
            of_source = store
        elif source[-1:].isdigit():
            of_source = views.filter(pc.equal(views["source"], source))
        else:
            answers = views.filter(pc.is_null(views["error"]))
            of_source = answers.filter(pc.starts_with(answers["source"], source))
        later = of_source.filter(pc.greater_equal(of_source["began_ns"], marks[mark]))
        first = later.group_by(["source"], use_threads=False).aggregate([("ns", "min")])["ns_min"].to_pylist()
        if first:
            looks[name] = max(ns for ns in first if ns <= min(first) + _TOGETHER_NS)
    return looks


def _store(views: pa.Table) -> int | None:
    """When the metadata store answered last, ns; None: never."""
    newest: int | None = pc.max(_answers_of_store(views)["ns"]).as_py()
    return newest


def _answers_of_store(views: pa.Table) -> pa.Table:
    """The rows of the metadata store; a row that reports an error is no answer.

    The store is ZooKeeper, whose nodes `truth` and `controllers` come from. A KRaft cluster's brokers and
    controllers all replicate its metadata, so that each of them can state it.
    """
    sources = set(views["source"].to_pylist())
    answers = views.filter(pc.is_null(views["error"]))
    if not any(name.startswith("controller") for name in sources) and any(map(_is_zookeeper, sources)):
        answers = answers.filter(pc.starts_with(answers["source"], ZOOKEEPER))
    return answers


def _is_zookeeper(source: str) -> bool:
    return source.startswith(ZOOKEEPER)


def _newest(table: Any, key: str, column: str) -> dict[Any, int]:
    rows = (
        table.filter(pc.is_valid(table[column]))
        .group_by([key], use_threads=False)
        .aggregate([(column, "max")])
    )
    return dict(zip(rows[key].to_pylist(), rows[f"{column}_max"].to_pylist(), strict=True))
