"""A disk in a file: ext4 or xfs on a loop device, cut by the kernel's shutdown ioctl. Root only.

After a cut, a copy of the file is mounted. A mount namespace that somebody made meanwhile keeps the dead file
system and its loop device until it ends; mounting the same file again would give the dead one back.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Literal

from harness.errors import UnfitError
from harness.kernel_probes import NO_LOG_FLUSH, SHUTDOWN_IOCTL
from nemesis.storage.disk import DiskKind, copy, mounted, run

_IMAGE_MB = {"ext4": 256, "xfs": 320}
MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}
_OPTIONS = {"ext4": "loop,noatime", "xfs": "loop,noatime,nouuid"}
"""`nouuid`: xfs refuses a copy of a file system that is still mounted somewhere."""
_BALLAST = ".ballast"


class LoopDisk:
    """ext4 or xfs on a file."""

    def __init__(self, kind: Literal["ext4", "xfs"], mount: Path) -> None:
        """The file lies beside ``mount``."""
        self.kind: DiskKind = kind
        self.mount = mount
        self.powered = True
        self._image = mount.with_suffix(".image")

    def attach(self) -> None:
        """mkfs and mount."""
        self.mount.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as image:
            image.truncate(_IMAGE_MB[self.kind] << 20)
        run(*MKFS[self.kind], str(self._image))
        self._mount()

    def cut(self) -> None:
        """The shutdown ioctl: no journal is flushed, no page is written."""
        folder = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, SHUTDOWN_IOCTL, struct.pack("I", NO_LOG_FLUSH))
        except OSError as error:
            raise UnfitError(f"The kernel cannot cut the power of {self.kind} ({error.strerror}).") from error
        finally:
            os.close(folder)
        self.powered = False

    def reattach(self) -> None:
        """Mount what was written before the cut: the journal is replayed as after a real power cut."""
        if mounted(self.mount):
            run("umount", str(self.mount))
        survived = self._image.with_suffix(".survived")
        copy(self._image, survived)
        survived.replace(self._image)
        self._mount()
        self.powered = True

    def fill(self) -> None:
        """A ballast file takes every free block."""
        block = b"\0" * 65536
        with (self.mount / _BALLAST).open("ab", buffering=0) as ballast:
            while block:
                try:
                    ballast.write(block)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    block = block[: len(block) // 2]

    def free(self) -> None:
        """Remove the ballast."""
        (self.mount / _BALLAST).unlink(missing_ok=True)

    def detach(self) -> None:
        """Unmount, and remove the file."""
        if mounted(self.mount):
            run("umount", str(self.mount))
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        run("mount", "-t", self.kind, "-o", _OPTIONS[self.kind], str(self._image), str(self.mount))
