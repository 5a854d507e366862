"""A helper process of the embedded lab that does not end in time."""

from __future__ import annotations

import subprocess

import pytest

from harness.errors import WaitTimeoutError
from harness.lab.embedded import _HelperProcess


def test_one_that_does_not_end_is_a_timeout_and_can_be_killed() -> None:
    """Whoever closes a client kills it then; it must not end the run (a busy machine takes seconds)."""
    popen = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    helper = _HelperProcess(popen)
    with pytest.raises(WaitTimeoutError, match="a helper process to end"):
        helper.wait(0.05)
    helper.kill()
    assert helper.wait(10) == -9
