"""Committed offsets that `offsets.retention.minutes` or a storage fault removed, and what looks like it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.groups.findings import group_findings
from checkers.groups.steps import StreamStep, causes_of_steps
from checkers.promises.facts import facts_of
from checkers.promises.judging import judge
from checkers.tables.output import FINDING
from report.words.causes import cause_in_words, cause_of
from tests.unit.checkers.test_group_findings import Row, commit, elected, evidence, fetched, member, names

NOT_KNOWN = cause_in_words("unexplained", {})

S = 10**9
RETENTION: Row = {
    "scope": "broker",
    "name": "broker1",
    "key": "offsets.retention.minutes",
    "value": "1",
    "asked": "1",
}
LEFT = (
    member(1 * S, "joined", 1),
    member(1 * S, "assigned", 1, asked_ns=S, error=0),
    commit(10 * S, 12, asked=9 * S),
    member(20 * S, "revoked", 1),
)
"""A member read, committed offset 12 and left its group empty after 20 s."""


def returns(ns: int, offset: int | None = None, **joined: Any) -> tuple[Row, ...]:
    """Another member joins, and is told the committed offset."""
    answer = member(ns, "assigned", 2, asked_ns=ns - 5, offset=offset, error=0)
    return member(ns - 10, "joined", 2, **joined), answer


def promise(finding: Row, **tables: Any) -> str:
    return judge(dict.fromkeys(FINDING.names) | finding, facts_of(evidence(**tables))).promise


def test_an_offset_expires_after_its_group_was_empty_for_the_retention() -> None:
    """As Kafka 2.7.1 logs it, 60.2 s after the group became empty."""
    line = {
        "ns": 80 * S + S // 5,
        "host": "broker2",
        "kind": "offsets_expired",
        "text": "[GroupMetadataManager brokerId=2] Removed 1 expired offsets in 2 milliseconds.",
    }
    (finding,) = group_findings(
        evidence(*LEFT, *returns(95 * S), configs=[RETENTION], log_events=[line], kafka="2.7.1")
    )
    assert (finding["class"], finding["offset"], finding["found_offset"]) == ("offset_expired", 12, None)
    assert cause_of(finding) == (
        "offset retention: offsets.retention.minutes=1 had passed since group g had no member any more"
    )
    rows = [json.loads(row) for row in finding["evidence"]]
    assert [(row["table"], row["ns"]) for row in rows] == [
        ("groups", 10 * S),
        ("groups", 95 * S),
        ("configs", None),
        ("groups", 20 * S),
        ("log_events", 80 * S + S // 5),
    ]
    assert promise(finding, configs=[RETENTION]) == "not promised"


LOOK_ALIKE = {
    "the group was empty for too short a time": ((*LEFT, *returns(75 * S)), [RETENTION]),
    "the setting allows more time": ((*LEFT, *returns(95 * S)), [RETENTION | {"value": "10080"}]),
    "the setting is not recorded": ((*LEFT, *returns(95 * S)), []),
    "the brokers have different settings": (
        (*LEFT, *returns(95 * S)),
        [RETENTION, RETENTION | {"name": "broker2", "value": "2"}],
    ),
    "the group had another member": (
        (*LEFT[:3], member(15 * S, "joined", 3), member(90 * S, "revoked", 3), *LEFT[3:], *returns(95 * S)),
        [RETENTION],
    ),
    "an older offset is answered": (
        (commit(8 * S, 5, asked=7 * S), *LEFT, *returns(95 * S, 5)),
        [RETENTION],
    ),
}


@pytest.mark.parametrize("name", LOOK_ALIKE)
def test_an_offset_that_cannot_have_expired_is_lost(name: str) -> None:
    rows, configs = LOOK_ALIKE[name]
    (finding,) = group_findings(evidence(*rows, configs=configs))
    assert (finding["class"], cause_of(finding)) == ("commit_lost", NOT_KNOWN)
    assert promise(finding, configs=configs) != "not promised"


@pytest.mark.parametrize(
    ("rows", "kafka", "name"),
    [
        pytest.param([commit(10 * S, 12), fetched(75 * S, None)], "2.7.1", "offset_expired", id="no member"),
        pytest.param([commit(10 * S, 12), fetched(65 * S, None)], "2.7.1", "commit_lost", id="too early"),
        pytest.param([*LEFT, *returns(75 * S)], "2.0.1", "offset_expired", id="before KIP-211"),
        pytest.param([*LEFT, *returns(65 * S)], "2.0.1", "commit_lost", id="too early before KIP-211"),
        pytest.param(
            [LEFT[0] | {"protocol": "consumer"}, *LEFT[1:], *returns(75 * S)],
            "4.3.1",
            "offset_expired",
            id="KIP-848 counts from the commit",
        ),
        pytest.param(
            [
                LEFT[0] | {"protocol": "consumer"},
                *LEFT[1:3],
                fetched(75 * S, None),
                member(90 * S, "revoked", 1),
            ],
            "4.3.1",
            "commit_lost",
            id="KIP-848, and the group is subscribed",
        ),
        pytest.param(
            [LEFT[0] | {"protocol": "classic"}, *LEFT[1:], *returns(75 * S)],
            "4.3.1",
            "commit_lost",
            id="a classic group counts from when it was empty",
        ),
    ],
)
def test_from_when_the_retention_counts(rows: list[Row], kafka: str, name: str) -> None:
    assert names(evidence(*rows, configs=[RETENTION], kafka=kafka)) == [name]


def test_what_a_group_receives_again_after_its_offset_expired_is_no_finding_of_its_own() -> None:
    step = StreamStep(group="g", reader=2, ns=96 * S, before_reader=1, before_ns=9 * S, back=True)
    expired = evidence(*LEFT, *returns(95 * S), configs=[RETENTION])
    assert causes_of_steps(expired, "t", 0, [step]).own.to_pylist() == [False]
    lost = evidence(*LEFT, *returns(75 * S), configs=[RETENTION])
    early = StreamStep(group="g", reader=2, ns=76 * S, before_reader=1, before_ns=9 * S, back=True)
    causes = causes_of_steps(lost, "t", 0, [early])
    row = {name: column[0].as_py() for name, column in causes.causes.columns().items()}
    assert (causes.own.to_pylist(), cause_of(row)) == ([True], f"commit lost: {NOT_KNOWN}")


def storage(mechanism: str, host: str, ns: int, *partitions: str) -> Row:
    targets = json.dumps({"hosts": [host], "partitions": list(partitions)})
    return {
        "ns": ns,
        "fault": 1,
        "name": f"{mechanism} {host}",
        "kind": "storage",
        "moment": "injected",
        "targets": targets,
        "mechanism": mechanism,
    }


LOG = "__consumer_offsets/0"
ALONE = (elected(10, 1, 0, isr=(1,)), elected(600, 1, 2, isr=(1,)))
"""The only replica of the group's offsets leads, and leads again after 600 ns."""
LED_AGAIN = "new coordinator: broker1 leads __consumer_offsets/0 since epoch 2 and does not know it"


