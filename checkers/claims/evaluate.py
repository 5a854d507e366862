"""Claims: SQL over history, life and findings; each ends confirmed, refuted, not reproduced or unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from checkers.claims.citations import Citation, cite, subject_of_claim
from checkers.claims.moments import Moments, resolve
from checkers.spark.errors import reason, spark_errors
from checkers.spark.gate import LIMIT_S, RefusedQueryError, deadline, require_query
from checkers.spark.views import NAMES, names_in
from checkers.unobserved import clauses, needed
from harness.errors import BadDataError, quoted

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_AT_ONCE = 16
"""Queries that are joined into one text.

Spark would plan a data frame for each query separately. But one very long text takes longer to plan than
several shorter ones.
"""


StoredClaim = Mapping[str, Any]
"""A claim as `claims.json` holds it (see `run.scenario.Claim`)."""


@dataclass(frozen=True)
class QueryResult:
    """What one query of a claim returned."""

    holds: bool | None
    observed: str


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """One sentence of an article, judged."""

    name: str
    says: str
    section: str
    status: str
    as_declared: bool
    observed: str
    erratum: Mapping[str, Any] | None
    either: Mapping[str, Any] | None = None
    """The other outcome that Kafka allows: `says`, `because`, `holds`."""
    occurred: str = ""
    """The sentence that turned out true: the claim's, its erratum's or the other outcome's, or none."""
    precondition: bool = False
    """A precondition: it only establishes the situation that other claims speak of."""
    quote: str = ""
    evidence: Citation | None = None
    """Where in the history the answer comes from."""


def queries_of(claims: Sequence[StoredClaim]) -> dict[str, str]:
    """All queries of the claims, by `name`, `name (given)`, `name (erratum)` and `name (either)`."""
    queries: dict[str, str] = {}
    for claim in claims:
        queries[claim["name"]] = claim["holds"]
        if claim.get("given"):
            queries[f"{claim['name']} (given)"] = claim["given"]
        for other in ("erratum", "either"):
            if claim.get(other):
                queries[f"{claim['name']} ({other})"] = claim[other]["holds"]
    return queries


def texts_of(declared: Mapping[str, Any]) -> list[str]:
    """Every SQL text of what a scenario declares: its claims' queries and its expectations' conditions."""
    claims = queries_of(declared.get("claims", []))
    return [*claims.values(), *(entry["where"] for entry in declared.get("expected", []))]


def ask(session: SparkSession, queries: Mapping[str, str], moments: Moments) -> dict[str, QueryResult]:
    """Run the queries together, after all have passed the gate.

    Raises BadDataError naming the claim whose SQL is refused or cannot be understood.
    """
    if not queries:
        return {}
    resolved = {name: resolve(query, moments) for name, query in queries.items()}
    passed = {name: _passed(session, name, resolved_query.sql) for name, resolved_query in resolved.items()}
    names = list(passed)
    rows = [
        row
        for start in range(0, len(names), _AT_ONCE)
        for row in _rows(session, {name: passed[name] for name in names[start : start + _AT_ONCE]})
    ]
    answers: dict[str, QueryResult] = {}
    for name, row in rows:
        if name in answers:
            raise BadDataError(f"The SQL of claim {quoted(name)} returns more than one row; it must be one.")
        answers[name] = QueryResult(row["holds"], row["observed"] or "")
    for name, query in resolved.items():
        if query.missing:
            answers[name] = QueryResult(None, "; ".join(query.missing))
    return {name: answers.get(name, QueryResult(None, "the query returned no row")) for name in queries}


def _passed(session: SparkSession, name: str, query: str) -> str:
    try:
        return require_query(session, query, NAMES)
    except RefusedQueryError as error:
        raise BadDataError(f"The SQL of claim {quoted(name)} is refused: {error}.") from None


def _rows(session: SparkSession, queries: Mapping[str, str]) -> list[tuple[str, Row]]:
    """The rows of some queries by name, run as one; if that fails, each alone, so that the error names it."""
    from pyspark.errors import AnalysisException

    names = list(queries)
    selects = [_select(number, query) for number, query in enumerate(queries.values())]
    rows = _collect(session, names, " UNION ALL ".join(selects))
    if not isinstance(rows, Exception):
        return [(names[row["claim"]], row) for row in rows]
    by_name: list[tuple[str, Row]] = []
    for name, select in zip(names, selects, strict=True):
        alone = _collect(session, [name], select)
        if isinstance(alone, AnalysisException):
            raise BadDataError(f"The SQL of claim {quoted(name)} cannot be understood: {reason(alone)}")
        if isinstance(alone, Exception):
            raise BadDataError(f"The SQL of claim {quoted(name)} fails when run: {reason(alone)}")
        by_name += [(name, row) for row in alone]
    return by_name


