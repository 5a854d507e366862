"""Claims: SQL over history, life and findings; each ends confirmed, refuted, not reproduced or unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import BadDataError


@dataclass(frozen=True)
class Answer:
    """What one query of a claim returned."""

    holds: bool | None
    observed: str


@dataclass(frozen=True)
class ClaimResult:
    """One sentence of an article, judged."""

    name: str
    says: str
    section: str
    status: str
    as_declared: bool
    observed: str
    erratum: Mapping[str, Any] | None


def queries_of(claims: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """All queries of the claims, by `name`, `name (given)` and `name (erratum)`."""
    found: dict[str, str] = {}
    for claim in claims:
        found[claim["name"]] = claim["holds"]
        if claim.get("given"):
            found[f"{claim['name']} (given)"] = claim["given"]
        if claim.get("erratum"):
            found[f"{claim['name']} (erratum)"] = claim["erratum"]["holds"]
    return found


def ask(session: Any, queries: Mapping[str, str]) -> dict[str, Answer]:
    """Run the queries together. Raises BadDataError naming the claim whose SQL cannot be understood."""
    if not queries:
        return {}
    from pyspark.errors import AnalysisException, PySparkException

    queries = _with_marks(session, queries)
    rows = _collect(session, " UNION ALL ".join(_select(name, query) for name, query in queries.items()))
    if isinstance(rows, PySparkException):
        rows = []
        for name, query in queries.items():
            alone = _collect(session, _select(name, query))
            if isinstance(alone, AnalysisException):
                raise BadDataError(f"The SQL of claim {name!r} cannot be understood: {_short(alone)}")
            if isinstance(alone, PySparkException):
                raise BadDataError(f"The SQL of claim {name!r} fails when run: {_short(alone)}")
            rows += alone
    answers: dict[str, Answer] = {}
    for row in rows:
        if row["claim"] in answers:
            raise BadDataError(
                f"The SQL of claim {row['claim']!r} returns more than one row; it must be one."
            )
        answers[row["claim"]] = Answer(row["holds"], row["observed"] or "")
    return {name: answers.get(name, Answer(None, "the query returned no row")) for name in queries}


_MARK = re.compile(r"\(SELECT max\(ns\) FROM marks WHERE name = '([^']*)'\)")


def _with_marks(session: Any, queries: Mapping[str, str]) -> dict[str, str]:
    """Put in the times of marks as numbers.

    Each would be a sub-query of its own, mostly inside another. Spark runs sub-queries in a pool of 16
    threads, and those that wait for their own sub-queries hold their thread: enough of them stop for ever.
    """
    if not any(_MARK.search(query) for query in queries.values()):
        return dict(queries)
    rows = session.sql("SELECT name, max(ns) AS ns FROM marks GROUP BY name").collect()
    times = {row["name"]: row["ns"] for row in rows}

    def literal(match: re.Match[str]) -> str:
        found = times.get(match.group(1))
        return "CAST(NULL AS BIGINT)" if found is None else f"{found}L"

    return {name: _MARK.sub(literal, query) for name, query in queries.items()}


def _select(name: str, query: str) -> str:
    # The line ends keep a comment at the end of a query from swallowing the bracket.
    return (
        f"SELECT '{name.replace(chr(39), chr(39) * 2)}' AS claim, CAST(holds AS BOOLEAN) AS holds, "
        f"CAST(observed AS STRING) AS observed FROM (\n{query.rstrip().rstrip(';')}\n)"
    )


def _collect(session: Any, query: str) -> Any:
    """All in one text: planned once, whereas a data frame for each claim is planned for each again."""
    from pyspark.errors import PySparkException

    try:
        return session.sql(query).collect()
    except PySparkException as error:
        return error


def _short(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:400]


def judge_claims(session: Any, claims: Sequence[Mapping[str, Any]]) -> list[ClaimResult]:
    """All claims of a scenario, judged by the views registered in the session."""
    answers = ask(session, queries_of(claims))
    return [_result(claim, answers) for claim in claims]


def _result(claim: Mapping[str, Any], answers: Mapping[str, Answer]) -> ClaimResult:
    name = claim["name"]
    main = answers[name]
    given = answers.get(f"{name} (given)")
    other = answers.get(f"{name} (erratum)")
    observed = main.observed
    if given is not None and given.holds is not True:
        status = "not reproduced" if given.holds is False else "unknown"
        observed = given.observed or main.observed
    elif main.holds is None:
        status = "unknown"
    else:
        status = "confirmed" if main.holds else "refuted"
    by_erratum = status == "refuted" and other is not None and other.holds is True
    erratum = None
    if claim.get("erratum"):
        told = claim["erratum"]
        erratum = {"says": told["says"], "because": told["because"], "holds": other.holds if other else None}
        if status == "refuted" and other is not None and other.holds is None:
            status = "unknown"
    return ClaimResult(
        name, claim["says"], claim["section"], status, status == "confirmed" or by_erratum, observed, erratum
    )
