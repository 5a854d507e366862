"""Lost commits, old answers and partitions with two owners, by hand and against a brute-force model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.evidence import SMALL, Evidence, evidence_of
from checkers.groups.commits import judge
from checkers.groups.findings import group_findings
from checkers.groups.history import Commit, FetchedOffset, group_histories, offsets_partition
from checkers.groups.steps import StreamStep, cause_of_step, causes_of_steps
from harness.history.schema import TABLES
from report.words.causes import cause_in_words, cause_of
from report.words.details import detail_in_words
from tests.anomalies.readers import READERS, committed_past
from tests.histories import History
from tests.unit.checkers.test_causes import lives

NOT_KNOWN = cause_in_words("unexplained", {})

PLACE: dict[str, Any] = {"group": "g", "topic": "t", "partition": 0}
Row = dict[str, Any]


def evidence(
    *groups: Row, views: tuple[Row, ...] = (), kafka: str | None = None, **tables: Sequence[Row]
) -> Evidence:
    rows: dict[str, Any] = {**tables, "groups": [PLACE | row for row in groups], "views": list(views)}
    return evidence_of(
        {name: pa.Table.from_pylist(list(rows.get(name, [])), TABLES[name].arrow()) for name in SMALL}, kafka
    )


def commit(
    ns: int, offset: int, *, broker: int | None = None, asked: int | None = None, ok: bool = True
) -> Row:
    return {
        "ns": ns,
        "asked_ns": ns - 5 if asked is None else asked,
        "reader": 1,
        "event": "committed" if ok else "commit_failed",
        "offset": offset,
        "broker": broker,
        "error": 0 if ok else 7,
    }


def fetched(ns: int, offset: int | None, *, broker: int | None = None, **more: Any) -> Row:
    row = {"ns": ns, "asked_ns": ns - 5, "reader": 2, "event": "fetched", "offset": offset}
    return row | {"broker": broker, "error": 0} | more


def member(ns: int, event: str, reader: int, **more: Any) -> Row:
    return {"ns": ns, "event": event, "reader": reader, **more}


def elected(ns: int, leader: int, epoch: int, isr: tuple[int, ...] = (1, 2, 3)) -> Row:
    place = {"subject": "partition", "topic": "__consumer_offsets", "partition": 0}
    return place | {"ns": ns, "source": f"broker{leader}", "leader": leader, "epoch": epoch, "isr": list(isr)}


def names(history: Evidence) -> list[str]:
    return [row["class"] for row in group_findings(history)]


FAILOVER = (elected(10, 1, 0), elected(500, 2, 1))


def test_a_later_coordinator_that_does_not_know_a_commit_shows_that_it_is_lost() -> None:
    """The old coordinator goes on naming it, which changes nothing; commits of before are known."""
    rows = [
        commit(100, 10, broker=1),
        commit(550, 20, broker=1),
        commit(560, 21, broker=1),
        fetched(558, 10, broker=2, asked_ns=552),
        fetched(600, 10, broker=2),
        fetched(610, 21, broker=1),
        commit(700, 12, broker=2),
        fetched(800, 12, broker=2),
    ]
    (finding,) = group_findings(evidence(*rows, views=FAILOVER))
    assert (finding["class"], finding["offset"], finding["found_offset"], finding["count"]) == (
        "commit_lost",
        21,
        10,
        2,
    )
    assert cause_of(finding).startswith("new coordinator: broker2 leads __consumer_offsets/0 since epoch 1")


def test_an_unclean_election_is_named_as_the_cause() -> None:
    views = (elected(10, 1, 0, isr=(1,)), elected(500, 2, 1, isr=(2,)))
    (finding,) = group_findings(
        evidence(
            commit(100, 10, broker=1), commit(300, 20, broker=1), fetched(600, 10, broker=2), views=views
        )
    )
    assert finding["class"] == "commit_lost"
    assert cause_of(finding).startswith("unclean election: broker2")


def test_a_replaced_coordinator_answers_with_an_old_offset() -> None:
    rows = [commit(100, 10, broker=1), commit(700, 12, broker=2), fetched(800, 10, broker=1)]
    (finding,) = group_findings(evidence(*rows, views=FAILOVER))
    assert (finding["class"], finding["offset"], finding["found_offset"]) == ("stale_offset", 12, 10)
    assert cause_of(finding) == (
        "stale coordinator: broker1 answered, which broker2 had replaced in leader epoch 1 of "
        "__consumer_offsets/0"
    )


def test_without_brokers_a_later_answer_decides_whether_a_commit_is_lost() -> None:
    rows = [commit(100, 10), commit(300, 20), fetched(400, 10)]
    assert names(evidence(*rows)) == ["commit_lost"]
    assert names(evidence(*rows, fetched(500, 20))) == ["stale_offset"]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([fetched(400, 20)], id="the newest commit"),
        pytest.param([fetched(400, 10, asked_ns=None)], id="nobody knows when it was asked"),
        pytest.param([fetched(400, 10, asked_ns=295)], id="asked before the commit was acknowledged"),
        pytest.param([fetched(400, None, error=15)], id="an error"),
        pytest.param([commit(350, 10), fetched(400, 10)], id="committed lower on purpose"),
        pytest.param([commit(350, 10, ok=False), fetched(400, 10)], id="perhaps committed lower"),
        pytest.param([commit(299, 10, asked=290), fetched(400, 10)], id="two commits at once"),
        pytest.param([fetched(400, 30)], id="a higher one, which nobody acknowledged"),
    ],
)
def test_what_is_no_lost_commit(rows: list[Row]) -> None:
    assert names(evidence(commit(100, 10), commit(300, 20), *rows)) == []


def test_what_a_transaction_commits_is_known_once_its_marker_is_written() -> None:
    """Members that are assigned a partition wait for it; a plain question may come before the marker."""
    commits = [commit(100, 10) | {"txn": 0}, commit(300, 20) | {"txn": 1}]
    assert names(evidence(*commits, fetched(400, 10))) == []
    assert names(evidence(*commits, fetched(400, 10, event="assigned"))) == ["commit_lost"]


def test_none_is_an_answer_too() -> None:
    assert names(evidence(commit(100, 10), fetched(400, None))) == ["commit_lost"]
    assert names(evidence(fetched(50, None), commit(100, 10))) == []


def test_an_answer_without_an_error_code_has_no_error() -> None:
    """Null says the same as 0: there was none."""
    assert names(evidence(commit(100, 10), commit(300, 20), fetched(400, 10, error=None))) == ["commit_lost"]


def test_two_owners_at_one_time() -> None:
    rows = [member(100, "assigned", 1), member(300, "assigned", 2), member(2_000_000_300, "lost", 1)]
    rows.append(member(3_000_000_000, "revoked", 2))
    (finding,) = group_findings(evidence(*rows))
    assert (finding["class"], finding["reader"]) == ("double_ownership", "group g")
    assert cause_of(finding) == "late notice: reader 1 learnt later that it had lost the partition"
    assert detail_in_words(finding) == "readers 1 and 2 owned it together for 2.0 s"


@pytest.mark.parametrize(
    ("rows", "classes"),
    [
        pytest.param([(100, "assigned", 1), (200, "revoked", 1), (300, "assigned", 2)], [], id="in turn"),
        pytest.param([(100, "assigned", 1), (300, "assigned", 2)], [], id="the first may be gone"),
        pytest.param(
            [(100, "assigned", 1), (300, "assigned", 2), (400, "commit_failed", 1)],
            ["double_ownership"],
            id="the first still commits",
        ),
        pytest.param([(100, "assigned", 1), (300, "assigned", 1), (400, "revoked", 1)], [], id="the same"),
    ],
)
def test_ownership(rows: list[tuple[int, str, int]], classes: list[str]) -> None:
    assert names(evidence(*(member(*row, offset=3) for row in rows))) == classes


def test_an_owner_that_gives_the_partition_up_late() -> None:
    rows = [member(100, "assigned", 1), member(300, "assigned", 2), member(400, "revoked", 1)]
    (finding,) = group_findings(evidence(*rows))
    assert cause_of(finding) == "late revocation: reader 1 gave the partition up later"
    rows[-1] = member(400, "commit_failed", 1, offset=3)
    (finding,) = group_findings(evidence(*rows))
    assert cause_of(finding) == "reader 1 is not known to have given the partition up"


def grounds_of(texts: list[str]) -> list[tuple[str, int, str]]:
    """The rows of an `evidence` column: table, time, what they say."""
    return [(row["table"], row["ns"], row["what"]) for row in map(json.loads, texts)]


NEW_COORDINATOR = ("views", 500, "broker2 leads in epoch 1; ISR before [1, 2, 3]")
SHARED = [("groups", 100, "reader 1 assigned"), ("groups", 300, "reader 2 assigned")]

GROUNDS: dict[str, tuple[list[Row], tuple[Row, ...], list[tuple[str, int, str]]]] = {
    "commit_lost by a new coordinator": (
        [commit(100, 10, broker=1), commit(300, 20, broker=1), fetched(600, 10, broker=2)],
        FAILOVER,
        [
            ("groups", 300, "offset 20 acknowledged by broker1"),
            ("groups", 600, "offset 10 answered by broker2"),
            NEW_COORDINATOR,
        ],
    ),
    "commit_lost, which several answers show": (
        [
            commit(100, 10, broker=1),
            commit(300, 20, broker=1),
            fetched(540, 5, broker=2),
            commit(550, 21, broker=1),
            fetched(600, 10, broker=2),
            fetched(610, None, broker=2),
        ],
        FAILOVER,
        [
            ("groups", 550, "offset 21 acknowledged by broker1"),
            ("groups", 610, "offset none answered by broker2"),
            NEW_COORDINATOR,
        ],
    ),
    "commit_lost after an unclean election": (
        [commit(100, 10, broker=1), commit(300, 20, broker=1), fetched(600, 10, broker=2)],
        (elected(10, 1, 0, isr=(1,)), elected(500, 2, 1, isr=(2,))),
        [
            ("groups", 300, "offset 20 acknowledged by broker1"),
            ("groups", 600, "offset 10 answered by broker2"),
            ("views", 500, "broker2 leads in epoch 1; ISR before [1]"),
        ],
    ),
    "commit_lost after an unclean election and a clean one": (
        [commit(100, 10, broker=1), commit(300, 20, broker=1), fetched(800, 10, broker=3)],
        (elected(10, 1, 0, isr=(1,)), elected(500, 2, 1, isr=(2, 3)), elected(700, 3, 2, isr=(3,))),
        [
            ("groups", 300, "offset 20 acknowledged by broker1"),
            ("groups", 800, "offset 10 answered by broker3"),
            ("views", 500, "broker2 leads in epoch 1; ISR before [1]"),
        ],
    ),
    "commit_lost for an unknown reason": (
        [commit(100, 10), fetched(400, None)],
        (),
        [("groups", 100, "offset 10 acknowledged"), ("groups", 400, "offset none answered")],
    ),
    "stale_offset of a replaced coordinator": (
        [commit(100, 10, broker=1), commit(700, 12, broker=2), fetched(800, 10, broker=1)],
        FAILOVER,
        [
            ("groups", 700, "offset 12 acknowledged by broker2"),
            ("groups", 800, "offset 10 answered by broker1"),
            NEW_COORDINATOR,
        ],
    ),
    "stale_offset before a later answer": (
        [commit(100, 10), commit(300, 20), fetched(400, 10), fetched(500, 20, broker=3)],
        (),
        [
            ("groups", 300, "offset 20 acknowledged"),
            ("groups", 400, "offset 10 answered"),
            ("groups", 500, "offset 20 answered by broker3"),
        ],
    ),
    "double_ownership until the notice": (
        [member(100, "assigned", 1), member(300, "assigned", 2), member(400, "lost", 1)],
        (),
        [*SHARED, ("groups", 400, "reader 1 lost")],
    ),
    "double_ownership until the partition was given up": (
        [member(100, "assigned", 1), member(300, "assigned", 2), member(400, "revoked", 1)],
        (),
        [*SHARED, ("groups", 400, "reader 1 revoked")],
    ),
    "double_ownership until the last sign": (
        [
            *(member(100, "assigned", 1), member(300, "assigned", 2)),
            *(member(400, "commit_failed", 1, offset=3), member(500, "assigned", 1)),
        ],
        (),
        [*SHARED, ("groups", 400, "reader 1 gave its last sign")],
    ),
}


@pytest.mark.parametrize("name", GROUNDS)
def test_a_finding_about_a_group_names_the_rows_it_rests_on(name: str) -> None:
    rows, views, grounds = GROUNDS[name]
    finding = group_findings(evidence(*rows, views=views))[0]
    assert name.startswith(finding["class"])
    assert grounds_of(finding["evidence"]) == grounds


def cause(*rows: Row, views: tuple[Row, ...] = (), before: int = 1, back: bool = True) -> str:
    step = StreamStep(group="g", reader=2, ns=1000, before_reader=before, before_ns=350, back=back)
    record = cause_of_step(group_histories(evidence(*rows, views=views))["g", "t", 0], step)
    assert bool(record.rows) != (record.kind == "unexplained"), "a cause rests on rows of the history"
    return cause_in_words(record.kind, record.facts)


def test_causes_of_what_a_group_receives_again() -> None:
    first = [commit(100, 10, broker=1), commit(300, 20, broker=1)]

    def assigned(offset: int, asked: int | None = 590) -> Row:
        return member(600, "assigned", 2, offset=offset, asked_ns=asked, error=0)

    views = (elected(10, 1, 0), elected(500, 2, 1))
    stale = [commit(100, 10), commit(300, 20), assigned(10), fetched(900, 20)]
    assert cause(*stale).startswith("stale coordinator")
    lost = [*first, assigned(10)]
    assert cause(*lost, views=views).startswith("commit lost: ")
    late = [commit(100, 10), assigned(10), commit(700, 20)]
    assert cause(*late) == "rebalance: reader 2 was assigned the partition before offset 20 was acknowledged"
    assert cause(*first) == NOT_KNOWN
    both = [member(20, "assigned", 1), member(310, "assigned", 2), member(990, "lost", 1)]
    assert cause(*first, *both) == "rebalance: readers 1 and 2 both owned the partition"


def test_what_looks_like_a_cause_of_what_a_group_receives_again() -> None:
    first = [commit(100, 10), commit(300, 20)]

    def assigned(offset: int) -> Row:
        return member(600, "assigned", 2, offset=offset, asked_ns=590, error=0)

    assert cause(*first, assigned(20)) == NOT_KNOWN  # it was told where to go on
    assert (
        cause(commit(100, 10), assigned(10), commit(700, 20), back=False) == NOT_KNOWN
    )  # not back, but ahead
    own = commit(700, 20) | {"reader": 2}
    assert cause(commit(100, 10), assigned(10), own) == NOT_KNOWN
    assert cause(commit(100, 10), assigned(10), commit(1100, 20)) == NOT_KNOWN  # acknowledged afterwards
    long_ago = [member(20, "assigned", 1), member(30, "assigned", 2), member(40, "lost", 1)]
    assert cause(*first, *long_ago) == NOT_KNOWN
    given_up = [member(20, "assigned", 2), member(30, "assigned", 1), member(40, "revoked", 2)]
    assert cause(*first, *given_up, member(990, "lost", 1)) == NOT_KNOWN
    others = [member(20, "assigned", 1), member(310, "assigned", 3), member(990, "lost", 1)]
    assert cause(*first, *others) == NOT_KNOWN


def skips(history: History, folder: Path) -> list[Row]:
    """The findings of class `skip`."""
    lives(history, folder)
    findings = [row for path in folder.glob("findings/*") for row in pq.read_table(path).to_pylist()]
    return [row for row in findings if row["class"] == "skip"]


@pytest.mark.parametrize("name", ["committed-past", "committed-past-by-itself"])
def test_a_group_skips_what_a_member_committed_unread(tmp_path: Path, name: str) -> None:
    _, history, _ = READERS[name]
    skipped = skips(history, tmp_path)
    assert [row["reader"] for row in skipped] == ["group g"]
    for row in skipped:
        assert cause_of(row) == "commit past what was handed over: reader 1 committed offset 3"
        assert grounds_of(row["evidence"]) == [("groups", 9002, "offset 3 acknowledged")]


def walked(offsets: Sequence[int], messages: int = 6) -> History:
    """A reader without a group received these of the messages."""
    history = History().logs([(n, n) for n in range(messages)])
    for n in range(messages):
        history.send(n, offset=n, sent_ns=n, done_ns=n)
    for number, offset in enumerate(offsets):
        history.read(offset, offset, 1000 + number, reader=1)
    return history


@pytest.mark.parametrize(
    ("history", "counts"),
    [
        pytest.param(walked([0, 3]), [2], id="two messages in one step"),
        pytest.param(walked([0, 2, 5]), [1, 2], id="two steps"),
        pytest.param(walked([0, 4, 1]), [2], id="one of three was received later"),
        pytest.param(committed_past(), [2], id="committed past what was handed over"),
    ],
)
def test_a_skip_counts_the_messages_of_its_step(tmp_path: Path, history: History, counts: list[int]) -> None:
    assert sorted(row["count"] for row in skips(history, tmp_path)) == counts


@pytest.mark.parametrize("name", ["beyond-the-commit", "its-own-commit"])
def test_a_skip_has_another_cause_than_a_commit_of_what_was_handed_over(tmp_path: Path, name: str) -> None:
    """A member committed no more than it had received; the next one continued beyond that."""
    _, history, _ = READERS[name]
    skipped = skips(history, tmp_path)
    assert [(cause_of(row), row["evidence"]) for row in skipped] == [(NOT_KNOWN, [])]


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(committed_past(committer=7), id="by a client that received nothing"),
        pytest.param(committed_past(assigned=False), id="by a client that was not assigned the partition"),
        pytest.param(committed_past((9001, "sought", 1)), id="by a member that had sought"),
        pytest.param(committed_past((9001, "lost", 1)), id="by a member that had lost the partition"),
    ],
)
def test_a_commit_ahead_of_the_last_record_may_be_of_what_was_handed_over(
    tmp_path: Path, history: History
) -> None:
    assert skips(history, tmp_path) == []


def test_the_partition_of_the_offsets_topic_is_that_of_kafka() -> None:
    """As `Utils.abs(groupId.hashCode) % count`."""
    assert offsets_partition("g", 50) == ord("g") % 50
    assert offsets_partition("gh", 50) == (31 * ord("g") + ord("h")) % 50
    assert offsets_partition("polygenelubricants", 50) == 0, "its hash code is the lowest number of Java's"
    assert offsets_partition("anything", 1) == 0


# ---- brute force


def explained(commits: list[Commit], answer: FetchedOffset) -> bool:
    """Whether the operations have an order, true to their times, in which the answer is right.

    Commits that were not acknowledged may take effect at any time after they were asked for, or never.
    """
    sure = [one for one in commits if one.acked_ns >= 0]
    maybe = [one for one in commits if one.acked_ns < 0]
    for chosen in subsets(maybe):
        for order in permutations([*sure, *chosen]):
            if not in_time(order):
                continue
            for place in range(len(order) + 1):
                before, after = order[:place], order[place:]
                if any(one.asked_ns > answer.ns for one in before):
                    continue
                if any(0 <= one.acked_ns < answer.asked_ns for one in after):
                    continue
                value = before[-1].offset if before else -1
                if value == answer.offset:
                    return True
    return False


def subsets(items: list[Commit]) -> Iterator[list[Commit]]:
    for mask in range(2 ** len(items)):
        yield [item for bit, item in enumerate(items) if mask >> bit & 1]


def in_time(order: tuple[Commit, ...]) -> bool:
    return all(
        not 0 <= later.acked_ns < earlier.asked_ns
        for number, earlier in enumerate(order)
        for later in order[number + 1 :]
    )


def test_answers_are_judged_as_by_brute_force() -> None:
    """Random commits that overlap, some without an answer: a higher one that was certainly later is found."""
    verdicts = {True: 0, False: 0}
    for number in range(1500):
        random = Random(number)
        rows = []
        for _ in range(random.randint(1, 4)):
            asked = random.randint(0, 60)
            rows.append(
                commit(
                    asked + random.randint(1, 40),
                    random.choice((3, 5, 7)),
                    asked=asked,
                    ok=random.random() < 0.75,
                )
            )
        asked = random.randint(0, 110)
        answer = fetched(asked + random.randint(1, 30), random.choice((None, 3, 5, 7)), asked_ns=asked)
        history = group_histories(evidence(*rows, answer))["g", "t", 0]
        (asked_for,) = history.answers
        same = [one for one in history.commits if one.offset == asked_for.offset]
        wrong = any(
            not explained([*same, one], asked_for)
            for one in history.commits
            if 0 <= one.acked_ns < asked_for.asked_ns and one.offset > asked_for.offset
        )
        assert (judge(history, asked_for) is not None) == wrong, number
        verdicts[wrong] += 1
    assert min(verdicts.values()) > 100, verdicts


def of_a_reader(views: list[Row], *, back: bool = True, processes: tuple[Row, ...] = ()) -> str | None:
    """The cause of a step at 1000 ns of a reader without a group, which had read until 350 ns."""
    rows = {"views": views, "processes": list(processes)}
    history = evidence_of(
        {name: pa.Table.from_pylist(rows.get(name, []), TABLES[name].arrow()) for name in SMALL}
    )
    step = StreamStep(group=None, reader=2, ns=1000, before_reader=2, before_ns=350, back=back)
    causes = causes_of_steps(history, "t", 0, [step]).causes
    row = {name: column[0].as_py() for name, column in causes.columns().items()}
    assert (row["cause"] is None) == (row["evidence"] is None)
    cause_text: str | None = cause_of(row) or None
    return cause_text


def believes(ns: int, source: str, leader: int, epoch: int) -> Row:
    place = {"subject": "partition", "topic": "t", "partition": 0}
    return {**place, "ns": ns, "source": source, "leader": leader, "epoch": epoch, "isr": [1, 2, 3]}


def test_a_reader_goes_back_because_a_deposed_leader_answers_it() -> None:
    stale = [believes(10, "broker1", 1, 0), believes(20, "broker2", 1, 0), believes(300, "broker2", 2, 1)]
    cause = "stale leader: broker1 still led in epoch 0"
    assert of_a_reader(stale) == cause
    again = (
        {"ns": 400, "host": "broker1", "event": "paused"},
        {"ns": 500, "host": "broker1", "event": "resumed"},
    )
    assert of_a_reader(stale, processes=again) == cause


def test_what_looks_like_the_answer_of_a_deposed_leader() -> None:
    stale = [believes(10, "broker1", 1, 0), believes(300, "broker2", 2, 1)]
    assert of_a_reader(stale, back=False) is None
    killed: Row = {"ns": 400, "host": "broker1", "event": "killed"}
    assert of_a_reader(stale, processes=(killed,)) is None
    assert of_a_reader([*stale, believes(900, "broker1", 2, 1)]) is None  # it knows its successor
    assert of_a_reader([believes(10, "broker1", 1, 0), believes(20, "broker2", 1, 0)]) is None
    # The successor was elected after the reader's last record, so the reader may have read from broker1.
    assert of_a_reader([believes(10, "broker1", 1, 0), believes(360, "broker2", 2, 1)]) is None
