"""The terminal report shows the article's words, what was observed, and unexpected findings first."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from harness.console import Console
from report.model.judged import finding_of, judged_model
from report.model.model import BlockedReaders
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
            "cause": "retry_of_unknown_outcome",
        },
    ],
}


def _shown(judgement: dict[str, Any]) -> str:
    out = io.StringIO()
    show(judged_model(judgement), Console(file=out, width=200, highlight=False))
    return out.getvalue()


def test_a_claim_is_shown_with_its_erratum() -> None:
    """The article's sentence, the observation, and what Kafka does instead."""
    text = _shown(_JUDGEMENT)
    assert "The leader epoch rises by 2." in text
    assert "rose by 1" in text
    assert "It rises by 1, because the controller is alive" in text


def test_unexpected_findings_come_first() -> None:
    """The reader has to see the undeclared findings; both numbers are exact if all findings are known."""
    text = _shown(_JUDGEMENT)
    assert text.index("UNEXPECTED 1 duplicated: client retry of an unknown outcome") < text.index(
        "expected   1 lost"
    )
    assert "message (1/4) in t/0 at offset 7" in text
    assert "at least" not in text


def _lost(seq: int, cause: str) -> dict[str, Any]:
    return {**_JUDGEMENT["findings"][0], "seq": seq, "cause": cause, "acked_by": 1, "acked_s": 1.5}


def test_findings_of_one_class_and_cause_are_one_group_with_an_example() -> None:
    """The largest group first, with the number that `acked story` takes."""
    findings = [_lost(0, "power cut"), *(_lost(seq, "another cause") for seq in range(1, 40))]
    lines = _shown({**_JUDGEMENT, "findings_by_class": {"lost": 40}, "findings": findings}).splitlines()
    start = lines.index("Findings: 40 lost")
    example = "message c (1/{}) in t/0 at offset 2, acknowledged by broker1 at 1.50 s"
    assert [line.strip() for line in lines[start + 1 : start + 5]] == [
        "expected   39 lost: another cause",
        f"for example {example.format(1)}",
        "expected   1 lost: power cut",
        example.format(0),
    ]


def test_a_sample_of_the_findings_says_so() -> None:
    """The sizes of the groups are then lower bounds, and the rest is counted."""
    text = _shown({**_JUDGEMENT, "findings_by_class": {"lost": 5000}, "findings": [_lost(1, "power cut")]})
    assert "at least 1 lost: power cut" in text
    assert "findings.parquet" in text


def test_many_causes_are_cut_short() -> None:
    """A terminal shows the largest groups and counts the others."""
    findings = [_lost(seq, f"cause {seq:02}") for seq in range(20)]
    text = _shown({**_JUDGEMENT, "findings_by_class": {"lost": 20}, "findings": findings})
    assert "cause 07" in text
    assert "cause 08" not in text
    assert "and 12 more, of other classes or causes" in text


def test_fates_are_counted_by_writer() -> None:
    """One row per writer and one column per fate."""
    row = next(line for line in _shown(_JUDGEMENT).splitlines() if line.startswith("w "))
    assert row.split() == ["w", "az1", "1", "5", "2"]


def test_text_in_square_brackets_survives() -> None:
    """An ISR such as [1, 2] must not be read as markup."""
    judgement = {**_JUDGEMENT, "claims": [{**_JUDGEMENT["claims"][0], "observed": "ISR [1, 2]"}]}
    assert "ISR [1, 2]" in _shown(judgement)


def test_a_record_of_nobody() -> None:
    """A record that no client of the run sent has no writer."""
    said = describe(
        finding_of(
            {"class": "foreign", "topic": "t", "partition": 0, "offset": 9, "writer": None}, acked_s=None
        )
    )
    assert said == "record in t/0 at offset 9"


