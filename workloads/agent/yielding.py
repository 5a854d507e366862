"""A client whose load takes what processors the cluster and the harness leave."""

from __future__ import annotations

import os
from pathlib import Path

NICE = 5
"""The nice value of such a client: a third of the usual weight (`man 7 sched`)."""
_TURN_S, _WITHIN_S = 0.1, 5.0
"""The kernel takes one change in so many seconds from all processes without CAP_SYS_ADMIN together."""


def give_way(proc: Path = Path("/proc")) -> None:
    """Let other processes run before this one, whose session has no others.

    Within a session the kernel goes by the nice values of threads, among sessions by those of their groups
    (autogroup), where it has them. A kernel that is busy with the changes of others for 5 s leaves the group
    as it is.
    """
    from harness.errors import WaitTimeoutError
    from harness.waiting import wait_until

    nice = max(NICE, os.getpriority(os.PRIO_PROCESS, 0))
    os.setpriority(os.PRIO_PROCESS, 0, nice)

    def asked() -> bool:
        try:
            (proc / "self" / "autogroup").write_text(str(nice))
        except BlockingIOError:
            return False
        except OSError:  # the kernel has no autogroups
            return True
        return True

    try:
        wait_until(asked, within_s=_WITHIN_S, poll_s=_TURN_S, awaiting="a nice value of the session")
    except WaitTimeoutError:
        return
