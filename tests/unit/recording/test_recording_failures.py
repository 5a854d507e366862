"""What a recording does when it cannot go on: the order of its last steps, without a cluster."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from harness.console import Progress
from harness.errors import AckedError, ProcessDiedError, WaitTimeoutError
from run.folder import RunFolder
from run.recording.record import _Attempt
from run.recording.stages import carried_out


class Ending(_Attempt):
    """Notes the last steps instead of taking them; ``stop`` is what stopping a producer raises."""

    def __init__(self, stop: Exception | None = None) -> None:
        self.steps: list[str] = []
        self._stop = stop

    def stop(self, _flush_s: float) -> None:
        """As a `Stream`."""
        self.steps.append("stop")
        if self._stop is not None:
            raise self._stop

    def _dump(self, watch: Any) -> None:
        self.steps.append("dump")

    def _remove_topic(self) -> None:
        self.steps.append("remove")

    def fail(self) -> list[str]:
        """As if the recording had failed; returns the steps."""
        nothing: Any = None
        streams: list[Any] = [self]
        self._after_failure(nothing, streams, AckedError("a reason"))
        return self.steps


def test_logs_are_read_only_when_no_producer_writes_any_more() -> None:
    assert Ending().fail() == ["stop", "dump", "remove"]


@pytest.mark.parametrize(
    ("stop", "steps"),
    [
        (ProcessDiedError("the client has ended"), ["stop", "dump", "remove"]),
        (WaitTimeoutError("the client does not answer"), ["stop", "remove"]),
    ],
)
def test_logs_are_not_read_while_a_producer_may_write(stop: Exception, steps: list[str]) -> None:
    assert Ending(stop).fail() == steps


@pytest.mark.parametrize(
    ("number", "says"),
    [(errno.ENOSPC, "cannot be written (No space left on device)"), (errno.ECONNRESET, "stopped answering")],
)
def test_a_full_disk_is_told_from_a_cluster_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def go() -> None:
        raise OSError(number, os.strerror(number))

    def ended(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("run.recording.stages.ended", ended)
    result = carried_out(RunFolder.create(tmp_path, "record"), Progress(quiet=True), go)
    assert result.status == "crashed"
    assert result.problem is not None and says in result.problem.message
