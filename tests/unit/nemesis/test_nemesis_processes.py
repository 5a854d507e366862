"""What ends a process when: a paused one does not act on SIGTERM."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import InvalidRunError
from nemesis.processes.killing import Kill, ProcessEnd, RollingRestart, Stop
from tests.unit.nemesis.nemesis_fakes import Rows

HOST: Any = SimpleNamespace(name="broker1")


class Lab:
    """One process that ends at once when it is signalled."""

    def __init__(self) -> None:
        self.signals: list[int] = []

    def signal(self, host: str, number: int) -> None:
        self.signals.append(number)

    def wait_exit(self, host: str, within_s: float) -> int:
        return 143

    def alive(self, host: str) -> bool:
        return True


def _end(kind: type[ProcessEnd], lab: Any, rows: Rows, paused: set[str], expected: list[str]) -> ProcessEnd:
    registry: Any = SimpleNamespace(
        lab=lab,
        journal=rows.journal,
        expect_end=expected.append,
        context=SimpleNamespace(paused=paused),
    )
    return kind(registry, [HOST])


def test_a_paused_process_is_not_stopped(tmp_path: Path) -> None:
    """SIGTERM would wait until it is resumed, and then end it unexpectedly."""
    lab, rows, expected, paused = Lab(), Rows(tmp_path), list[str](), {"broker1"}
    stop = _end(Stop, lab, rows, paused, expected)
    for fault in (stop, RollingRestart([stop])):
        with pytest.raises(InvalidRunError, match="broker1 cannot be stopped while paused"):
            fault.inject()
    assert (lab.signals, expected) == ([], [])
    _end(Kill, lab, rows, paused, expected).inject()
    paused.clear()
    stop.inject()
    assert (lab.signals, expected) == ([9, 15], ["broker1", "broker1"])
