"""The protocol of a host's own disk: it can be mounted, lose its power, and be full."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal, Protocol

from harness import tools
from harness.errors import LabError, UnfitError
from harness.lab.docker.mounts import mount_points

DiskKind = Literal["fuse", "ext4", "xfs"]


class Disk(Protocol):
    """A mounted file system whose power can be cut."""

    kind: DiskKind
    mount: Path
    powered: bool
    """False from `cut` to `reattach`, while nothing on it can be read."""

    def attach(self) -> None:
        """Make it if need be, and mount it."""

    def cut(self) -> None:
        """The power goes: whatever was not fsynced is gone, and nothing can be read or written."""

    def reattach(self) -> None:
        """The power is back: mount what survived."""

    def fill(self) -> None:
        """From now on no file can grow."""

    def free(self) -> None:
        """There is room again. Safe to call twice."""

    def detach(self) -> None:
        """Unmount, and remove the files behind it; with the power on or off. Safe to call twice."""


def copy(source: Path, target: Path) -> None:
    """Copy a folder or a file; sparse files stay sparse."""
    run("cp", "-a", "--sparse=always", str(source), str(target))


def mounted(mount: Path) -> bool:
    """Whether something is mounted there; asks the kernel's table, because a dead disk does not answer."""
    table = Path("/proc/self/mountinfo").read_text()
    return mount.parent.resolve() / mount.name in mount_points(table)


def run(*argv: str) -> str:
    """Run a command as the harness; returns what it printed.

    Raises LabError with the first line of its error output (all of it in the detail), and UnfitError if
    the program is not installed.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UnfitError(f"{tools.not_installed(argv[0])}.") from None
    if done.returncode != 0:
        message = done.stderr.strip() or f"exit status {done.returncode}"
        raise LabError(f"`{' '.join(argv)}` failed: {message.splitlines()[0]}", detail=message)
    return done.stdout
