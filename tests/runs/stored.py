"""Stored runs (`tests.runs.store`) as tables, and a scenario's present claims judged on them by DuckDB.

Spark takes some seconds for the claims of one history; DuckDB takes tens of milliseconds, so that thousands
of changed histories can be judged. `translate` replaces the few functions that differ between the two.
`test_claims_by_spark` compares both.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.claims.evaluate import ClaimResult, QueryResult, queries_of, result, texts_of
from checkers.claims.moments import moments_of, resolve
from checkers.evidence import gather
from checkers.health import check_health
from checkers.judging.plan import judge_all
from checkers.judging.run import run_here
from checkers.judging.tasks import JudgingContext
from checkers.judging.transactions import FATES_FILE, conclude
from checkers.tables.output import FINDING, LIFE, TRANSACTION_RECORD
from checkers.tables.source import open_source, read_small
from checkers.tables.transactions import PARTS_FOLDER, RECORDS_FOLDER
from harness.history.schema import TABLES, VIEWS
from run.catalogue import find
from tests.runs.store import OTHERS, STORED

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class StoredRun:
    """One stored run, and what its scenario declares today."""

    name: str
    tables: Tables
    declared: Mapping[str, Any]
    kafka: str
    """Kafka's version."""
    mode: str

    @property
    def preconditions(self) -> frozenset[str]:
        """Claims that only establish the situation."""
        return frozenset(c["name"] for c in self.declared["claims"] if c.get("precondition"))

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of its claims, without preconditions."""
        return _without_preconditions(self.declared)


def _without_preconditions(declared: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(claim["name"] for claim in declared["claims"] if not claim.get("precondition"))


def claims_of_stored(name: str) -> tuple[str, ...]:
    """The claims of a stored run, without preconditions and without reading its tables."""
    with zipfile.ZipFile(STORED / f"{name}.zip") as file:
        manifest = json.loads(file.read("run.json"))
    return _without_preconditions(find(manifest["scenario"]).declared(manifest["kafka"]))


def stored_names() -> list[str]:
    """Scenarios of which a run on their own Kafka version is stored."""
    return sorted(file.stem for file in STORED.glob("*.zip"))


def other_versions() -> list[str]:
    """Stored runs on another Kafka version than the scenario's own: `versions/<scenario>@<version>`."""
    return sorted(f"{OTHERS}/{file.stem}" for file in (STORED / OTHERS).glob("*.zip"))


def all_stored() -> list[str]:
    """Names of all stored runs."""
    return [*stored_names(), *other_versions()]


@cache
def read_stored(name: str) -> StoredRun:
    """The stored run of a scenario (or `versions/<scenario>@<version>`), with every column of the schema."""
    tables = {}
    with zipfile.ZipFile(STORED / f"{name}.zip") as file:
        manifest = json.loads(file.read("run.json"))
        for member in file.namelist():
            if member.endswith(".parquet"):
                table = Path(member).stem
                tables[table] = _complete(pq.read_table(io.BytesIO(file.read(member))), table)
    version = manifest["kafka"]
    return StoredRun(name, tables, find(manifest["scenario"]).declared(version), version, manifest["mode"])


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
    """The tables as a temporary history folder."""
    with tempfile.TemporaryDirectory(prefix="acked-stored-") as scratch:
        yield write_tables(tables, Path(scratch, "history"))


@dataclass(frozen=True)
class Derived:
    """What the checker computes from a history before any claim is asked."""

    life: pa.Table
    findings: pa.Table
    transactions: Mapping[str, pa.Table]
    """By name, if they were asked for."""


def derive(history: Path, *, transactions: bool = False) -> Derived:
    """Life and findings of a history folder, judged in this process.

    With ``transactions`` also their fates, records and findings, which no claim needs.
    """
    source = open_source(history)
    with tempfile.TemporaryDirectory(prefix="acked-stored-") as scratch:
        life, findings, ends = Path(scratch, "life"), Path(scratch, "findings"), Path(scratch, "transactions")
        for folder in (life, findings, ends / PARTS_FOLDER, ends / RECORDS_FOLDER):
            folder.mkdir(parents=True)
        evidence = gather(source)
        where = str(ends) if transactions else None
        job = JudgingContext(
            source=source, evidence=evidence, life=str(life), findings=str(findings), transactions=where
        )
        tallies = judge_all(run_here, job, slots=1)
        if transactions:
            tallies = conclude(source, evidence, ends, findings, tallies)
        check_health(evidence, findings, tallies)
        cursor = {}
        if (ends / FATES_FILE).exists():
            cursor["transaction_fates"] = pq.read_table(ends / FATES_FILE)
            cursor["transaction_records"] = _joined(ends / RECORDS_FOLDER, TRANSACTION_RECORD)
        return Derived(_joined(life, LIFE), _joined(findings, FINDING), cursor)


