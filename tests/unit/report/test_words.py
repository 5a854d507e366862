"""The words of a page: causes with their counts, and captions in lines."""

from __future__ import annotations

import pytest

from report.model.facts import causes_in_words
from report.model.model import FindingGroup
from report.page.svg import wrapped


def group(cause: str, count: int) -> FindingGroup:
    return FindingGroup(name="lost", cause=cause, expected=True, count=count, promises={}, shown=())


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ((), ""),
        ((group("", 3),), ""),
        ((group("power cut", 3),), " Cause: power cut."),
        ((group("truncated: broker1 cut its log", 3),), " Cause: truncated. Broker1 cut its log."),
        (
            (group("b: x", 2), group("a: y", 4), group("b: z", 3)),
            " Cause: b (5), a (4). In the largest group, y.",
        ),
    ],
)
def test_causes_in_words(groups: tuple[FindingGroup, ...], words: str) -> None:
    """Several causes have counts, the most frequent one first; the largest group gives the example."""
    assert causes_in_words(groups) == words


def test_captions_are_wrapped_and_cut_at_the_last_line() -> None:
    assert wrapped("", 100) == [""]
    assert wrapped("what broker2 had not flushed is gone", 120) == [
        "what broker2 had",
        "not flushed is",
        "gone",
    ]
    lines = wrapped("one two three four five six seven eight nine ten", 80, most=2)
    assert len(lines) == 2
    assert lines[-1].endswith("…")
