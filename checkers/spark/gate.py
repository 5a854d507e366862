"""The one rule for SQL that acked did not write: claims and conditions of run folders, queries of users.

A run folder may come from anybody, so its SQL is data that could be hostile. Before Spark analyses such a
text, which already opens files, its parser makes a plan of unresolved names. Every node of that plan, every
function and every relation must be one of those that `checkers.spark.pure` and the caller list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from checkers.spark.errors import reason, spark_errors
from checkers.spark.pure import EXPRESSIONS, FUNCTIONS, PLANS, STATE
from checkers.spark.session import forget_session
from harness.errors import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT_S = 600.0
"""How long queries of a run folder may take together."""
_KILL_S = 20.0
"""How long Spark has to end interrupted queries, until its JVM is ended."""

_CATALYST = "org.apache.spark.sql.catalyst."
_WITHOUT_NODES = frozenset(
    {"data", "escapeChar", "evalContext", "evalMode", "groupingSetIndexes", "hint", "options"}
)
"""Fields that are null in the JSON of a plan although they are not; what they hold is no part of the plan."""
_KNOWN = {
    "ScriptTransformation": "it starts a program (TRANSFORM … USING)",
    "ExpressionWithUnresolvedIdentifier": "it makes a name from a text (IDENTIFIER)",
    "PlanWithUnresolvedIdentifier": "it makes a name from a text (IDENTIFIER)",
    "UnresolvedHint": "it holds a hint (/*+ … */)",
    "WithWindowDefinition": "it names a window (WINDOW); write the window after OVER",
}
_SEMICOLON = re.compile(r";(?=(?:\s|--[^\n]*(?:\n|$)|/\*(?:(?!\*/).)*\*/)*$)", re.DOTALL)

Tree = Mapping[str, Any]
"""A node of a plan as its JSON shows it."""


class RefusedQueryError(Exception):
    """A text is not a query that may run; the message is the reason, a clause without a full stop."""


def without_semicolon(text: str) -> str:
    """Without the semicolon that ends a statement; comments may follow it."""
    return _SEMICOLON.sub("", text, count=1)


def require_query(session: SparkSession, text: str, relations: Collection[str]) -> str:
    """The text without its semicolon, if it is one query over ``relations`` that only computes values.

    Nothing of it is run or analysed. Raises RefusedQueryError.
    """
    bare = without_semicolon(text)
    _require(session, "parseQuery", bare, relations)
    return bare


def require_condition(session: SparkSession, text: str, relations: Collection[str]) -> str:
    """The text, if it is one expression that only computes values. Raises RefusedQueryError."""
    _require(session, "parseExpression", text, relations)
    return text


def _require(session: SparkSession, parse: str, text: str, relations: Collection[str]) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RefusedQueryError("it holds half a surrogate pair, which is no character") from None
    parser = session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - no public way to parse
    try:
        tree = json.loads(getattr(parser, parse)(text).toJSON())
    except spark_errors() as error:
        raise RefusedQueryError(reason(error).rstrip(".")) from None
    except RecursionError:
        raise RefusedQueryError("it is nested too deeply") from None
    nodes = list(_nodes(tree))
    names = {*relations, *_named_by_with(nodes)}
    for node in nodes:
        objection = _objection(node, names)
        if objection:
            raise RefusedQueryError(objection)


def _nodes(tree: Any) -> Iterator[Tree]:
    """Every object of a plan, but nothing of a constant."""
    ahead = [tree]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            yield value
            if _kind(value) != "Literal":
                ahead += value.values()
        elif isinstance(value, list):
            ahead += value


def _kind(node: Tree) -> str:
    """The class of a node; empty for a part of one."""
    name = str(node.get("class", ""))
    return name.rpartition(".")[2] if name.startswith(_CATALYST) else name


def _named_by_with(nodes: Collection[Tree]) -> Iterator[str]:
    for node in nodes:
        if _kind(node) == "UnresolvedWith":
            for relation in node["cteRelations"]:
                name = str(relation["_1"]).lower()
                if not name.isidentifier():  # a plan shows a name of several parts as one with commas
                    raise RefusedQueryError(f"WITH names a query {quoted(name)}; use letters and digits")
                yield name


def _objection(node: Tree, names: Collection[str]) -> str | None:
    """Why a node may not be part of a query."""
    kind = _kind(node)
    if kind == "Literal":
        return None
    if kind and kind not in PLANS and kind not in EXPRESSIONS:
        return _KNOWN.get(kind, f"it uses {kind}, which no query may")
    if any(value is None and field not in _WITHOUT_NODES for field, value in node.items()):
        return f"a part of {kind} cannot be checked; write it in a simpler way"
    if kind == "UnresolvedRelation":
        name = _name(node["multipartIdentifier"])
        return None if name in names else f"it reads {quoted(name)}, which is no table of a history"
    if kind in ("UnresolvedFunction", "UnresolvedTableValuedFunction", "UnresolvedGenerator"):
        name = _function(node)
        return None if name in FUNCTIONS else f"it calls {quoted(name)}, which no query may"
    if kind == "UnresolvedAttribute" and _name(node["nameParts"]) in STATE:
        return f"it asks for {_name(node['nameParts'])}, which is no column"
    return None


def _function(node: Tree) -> str:
    name = node.get("nameParts") or node["name"]
    if isinstance(name, dict):  # that of a lateral view: `funcName`, and `database` if it is named
        name = ", ".join(str(part) for field, part in name.items() if field != "product-class")
    return _name(name)


def _name(parts: object) -> str:
    """A name as a plan shows it: `[life]`; one of several parts holds commas and is never listed."""
    return str(parts).lower().removeprefix("[").removesuffix("]")


@dataclass
class Deadline:
    """Whether queries ran out of time."""

    expired: bool = False


def interrupt(session: SparkSession, over: Event) -> None:
    """Interrupt the queries of the session, which raise Spark's error; ``over`` is set when they have ended.

    Spark computes constants while it plans, where it cannot be interrupted; its JVM is then ended.
    """
    session.interruptAll()
    if not over.wait(_KILL_S):
        forget_session()


@contextmanager
def deadline(session: SparkSession, limit_s: float = LIMIT_S) -> Iterator[Deadline]:
    """Interrupt the queries of the session that still run after ``limit_s``; they raise Spark's error."""
    over, state = Event(), Deadline()

    def watch() -> None:
        if over.wait(limit_s):
            return
        state.expired = True
        interrupt(session, over)

    watcher = Thread(target=watch, name="deadline", daemon=True)
    watcher.start()
    try:
        yield state
    finally:
        over.set()
        watcher.join()
