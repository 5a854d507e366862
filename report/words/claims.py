"""What is said of a claim that is not as declared."""

from __future__ import annotations

from collections.abc import Sequence

from report.model.model import Claim


def deviation(says: str, status: str, observed: str, expected: Sequence[str]) -> str:
    """The claim's sentence, what was observed, and what the scenario expects.

    One of the sentences in ``expected`` should be true; without any, nothing is said of it.
    """
    parts = [_ended(says), _ended(f"Observed: {observed} ({status})" if observed else f"Result: {status}")]
    if says in expected:
        others = [one for one in expected if one != says]
        parts.append(_ended(", or: ".join(["Expected: confirmed", *others])))
    elif expected:
        parts.append(_ended(f"Expected instead: {', or: '.join(expected)}"))
    return " ".join(parts)


def deviation_of(claim: Claim) -> str:
    """The same of a claim of a report."""
    expected = [claim.instead] if claim.instead_kind == "erratum" else [claim.says]
    return deviation(claim.says, claim.status, claim.observed, expected)


def _ended(text: str) -> str:
    """A text with a mark at its end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
