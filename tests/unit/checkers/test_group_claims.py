"""Sentences about groups, on hand-written rows: true, false, and unknown where nobody asked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from checkers.claims.builders import group_offsets, members, output, transactions
from harness.history.schema import TABLES
from tests.runs.stored import judge_tables

G = group_offsets("g")
MARKS = {"cut": 100, "moved": 200, "asked": 300}
AFTER_CUT: dict[str, Any] = {"after": "cut", "before": "asked"}


def row(ns: int, event: str, broker: int, offset: int | None, error: int = 0, group: str = "g") -> Any:
    blank = dict.fromkeys(TABLES["groups"].arrow().names)
    reported = {"ns": ns, "event": event, "broker": broker, "offset": offset, "error": error}
    return {**blank, **reported, "group": group, "reader": 1, "topic": "t", "partition": 0}


HISTORY = [
    row(50, "committed", 1, 10),
    row(110, "commit_failed", 1, 20, 7),
    row(120, "fetched", 1, 10),
    row(130, "fetched", 2, None, 14),
    row(210, "fetched", 2, 10),
    row(220, "committed", 2, 12),
    row(230, "fetched", 1, None, 16),
    row(240, "committed", 1, 99, group="other"),
]
LOST = [*HISTORY[:1], row(110, "committed", 1, 20), row(210, "fetched", 2, 10)]


def judge(sentence: str, rows: list[Any], **more: list[Any]) -> tuple[str, str]:
    marks = [{"ns": ns, "name": name, "text": name} for name, ns in MARKS.items()]
    tables = {
        name: pa.Table.from_pylist(content, schema=TABLES[name].arrow())
        for name, content in {"marks": marks, "groups": rows, "sends": [], "copies": [], **more}.items()
    }
    claim = {"name": "c", "says": "It is so.", "section": "1", "holds": sentence}
    (result,) = judge_tables(tables, {"claims": [claim]})
    return result.status, result.observed


@pytest.mark.parametrize(
    ("sentence", "status", "observed"),
    [
        (G.commits_answered(7, at=1, **AFTER_CUT), "confirmed", "1 commit: error 7"),
        (G.commits_answered(0, at=1, **AFTER_CUT), "refuted", "1 commit: error 7"),
        (G.commits_answered(0, at=(2, 3), **AFTER_CUT), "confirmed", "1 commit: error 0"),
        (G.commits_answered(7, at=1, offsets=(21,), **AFTER_CUT), "unknown", "0 commits: error none"),
        (
            G.commits_answered(7, at=1, not_within_s=9e-9, **AFTER_CUT),
            "confirmed",
            "1 commit: error 7, the first after 0.0 s",
        ),
        (
            G.commits_answered(7, at=1, not_within_s=12e-9, **AFTER_CUT),
            "refuted",
            "1 commit: error 7, the first after 0.0 s",
        ),
        (G.is_answered(10, by=1, after="cut", before="moved"), "confirmed", "1 answer: 10"),
        (G.is_answered(11, by=1, after="cut", before="moved"), "refuted", "1 answer: 10"),
        (G.is_answered(10, by=2, **AFTER_CUT), "refuted", "2 answers: 10 or error 14"),
        (G.is_answered(10, by=3, **AFTER_CUT), "unknown", "0 answers: none"),
        (G.is_answered(10, by=2, after="moved", before="asked", at_least=2), "unknown", "1 answer: 10"),
        (G.is_refused(16, by=1, after="moved", before="asked"), "confirmed", "1 answer: error 16"),
        (G.is_refused(16, by=1, **AFTER_CUT), "refuted", "2 answers: 10 or error 16"),
    ],
)
def test_what_brokers_answered(sentence: str, status: str, observed: str) -> None:
    assert judge(sentence, HISTORY) == (status, observed)


@pytest.mark.parametrize(
    ("rows", "lost", "none_lost"),
    [
        (LOST, "confirmed", "refuted"),
        ([*LOST, row(220, "fetched", 2, 20)], "refuted", "confirmed"),
        ([*LOST[:2], row(210, "fetched", 2, None)], "confirmed", "refuted"),
        ([*LOST[:2], row(210, "fetched", 2, None, 14)], "unknown", "unknown"),
        ([row(110, "commit_failed", 1, 20, 7), row(210, "fetched", 2, 10)], "refuted", "unknown"),
        (LOST[:2], "unknown", "unknown"),
    ],
)
def test_acknowledged_commits_are_compared_with_the_last_answer(
    rows: list[Any], lost: str, none_lost: str
) -> None:
    assert judge(G.acknowledged_then_lost(by=(2, 3), **AFTER_CUT), rows)[0] == lost
    assert judge(G.none_lost(by=(2, 3), **AFTER_CUT), rows)[0] == none_lost


def test_the_messages_that_are_processed_again_are_counted() -> None:
    observed = judge(G.acknowledged_then_lost(by=(2, 3), **AFTER_CUT), LOST)[1]
    assert observed == "1 acknowledged, 1 lost: offset 10, 10 messages are processed again"


def member(ns: int, event: str, name: str, partition: int = 0) -> Any:
    return row(ns, event, 0, None) | {"member": name, "partition": partition}


A, B = members("g", "a"), members("g", "b", "c")
TAKEN = "1 partitions assigned to b, the first after 0.0 s"
HANDOVER = [
    *(member(50, "assigned", name, number) for number, name in enumerate("abc")),
    member(150, "assigned", "b", 0),
    member(250, "lost", "a", 0),
    member(350, "committed", "b", 0),
    member(50, "assigned", "d", 9),
]


@pytest.mark.parametrize(
    ("sentence", "status", "observed"),
    [
        (B.take_over("t", 1, after="cut", before="moved"), "confirmed", TAKEN),
        (B.take_over("t", 2, after="cut", before="moved"), "refuted", TAKEN),
        (B.take_over("t", 1, after="cut", before="moved", not_within_s=60e-9), "refuted", None),
        (B.take_over("t", 1, after="moved", before="asked"), "refuted", "0 partitions assigned to nobody"),
        (members("g", "x").take_over("t", 1, **AFTER_CUT), "unknown", None),
        (A.lose("t", after="moved", before="asked"), "confirmed", "1 partitions lost after 0.0 s"),
        (A.lose("t", after="cut", before="moved"), "refuted", "0 partitions lost"),
        (members("g", "x").lose("t", **AFTER_CUT), "unknown", None),
        (A.keep("t", since="cut", until="moved"), "confirmed", "1 partitions, given up: 0"),
        (A.keep("t", since="cut", until="asked"), "refuted", "1 partitions, given up: 1"),
        (A.keep("t", since="cut", until="moved", at_least=2), "unknown", None),
        (B.keep("t", since="cut", until="asked", at_least=2), "confirmed", "2 partitions, given up: 0"),
        (members("g", "d").keep("t", since="cut", until="moved"), "unknown", "1 partitions, given up: 0"),
        (A.share("t", B, since="cut", until="moved"), "confirmed", "1 of 1 partitions owned twice"),
        (A.share("t", B, since="moved", until="asked"), "refuted", "0 of 1 partitions owned twice"),
        (B.share("t", A, since="cut", until="moved"), "refuted", "0 of 2 partitions owned twice"),
        (B.share("t", A, since="cut", until="asked"), "unknown", "0 of 2 partitions owned twice"),
        (members("g", "x").share("t", B, since="cut", until="moved"), "unknown", None),
    ],
)  # fmt: skip
def test_members_and_their_partitions(sentence: str, status: str, observed: str | None) -> None:
    answer = judge(sentence, HANDOVER)
    assert answer == (status, answer[1] if observed is None else observed)


def written(*labels: str, isolation: str = "read_committed") -> dict[str, list[Any]]:
    """Two input messages, an input of unknown outcome, and output with these labels that somebody read."""
    sent = dict.fromkeys(TABLES["sends"].arrow().names) | {"topic": "in", "partition": 0, "writer": 1}
    sends = [
        sent | {"seq": seq, "sent_ns": 10, "outcome": outcome}
        for seq, outcome in enumerate(("ok", "ok", "info"))
    ]
    read = dict.fromkeys(TABLES["reads"].arrow().names) | {"topic": "out", "partition": 0, "reader": 9}
    reads = []
    for number, label in enumerate(labels):
        message = {"topic": "out", "partition": 0, "writer": 2, "seq": number}
        sends.append(sent | message | {"sent_ns": 20, "outcome": "ok", "label": label})
        reads.append(read | message | {"ns": 150, "offset": number, "isolation": isolation})
    replica = dict.fromkeys(TABLES["replicas"].arrow().names)
    replicas = [replica | {"topic": "out", "partition": 0, "broker": 1, "complete": True, "ns": 400}]
    return {"sends": sends, "reads": reads, "replicas": replicas}


OUT = output("in", "out")


@pytest.mark.parametrize(
    ("labels", "one_to_one", "complete", "repeated"),
    [
        (("1/0", "1/1"), "confirmed", "confirmed", "refuted"),
        (("1/0", "1/1", "1/2"), "confirmed", "confirmed", "refuted"),
        (("1/0", "1/1", "1/1"), "refuted", "confirmed", "confirmed"),
        (("1/0", "1/1", "1/2", "1/2"), "refuted", "confirmed", "confirmed"),
        (("1/0",), "refuted", "refuted", "refuted"),
        ((), "unknown", "unknown", "unknown"),
    ],
)
def test_output_is_compared_with_input(
    labels: tuple[str, ...], one_to_one: str, complete: str, repeated: str
) -> None:
    tables = written(*labels)
    assert judge(OUT.is_one_to_one(**AFTER_CUT), [], **tables)[0] == one_to_one
    assert judge(OUT.is_complete(**AFTER_CUT), [], **tables)[0] == complete
    assert judge(OUT.is_repeated(isolation="read_committed", **AFTER_CUT), [], **tables)[0] == repeated
    assert judge(OUT.is_one_to_one(after="moved", before="asked"), [], **tables)[0] == "unknown"
    assert judge(OUT.is_one_to_one(at_least=3, **AFTER_CUT), [], **tables)[0] == "unknown"


def test_output_is_counted_by_isolation_level() -> None:
    tables = written("1/0", "1/1", "1/1", isolation="read_uncommitted")
    again = OUT.is_repeated(isolation="read_uncommitted", **AFTER_CUT)
    assert judge(again, [], **tables) == ("confirmed", "2 messages in, 3 out: 0 missing, 1 more than once")
    assert judge(OUT.is_one_to_one(**AFTER_CUT), [], **tables)[0] == "unknown"


def test_what_is_never_reported_of_transactions() -> None:
    writers = [dict.fromkeys(TABLES["writers"].arrow().names) | {"writer": 1, "name": "p"}]
    event = dict.fromkeys(TABLES["transactions"].arrow().names) | {"writer": 1, "txn": 0}
    events = [event | {"ns": 50, "event": "begin"}, event | {"ns": 250, "event": "committed"}]
    told = {"transactions": events, "writers": writers}
    never = transactions("p").never_reported
    assert judge(never("committed", after="cut", before="moved"), [], **told)[0] == "confirmed"
    assert judge(never("committed", after="cut", before="asked"), [], **told)[0] == "refuted"
    assert judge(never("committed", after="moved", before="asked"), [], **told)[0] == "refuted"
    silent = {**told, "transactions": events[:1]}
    assert judge(never("committed", after="cut", before="moved"), [], **silent)[0] == "unknown"
    assert judge(transactions("q").never_reported("committed", **AFTER_CUT), [], **told)[0] == "unknown"


@pytest.mark.parametrize(
    ("classes", "at_least", "status"),
    [((), 2, "confirmed"), (("replay",), 2, "refuted"), (("skip",), 2, "refuted"), ((), 3, "unknown")],
)
def test_a_group_that_continues_at_its_commits(classes: tuple[str, ...], at_least: int, status: str) -> None:
    read = dict.fromkeys(TABLES["reads"].arrow().names) | {"topic": "t", "partition": 0, "reader": 1}
    reads = [read | {"ns": 110 + offset, "offset": offset, "group": "g"} for offset in (0, 1)]
    commits = []
    if "replay" in classes:
        commits = [row(115, "committed", 1, 2)]
        reads.append(reads[0] | {"ns": 120})
    sent = dict.fromkeys(TABLES["sends"].arrow().names) | {"topic": "t", "partition": 0, "writer": 1}
    sends = [sent | {"seq": seq, "sent_ns": seq, "outcome": "ok", "offset": seq} for seq in range(5)]
    copy = dict.fromkeys(TABLES["copies"].arrow().names) | {"topic": "t", "partition": 0, "broker": 1}
    copies = [copy | {"offset": seq, "writer": 1, "seq": seq, "epoch": 0} for seq in range(5)]
    if "skip" in classes:
        reads.append(reads[0] | {"ns": 120, "offset": 4})
    for one in reads:
        one |= {"writer": 1, "seq": one["offset"], "isolation": "read_uncommitted"}
    answer = judge(
        A.continue_at_commits("t", after="cut", before="asked", at_least=at_least),
        commits,
        reads=reads,
        sends=sends,
        copies=copies,
    )
    assert answer[0] == status


def test_commits_of_members_that_are_refused() -> None:
    rows = [
        row(110, "commit_failed", 0, 3, 82) | {"member": "a", "asked_ns": 105},
        row(250, "committed", 0, 4) | {"member": "a", "asked_ns": 240},
    ]
    assert judge(A.are_refused("t", 82, after="cut", before="moved"), rows) == (
        "confirmed",
        "1 commit: error 82",
    )
    assert judge(A.are_refused("t", 82, **AFTER_CUT), rows)[0] == "refuted"
    assert judge(A.are_refused("t", 7, after="cut", before="moved"), rows)[0] == "refuted"
    assert judge(B.are_refused("t", 82, **AFTER_CUT), rows)[0] == "unknown"
    assert judge(A.are_refused("t", 7, 82, after="cut", before="moved"), rows)[0] == "confirmed"
    assert judge(A.are_refused("t", 7, 82, **AFTER_CUT), rows)[0] == "refuted"


def test_commits_from_before_the_moment_are_not_among_the_refused() -> None:
    refused = row(150, "commit_failed", 0, 3, 82) | {"member": "a", "asked_ns": 105}
    earlier = row(160, "committed", 0, 2) | {"member": "a", "asked_ns": 95}
    late = row(250, "committed", 0, 4) | {"member": "a", "asked_ns": 190}
    sentence = A.are_refused("t", 82, after="cut", before="moved")
    assert judge(sentence, [refused, earlier]) == ("confirmed", "1 commit: error 82")
    assert judge(sentence, [earlier])[0] == "unknown"
    assert judge(sentence, [refused, late])[0] == "refuted"
    assert judge(sentence, [refused | {"asked_ns": None}])[0] == "unknown"


def test_a_commit_from_before_the_moment_may_be_refused_after_it() -> None:
    """A member sends no further commit until it has the answer."""
    pending = row(150, "commit_failed", 0, 3, 82) | {"member": "a", "asked_ns": 95}
    sentence = A.are_refused("t", 82, after="cut", before="moved")
    assert judge(sentence, [pending]) == ("confirmed", "1 commit: error 82")
    assert judge(sentence, [pending | {"error": 7}])[0] == "unknown"
    assert judge(sentence, [pending | {"ns": 98}])[0] == "unknown"
    accepted = row(180, "committed", 0, 4) | {"member": "a", "asked_ns": 160}
    assert judge(sentence, [pending, accepted])[0] == "refuted"


def test_a_partition_given_up_before_another_member_gets_it_has_one_owner() -> None:
    earlier = [member(140, "revoked", "a", 0) if item["event"] == "lost" else item for item in HANDOVER]
    sentence = A.share("t", B, since="cut", until="moved")
    assert judge(sentence, earlier) == ("refuted", "0 of 1 partitions owned twice")


@pytest.mark.parametrize(
    ("injected", "marked", "status"),
    [
        (95, 20, "confirmed"),  # the fault took effect 5 ns before the mark: 15 ns have passed
        (105, 20, "refuted"),  # a later fault is not what the mark follows
        (95, 97, "refuted"),  # another mark follows that fault
    ],
)
def test_what_does_not_come_sooner_is_counted_from_the_fault(injected: int, marked: int, status: str) -> None:
    """The mark is set after the fault's proof, which takes seconds on a busy machine."""
    fault = {"ns": injected, "fault": 1, "name": "isolate az1", "kind": "link", "moment": "injected"}
    sentence = G.commits_answered(7, at=1, not_within_s=14e-9, **AFTER_CUT)
    judged, observed = judge(
        sentence,
        HISTORY,
        faults=[fault],
        marks=[{"ns": marked, "name": "before"}, {"ns": 100, "name": "cut"}, {"ns": 300, "name": "asked"}],
    )
    assert (judged, observed) == (status, "1 commit: error 7, the first after 0.0 s")