def _select(number: int, query: str) -> str:
    # The line ends keep a comment at the end of a query from swallowing the bracket.
    return (
        f"SELECT {number} AS claim, CAST(holds AS BOOLEAN) AS holds, "
        f"CAST(observed AS STRING) AS observed FROM (\n{query}\n)"
    )


def _collect(session: SparkSession, names: Sequence[str], query: str) -> list[Row] | Exception:
    """The rows of one query that joins those of some claims, or Spark's error.

    Raises BadDataError when it does not end in time.
    """
    with deadline(session) as limit:
        try:
            # As one task: each query returns one row, and Spark needs longer to start a task than to make it.
            return session.sql(query).coalesce(1).collect()
        except spark_errors() as error:
            if not limit.expired:
                return error
    raise BadDataError(
        f"The SQL of {len(names)} claims did not end within {LIMIT_S:g} s, "
        f"{quoted(names[0])} first; ask for less in one query."
    )


def judge_claims(
    session: SparkSession,
    claims: Sequence[StoredClaim],
    moments: Moments,
    unobserved: Sequence[Mapping[str, Any]] = (),
) -> list[ClaimResult]:
    """All claims of a scenario, judged by the views registered in the session.

    A claim that depends on what was ``unobserved`` (rows of that table) is unknown.
    """
    answers = ask(session, queries_of(claims), moments)
    return [observed(claim, result(claim, answers), moments, unobserved) for claim in claims]


def observed(
    claim: StoredClaim, judged: ClaimResult, moments: Moments, unobserved: Sequence[Mapping[str, Any]]
) -> ClaimResult:
    """A claim's result with its place in the history; unknown if it depends on what was not observed."""
    about = cite(subject_of_claim(claim), moments)
    judged = replace(judged, evidence=about)
    missed = needed(unobserved, names_in(queries_of([claim]).values()), about) if unobserved else ()
    if not missed or judged.status not in ("confirmed", "refuted"):
        return judged
    text = "; ".join(part for part in (judged.observed, *clauses(missed)) if part)
    return replace(judged, status="unknown", as_declared=False, occurred="", observed=text)


def result(claim: StoredClaim, answers: Mapping[str, QueryResult]) -> ClaimResult:
    """The result of a claim from the answers to its queries.

    A claim with an erratum is as declared only if its own sentence is refuted and the erratum holds; a claim
    with a second outcome, if one of the two occurred; any other claim, if it is confirmed.
    """
    name, main = claim["name"], answers[claim["name"]]
    given = answers.get(f"{name} (given)")
    erratum, either = claim.get("erratum"), claim.get("either")
    other = answers.get(f"{name} ({'erratum' if erratum else 'either'})")
    observed, occurred = main.observed, ""
    if given is not None and given.holds is not True:
        status = "not reproduced" if given.holds is False else "unknown"
        observed = given.observed or main.observed
    elif main.holds:
        status, occurred = "confirmed", claim["says"]
    elif either and other is not None and other.holds:
        status, occurred, observed = "confirmed", either["says"], other.observed
    elif main.holds is None or (other is not None and other.holds is None):
        status = "unknown"
        observed = main.observed if main.holds is None or other is None else other.observed
    elif claim.get("precondition"):
        status = "not reproduced"
    else:
        status = "refuted"
        occurred = erratum["says"] if erratum and other is not None and other.holds else ""
    return ClaimResult(
        name=name,
        says=claim["says"],
        section=claim["section"],
        status=status,
        as_declared=status == "refuted" and bool(occurred) if erratum else status == "confirmed",
        observed=observed,
        erratum=_shown(erratum, other),
        either=_shown(either, other),
        occurred=occurred,
        precondition=bool(claim.get("precondition")),
        quote=claim.get("quote", ""),
    )


def _shown(entry: Mapping[str, Any] | None, answer: QueryResult | None) -> Mapping[str, Any] | None:
    if not entry:
        return None
    holds = answer.holds if answer else None
    return {"says": entry["says"], "because": entry["because"], "holds": holds}
