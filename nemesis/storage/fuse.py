"""A disk that forgets what was not fsynced: the daemon `nemesis.storage.layer`, killed and started again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from harness.errors import UnfitError
from harness.waiting import wait_until
from nemesis.storage.disk import DiskKind, copy, mounted, run
from nemesis.storage.hold import FULL, HELD, HOLD, Held, Hold

_MOUNT_WITHIN_S = 10.0


class FuseDisk:
    """The volatile layer of `nemesis.storage.layer`."""

    kind: DiskKind = "fuse"

    def __init__(self, mount: Path) -> None:
        """Its two trees lie beside ``mount``."""
        self.mount = mount
        self._cache, self._durable = mount.with_suffix(".cache"), mount.with_suffix(".durable")
        self._log, self._control = mount.with_suffix(".log"), mount.with_suffix(".control")
        self._daemon: subprocess.Popen[bytes] | None = None
        self.powered = True

    def attach(self) -> None:
        """Start the daemon and wait for the mount."""
        for folder in (self.mount, self._cache, self._durable, self._control):
            folder.mkdir(parents=True, exist_ok=True)
        argv = (sys.executable, "-m", "nemesis.storage.layer", str(self._cache), str(self._durable))
        with self._log.open("ab") as log:
            self._daemon = subprocess.Popen(
                (*argv, str(self.mount), str(self._control)),
                stdin=subprocess.PIPE,  # never written to: its end tells the daemon that we are gone
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
            self.powered = False

    def reattach(self) -> None:
        """Forget the cache and serve what was durable."""
        if mounted(self.mount):
            run("umount", "-l", str(self.mount))
        shutil.rmtree(self._cache, ignore_errors=True)
        copy(self._durable, self._cache)
        self.attach()
        self.powered = True

    def fill(self) -> None:
        """Tell the daemon to refuse every operation that makes a file longer."""
        (self._control / FULL).touch()

    def free(self) -> None:
        """Tell it to go on."""
        (self._control / FULL).unlink(missing_ok=True)

    def hold(self, hold: Hold) -> None:
        """Tell the daemon to make operations take longer."""
        hold.write(self._control / HOLD)

    def release(self) -> None:
        """Tell it to let them go on. Safe to call twice."""
        (self._control / HOLD).unlink(missing_ok=True)

    @property
    def held(self) -> Held:
        """The operations that the present hold, or the last one, has made wait."""
        return Held.read(self._control / HELD)

    def detach(self) -> None:
        """Unmount, end the daemon and remove both trees."""
        if mounted(self.mount):
            run("umount", "-l", str(self.mount))
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
        self._daemon = None
        for folder in (self._cache, self._durable, self._control):
            shutil.rmtree(folder, ignore_errors=True)

    def _check_daemon(self) -> None:
        if self._daemon is None or self._daemon.poll() is not None:
            lines = self._log.read_text().strip().splitlines() or ["no reason given"]
            raise UnfitError(f"The volatile disk could not be mounted at {self.mount}: {lines[-1]}")
