"""What every page begins with, whatever kind of result it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from report.model.model import Tone

SEVERITY: Sequence[Tone] = ("kept", "void", "undecided", "cost", "broken")
"""From good to bad, for results that consist of several."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The question, the answer, how far it can be relied on, and where the rest is."""

    kind: str
    """`assessment`, `search`, `night` and so on."""
    tone: Tone
    answer: str
    """One sentence, or two."""
    asked: str
    """What was tried, on what."""
    sure: str
    """How many runs or messages the answer rests on, and what it leaves open."""
    more: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """Words and addresses of links to what else there is, on the page or beside it."""
    word: str = ""
    """What stands beside the sign; empty: the word of the tone."""
    sign: str = ""
    """Empty: that of the tone."""


def worst(tones: Sequence[Tone], *, none: Tone = "undecided") -> Tone:
    """The worst of some tones; ``none`` if there is none."""
    return max(tones, key=SEVERITY.index, default=none)
