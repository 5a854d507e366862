"""A client whose load takes what processors the cluster and the harness leave."""

from __future__ import annotations

import os
import time
from pathlib import Path

NICE = 5
"""The nice value of such a client: a third of the usual weight (`man 7 sched`)."""
_TURN_S, _WITHIN_S = 0.1, 5.0
"""The kernel takes one change in so many seconds from all processes without CAP_SYS_ADMIN together."""


def give_way(proc: Path = Path("/proc")) -> None:
    """Let other processes run before this one, whose session has no others.

    Within a session the kernel goes by the nice values of threads, among sessions by those of their groups
    (autogroup), where it has them.
    """
    nice = max(NICE, os.getpriority(os.PRIO_PROCESS, 0))
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    until = time.monotonic() + _WITHIN_S
    while time.monotonic() < until:
        try:
            (proc / "self" / "autogroup").write_text(str(nice))
        except BlockingIOError:
            time.sleep(_TURN_S)
        except OSError:  # the kernel has no autogroups
            return
        else:
            return