@pytest.mark.parametrize(
    ("acks", "said"),
    [
        (1, "acknowledged by broker2 at 3.00 s"),
        (None, "acknowledged by broker2 at 3.00 s"),  # judged by an earlier version
        (0, "taken as acknowledged (acks=0) at 3.00 s"),
    ],
)
def test_no_broker_acknowledges_without_acks(acks: int | None, said: str) -> None:
    row = {"class": "lost", "topic": "t", "partition": 0, "writer": 1, "seq": 4, "acked_by": 2, "acks": acks}
    assert describe(finding_of(row, acked_s=3.0)) == f"message (1/4) in t/0, {said}"


def test_the_other_outcome_is_shown_when_it_occurred() -> None:
    """Of two declared outcomes the report says which one it was; a precondition is called one."""
    other = {"says": "It hangs.", "because": "a lock is held", "holds": True}
    claim = {
        "name": "accepts",
        "says": "It accepts writes.",
        "section": "000",
        "status": "confirmed",
        "as_declared": True,
        "observed": "3 of 3",
        "erratum": None,
        "either": other,
        "occurred": "It accepts writes.",
        "precondition": True,
    }
    assert "It hangs." not in _shown({**_JUDGEMENT, "claims": [claim]})
    shown = _shown({**_JUDGEMENT, "claims": [{**claim, "occurred": "It hangs."}]})
    assert "instead:  It hangs, because a lock is held" in shown
    assert "(000, precondition)" in shown


def test_promises_are_shown_by_row_broken_ones_first() -> None:
    rows = [
        {
            "promise": "broken",
            "row": "partition",
            "class": "lost",
            "known_bug": None,
            "why": "it is kept",
            "count": 1,
        },
        {
            "promise": "broken",
            "row": "order",
            "class": "moved",
            "known_bug": "KAFKA-1",
            "why": "order",
            "count": 2,
        },
        {
            "promise": "unknown",
            "row": None,
            "class": "undetermined",
            "known_bug": None,
            "why": "unread",
            "count": 1,
        },
        {
            "promise": "not promised",
            "row": "acks-0",
            "class": "lost",
            "known_bug": None,
            "why": "acks=0",
            "count": 3,
        },
        {
            "promise": "not promised",
            "row": "acks-0",
            "class": "moved",
            "known_bug": None,
            "why": "acks=0",
            "count": 4,
        },
    ]
    text = _shown(_JUDGEMENT | {"promises": rows})
    assert "Promises of Kafka: 3 break a promise, 1 of unknown promise, 7 not promised" in text
    assert "1: it is kept (row partition)" in text
    assert "2: order (row order; known bug KAFKA-1)" in text
    assert "not known    1: unread\n" in text
    assert "7: acks=0 (row acks-0)" in text


def test_more_rows_of_promises_than_fit_are_counted() -> None:
    rows = [
        {
            "promise": "broken",
            "row": f"row-{n}",
            "class": "lost",
            "known_bug": None,
            "why": str(n),
            "count": 2,
        }
        for n in range(6)
    ]
    assert "and 4 more, of other rows" in _shown(_JUDGEMENT | {"promises": rows})


def test_without_findings_nothing_is_said_about_promises() -> None:
    assert "Promises" not in _shown(_JUDGEMENT)


def test_blocked_readers_are_listed_the_longest_first() -> None:
    one = BlockedReaders(
        place="t/0", offset=3, brokers=(1, 2), from_s=10.0, to_s=None, seconds=8.25, behind=1,
        transaction="txn:1/0", producer="p", reported="open",
    )  # fmt: skip
    out = io.StringIO()
    blocked = [one, replace(one, transaction="", to_s=12.0), *[one] * 4]
    show(judged_model(_JUDGEMENT), Console(file=out, width=200, highlight=False), blocked=blocked)
    lines = out.getvalue().splitlines()
    start = lines.index("Readers of committed records were blocked")
    assert lines[start + 1] == (
        " t/0 at offset 3 on broker1 and broker2: blocked for 8.2 s, from 10.0 s until the run ended, by "
        "transaction txn:1/0 of p, reported as open; it held back up to 1 record"
    )
    assert "from 10.0 s until 12.0 s, by a record of no known transaction;" in lines[start + 2]
    assert lines[start + 5] == " and 2 more times, for a shorter time"
    assert "blocked" not in _shown(_JUDGEMENT)
