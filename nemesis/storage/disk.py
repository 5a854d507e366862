"""What a host's own disk offers: mounting, losing its power, being full."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal, Protocol

from harness import tools
from harness.errors import LabError, UnfitError

DiskKind = Literal["fuse", "ext4", "xfs"]


class Disk(Protocol):
    """A mounted file system whose power can be cut."""

    kind: DiskKind
    mount: Path

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
        """Unmount, and remove what is behind it. Safe to call twice."""


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder; index files are sparse and stay so."""
    run("cp", "-a", "--sparse=always", str(source), str(target))


def run(*argv: str) -> str:
    """Run a command as the harness; returns what it printed.

    Raises LabError with what it said, and UnfitError where it is not installed.
    """
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UnfitError(f"{tools.not_installed(argv[0])}.") from None
    if done.returncode != 0:
        raise LabError(f"`{' '.join(argv)}` failed: {done.stderr.strip() or done.returncode}")
    return done.stdout
