"""Stored runs (`tests.runs.store`) as tables, and a scenario's present claims judged on them by DuckDB.

Spark takes some seconds for the claims of one history; DuckDB takes tens of milliseconds, so that thousands
of changed histories can be judged. `translate` carries the few functions over that differ between the two.
`test_claims_by_spark` holds both against each other.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.claims.evaluate import Answer, ClaimResult, queries_of, result, texts_of
from checkers.claims.moments import read_moments, resolve
from checkers.evidence import gather
from checkers.fast.plan import judge_all, run_here
from checkers.fast.tasks import Job
from checkers.health import check_health
from checkers.tables.output import FINDING, LIFE
from checkers.tables.source import open_source
from harness.history.schema import TABLES, VIEWS
from harness.run.catalogue import find
from tests.runs.store import STORED

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class StoredRun:
    """One stored run, and what its scenario declares today."""

    name: str
    tables: Tables
    declared: Mapping[str, Any]

    @property
    def preconditions(self) -> frozenset[str]:
        """Claims that only establish the situation."""
        return frozenset(c["name"] for c in self.declared["claims"] if c.get("precondition"))

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of its claims, without preconditions."""
        return tuple(c["name"] for c in self.declared["claims"] if not c.get("precondition"))


def stored_names() -> list[str]:
    """Scenarios of which a run is stored."""
    return sorted(file.stem for file in STORED.glob("*.zip"))


@cache
def read_stored(name: str) -> StoredRun:
    """The stored run of a scenario, every column of the schema present."""
    tables = {}
    with zipfile.ZipFile(STORED / f"{name}.zip") as file:
        manifest = json.loads(file.read("run.json"))
        for member in file.namelist():
            if member.endswith(".parquet"):
                table = Path(member).stem
                tables[table] = _complete(pq.read_table(io.BytesIO(file.read(member))), table)
    return StoredRun(name, tables, find(name).declared(manifest["kafka"]))


