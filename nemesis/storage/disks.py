"""Which hosts of a lab have a disk of their own, and which kinds of disk work on this machine.

A disk is mounted before the broker's first start at `<host>/disk`, and `<host>/data` becomes a link into it.
The second directory of `log.dirs` gets one in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness import tools
from harness.errors import AckedError, LabError, UnfitError, UsageError
from harness.lab.model import DATA, SECOND_DATA, Lab
from nemesis.storage.disk import Disk, DiskKind, copy
from nemesis.storage.fuse import FuseDisk
from nemesis.storage.loop import MKFS, LoopDisk

KINDS: tuple[DiskKind, ...] = ("fuse", "ext4", "xfs")
"""Best first. `fuse` loses the same bytes however long one waits; a real disk writes back after a while."""


_DISKS = {DATA: "disk", SECOND_DATA: "disk2"}
"""Where the disk of each folder is mounted."""


class Disks:
    """Made before the first start of their hosts' processes, closed after all of them have ended.

    disks = Disks(lab)
    stack.callback(disks.close)    # before `stack.callback(lab.down)`, so that it runs after it
    disks.make("broker1")          # when the lab is up, before the cluster boots
    """

    def __init__(self, lab: Lab) -> None:
        """No disk yet; ``lab`` need not be up."""
        self._lab = lab
        self._disks: dict[tuple[str, str], Disk] = {}
        """By host and folder."""

    def make(self, host: str, kind: DiskKind | None = None, *, folder: str = DATA) -> Disk:
        """Give a host's data folder a disk of its own; without ``kind``, of the first kind that works here.

        Raises UnfitError if none does: a power cut of that host can then only be emulated.
        """
        if (host, folder) in self._disks:
            return self._disks[host, folder]
        data = self._lab.data_dir(host) / folder
        name = _DISKS[folder]
        if data.exists():
            raise UsageError(f"{data} exists already: make the disk of {host} before its first start.")
        disk = self._attach(host, data.with_name(name), (kind,) if kind else KINDS)
        try:
            self._require_seen(host, disk)
            # Not the root of the file system: ext4 keeps lost+found there, which names no partition.
            (disk.mount / "d").mkdir()
            data.symlink_to(Path(name) / "d")
        except BaseException:
            disk.detach()
            disk.mount.rmdir()
            raise
        self._disks[host, folder] = disk
        return disk

    def _require_seen(self, host: str, disk: Disk) -> None:
        if self._lab.execute(host, ("mountpoint", "-q", self._lab.inside(host, disk.mount))).status != 0:
            raise UnfitError(
                f"{host} does not see file systems that are mounted after its start, so its power can only "
                f"be cut by emulation: run the {self._lab.kind} lab as root in the engine's own mount "
                f"namespace, or use the embedded lab."
            )

    def _attach(self, host: str, mount: Path, kinds: Sequence[DiskKind]) -> Disk:
        reasons = []
        for kind in kinds:
            reason = misfit(kind)
            if not reason:
                disk = make_disk(kind, mount)
                try:
                    disk.attach()
                except (LabError, UnfitError) as error:
                    reason = error.message.rstrip(".")
                    disk.detach()
                else:
                    return disk
            reasons.append(f"{kind}: {reason}")
        raise UnfitError(f"{host} gets no disk whose power can be cut: {'; '.join(reasons)}.")

    def make_where_possible(self, hosts: Iterable[str]) -> dict[str, str]:
        """`make` for several hosts; returns why it was not possible, by host (their cuts are emulated)."""
        reasons = {}
        for host in hosts:
            try:
                self.make(host)
            except UnfitError as error:
                reasons[host] = error.message
        return reasons

    def get(self, host: str, folder: str = DATA) -> Disk | None:
        """The disk of a host's data folder, or of another directory, if it has one."""
        return self._disks.get((host, folder))

    def close(self) -> None:
        """Leave plain copies of the data behind, and unmount everything.

        Where a run broke off during a power cut, the power comes back first.
        """
        failed: AckedError | None = None
        for (host, folder), disk in self._disks.items():
            try:
                self._close(self._lab.data_dir(host) / folder, disk)
            except AckedError as error:
                failed = failed or error
        self._disks.clear()
        self._lab.down()  # again: an unmount that failed while disks were mounted inside can succeed now
        if failed is not None:
            raise failed

    def _close(self, data: Path, disk: Disk) -> None:
        try:
            if not disk.powered:
                disk.reattach()
            kept = data.with_name(f"{data.name}.kept")
            copy(disk.mount / "d", kept)
            data.unlink()
            kept.rename(data)
        finally:
            disk.detach()
            disk.mount.rmdir()


def misfit(kind: DiskKind) -> str:
    """Why this machine cannot have a disk of ``kind``, without a full stop; empty if it seems able to.

    This does not check whether the kernel has the file system: mounting it loads the module if need be.
    """
    if kind == "fuse":
        device, missing = "/dev/fuse", tools.missing("libfuse", "umount")
    else:
        device, missing = "/dev/loop-control", tools.missing(MKFS[kind][0], "mount", "umount")
    closed = "" if os.access(device, os.R_OK | os.W_OK) else f"{device} cannot be opened"
    return "; ".join(reason for reason in (closed, missing) if reason)


def make_disk(kind: DiskKind, mount: Path) -> Disk:
    """A disk of this kind, not attached yet."""
    return FuseDisk(mount) if kind == "fuse" else LoopDisk(kind, mount)