_BASIS = ("sends", "copies", "replicas", "reads", "sightings", "faults", "writers")
"""Tables that decide the fates of messages. Causes also rest on others, but no claim needs causes."""


class Judging:
    """Judges one history after the other by the claims of one scenario, in one DuckDB database.

    A query runs again only if a table or a moment that it names has changed.
    """

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._declared = declared
        self._texts = texts_of(declared)
        self._words = _words(self._texts)
        self._views = [name for name in VIEWS if name in self._words]
        self._words |= _words(VIEWS[name] for name in self._views)
        self._current: dict[str, pa.Table] = {}
        self._answers: dict[str, tuple[str, QueryResult]] = {}
        self._derived: dict[tuple[int, ...], tuple[Any, Derived]] = {}
        self._db = _connect()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def judge(
        self, tables: Tables, history: Path | None = None, *, only: Set[str] | None = None
    ) -> list[ClaimResult]:
        """Judge the claims (or only those of some names) on these tables, without Spark.

        The result is that of `checkers.judge.judge_history`. ``history`` is a folder that holds just these
        tables, if there is one.
        """
        moments = moments_of(lambda name: tables.get(name, TABLES[name].arrow().empty_table()), self._texts)
        changed = self._show(tables, history)
        self._answers = {
            name: known for name, known in self._answers.items() if not changed & _words([known[0]])
        }
        answers = {}
        chosen = [claim for claim in self._declared["claims"] if only is None or claim["name"] in only]
        for name, query in queries_of(chosen).items():
            resolved = resolve(query, moments)
            asked, answer = self._answers.get(name, ("", QueryResult(None, "")))
            if resolved.missing:
                asked, answer = "", QueryResult(None, "; ".join(resolved.missing))
            elif asked != resolved.sql:
                asked, answer = resolved.sql, self._ask(resolved.sql)
            self._answers[name] = asked, answer
            answers[name] = answer
        return [result(claim, answers) for claim in chosen]

    def judge_folder(self, history: Path) -> list[ClaimResult]:
        """The same with the tables of a history folder."""
        source = open_source(history)
        tables = {name: read_small(source, name) for name in TABLES if source.files.get(name)}
        return self.judge(tables, history)

    def _ask(self, sql: str) -> QueryResult:
        cursor = self._db.execute(translate(sql)).fetchall()
        return QueryResult(*cursor[0][:2]) if cursor else QueryResult(None, "the query returned no row")

    def _show(self, tables: Tables, history: Path | None) -> set[str]:
        """Make the database hold these tables; returns the names of those that changed."""
        condition = {name: tables.get(name) for name in TABLES if name in self._words}
        full = {
            name: TABLES[name].arrow().empty_table() if rows is None else rows
            for name, rows in condition.items()
        }
        if self._words & {"life", "findings"}:
            derived = self._derive(tables, history)
            full |= {"life": derived.life, "findings": derived.findings}
        changed = {name for name, rows in full.items() if self._current.get(name) is not rows}
        for name in changed:
            self._current[name] = full[name]
            _create(self._db, name, full[name])
        for name in self._views:
            if "views" in changed:
                self._db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {translate(VIEWS[name])}")
                changed.add(name)
        return changed

    def _derive(self, tables: Tables, history: Path | None) -> Derived:
        basis = [tables.get(name) for name in _BASIS]
        key = tuple(map(id, basis))
        if key not in self._derived:
            if len(self._derived) > 1:  # the others are made from the first history
                self._derived.popitem()
            with nullcontext(history) if history else written(tables) as folder:
                self._derived[key] = basis, derive(folder)
        return self._derived[key][1]


def judge_tables(tables: Tables, declared: Mapping[str, Any]) -> list[ClaimResult]:
    """Judge one history's claims."""
    judging = Judging(declared)
    try:
        return judging.judge(tables)
    finally:
        judging.close()


Answer = tuple[list[str], list[tuple[Any, ...]]]
"""Columns and rows."""


