"""The names of a query, looked up before Spark starts: a misspelt table or column costs no start of Spark.

This parser is not Spark's own and decides nothing that Spark would not decide: it refuses a query only for a
name that nothing in the query can mean. What it cannot parse, it leaves to Spark.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from checkers.ask.views import QUERYABLE, RUN_VIEWS
from checkers.spark.pure import STATE
from checkers.spark.views import DERIVED
from harness.errors import UsageError, quoted
from harness.history.schema import TABLES

if TYPE_CHECKING:
    from sqlglot import exp

_GENERATED = frozenset(
    [*("all", "key", "value", "pos", "x", "y"), *("epoch", "start_offset", "producer_id", "first_offset")]
)
"""Names that functions give to columns, that the history's structs have, and that clauses use."""
_NUMBERED = re.compile(r"_?(?:c|col|_)\d*")
"""Names that Spark gives to columns without one: `col`, `col1`, `c0`, `_1`."""
_SIMPLE = re.compile(r"[a-z_]\w*")


def columns_of(name: str) -> tuple[str, ...]:
    """The columns of a table or view of `QUERYABLE`, in their order."""
    if name in TABLES:
        return ("run", *(column.name for column in TABLES[name].columns))
    if name in DERIVED:
        return ("run", *DERIVED[name].names)
    return _columns_of_view(name)


@cache
def _columns_of_view(name: str) -> tuple[str, ...]:
    from sqlglot import exp, parse_one

    view = parse_one(RUN_VIEWS[name], dialect="spark")
    assert isinstance(view, exp.Query)
    if view.named_selects == ["*"]:
        (table,) = view.find_all(exp.Table)
        return columns_of(table.name)
    return tuple(view.named_selects)


def refuse_unknown_names(text: str) -> None:
    """Raise UsageError if the query names a table or a column that no table of the query can have."""
    query = _parsed(text)
    if query is None:
        return
    from sqlglot import exp

    if any(query.find_all(exp.Pivot)):  # makes columns of values
        return
    given = {one.alias.lower() for one in query.find_all(exp.CTE)}
    tables: dict[str, set[str]] = {}
    for table in query.find_all(exp.Table):
        name = table.name.lower()
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            continue
        if name in QUERYABLE:
            tables.setdefault((table.alias or name).lower(), set()).add(name)
        elif name not in given:
            raise UsageError(
                f"There is no table {quoted(table.name)}{_near(name, [*QUERYABLE, *given])} "
                f"docs/history.md and docs/analysis.md list the tables and views."
            )
    _refuse_columns(query, tables, {*given, *_own_names(query)})


def _refuse_columns(query: exp.Query, tables: Mapping[str, Collection[str]], own: Collection[str]) -> None:
    """``tables``: those of the history by the name that the query gives to each; ``own``: its other names."""
    from sqlglot import exp

    all_tables = sorted(set().union(*tables.values()))
    nameable = {*own, *(column for name in all_tables for column in columns_of(name))}
    for column in query.find_all(exp.Column):
        first, *others = (part.name.lower() for part in column.parts)
        if first not in nameable and first not in tables and _is_name(first):
            raise _no_column(column.parts[0].name, all_tables, nameable)
        if others and first in tables and first not in nameable and _is_name(others[0]):
            columns = {name for table in tables[first] for name in columns_of(table)}
            if others[0] not in columns:
                raise _no_column(column.parts[1].name, sorted(tables[first]), columns)


def _no_column(name: str, tables: Sequence[str], columns: Collection[str]) -> UsageError:
    if not tables:
        return UsageError(f"There is no column {quoted(name)}: the query reads no table.")
    where = f"There is no column {quoted(name)} in {' or '.join(tables)}"
    if others := [table for table in (*DERIVED, *TABLES) if name.lower() in columns_of(table)]:
        return UsageError(f"{where}; {' and '.join(others[:3])} {'has' if len(others) == 1 else 'have'} it.")
    near = _near(name.lower(), columns)
    remedy = "" if near.endswith("?") else f" `.schema {tables[0]}` in the prompt of `acked sql` lists them."
    return UsageError(f"{where}{near}{remedy}")


def _near(name: str, names: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), n=1)
    return f"; did you mean {near[0]}?" if near else "."


def _is_name(word: str) -> bool:
    """Whether the word can only be the name of a column: no keyword, and none that Spark makes."""
    return bool(
        _SIMPLE.fullmatch(word)
        and word not in _GENERATED
        and word not in STATE
        and not _NUMBERED.fullmatch(word)
        and word.upper() not in _keywords()
    )


def _own_names(query: exp.Query) -> Iterator[str]:
    """Names that the query itself gives, in lower case, and each word of its texts, which may name fields.

    A second name of a table of the history is none of them, unless its columns have other names.
    """
    from sqlglot import exp

    for node in query.find_all(exp.Identifier, exp.Literal):
        parent: Any = node.parent
        if isinstance(node, exp.Literal):
            yield from re.findall(r"\w+", node.name.lower()) if node.is_string else ()
        elif isinstance(parent, exp.TableAlias):
            table: Any = parent.parent
            plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
            if not plain or parent.columns or table.name.lower() not in QUERYABLE:
                yield node.name.lower()
        elif not isinstance(parent, exp.Column | exp.Table):
            yield node.name.lower()


def quoted_columns(text: str) -> list[str]:
    """The columns of the query's tables that it has in double quotes, which make a text of them in Spark."""
    tables = [word for word in set(re.findall(r"\w+", text.lower())) if word in QUERYABLE]
    columns = {column for name in tables for column in columns_of(name)}
    quotes = [text[start + 1 : end] for start, end in _tokens(text) or () if text[start] == '"']
    return [word for word in dict.fromkeys(quotes) if word.lower() in columns]


def statements(text: str) -> tuple[list[str], str]:
    """The statements that end in a semicolon, without it, and the rest of the text."""
    complete: list[str] = []
    begin = 0
    for start, end in _tokens(text) or ():
        if text[start : end + 1] == ";":
            complete.append(text[begin:start].strip())
            begin = end + 1
    return [one for one in complete if one], text[begin:].strip()


def is_open(text: str) -> bool:
    """Whether a quotation or a comment of the text is not closed."""
    return _tokens(text) is None


def _tokens(text: str) -> list[tuple[int, int]] | None:
    """The first and last place of each token; None if a quotation or comment is not closed."""
    from sqlglot import tokenize
    from sqlglot.errors import TokenError

    try:
        return [(token.start, token.end) for token in tokenize(text, dialect="spark")]
    except TokenError:
        return None


@cache
def _keywords() -> frozenset[str]:
    from sqlglot.dialects.spark import Spark

    words = {word for key in Spark.Tokenizer.KEYWORDS for word in key.upper().split()}
    return frozenset(words)


def _parsed(text: str) -> exp.Query | None:
    """The query; None if this parser does not take the text for exactly one query."""
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    try:
        trees = [tree for tree in parse(text, dialect="spark") if not isinstance(tree, exp.Semicolon | None)]
    except (SqlglotError, RecursionError):
        return None
    return trees[0] if len(trees) == 1 and isinstance(trees[0], exp.Query) else None
