"""Damage to a replica is the cause of a loss only if it hit the acknowledged message while that was there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from report.words.causes import cause_in_words, cause_of
from tests.histories import History
from tests.unit.checkers.test_causes import SEEN, cut, fault, led, lives, lost

NO_EVIDENCE = cause_in_words("unexplained_loss", {})

NAME = "corrupt offset 1 of t/0 on broker1"
TRUNCATED = "truncated: broker1 truncated its log to offset 1"
"""The cause if the damage has nothing to do with the loss."""


def damaged(since: int = 2000, **more: Any) -> History:
    """Broker 1 led and held message 1, which was damaged; it then truncated its log to before the message."""
    history = led(lost(), 1, 1, 0, [1, 2, 3]).add("sightings", gone_ns=3500, **SEEN)
    targets = {"hosts": ["broker1"], "partitions": ["t/0"], "offset": 1}
    row = {"mechanism": "damage", "targets": json.dumps(targets)} | more
    return fault(cut(history), NAME, "storage", since, **row)


def at(host: str, *partitions: str, offset: object = 1) -> str:
    return json.dumps({"hosts": [host], "partitions": list(partitions), "offset": offset})


def loss(history: History, folder: Path) -> dict[str, Any]:
    """The finding about message 1."""
    lives(history, folder)
    rows = [row for path in folder.glob("findings/*") for row in pq.read_table(path).to_pylist()]
    finding: dict[str, Any]
    (finding,) = (row for row in rows if row["class"] == "lost")
    assert finding["seq"] == 1
    return finding


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(damaged(), id="the partition"),
        pytest.param(damaged(targets=at("broker1")), id="all partitions of the broker"),
        pytest.param(damaged(targets=at("broker1", "t/1", "t/0")), id="one of several partitions"),
        pytest.param(damaged(targets=at("broker1", "t/0", offset=0)), id="at an earlier offset"),
        pytest.param(
            damaged(targets=at("broker1", "t/0", offset=2), evidence='{"first_offset": 1}'),
            id="at a later offset of the same batch",
        ),
        pytest.param(damaged(targets=at("broker1", "t/0", offset="2")), id="at an offset that is no number"),
        pytest.param(damaged(targets=at("broker1", "t/0", offset=10**30)), id="at an offset that no log has"),
        pytest.param(damaged(evidence=f'{{"first_offset": {10**30}}}'), id="evidence of no log's offset"),
        pytest.param(damaged(evidence="[2]"), id="with evidence of another shape"),
    ],
)
def test_damage_is_the_cause_of_a_loss(tmp_path: Path, history: History) -> None:
    finding = loss(history, tmp_path)
    assert cause_of(finding) == f"storage fault: `{NAME}` on broker1"
    assert [json.loads(text) for text in finding["evidence"]] == [
        {"table": "faults", "ns": 2000, "what": f"fault 1 `{NAME}` injected"}
    ]


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(damaged(targets=at("broker2", "t/0")), id="of another broker"),
        pytest.param(damaged(targets=at("broker10", "t/0")), id="of broker10"),
        pytest.param(damaged(targets=at("broker1", "t/1")), id="of another partition"),
        pytest.param(damaged(targets=at("broker1", "t-2/0")), id="of a topic whose name begins alike"),
        pytest.param(damaged(100), id="before the message was acknowledged"),
        pytest.param(damaged(9000), id="after the message was gone"),
        pytest.param(damaged(mechanism="other"), id="in the name of the fault only"),
        pytest.param(damaged(targets=at("broker1", "t/0", offset=2)), id="at a later offset"),
        pytest.param(damaged(evidence='{"first_offset": 2}'), id="in a later batch"),
        pytest.param(
            damaged(mechanism="truncate", targets=at("broker1", "t/0", offset=2)), id="truncated later"
        ),
    ],
)
def test_damage_elsewhere_or_at_another_time_is_no_cause_of_a_loss(tmp_path: Path, history: History) -> None:
    finding = loss(history, tmp_path)
    assert cause_of(finding).startswith(TRUNCATED), cause_of(finding)
    assert [json.loads(text)["table"] for text in finding["evidence"]] == ["log_events"]


def test_damage_to_a_message_that_other_replicas_hold_takes_nothing(tmp_path: Path) -> None:
    """The record of broker 1 is unreadable; that is no loss, and has no cause."""
    history = History().send(0, offset=0, broker=1).send(1, offset=1, broker=1)
    history.log(1, [(0, 0), {"offset": 1, "seq": 1, "intact": False}])
    history.log(2, [(0, 0), (1, 1)]).log(3, [(0, 0), (1, 1)])
    fault(history, NAME, "storage", 2000, mechanism="damage", targets=at("broker1", "t/0"))
    messages = lives(history, tmp_path)
    assert [(row["fate"], cause_of(row) or None) for row in messages] == [("kept", None)] * 2


def test_damage_explains_only_what_lies_behind_it(tmp_path: Path) -> None:
    """Recovery truncates a log from its damaged batch on; the message before it was lost otherwise."""
    history = lost().send(2, offset=2, broker=1)
    fault(history, NAME, "storage", 4000, mechanism="damage", targets=at("broker1", "t/0", offset=2))
    causes = {row["seq"]: cause_of(row) or None for row in lives(history, tmp_path) if row["fate"] == "lost"}
    assert causes == {1: NO_EVIDENCE, 2: f"storage fault: `{NAME}` on broker1"}