@contextmanager
def database(tables: Tables) -> Iterator[Callable[[str], Answer]]:
    """Answers queries in Spark's SQL from the tables and views of a history, and `life` if it is given."""
    with _connect() as db:
        for name, table in TABLES.items():
            _create(db, name, tables.get(name, table.arrow().empty_table()))
        for name, view in VIEWS.items():
            db.execute(f"CREATE TEMP VIEW {name} AS {translate(view)}")
        if "life" in tables:
            _create(db, "life", tables["life"])

        def answer(query: str) -> Answer:
            cursor = db.execute(translate(query))
            return [column[0] for column in cursor.description], cursor.fetchall()

        yield answer


def ask(tables: Tables, query: str) -> Answer:
    """What one query returns from the tables of a history."""
    with database(tables) as answer:
        return answer(query)


def _words(texts: Iterable[str]) -> set[str]:
    return set(re.findall(r"\w+", " ".join(texts).lower()))


def _joined(folder: Path, schema: pa.Schema) -> pa.Table:
    parts = [pq.read_table(file) for file in folder.glob("*.parquet")]
    return pa.concat_tables([schema.empty_table(), *parts])


def _connect() -> Any:
    db = duckdb.connect()
    db.execute("SET threads TO 1")
    db.execute(_NUMBER_OF)
    db.execute("SET enable_external_access TO false")  # claims of stored runs are data
    db.execute("SET lock_configuration TO true")
    return db


def _create(db: Any, name: str, rows: pa.Table) -> None:
    db.register("arriving", rows)
    db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM arriving")
    db.unregister("arriving")


_NAMES = {
    "array": "list_value",
    "struct": "row",
    "sort_array": "list_sort",
    "array_join": "array_to_string",
    "size": "len",
    "transform": "list_transform",
    "explode": "unnest",
    "max_by": "arg_max_null",
    "count_if": "number_of",
    "get_json_object": "json_extract_string",
}
_NUMBER_OF = "CREATE TEMP MACRO number_of(fits) AS count(CASE WHEN fits THEN 1 END)"
"""Spark's `count_if` of no rows is 0; DuckDB's is null."""
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_COLLECT = re.compile(r"\bcollect_(set|list)\(")


@cache
def translate(sql: str) -> str:
    """Spark's SQL as DuckDB's, as far as claims use it."""
    literals: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        literals.append(match[0])
        return f"\x01{len(literals) - 1}\x02"

    text = _LITERAL.sub(put_aside, sql)
    text = re.sub(r"\b(\d+)L\b", r"CAST(\1 AS BIGINT)", text)
    text = re.sub(r"\bstruct\(([\w, ]+)\)", _struct, text)
    for name, other in _NAMES.items():
        text = re.sub(rf"\b{name}\(", f"{other}(", text)
    text = text.replace("list_value() AS array<int>", "[] AS INTEGER[]")
    text = re.sub(r'(?<!")\boffset\b(?!")', '"offset"', text)
    # Spark counts the elements of an array from 0, DuckDB from 1.
    text = re.sub(r"\b(\w+)\[(\d+)\]", lambda found: f"{found[1]}[{int(found[2]) + 1}]", text)
    text = re.sub(r"\b(\w+) -> ", r"lambda \1: ", text)
    text = re.sub(r"(\w+) RLIKE (\x01\d+\x02)", r"regexp_matches(\1, \2)", text)
    # Lists of objects in the evidence of faults; only their length is asked for.
    text = re.sub(r"from_json\((\w+), \x01\d+\x02\)\.(\w+)", r"json_extract(\1, '$.\2[*]')", text)
    text = _array_except(_collect(text))
    return re.sub(r"\x01(\d+)\x02", lambda match: literals[int(match[1])], text)


def _struct(match: re.Match[str]) -> str:
    """A struct of columns, whose fields have the columns' names."""
    return f"struct_pack({', '.join(f'{name} := {name}' for name in match[1].split(', '))})"


def _collect(text: str) -> str:
    """`collect_set(x) FILTER (WHERE c)`: Spark leaves nulls out, and returns an empty list for no rows."""
    while match := _COLLECT.search(text):
        end = _closing(text, match.end() - 1)
        value, rest = text[match.end() : end], text[end + 1 :]
        condition = f"({value}) IS NOT NULL"
        if rest.startswith(" FILTER (WHERE"):
            close = _closing(rest, len(" FILTER "))
            condition += f" AND ({rest[len(' FILTER (WHERE') : close]})"
            rest = rest[close + 1 :]
        distinct = "DISTINCT " if match[1] == "set" else ""
        text = (
            f"{text[: match.start()]}coalesce(list({distinct}{value}) FILTER (WHERE {condition}), []){rest}"
        )
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
