"""The terminal report shows the article's words, what was observed, and unexpected findings first."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from report.terminal import describe, show

_JUDGEMENT: dict[str, Any] = {
    "verdict": "violated",
    "exit_code": 1,
    "reasons": ["1 finding that no scenario expects"],
    "run": "runs/x/latest",
    "claims": [
        {
            "name": "epoch",
            "says": "The leader epoch rises by 2.",
            "section": "000 §3.2",
            "status": "refuted",
            "as_declared": True,
            "observed": "rose by 1",
            "erratum": {"says": "It rises by 1.", "because": "the controller is alive", "holds": "SELECT 1"},
        }
    ],
    "fates_by_writer": [
        {"writer_name": "w", "az": "az1", "acks": 1, "outcome": "ok", "fate": "lost", "count": 2},
        {"writer_name": "w", "az": "az1", "acks": 1, "outcome": "ok", "fate": "kept", "count": 5},
    ],
    "findings_by_class": {"lost": 1, "duplicated": 1},
    "findings": [
        {
            "class": "lost",
            "topic": "t",
            "partition": 0,
            "offset": 2,
            "writer": 1,
            "seq": 3,
            "label": "c",
            "expected": True,
        },
        {
            "class": "duplicated",
            "topic": "t",
            "partition": 0,
            "offset": 7,
            "writer": 1,
            "seq": 4,
            "expected": False,
            "cause": "client retry of an unknown outcome",
        },
    ],
}


def _shown(judgement: dict[str, Any]) -> str:
    out = io.StringIO()
    show(judgement, Console(file=out, width=200, highlight=False))
    return out.getvalue()


def test_a_claim_is_shown_with_its_erratum() -> None:
    """The article's sentence, the observation, and what Kafka does instead."""
    text = _shown(_JUDGEMENT)
    assert "The leader epoch rises by 2." in text
    assert "rose by 1" in text
    assert "It rises by 1. because the controller is alive" in text


def test_unexpected_findings_come_first() -> None:
    """What nobody declared is what the reader has to see."""
    text = _shown(_JUDGEMENT)
    assert text.index("UNEXPECTED") < text.index("expected   lost")


def test_fates_are_counted_by_writer() -> None:
    """One row a writer, one column a fate."""
    row = next(line for line in _shown(_JUDGEMENT).splitlines() if line.startswith("w "))
    assert row.split() == ["w", "az1", "1", "5", "2"]


def test_text_in_square_brackets_survives() -> None:
    """An ISR such as [1, 2] must not be taken for markup."""
    judgement = {**_JUDGEMENT, "claims": [{**_JUDGEMENT["claims"][0], "observed": "ISR [1, 2]"}]}
    assert "ISR [1, 2]" in _shown(judgement)


def test_a_record_of_nobody() -> None:
    """A foreign record has no writer."""
    said = describe({"class": "foreign", "topic": "t", "partition": 0, "offset": 9, "writer": None})
    assert said == "foreign: record in t/0 at offset 9"
