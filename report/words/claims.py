"""What is said of a claim that is not as declared."""

from __future__ import annotations

from collections.abc import Sequence


def deviation(says: str, status: str, observed: str, expected: Sequence[str]) -> str:
    """The claim's sentence, what was observed, and what the scenario expects.

    One of the sentences in ``expected`` should be true; without any, nothing is said of it.
    """
    parts = [_ended(says), _ended(f"Observed: {observed} ({status})" if observed else f"Result: {status}")]
    if expected:
        others = [_ended(one) for one in expected if one != says]
        own = "that this is so" if says in expected else ""
        parts.append(f"Expected: {' Or: '.join([_ended(own)] * bool(own) + others)}")
    return " ".join(parts)


def _ended(text: str) -> str:
    """A text with a mark at its end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
