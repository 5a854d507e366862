"""Processes that a step of a schedule stops, and that do not end in time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.errors import WaitTimeoutError
from studies.steps.body import Body


class _Stage:
    """As much of a stage as stopping a process needs."""

    def __init__(self, ended: set[str], alive: set[str]) -> None:
        self.killed: list[str] = []
        self.marks: list[str] = []
        self.processes = SimpleNamespace(ended=ended)
        self.lab = SimpleNamespace(alive=lambda host: host in alive)
        self.nemesis = SimpleNamespace(kill=self.killed_by)

    def killed_by(self, *hosts: str) -> None:
        self.killed += hosts

    def mark(self, name: str, text: str, **facts: object) -> None:
        self.marks.append(text)


def _body(stage: Any) -> Body:
    body = Body.__new__(Body)
    body.stage, body.measured = stage, False
    return body


def _late() -> None:
    raise WaitTimeoutError("Timed out after 30.0 s waiting for broker1 to end.")


def test_a_process_that_does_not_end_in_time_is_killed() -> None:
    stage = _Stage(ended={"broker1", "controller2"}, alive={"broker1", "broker2"})
    assert not _body(stage)._or_kill(_late, ["broker1", "broker2", "controller2"])
    assert stage.killed == ["broker1"]
    assert stage.marks == ["Timed out after 30.0 s waiting for broker1 to end. Killed: broker1."]


def test_a_process_that_ends_in_time_is_left_alone() -> None:
    stage = _Stage(ended={"broker1"}, alive=set())
    assert _body(stage)._or_kill(lambda: None, ["broker1"])
    assert (stage.killed, stage.marks) == ([], [])


def test_a_process_that_is_slow_to_start_is_left_alone() -> None:
    stage = _Stage(ended=set(), alive={"broker1"})
    assert not _body(stage)._or_kill(_late, ["broker1"])
    assert (stage.killed, stage.marks) == ([], ["Timed out after 30.0 s waiting for broker1 to end."])
