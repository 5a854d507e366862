"""A client whose load takes what processors the cluster and the harness leave."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

NICE = 5
"""The nice value of such a client: a third of the usual weight (`man 7 sched`)."""


def give_way(proc: Path = Path("/proc")) -> None:
    """Let other processes run before this one, whose session has no others.

    Within a session the kernel goes by the nice values of threads, among sessions by those of their groups
    (autogroup), where it has them.
    """
    nice = max(NICE, os.getpriority(os.PRIO_PROCESS, 0))
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    with suppress(OSError):
        (proc / "self" / "autogroup").write_text(str(nice))
