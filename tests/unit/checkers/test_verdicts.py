"""The verdict of a run: by what its scenario declares, or by what Kafka promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from checkers.verdict import decide


def row(promise: str, name: str, count: int = 1, known_bug: str | None = None) -> Mapping[str, Any]:
    return {
        "promise": promise,
        "row": "a-row",
        "class": name,
        "known_bug": known_bug,
        "why": "which broker acknowledged it is not known",
        "count": count,
    }


@pytest.mark.parametrize(
    ("rows", "unexplained", "verdict", "reason"),
    [
        ([row("not promised", "lost", 139)], {}, "as declared", ""),
        (
            [row("not promised", "lost", 2), row("broken", "lost")],
            {},
            "violated",
            "1 lost that breaks a promise of Kafka (a-row)",
        ),
        (
            [row("broken", "not_converged", 1, "KAFKA-12751")],
            {},
            "violated",
            "1 not_converged that breaks a promise of Kafka (a-row; known bug: KAFKA-12751)",
        ),
        (
            [row("unknown", "lost")],
            {},
            "unknown",
            "1 lost that may break a promise of Kafka: which broker acknowledged it is not known",
        ),
        (
            [row("not promised", "server_error", 3)],
            {"server_error": 3},
            "violated",
            "3 server_error that no fault explains",
        ),
    ],
)
def test_promises_decide(
    rows: list[Mapping[str, Any]], unexplained: dict[str, int], verdict: str, reason: str
) -> None:
    findings: dict[str, int] = {}
    for one in rows:
        findings[one["class"]] = findings.get(one["class"], 0) + one["count"]
    expected = {
        one["class"]: one["count"]
        for one in rows
        if one["promise"] == "not promised" and one["class"] not in unexplained
    }
    decided = decide(messages=1, findings=findings, expected=expected, claims=(), promises=rows)
    assert decided == (verdict, (reason,) if reason else ())


def test_a_declaration_decides_whatever_is_promised() -> None:
    decided = decide(messages=1, findings={"lost": 139}, expected={}, claims=())
    assert decided == ("violated", ("139 lost that nothing declared",))
