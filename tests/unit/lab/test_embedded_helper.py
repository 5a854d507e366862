"""A helper process of the embedded lab that does not end in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import WaitTimeoutError
from harness.fork_server import ForkServer
from harness.lab.embedded.lab import Helper


def test_one_that_does_not_end_is_a_timeout_and_can_be_killed(tmp_path: Path) -> None:
    """The caller can then kill it. On a busy machine this happens, and it must not end the run."""
    forks = ForkServer.fork()
    helper = Helper(forks, "nemesis.proof.agent", (), tmp_path / "helper.log")
    with pytest.raises(WaitTimeoutError, match="A helper process did not end"):
        helper.wait(0.05)
    assert helper.poll() is None
    helper.kill()
    assert helper.wait(10) == -9
    forks.close()
