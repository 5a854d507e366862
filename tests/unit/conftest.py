"""A fixture for tests that start processes: each process must end before the test does."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import WaitTimeoutError
from harness.waiting import wait_until

PR_SET_CHILD_SUBREAPER = 36


def running_descendants() -> dict[int, str]:
    """Command lines of the processes below this one, by pid, without those that have ended."""
    found: dict[int, str] = {}
    parents = [os.getpid()]
    while parents:
        parent = parents.pop()
        for thread in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for pid in map(int, thread.read_text().split()):
                    parents.append(pid)
                    state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
                    if state not in "ZX":
                        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                        found[pid] = line.decode(errors="replace").strip()
    return found


@pytest.fixture
def no_process_left() -> Iterator[None]:
    """Fail a test that leaves a process behind, even one whose parent has ended."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphaned processes become children of this one
    before = running_descendants()
    yield

    def left() -> dict[int, str]:
        return {pid: line for pid, line in running_descendants().items() if pid not in before}

    try:
        wait_until(left, within_s=10, accept=lambda found: not found, awaiting="the test's processes to end")
    except WaitTimeoutError:
        remaining = left()
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pytest.fail(f"the test left processes: {remaining}")
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
