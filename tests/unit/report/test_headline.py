"""The first line of every report speaks of Kafka and of the reader's own producers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from report.model.headline import Headline, headline

Rows = Sequence[Mapping[str, Any]]


def row(setting: str, acks: int | None, fate: str, count: int, outcome: str = "ok") -> Mapping[str, Any]:
    return {"writer_name": f"az1-{setting}", "acks": acks, "outcome": outcome, "fate": fate, "count": count}


KEPT = (row("acks=all", -1, "kept", 479), row("acks=all", -1, "unknown_dropped", 3, "info"))
ONE = (row("acks=1", 1, "kept", 4), row("acks=1", 1, "lost", 100), row("acks=1", 1, "lost_after_read", 11))
BROKEN = ({"promise": "broken", "known_bug": "", "count": 1},)
BUG = ({"promise": "broken", "known_bug": "KAFKA-9891", "count": 1},)


def told(verdict: str, rows: Rows = (), promises: Rows = (), described: str = "") -> Headline:
    return headline(
        {"verdict": verdict, "fates_by_writer": rows, "promises": promises, "described": described}
    )


def test_what_each_setting_lost_is_counted_in_acknowledged_writes() -> None:
    assert told("as declared", (*KEPT, *ONE)) == Headline(
        "cost",
        "Kafka behaved as documented. With acks=1, 111 of 115 acknowledged writes were lost; "
        "with acks=all, none of 479.",
    )


def test_the_described_producer_comes_first_and_a_loss_of_the_other_is_no_cost() -> None:
    first = told("as declared", (*KEPT, *ONE), described="acks=all")
    assert first == Headline(
        "kept",
        "Kafka behaved as documented. With acks=all (your setting), none of 479 acknowledged writes was "
        "lost; with acks=1, 111 of 115.",
    )
    assert told("as declared", (*KEPT, *ONE), described="acks=1").tone == "cost"


@pytest.mark.parametrize(
    ("verdict", "promises", "tone", "says"),
    [
        ("violated", BROKEN, "broken", "Kafka broke a promise."),
        ("as declared", BUG, "broken", "Kafka broke a promise (KAFKA-9891)."),
        ("violated", (*BROKEN, *BUG), "broken", "Kafka broke a promise."),
        ("violated", (), "undecided", "Kafka broke no promise, but did not do what the scenario declares."),
        ("unknown", (), "undecided", "The history does not decide whether Kafka behaved as documented."),
        (
            "as declared",
            ({"promise": "unknown"},),
            "undecided",
            "The history does not decide whether Kafka behaved as documented.",
        ),
        ("as declared", ({"promise": "not promised"},), "kept", "Kafka behaved as documented."),
        ("crashed", BROKEN, "void", "The run ended early, so it says nothing about Kafka."),
        ("", (), "undecided", ""),
    ],
)
def test_verdicts_and_promises_decide_what_kafka_did(
    verdict: str, promises: Rows, tone: str, says: str
) -> None:
    assert told(verdict, (), promises) == Headline(tone, says)  # type: ignore[arg-type]


def test_a_loss_with_the_described_setting_is_never_green_and_one_of_another_never_red() -> None:
    for verdict in ("as declared", "unknown", "violated"):
        assert told(verdict, ONE, described="acks=1").tone not in ("kept",)
        assert told(verdict, (*KEPT, *ONE), described="acks=all").tone != "broken"


def test_a_producer_whose_acks_nobody_recorded() -> None:
    assert "Where acks is not known, 1 of 1 acknowledged writes was lost." in (
        told("as declared", [row("imported", None, "lost", 1)]).text
    )


def test_findings_whose_promises_were_not_judged_are_as_declared() -> None:
    judgement = {"verdict": "as declared", "fates_by_writer": ONE, "findings_by_class": {"lost": 111}}
    assert headline(judgement).text.startswith(
        "Everything happened as the scenario declares. With acks=1, 111"
    )