def _complete(rows: pa.Table, name: str) -> pa.Table:
    schema = TABLES[name].arrow()
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def write_tables(tables: Tables, folder: Path) -> Path:
    """Write a history folder; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        pq.write_table(rows, folder / f"{name}.parquet")
    return folder


@contextmanager
def written(tables: Tables) -> Iterator[Path]:
    """The tables as a history folder, for a while."""
    with tempfile.TemporaryDirectory(prefix="acked-stored-") as scratch:
        yield write_tables(tables, Path(scratch, "history"))


@dataclass(frozen=True)
class Derived:
    """What the checker makes of a history before any claim is asked."""

    life: pa.Table
    findings: pa.Table


def derive(history: Path) -> Derived:
    """Life and findings of a history folder, by the fast plan in this process."""
    source = open_source(history)
    with tempfile.TemporaryDirectory(prefix="acked-stored-") as scratch:
        life, findings = Path(scratch, "life"), Path(scratch, "findings")
        life.mkdir()
        findings.mkdir()
        evidence = gather(source)
        job = Job(source=source, evidence=evidence, life=str(life), findings=str(findings))
        check_health(evidence, findings, judge_all(run_here, job, slots=1))
        return Derived(_joined(life, LIFE), _joined(findings, FINDING))


def judge_here(
    history: Path, declared: Mapping[str, Any], derived: Derived | None = None
) -> list[ClaimResult]:
    """Judge the claims of a history folder, as `checkers.judge.judge_history` does, without Spark."""
    source = open_source(history)
    texts = texts_of(declared)
    moments = read_moments(source, texts)
    words = _words(texts)
    wanted = [name for name in VIEWS if name in words]
    words |= _words(VIEWS[name] for name in wanted)
    with duckdb.connect() as db:
        db.execute("SET threads TO 1")
        db.execute(_NUMBER_OF)
        for name in TABLES:
            if name in words:
                parts = [_complete(pq.read_table(path), name) for path in source.paths(name)]
                _create(db, name, pa.concat_tables([TABLES[name].arrow().empty_table(), *parts]))
        if words & {"life", "findings"}:
            derived = derived or derive(history)
            _create(db, "life", derived.life)
            _create(db, "findings", derived.findings)
        for name in wanted:
            db.execute(f"CREATE TEMP TABLE {name} AS {translate(VIEWS[name])}")
        answers = {}
        for name, query in queries_of(declared["claims"]).items():
            resolved = resolve(query, moments)
            if resolved.missing:
                answers[name] = Answer(None, "; ".join(resolved.missing))
                continue
            found = db.execute(translate(resolved.sql)).fetchall()
            answers[name] = Answer(*found[0][:2]) if found else Answer(None, "the query returned no row")
    return [result(claim, answers) for claim in declared["claims"]]


def _words(texts: Iterable[str]) -> set[str]:
    return set(re.findall(r"\w+", " ".join(texts).lower()))


def _joined(folder: Path, schema: pa.Schema) -> pa.Table:
    parts = [pq.read_table(file) for file in folder.glob("*.parquet")]
    return pa.concat_tables([schema.empty_table(), *parts])


def _create(db: Any, name: str, rows: pa.Table) -> None:
    db.register("arriving", rows)
    db.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM arriving")
    db.unregister("arriving")


_NAMES = {
    "array": "list_value",
    "struct": "row",
    "sort_array": "list_sort",
    "array_join": "array_to_string",
    "size": "len",
    "max_by": "arg_max_null",
    "count_if": "number_of",
}
_NUMBER_OF = "CREATE TEMP MACRO number_of(fits) AS count(CASE WHEN fits THEN 1 END)"
"""Spark's `count_if` of no rows is 0; DuckDB's is null."""
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_COLLECT = re.compile(r"\bcollect_(set|list)\(")


def translate(sql: str) -> str:
    """Spark's SQL as DuckDB's, as far as claims use it."""
    literals: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        literals.append(match[0])
        return f"\x01{len(literals) - 1}\x02"

    text = _LITERAL.sub(put_aside, sql)
    text = re.sub(r"\b(\d+)L\b", r"CAST(\1 AS BIGINT)", text)
    for name, other in _NAMES.items():
        text = re.sub(rf"\b{name}\(", f"{other}(", text)
    text = text.replace("list_value() AS array<int>", "[] AS INTEGER[]")
    text = re.sub(r'(?<!")\boffset\b(?!")', '"offset"', text)
    text = re.sub(r"(\w+) RLIKE (\x01\d+\x02)", r"regexp_matches(\1, \2)", text)
    # Lists of objects in the evidence of faults; only their length is asked for.
    text = re.sub(r"from_json\((\w+), \x01\d+\x02\)\.(\w+)", r"json_extract(\1, '$.\2[*]')", text)
    text = _array_except(_collect(text))
    return re.sub(r"\x01(\d+)\x02", lambda match: literals[int(match[1])], text)


def _collect(text: str) -> str:
    """`collect_set(x) FILTER (WHERE c)`: Spark leaves nulls out, and returns an empty list for no rows."""
    while match := _COLLECT.search(text):
        end = _closing(text, match.end() - 1)
        value, rest = text[match.end() : end], text[end + 1 :]
        wanted = f"({value}) IS NOT NULL"
        if rest.startswith(" FILTER (WHERE"):
            close = _closing(rest, len(" FILTER "))
            wanted += f" AND ({rest[len(' FILTER (WHERE') : close]})"
            rest = rest[close + 1 :]
        distinct = "DISTINCT " if match[1] == "set" else ""
        text = f"{text[: match.start()]}coalesce(list({distinct}{value}) FILTER (WHERE {wanted}), []){rest}"
    return text


def _array_except(text: str) -> str:
    while (start := text.find("array_except(")) >= 0:
        opening = start + len("array_except")
        end = _closing(text, opening)
        inside = text[opening + 1 : end]
        comma = _comma(inside)
        left, right = inside[:comma], inside[comma + 1 :]
        kept = f"list_filter({left}, lambda one: NOT list_contains({right}, one))"
        text = f"{text[:start]}{kept}{text[end + 1 :]}"
    return text


def _closing(text: str, opening: int) -> int:
    """Where the bracket that opens at ``opening`` closes."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"a bracket of {text!r} does not close")


def _comma(text: str) -> int:
    """The first comma outside brackets."""
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            return place
    raise ValueError(f"there is no comma in {text!r}")
