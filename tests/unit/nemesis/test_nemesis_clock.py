"""A shifted clock is proven by what the process itself states, and set back."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clock import Anchor
from harness.errors import InvalidRunError, UnfitError, UsageError
from harness.host_files import Folder
from harness.lab.host_clock import read_shift, write_shift
from nemesis.fault import Injection
from nemesis.processes import clock
from nemesis.processes.clock import ClockShift
from tests.unit.nemesis.nemesis_fakes import Rows

HOST: Any = SimpleNamespace(name="broker1")


class Jvm:
    """A process that answers SIGQUIT as HotSpot does, by the shift that ``clock`` gives."""

    def __init__(self, folder: Path, clock: Callable[[float], float]) -> None:
        self.path, self.clock, self.running = folder, clock, True

    def files(self, host: str) -> Folder:
        return Folder(self.path)

    def alive(self, host: str) -> bool:
        return self.running

    def signal(self, host: str, number: int) -> None:
        assert number == signal.SIGQUIT
        shift_s = self.clock(read_shift(Folder(self.path)) or 0.0)
        date = datetime.fromtimestamp(Anchor.take().wall_ns / 1e9 + shift_s, tz=UTC)
        with (self.path / "out.log").open("a") as output:
            output.write(f"{date:%Y-%m-%d %H:%M:%S}\nFull thread dump OpenJDK 64-Bit Server VM (17):\n\n")


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


def fault(folder: Path, by_s: float, clock: Callable[[float], float] = lambda shift: shift) -> ClockShift:
    registry: Any = SimpleNamespace(lab=Jvm(folder, clock))
    return ClockShift(registry, HOST, by_s)


@pytest.mark.parametrize("by_s", [691_200, -7200, 10, -10])
def test_the_process_states_the_jump_and_the_way_back(tmp_path: Path, rows: Rows, by_s: float) -> None:
    write_shift(Folder(tmp_path), 0)
    with Injection(1, fault(tmp_path, by_s), rows.journal):
        assert read_shift(Folder(tmp_path)) == by_s
    assert read_shift(Folder(tmp_path)) == 0
    moments = {row["moment"]: json.loads(row.get("evidence", "{}")) for row in rows.all()}
    assert by_s - 1 <= moments["injected"]["ahead_s"] <= by_s
    assert -1 <= moments["healed"]["ahead_s"] <= 0
    assert len((tmp_path / "clock.changes").read_text().splitlines()) == 2


def test_a_process_that_does_not_notice_makes_the_run_invalid(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_NOTICED_S", 0.2)
    write_shift(Folder(tmp_path), 0)
    with pytest.raises(
        InvalidRunError, match=r"'shift the clock of broker1 by \+60 s' had no effect: .*'ahead_s'"
    ):
        Injection(1, fault(tmp_path, 60, lambda _: 0.0), rows.journal).inject()
    assert read_shift(Folder(tmp_path)) == 0


def test_a_host_without_a_clock_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(UnfitError, match=r"with `Setup\(own_clocks=\('broker1',\)\)`"):
        fault(tmp_path, 60)


@pytest.mark.parametrize("by_s", [9, -9, 0, 2e9])
def test_a_shift_that_cannot_be_proven(tmp_path: Path, by_s: float) -> None:
    write_shift(Folder(tmp_path), 0)
    with pytest.raises(UsageError, match=r"shift the clock of broker1 by 10 to 1000000000 s"):
        fault(tmp_path, by_s)


def test_one_shift_at_a_time(tmp_path: Path, rows: Rows) -> None:
    write_shift(Folder(tmp_path), 0)
    with Injection(1, fault(tmp_path, 60), rows.journal):
        with pytest.raises(InvalidRunError, match=r"shifted by \+60 s already"):
            Injection(2, fault(tmp_path, 120), rows.journal).inject()
        assert read_shift(Folder(tmp_path)) == 60


def test_the_clock_of_a_process_that_has_ended_is_set_back_for_the_next_one(
    tmp_path: Path, rows: Rows
) -> None:
    write_shift(Folder(tmp_path), 0)
    shift = fault(tmp_path, 60)
    injection = Injection(1, shift, rows.journal).inject()
    shift._lab.running = False  # type: ignore[attr-defined]
    injection.heal()
    assert injection.state == "healed"
    assert read_shift(Folder(tmp_path)) == 0


def test_healing_needs_no_injection(tmp_path: Path) -> None:
    write_shift(Folder(tmp_path), 0)
    fault(tmp_path, 60).heal()
    assert not (tmp_path / "clock.changes").exists()