@pytest.mark.parametrize("broker", [None, 1])
@pytest.mark.parametrize(
    ("mechanism", "cause"),
    [
        ("wipe", "last in-sync replica wiped: `wipe broker1` emptied broker1, which then led again"),
        (
            "power_cut",
            "un-fsynced data lost: `power_cut broker1` took what broker1 had acknowledged but not flushed",
        ),
        ("damage", "storage fault: `damage broker1` on broker1"),
        ("truncate", "storage fault: `truncate broker1` on broker1"),
    ],
)
def test_a_storage_fault_that_took_the_offsets_is_the_cause(
    mechanism: str, cause: str, broker: int | None
) -> None:
    rows = [commit(300, 20, broker=broker), fetched(700, None, broker=broker)]
    (finding,) = group_findings(
        evidence(*rows, views=ALONE, faults=[storage(mechanism, "broker1", 500, LOG)])
    )
    assert (finding["class"], cause_of(finding)) == ("commit_lost", cause)
    assert json.loads(finding["evidence"][2])["table"] == "faults"


@pytest.mark.parametrize(
    ("fault", "views", "cause"),
    [
        pytest.param(storage("wipe", "broker1", 200, LOG), ALONE, LED_AGAIN, id="before the commit"),
        pytest.param(storage("wipe", "broker1", 500, "orders/0"), ALONE, LED_AGAIN, id="another partition"),
        pytest.param(
            storage("wipe", "broker2", 500, LOG), ALONE, LED_AGAIN, id="a replica that did not lead"
        ),
        pytest.param(
            storage("wipe", "broker1", 500, LOG),
            (elected(10, 1, 0), elected(600, 2, 1)),
            "new coordinator: broker2 leads __consumer_offsets/0 since epoch 1 and does not know it",
            id="a spared replica leads",
        ),
        pytest.param(
            storage("wipe", "broker1", 500, LOG),
            (elected(10, 1, 0, isr=(1,)), elected(600, 2, 1, isr=(2,))),
            "unclean election: broker2 became leader of __consumer_offsets/0 in epoch 1 although the in-sync "
            "replicas were [1]",
            id="a replica outside the ISR leads",
        ),
    ],
)
def test_a_storage_fault_that_did_not_take_the_offsets(
    fault: Row, views: tuple[Row, ...], cause: str
) -> None:
    answered_by = 2 if views[1]["leader"] == 2 else 1
    rows = [commit(300, 20, broker=1), fetched(700, None, broker=answered_by)]
    (finding,) = group_findings(evidence(*rows, views=views, faults=[fault]))
    assert cause_of(finding) == cause
