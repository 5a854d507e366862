"""Processor time for a cluster while times are measured on it, although others start beside it.

All processes of a cluster in the embedded lab are in one PID namespace, and `/proc` shows no others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FIRST = -10
"""The nice value of what is measured; everything else keeps 0, and gets about a tenth of its time."""
_USUAL = 0


@contextmanager
def first_to_run() -> Iterator[bool]:
    """Let the processes of this PID namespace run first. The value says whether the kernel permits it.

    It takes CAP_SYS_NICE, which root has, and root of a user namespace has not. A process that starts in a
    session of its own meanwhile needs `follow`.
    """
    permitted = _permitted()
    if permitted:
        _set_nice(FIRST)
    try:
        yield permitted
    finally:
        if permitted:
            _set_nice(_USUAL)


def follow(process: int, proc: Path = Path("/proc")) -> None:
    """Give a process that leads a new session the nice value of this process's scheduling group.

    It inherits the nice value of a process, but not that of the group (`man 7 sched`, autogroup). The file is
    empty for a process in no such group, as every descendant of init is that has no session of its own.
    """
    with suppress(OSError):  # it has ended, or the kernel has no autogroups
        group = (proc / "self" / "autogroup").read_text().split()
        nice = group[-1] if group else str(os.getpriority(os.PRIO_PROCESS, 0))
        (proc / str(process) / "autogroup").write_text(nice)


def _permitted() -> bool:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
        os.setpriority(os.PRIO_PROCESS, 0, _USUAL)
    except PermissionError:
        return False
    return True


def _set_nice(nice: int) -> None:
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):  # it has ended, or the kernel has no autogroups
            (process / "autogroup").write_text(str(nice))
        with suppress(OSError):
            for thread in (process / "task").iterdir():
                with suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
