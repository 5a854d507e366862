"""Small words for writing claims: each returns SQL over the history and the life table.

A claim's query returns one row `holds, observed` (see `harness.scenario`). These builders keep scenarios
readable; a scenario may as well write its own SQL.
"""

from __future__ import annotations


def mark(name: str) -> str:
    """The time of a narrative mark, ns."""
    return f"(SELECT max(ns) FROM marks WHERE name = '{name}')"


def truth(column: str, topic: str, *, until: str = "", since: str = "", partition: int = 0) -> str:
    """What the metadata store said last about a partition (`leader`, `epoch` or `isr`).

    ``until`` and ``since`` are SQL expressions for times in ns, for example ``mark("cut")``.
    """
    conditions = [f"topic = '{topic}'", f"partition = {partition}"]
    conditions += [f"ns <= {until}"] if until else []
    conditions += [f"ns >= {since}"] if since else []
    return f"(SELECT max_by({column}, struct(epoch, ns)) FROM truth WHERE {' AND '.join(conditions)})"


def view(column: str, source: str, topic: str, *, until: str, partition: int = 0) -> str:
    """What one broker said last about a partition until a time."""
    return (
        f"(SELECT max_by({column}, ns) FROM views WHERE source = '{source}' AND subject = 'partition' "
        f"AND topic = '{topic}' AND partition = {partition} AND ns <= {until})"
    )


def controller(*, until: str) -> str:
    """The controller that the metadata store named last until a time."""
    return f"(SELECT max_by(controller, ns) FROM controllers WHERE ns <= {until})"


def fates(where: str, *fate: str, at_least: int = 1) -> str:
    """Every message that ``where`` selects from `life` has one of these fates.

    Fewer than ``at_least`` messages decide nothing (holds is null).
    """
    listed = ", ".join(f"'{name}'" for name in fate)
    said = " or ".join(name.replace("_", " ") for name in fate)
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(fate IN ({listed})) = count(*) END AS holds, "
        f"concat(count_if(fate IN ({listed})), ' of ', count(*), ' messages {said}') AS observed "
        f"FROM life WHERE {where}"
    )


def none_of(where: str, *fate: str, at_least: int = 1) -> str:
    """No message that ``where`` selects from `life` has one of these fates."""
    listed = ", ".join(f"'{name}'" for name in fate)
    said = " or ".join(name.replace("_", " ") for name in fate)
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(fate IN ({listed})) = 0 END AS holds, "
        f"concat(count_if(fate IN ({listed})), ' of ', count(*), ' messages {said}') AS observed "
        f"FROM life WHERE {where}"
    )


def outcomes(where: str, outcome: str, *, at_least: int = 1) -> str:
    """Every message that ``where`` selects from `life` was answered with this outcome."""
    return (
        f"SELECT CASE WHEN count(*) < {at_least} THEN NULL "
        f"ELSE count_if(coalesce(outcome, 'info') = '{outcome}') = count(*) END AS holds, "
        f"concat(count_if(coalesce(outcome, 'info') = '{outcome}'), ' of ', count(*), "
        f"' messages answered {outcome}') AS observed FROM life WHERE {where}"
    )


def condition(holds: str, observed: str) -> str:
    """A free condition over scalar expressions; ``observed`` is an SQL text expression."""
    return f"SELECT {holds} AS holds, {observed} AS observed"


def equals(value: str, expected: str, what: str) -> str:
    """A scalar expression has an expected value; both are SQL."""
    return condition(
        f"{value} = {expected}", f"concat('{what} ', coalesce(cast({value} AS string), 'unknown'))"
    )
