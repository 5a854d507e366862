"""A disk in a file: ext4 or xfs on a loop device, cut by the kernel's shutdown ioctl. Root only."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Literal

from harness.errors import UnfitError
from harness.waiting import wait_until
from nemesis.storage.disk import DiskKind, run

_IMAGE_MB = {"ext4": 256, "xfs": 320}
MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}
_SHUTDOWN_IOCTL = 0x8004587D
_NO_LOG_FLUSH = 2
_BALLAST = ".ballast"
_FREE_WITHIN_S = 15.0


class LoopDisk:
    """ext4 or xfs on a file."""

    def __init__(self, kind: Literal["ext4", "xfs"], mount: Path) -> None:
        """The file lies beside ``mount``."""
        self.kind: DiskKind = kind
        self.mount = mount
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
            fcntl.ioctl(folder, _SHUTDOWN_IOCTL, struct.pack("I", _NO_LOG_FLUSH))
        except OSError as error:
            raise UnfitError(f"The kernel cannot cut the power of {self.kind} ({error.strerror}).") from error
        finally:
            os.close(folder)

    def reattach(self) -> None:
        """Unmount and mount: the journal is replayed as after a real power cut."""
        run("umount", str(self.mount))
        # A mount namespace that was made meanwhile may hold the dead file system for a moment, and mounting
        # would give it back.
        wait_until(
            lambda: run("losetup", "--associated", str(self._image)),
            accept=lambda devices: not devices,
            within_s=_FREE_WITHIN_S,
            awaiting=f"the loop device of {self._image} to be let go of",
            poll_s=0.01,
        )
        self._mount()

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
        if self.mount.is_mount():
            run("umount", str(self.mount))
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        run("mount", "-t", self.kind, "-o", "loop,noatime", str(self._image), str(self.mount))
