"""A run folder as a shared mount: disks that are mounted in it later are visible in the containers.

Root only. The whole folder is shared, because files cannot be renamed across mounts. A file beside the folder
names its harness, so that what a killed harness leaves mounted can be found.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import LabError

_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class SharedFolder:
    """A shared folder, its run and its owner."""

    path: Path
    run: str
    owner: str


def share(folder: Path, run: str, owner: str) -> str:
    """Make ``folder`` a mount whose later mounts propagate; returns the propagation that containers must use.

    `rslave` if that worked; otherwise (without root) `rprivate`: containers then see only what was mounted
    before they started.
    """
    folder = folder.resolve()
    if os.geteuid() != 0 or any(char in str(folder) for char in "\n\\"):
        return "rprivate"
    _mark(folder).write_text(f"{run}\n{owner}\n")
    # Private first: otherwise it remains a peer of the file system below, and every disk is mounted twice.
    steps = (
        ("--bind", str(folder), str(folder)),
        ("--make-private", str(folder)),
        ("--make-shared", str(folder)),
    )
    for step in steps:
        if subprocess.run(["mount", *step], capture_output=True, check=False).returncode != 0:
            release(folder)
            return "rprivate"
    return "rslave"


def release(folder: Path) -> None:
    """Undo `share`, unless something is still mounted in it. May be called twice, and without `share`."""
    folder = folder.resolve()
    mounted = mount_points(_MOUNTS.read_text())
    if any(point != folder and point.is_relative_to(folder) for point in mounted):
        return
    if folder in mounted:
        _umount(folder)
    _mark(folder).unlink(missing_ok=True)


def detach(folder: Path) -> None:
    """Undo `share` and unmount whatever is mounted in it, in use or not: its harness is gone."""
    while folder in mount_points(_MOUNTS.read_text()):
        _umount(folder)
    _mark(folder).unlink(missing_ok=True)


def shared() -> Iterator[SharedFolder]:
    """All folders that runs on this machine share now."""
    for point in mount_points(_MOUNTS.read_text()):
        try:
            lines = _mark(point).read_text().splitlines() if point.name else []
        except OSError:  # not shared by a run
            continue
        if len(lines) == 2:
            yield SharedFolder(point, *lines)


def mount_points(text: str) -> list[Path]:
    """Mount points of a mountinfo table, each once, in its order."""
    points = (line.split(" ")[4] for line in text.splitlines() if line)
    return list(dict.fromkeys(Path(re.sub(r"\\(\d{3})", _character, point)) for point in points))


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))


def _mark(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.shared-by")


def _umount(folder: Path) -> None:
    words = ["umount", "--lazy", str(folder)]  # journals may be open in it, and stay so
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0 and folder in mount_points(_MOUNTS.read_text()):
        raise LabError(f"`{' '.join(words)}` failed: {done.stderr.strip()}")
