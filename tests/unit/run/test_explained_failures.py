"""What a failure outside of the scenario's code is reported as: a process, the cluster, or this machine."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import AckedError, InvalidRunError, LabError, ProcessDiedError
from harness.kafka.wire.connection import NoAnswerError
from run.runner import _explaining_failures


def _explained(error: Exception, tmp_path: Path, *, died: bool = False) -> AckedError:
    def check_alive() -> None:
        if died:
            raise ProcessDiedError("broker1 ended by itself")

    processes: Any = SimpleNamespace(check_alive=check_alive, lab=SimpleNamespace(run_dir=tmp_path))
    with pytest.raises(AckedError) as raised, _explaining_failures(processes):
        raise error
    return raised.value


@pytest.mark.parametrize("error", [NoAnswerError("no answer"), TimeoutError("late"), ConnectionResetError()])
def test_a_broken_connection_says_that_the_cluster_does_not_answer(error: OSError, tmp_path: Path) -> None:
    explained = _explained(error, tmp_path)
    assert isinstance(explained, LabError)
    assert explained.message.startswith(f"The cluster stopped answering the harness ({type(error).__name__}")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT, errno.EACCES])
def test_a_failure_of_this_machine_is_not_the_cluster_s(number: int, tmp_path: Path) -> None:
    explained = _explained(OSError(number, "why", "/a/file"), tmp_path)
    assert isinstance(explained, LabError)
    assert "cluster stopped" not in explained.message
    assert f"'/a/file'; {Path(__file__).name}:" in explained.message
    assert len(explained.message) <= 300


def test_a_process_that_ended_by_itself_is_the_cause_of_everything(tmp_path: Path) -> None:
    for error in (TimeoutError(), InvalidRunError("no")):
        assert isinstance(_explained(error, tmp_path, died=True), ProcessDiedError)
    assert _explained(InvalidRunError("no"), tmp_path).message == "no"
