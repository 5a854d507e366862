"""When a wait of a scenario ends, the history's latest view shows what was awaited: claims look back."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

from harness.history.journal import Journal
from harness.kafka.model import PartitionState, TopicPartition
from harness.observer.views import View, Views
from harness.run.stage import Stage


def shows(source: str, *isr: int) -> View:
    state = PartitionState(leader=2, leader_epoch=1, isr=isr)
    return View(source=source, subject="partition", topic_partition=TopicPartition("t", 0), state=state)


def test_the_late_word_of_a_lagging_broker_does_not_come_last(tmp_path: Path) -> None:
    """In KRaft mode a lagging broker may report the old ISR after another broker has reported the new one."""
    views = Views(Journal(tmp_path / "views.jsonl"))
    views.record([shows("broker2", 1, 2, 3)])
    views.record([shows("broker1", 2, 3)])
    asked = itertools.count()

    def partition(_topic: str, _partition: int) -> PartitionState:
        """The lagging broker catches up during the third call."""
        if next(asked) == 2:
            views.record([shows("broker1", 1, 2, 3)])
        return PartitionState(leader=2, leader_epoch=1, isr=(1, 2, 3))

    cluster = SimpleNamespace(mode="kraft", poll_s=0.01, partition=partition, check_alive=lambda: None)
    stage = Stage(
        setup=Mock(),
        lab=Mock(),
        cluster=cluster,  # type: ignore[arg-type]
        processes=Mock(),
        observer=SimpleNamespace(views=views),  # type: ignore[arg-type]
        nemesis=Mock(),
        clients={},
        journal=Mock(),
        progress=Mock(),
        dialect=Mock(),
        topics=(),
    )
    stage.wait_for_isr("t", 1, 2, 3)
    newest = views.of("broker").partition("t")
    assert newest is not None
    assert newest.isr == (1, 2, 3)
