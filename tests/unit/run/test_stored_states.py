"""What is stored about share groups at the end of a run, also if a fault has left nobody to ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from harness.errors import InvalidRunError
from harness.kafka.share_state import StoredState
from harness.lab.layout import THREE_AZS
from run import shares

MINE, EARLIER = UUID(int=1), UUID(int=2)


def state(topic_id: UUID) -> StoredState:
    return StoredState(
        group="g",
        topic_id=topic_id,
        partition=0,
        log_offset=3,
        timestamp_ms=0,
        snapshot=True,
        snapshot_epoch=0,
        state_epoch=0,
        leader_epoch=0,
        start_offset=7,
        batches=(),
    )


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Any:
    def ids(_broker: object, topics: list[str], **_: object) -> dict[str, UUID | None]:
        return {name: MINE for name in topics}

    monkeypatch.setattr(shares, "topic_ids", ids)
    rows: list[object] = []
    said: list[str] = []
    return SimpleNamespace(
        lab=SimpleNamespace(topology=THREE_AZS.topology("kraft")),
        topics=[SimpleNamespace(name="t1-2")],
        journal=SimpleNamespace(
            write_many=lambda _table, more: rows.extend(more),
            write=lambda table, **row: rows.append((table, row)),
        ),
        progress=SimpleNamespace(say=said.append),
        rows=rows,
        said=said,
    )


def test_only_the_topics_of_the_run_are_noted(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that serves several runs stores the states of all of them in one log."""
    monkeypatch.setattr(shares, "stored", lambda _stage: [state(EARLIER), state(MINE)])
    shares.note_stored(stage)
    assert [(row["topic"], row["start_offset"]) for row in stage.rows] == [("t1-2", 7)]


@pytest.mark.parametrize(
    "error",
    [InvalidRunError("__share_group_state has no leader."), OSError("__share_group_state has no leader")],
)
def test_a_log_that_nobody_leads_ends_no_run(
    stage: Any, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_stage: object) -> list[StoredState]:
        raise error

    monkeypatch.setattr(shares, "stored", refuse)
    shares.note_stored(stage)
    assert [(table, row["source"], row["topic"]) for table, row in stage.rows] == [
        ("unobserved", "share_states", "__share_group_state")
    ]
    assert stage.said == [
        "the stored states of share groups were not read: __share_group_state has no leader"
    ]
