"""Disks of a host's own, whose power can be cut: un-fsynced data is really lost.

A disk is mounted before the broker's first start at `<host>/disk`, and `<host>/data` becomes a link into
it. Which kinds work depends on the machine:

* `fuse`: a small file system of ours that forgets what was not fsynced; where `/dev/fuse` is open.
* `ext4`, `xfs`: a file in a loop device and the kernel's shutdown ioctl; root only.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from harness.errors import LabError, UnfitError
from harness.waiting import wait_until

DiskKind = Literal["fuse", "ext4", "xfs"]
_IMAGE_MB = {"ext4": 256, "xfs": 320}
_MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
}
_SHUTDOWN_IOCTL = 0x8004587D
_NO_LOG_FLUSH = 2
_MOUNT_WITHIN_S = 10.0


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

    def detach(self) -> None:
        """Unmount, and remove what is behind it. Safe to call twice."""


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
        _run(*_MKFS[self.kind], str(self._image))
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
        _run("umount", str(self.mount))
        self._mount()

    def detach(self) -> None:
        """Unmount, and remove the file."""
        if self.mount.is_mount():
            _run("umount", str(self.mount))
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        _run("mount", "-t", self.kind, "-o", "loop,noatime", str(self._image), str(self.mount))


class FuseDisk:
    """The volatile layer of `nemesis.storage.layer`."""

    kind: DiskKind = "fuse"

    def __init__(self, mount: Path) -> None:
        """Its two trees lie beside ``mount``."""
        self.mount = mount
        self._cache, self._durable = mount.with_suffix(".cache"), mount.with_suffix(".durable")
        self._log = mount.with_suffix(".log")
        self._daemon: subprocess.Popen[bytes] | None = None

    def attach(self) -> None:
        """Start the daemon and wait for the mount."""
        for folder in (self.mount, self._cache, self._durable):
            folder.mkdir(parents=True, exist_ok=True)
        argv = (sys.executable, "-m", "nemesis.storage.layer", str(self._cache), str(self._durable))
        with self._log.open("ab") as log:
            self._daemon = subprocess.Popen(
                (*argv, str(self.mount)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(
            self.mount.is_mount,
            within_s=_MOUNT_WITHIN_S,
            awaiting=f"the volatile disk to appear at {self.mount}",
            abort=self._check_daemon,
            poll_s=0.01,
        )

    def cut(self) -> None:
        """Kill the daemon: every access fails from now on."""
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
            self._daemon = None

    def reattach(self) -> None:
        """Forget the cache and serve what was durable."""
        _run("umount", "-l", str(self.mount))
        shutil.rmtree(self._cache)
        copy_tree(self._durable, self._cache)
        self.attach()

    def detach(self) -> None:
        """Unmount, end the daemon and remove both trees."""
        if self._daemon is not None and self._daemon.poll() is None:
            _run("umount", "-l", str(self.mount))
            self._daemon.kill()
            self._daemon.wait()
        self._daemon = None
        for folder in (self._cache, self._durable):
            shutil.rmtree(folder, ignore_errors=True)

    def _check_daemon(self) -> None:
        if self._daemon is None or self._daemon.poll() is not None:
            said = self._log.read_text().strip().splitlines() or ["no reason given"]
            raise UnfitError(f"The volatile disk could not be mounted at {self.mount}: {said[-1]}")


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder; index files are sparse and stay so."""
    _run("cp", "-a", "--sparse=always", str(source), str(target))


def fitting_kind(wanted: Sequence[DiskKind] = ("fuse", "ext4", "xfs")) -> DiskKind | None:
    """The first kind of disk that this machine seems to allow; None where there is none.

    `fuse` comes first: unlike a real disk it loses the same bytes however long one waits.
    """
    root = os.geteuid() == 0 and Path("/dev/loop-control").exists()
    for kind in wanted:
        if kind == "fuse" and os.access("/dev/fuse", os.R_OK | os.W_OK) and _has_libfuse():
            return kind
        if kind != "fuse" and root and shutil.which(_MKFS[kind][0]):
            return kind
    return None


def make_disk(kind: DiskKind, mount: Path) -> Disk:
    """A disk of this kind, not attached yet."""
    return FuseDisk(mount) if kind == "fuse" else LoopDisk(kind, mount)


def _has_libfuse() -> bool:
    try:
        import mfusepy  # noqa: F401, PLC0415 - loads the C library
    except (ImportError, OSError):
        return False
    return True


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"`{' '.join(argv)}` failed: {done.stderr.strip() or done.returncode}")
