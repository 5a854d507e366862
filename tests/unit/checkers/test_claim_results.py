"""The result of a claim from the answers to its queries: its status, and whether that is as declared."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.claims.evaluate import QueryResult, result
from run.scenario import Claim, Either, Erratum

YES, NO, OPEN = QueryResult(True, "yes"), QueryResult(False, "no"), QueryResult(None, "open")
_OTHER = {"says": "It does not.", "because": "a reason", "holds": "SELECT"}


def _judge(
    main: QueryResult, *, given: QueryResult | None = None, other: QueryResult | None = None, **entry: Any
) -> Any:
    claim = {"name": "c", "says": "It does.", "section": "1", "holds": "SELECT", **entry}
    answers = {"c": main} | ({"c (given)": given} if given else {})
    if other is not None:
        answers[f"c ({'erratum' if entry.get('erratum') else 'either'})"] = other
    return result(claim, answers)


@pytest.mark.parametrize(
    ("main", "given", "status", "as_declared"),
    [
        (YES, None, "confirmed", True),
        (NO, None, "refuted", False),
        (OPEN, None, "unknown", False),
        (YES, YES, "confirmed", True),
        (YES, NO, "not reproduced", False),
        (NO, NO, "not reproduced", False),
        (YES, OPEN, "unknown", False),
    ],
)
def test_a_claim_alone(main: QueryResult, given: QueryResult | None, status: str, as_declared: bool) -> None:
    claim = _judge(main, given=given)
    assert (claim.status, claim.as_declared) == (status, as_declared)


@pytest.mark.parametrize(
    ("main", "other", "status", "as_declared", "occurred"),
    [
        (NO, YES, "refuted", True, "It does not."),
        (YES, NO, "confirmed", False, "It does."),
        (YES, YES, "confirmed", False, "It does."),
        (NO, NO, "refuted", False, ""),
        (NO, OPEN, "unknown", False, ""),
        (OPEN, YES, "unknown", False, ""),
        (OPEN, OPEN, "unknown", False, ""),
    ],
)
def test_an_erratum_is_a_statement(
    main: QueryResult, other: QueryResult, status: str, as_declared: bool, occurred: str
) -> None:
    """The article's sentence must be refuted and the erratum must hold."""
    claim = _judge(main, other=other, erratum=_OTHER)
    assert (claim.status, claim.as_declared, claim.occurred) == (status, as_declared, occurred)
    assert claim.erratum["holds"] is other.holds


@pytest.mark.parametrize(
    ("main", "other", "status", "occurred"),
    [
        (YES, NO, "confirmed", "It does."),
        (NO, YES, "confirmed", "It does not."),
        (OPEN, YES, "confirmed", "It does not."),
        (NO, NO, "refuted", ""),
        (OPEN, NO, "unknown", ""),
        (NO, OPEN, "unknown", ""),
    ],
)
def test_either_of_two_outcomes(main: QueryResult, other: QueryResult, status: str, occurred: str) -> None:
    """One of them must have occurred, and the result says which."""
    claim = _judge(main, other=other, either=_OTHER)
    assert (claim.status, claim.as_declared, claim.occurred) == (status, status == "confirmed", occurred)


def test_a_precondition_that_does_not_hold_refutes_nothing() -> None:
    """It speaks of the situation, not of Kafka."""
    assert _judge(NO, precondition=True).status == "not reproduced"
    assert _judge(YES, precondition=True).as_declared


def test_a_claim_declares_one_kind_of_other_outcome() -> None:
    other = {"says": "It does not.", "because": "a reason", "holds": "SELECT"}
    with pytest.raises(ValueError, match="both an erratum and another outcome"):
        Claim(
            name="c",
            says="It does.",
            section="1",
            holds="SELECT",
            erratum=Erratum(**other),
            either=Either(**other),
        )
