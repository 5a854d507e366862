"""The life of a fault: its moments, and what happens when something fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nemesis_fakes import RecordingFault, Rows

from harness.errors import InvalidRunError
from nemesis import fault as module
from nemesis.fault import Injection

FOUR = ["injecting", "injected", "healing", "healed"]


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


def test_four_moments_in_order(rows: Rows) -> None:
    fault = RecordingFault()
    with Injection(3, fault, rows.journal):
        assert rows.moments() == FOUR[:2]
    assert rows.moments() == FOUR
    assert fault.calls == ["inject", "verify", "heal", "verify_healed"]
    moments = rows.all()
    assert {row["fault"] for row in moments} == {3}
    assert [row["ns"] for row in moments] == sorted(row["ns"] for row in moments)
    assert moments[1]["evidence"] == '{"proof": 1}'


def test_heal_twice_and_inject_twice(rows: Rows) -> None:
    fault = RecordingFault()
    injection = Injection(1, fault, rows.journal).inject().inject()
    injection.heal()
    injection.heal()
    assert fault.calls == ["inject", "verify", "heal", "verify_healed"]
    assert rows.moments() == FOUR


def test_heal_without_inject_does_nothing(rows: Rows) -> None:
    fault = RecordingFault()
    Injection(1, fault, rows.journal).heal()
    assert fault.calls == []


@pytest.mark.parametrize("where", ["inject", "verify"])
def test_failed_injection_is_undone_and_recorded(rows: Rows, where: str) -> None:
    fault = RecordingFault(fails={where: InvalidRunError("it had no effect")})
    injection = Injection(1, fault, rows.journal)
    with pytest.raises(InvalidRunError, match="had no effect"):
        injection.inject()
    assert rows.moments() == ["injecting", "failed"]
    assert "heal" in fault.calls
    injection.heal()
    assert rows.moments() == ["injecting", "failed"]


def test_interrupted_injection_is_undone(rows: Rows) -> None:
    fault = RecordingFault(fails={"verify": KeyboardInterrupt()})  # type: ignore[dict-item]
    with pytest.raises(KeyboardInterrupt):
        Injection(1, fault, rows.journal).inject()
    assert fault.calls == ["inject", "verify", "heal"]
    assert rows.moments() == ["injecting", "failed"]


def test_failed_heal_is_no_healed(rows: Rows) -> None:
    fault = RecordingFault(fails={"verify_healed": InvalidRunError("rules are left")})
    with pytest.raises(InvalidRunError, match="rules are left"), Injection(1, fault, rows.journal):
        pass
    assert rows.moments() == ["injecting", "injected", "healing", "failed"]


def test_error_of_the_scenario_is_not_hidden_by_one_of_healing(rows: Rows) -> None:
    fault = RecordingFault(fails={"heal": InvalidRunError("rules are left")})
    with pytest.raises(ZeroDivisionError) as caught, Injection(1, fault, rows.journal):
        raise ZeroDivisionError
    assert "rules are left" in caught.value.__notes__[0]


def test_what_cannot_be_undone_is_never_called_healed(rows: Rows) -> None:
    fault = RecordingFault()
    fault.undoable = False
    with Injection(1, fault, rows.journal) as injection:
        pass
    assert rows.moments() == ["injecting", "injected"]
    fault.undoable = True
    injection.heal()
    assert rows.moments() == FOUR


def test_a_moment_is_that_of_the_change_not_of_its_proof(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may rejoin, and a zombie may acknowledge, while the proof of the heal still goes on."""
    clock = {"ns": 0}
    steps = {"inject": 10, "verify": 1000, "heal": 10, "verify_healed": 1000}
    fault = RecordingFault()

    def at(step: str, do: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            clock["ns"] += steps[step]
            return do()

        return run

    for step in steps:
        monkeypatch.setattr(fault, step, at(step, getattr(fault, step)))
    monkeypatch.setattr(module, "now_ns", lambda: clock["ns"])
    with Injection(1, fault, rows.journal):
        pass
    assert [(row["moment"], row["ns"]) for row in rows.all()] == [
        ("injecting", 0),
        ("injected", 10),
        ("healing", 1010),
        ("healed", 1020),
    ]
