"""Capabilities: what runs in a lab's hosts has none, whoever started the harness.

Root, and root of a user namespace, has all of them. Faults need some (`man 7 capabilities`: CAP_NET_ADMIN for
rules, CAP_SYS_ADMIN for mounts), and the harness keeps them. Brokers, ZooKeeper and clients need none.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_PR_CAPBSET_DROP = 24
_CAPABILITIES_V3 = 0x20080522
_DAC_OVERRIDE = 1


def unprivileged(command: Sequence[str], *needed: Path) -> list[str]:
    """The command, for a process without capabilities; ``needed`` are the folders that it must reach.

    Root that works in the folders of another user reaches them by CAP_DAC_OVERRIDE, which then stays. Where
    `setpriv` cannot do it, the command is returned as it is.
    """
    return [*_wrapper(override=_needs_override(needed)), *command]


def give_up_capabilities(*needed: Path) -> None:
    """Let this process, which must have one thread, and all that it starts, have no capability."""
    libc = ctypes.CDLL(None, use_errno=True)
    kept = 1 << _DAC_OVERRIDE if _needs_override(needed) else 0
    for number in range(64):
        if not kept >> number & 1:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails without CAP_SETPCAP: nothing to give up
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    held = kept if _effective() & kept else 0
    libc.capset(header, (ctypes.c_uint32 * 6)(held, held, 0, 0, 0, 0))


def _effective() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("CapEff:")).split()[1], 16)


@cache
def _wrapper(*, override: bool) -> tuple[str, ...]:
    kept = ",+dac_override" if override else ""
    options = (f"--inh-caps=-all{kept}", "--ambient-caps=-all", f"--bounding-set=-all{kept}")
    wrapper = ("setpriv", *options, "--")
    if shutil.which("setpriv") is None:
        return ()
    done = subprocess.run([*wrapper, "true"], capture_output=True, check=False)
    return wrapper if done.returncode == 0 else ()  # an old libcap-ng does not know `all`


def _needs_override(folders: Sequence[Path]) -> bool:
    """Whether the modes of one of the folders, or of a folder above it, keep this user out."""
    return any(not _reachable(folder) for path in folders for folder in (path, *path.parents))


def _reachable(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:
        return True
    if status.st_uid == os.geteuid():
        return bool(status.st_mode & 0o100)
    if status.st_gid in (os.getegid(), *os.getgroups()):
        return bool(status.st_mode & 0o010)
    return bool(status.st_mode & 0o001)
