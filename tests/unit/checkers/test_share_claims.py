"""Sentences about share groups, on hand-written rows: true, false, and unknown where nothing was seen."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from checkers.claims.builders.shares import shared
from harness.history.schema import TABLES
from tests.runs.stored import judge_tables

G = shared("g", "t")
MARKS = {"held": 150, "late": 250, "end": 400, "converged": 500}


def row(ns: int, member: str, event: str, offset: int, **more: Any) -> dict[str, Any]:
    reader = int(member.removeprefix("m"))
    where = {"group": "g", "topic": "t", "partition": 0, "offset": offset}
    return {"ns": ns, "reader": reader, "member": member, "event": event, **where, **more}


def taken(ns: int, member: str, offset: int, count: int = 1) -> dict[str, Any]:
    return row(ns, member, "acquired", offset, delivery_count=count)


def answered(ns: int, member: str, offset: int, answer: str, error: int = 0) -> list[dict[str, Any]]:
    asked = row(ns, member, "acknowledged", offset, answer=answer)
    return [asked, row(ns + 5, member, "answered", offset, answer=answer, asked_ns=ns, error=error)]


ROWS = [
    taken(100, "m1", 0),
    *answered(110, "m1", 0, "accept"),
    taken(120, "m1", 1),
    *answered(130, "m1", 1, "release"),
    taken(140, "m2", 2),
    taken(160, "m1", 1, 2),
    *answered(170, "m1", 1, "accept"),
    taken(200, "m1", 2, 2),
    *answered(210, "m1", 2, "accept"),
    *answered(260, "m2", 2, "accept", 121),
]
LOST = [one for one in ROWS if one["offset"] != 2]
ANEW = [one | {"delivery_count": 1} if one["event"] == "acquired" else one for one in ROWS]
SENDS = [
    {
        "topic": "t",
        "partition": 0,
        "writer": 1,
        "seq": n,
        "sent_ns": n,
        "done_ns": n,
        "outcome": "ok",
        "offset": n,
    }
    for n in range(3)
]


def judge(sentence: str, rows: list[Any]) -> tuple[str, str]:
    marks = [{"ns": ns, "name": name, "text": name} for name, ns in MARKS.items()]
    copies = [
        {"topic": "t", "partition": 0, "broker": 1, "offset": n, "writer": 1, "seq": n} for n in range(3)
    ]
    replicas = [
        {"topic": "t", "partition": 0, "broker": 1, "complete": True, "ns": 450, "leo": 3, "leader": True}
    ]
    tables = {
        name: pa.Table.from_pylist(content, schema=TABLES[name].arrow())
        for name, content in {
            **{"marks": marks, "shares": rows, "sends": SENDS, "copies": copies, "replicas": replicas}
        }.items()
    }
    claim = {"name": "c", "says": "It is so.", "section": "1", "holds": sentence}
    (result,) = judge_tables(tables, {"claims": [claim]})
    return result.status, result.observed


HANDED: dict[str, Any] = {"by": "m2", "to": ("m1",), "after": "held", "before": "late"}
TOLD: dict[str, Any] = {"by": "m2", "since": "held", "after": "late", "before": "end"}


@pytest.mark.parametrize(
    ("sentence", "rows", "status"),
    [
        (G.are_settled(at_least=3), ROWS, "confirmed"),
        (G.are_settled(at_least=3, once=True), ROWS, "confirmed"),
        (G.are_settled(at_least=4), ROWS, "unknown"),
        (G.are_settled(at_least=3), LOST, "refuted"),
        (G.are_settled(at_least=3), [*LOST, *answered(300, "m1", 2, "reject", 6)], "confirmed"),
        (G.are_settled(at_least=3, once=True), [*LOST, *answered(300, "m1", 2, "reject", 6)], "refuted"),
        (G.are_settled(at_least=3), [*LOST, *answered(300, "m1", 2, "reject", 121)], "refuted"),
        (G.are_settled(at_least=3, once=True), [*ROWS, *answered(300, "m2", 2, "accept")], "refuted"),
        (G.are_settled(before="late", at_least=3, once=True), ROWS, "confirmed"),
        (G.are_settled(before="held", at_least=3, once=True), ROWS, "refuted"),
        (G.are_settled(after="held"), ROWS, "unknown"),
        (G.are_handed_on(**HANDED), ROWS, "confirmed"),
        (G.are_handed_on(**HANDED, not_within_s=40e-9), ROWS, "confirmed"),
        (G.are_handed_on(**HANDED, not_within_s=60e-9), ROWS, "refuted"),
        (G.are_handed_on(**HANDED, counted="anew"), ROWS, "refuted"),
        (G.are_handed_on(**HANDED, counted="anew"), ANEW, "confirmed"),
        (G.are_handed_on(**HANDED), ANEW, "refuted"),
        (G.are_handed_on(**HANDED), [one for one in ROWS if one["ns"] != 200], "refuted"),
        (G.are_handed_on(**HANDED), LOST, "unknown"),
        (G.late_answers(121, **TOLD), ROWS, "confirmed"),
        (G.late_answers(0, **TOLD), ROWS, "refuted"),
        (G.late_answers(121, **TOLD), LOST, "unknown"),
        (G.come_again("release", again=True), ROWS, "confirmed"),
        (G.come_again("release", again=False), ROWS, "refuted"),
        (G.come_again("accept", again=False, at_least=3), ROWS, "confirmed"),
        (G.come_again("accept", again=False), [*ROWS, taken(300, "m2", 0)], "refuted"),
        (G.come_again("reject", again=False), ROWS, "unknown"),
    ],
)
def test_sentences(sentence: str, rows: list[Any], status: str) -> None:
    assert judge(sentence, rows)[0] == status


def test_what_was_observed() -> None:
    assert judge(G.are_settled(at_least=3), ROWS)[1] == (
        "3 messages, 0 neither accepted nor rejected, 0 perhaps, 0 more than once"
    )
    assert judge(G.are_handed_on(**HANDED), ROWS)[1].startswith("1 of 1 records handed on, delivery counts 2")
    assert judge(G.late_answers(121, **TOLD), ROWS)[1] == "1 acknowledgement: error 121"
    assert judge(G.come_again("release", again=True), ROWS)[1] == "1 of 1 records handed out again"
