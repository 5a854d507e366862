"""What a reader needs to repeat or question a run: the program, its command line, and the machine."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Sequence
from typing import Any

from harness.secrets import recorded_arguments
from harness.version import commit, version

COMMAND_LINE = "ACKED_COMMAND_LINE"
"""Environment variable by which the processes of a series know the command that started it."""


def note_command(arguments: Sequence[str]) -> None:
    """Remember the command line, without secrets, for this process and those that it starts.

    The processes that a command starts keep its line.
    """
    os.environ.setdefault(COMMAND_LINE, shlex.join(["acked", *recorded_arguments(arguments)]))


def environment() -> dict[str, Any]:
    """`made_by` of `run.json`: memory in bytes, load average of the last minute."""
    return {
        "acked": version(),
        "commit": commit(),
        "command": os.environ.get(COMMAND_LINE, ""),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": round(os.getloadavg()[0], 2),
    }
