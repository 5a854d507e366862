"""What coordinators state about share groups becomes a row when it changes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.history.journal import Journal
from harness.kafka.model import TopicPartition
from harness.kafka.wire import share_groups as wire
from harness.kafka.wire.share_groups import ShareGroup, ShareGroupDescribeResponse
from harness.observer import share_groups as observed
from harness.observer.share_groups import ShareGroupPoller

STABLE = ShareGroup(
    state="Stable", epoch=4, assignment_epoch=4, assigned={"az1-share": (TopicPartition("t", 0),)}
)
NOT_COORDINATOR = 16


def rows(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text().splitlines() if "share_groups" in line]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_a_row_for_each_change(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [
        {"g": ShareGroup(error=NOT_COORDINATOR)},
        {"g": STABLE},
        {"g": STABLE},
        TimeoutError("no answer"),
        {"g": ShareGroup(error=NOT_COORDINATOR)},
        {"g": STABLE},
    ]

    def ask(*_: object) -> dict[str, ShareGroup]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    monkeypatch.setattr(observed, "share_groups", ask)
    with Journal(journal) as open_journal:
        poller = ShareGroupPoller(3, SimpleNamespace(), lambda: ("g",), open_journal)  # type: ignore[arg-type]
        while answers:
            poller.poll()
    written = rows(journal)
    assert len(written) == 2, (
        "the same answer counts again only after the broker did not coordinate the group"
    )
    text = json.dumps(written[0])
    assert '"broker": 3' in text and "az1-share" in text and "Stable" in text


def test_nobody_is_asked_without_a_group(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "share_groups", lambda *_: pytest.fail("asked"))
    with Journal(journal) as open_journal:
        ShareGroupPoller(3, SimpleNamespace(), tuple, open_journal).poll()  # type: ignore[arg-type]


def test_an_answer_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded and decoded by the schema, which is that of Kafka 4.4.0."""
    part = dict(topic_id=None, topic_name="t", partitions=[0])
    group = ShareGroupDescribeResponse.DescribedGroup
    member = group.Member
    assignment = member.Assignment(topic_partitions=[member.Assignment.TopicPartitions(**part)])
    answer = ShareGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[
            group(
                error_code=0,
                error_message=None,
                group_id="g",
                group_state="Stable",
                group_epoch=4,
                assignment_epoch=4,
                assignor_name="simple",
                members=[
                    member(
                        member_id="m",
                        rack_id=None,
                        member_epoch=4,
                        client_id="az1-share",
                        client_host="/198.18.0.31",
                        subscribed_topic_names=["t"],
                        assignment=assignment,
                    )
                ],
                authorized_operations=-2147483648,
            ),
            group(error_code=NOT_COORDINATOR, group_id="h", group_state="", assignor_name="", members=[]),
        ],
    )
    monkeypatch.setattr(wire, "exchange", lambda *_: answer)
    assert wire.share_groups(None, ["g", "h"]) == {  # type: ignore[arg-type]
        "g": STABLE,
        "h": ShareGroup(error=NOT_COORDINATOR),
    }
