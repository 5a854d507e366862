"""How busy the machine was becomes a row of the history."""

from __future__ import annotations

import json
from pathlib import Path

from harness.history.journal import Journal
from harness.observer.machine import MachinePoller
from harness.processors import ProcessorUse
from harness.waiting import wait_until


def test_the_share_of_the_processors_time_in_use_since_the_poll_before(tmp_path: Path) -> None:
    texts = iter(
        f"cpu  {line}\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
        for line in (
            "100 0 50 800 50 0 0 0 7 0",
            "150 10 60 810 50 5 5 10 9 0",  # 90 of 100 ticks in use: user, nice, system, interrupts, steal
            "150 10 60 810 50 5 5 10 9 0",  # no tick since
            "150 10 60 900 60 5 5 10 9 0",  # idle, and waiting for a disk
        )
    )
    with Journal(tmp_path / "journal") as journal:
        poller = MachinePoller(journal, ProcessorUse(lambda: next(texts)))
        for _ in range(3):
            poller.poll()
    rows = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert [(row["table"], row["busy"]) for row in rows] == [("machine", 90), ("machine", 0)]


def test_this_machine_says_how_busy_it_is(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        poller = MachinePoller(journal)

        def polled() -> str:
            poller.poll()
            return (tmp_path / "journal").read_text()

        text = wait_until(polled, accept=bool, within_s=10, awaiting="a tick of the processors")
    assert 0 <= json.loads(text.splitlines()[0])["busy"] <= 100
