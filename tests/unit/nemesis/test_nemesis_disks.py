"""Disks whose power can be cut, on the real kernel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from harness.errors import LabError
from harness.lab.model import DATA, SECOND_DATA, Lab, Result
from harness.waiting import wait_until
from nemesis.storage.disk import Disk, DiskKind, mounted
from nemesis.storage.disks import KINDS, Disks, make_disk, misfit

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting is root's")


class Here:
    """A lab whose hosts are this machine."""

    kind = "local"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def data_dir(self, host: str) -> Path:
        return self.folder / host

    def inside(self, host: str, path: Path) -> str:
        return str(path)

    def execute(self, host: str, argv: Sequence[str], **_: Any) -> Result:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    def down(self) -> None:
        pass


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> DiskKind:
    """Each kind of disk that this machine can create."""
    disk_kind: DiskKind = request.param
    if reason := misfit(disk_kind):
        pytest.skip(reason)
    return disk_kind


@contextmanager
def _another_mount_namespace() -> Iterator[None]:
    """A process with copies of all mounts, which it keeps, like an embedded lab or a container."""
    words = ("unshare", "--mount", "--propagation", "private", "cat")
    with subprocess.Popen(words, stdin=subprocess.PIPE) as holder:
        try:
            wait_until(
                lambda: Path(f"/proc/{holder.pid}/comm").read_text().strip(),
                accept=lambda name: name == "cat",
                within_s=10,
                awaiting="the other mount namespace",
                poll_s=0.01,
            )
            yield
        finally:
            holder.kill()


def _synced(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _attached(kind: DiskKind, mount: Path) -> Disk:
    disk = make_disk(kind, mount)
    disk.attach()
    return disk


def test_power_comes_back_while_another_mount_namespace_holds_the_dead_disk(
    tmp_path: Path, kind: DiskKind
) -> None:
    disk = _attached(kind, tmp_path / "disk")
    try:
        _synced(disk.mount / "kept", "before")
        (disk.mount / "lost").write_text("never synced")
        with _another_mount_namespace():
            disk.cut()
            assert not disk.powered
            with pytest.raises(OSError, match=r"."):
                (disk.mount / "kept").read_text()
            disk.reattach()
            assert disk.powered
            assert (disk.mount / "kept").read_text() == "before"
            lost = disk.mount / "lost"
            assert not lost.exists() or lost.read_text() == ""
            _synced(disk.mount / "kept", "after")
        disk.cut()
        disk.reattach()
        assert (disk.mount / "kept").read_text() == "after"
    finally:
        disk.detach()
    assert not mounted(disk.mount)
    assert [path.name for path in tmp_path.iterdir() if path.suffix in (".image", ".cache")] == []


def test_data_outlives_a_run_that_broke_off_while_the_power_was_off(tmp_path: Path, kind: DiskKind) -> None:
    disks = Disks(cast(Lab, Here(tmp_path)))
    places = (("broker1", DATA), ("broker2", DATA), ("broker2", SECOND_DATA))
    for host, folder in places:
        disk = disks.make(host, kind, folder=folder)
        _synced(tmp_path / host / folder / "kept", f"{host} {folder}")
        disk.cut()
    disks.close()
    for host, folder in places:
        data = tmp_path / host / folder
        assert not data.is_symlink()
        assert (data / "kept").read_text() == f"{host} {folder}"
    left = {path.name for host, _ in places for path in (tmp_path / host).iterdir() if path.is_dir()}
    assert left == {DATA, SECOND_DATA}, "no mount point is left"


def test_one_disk_that_cannot_be_read_keeps_no_other_mounted(
    tmp_path: Path, kind: DiskKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = Disks(cast(Lab, Here(tmp_path)))
    first, second = disks.make("broker1", kind), disks.make("broker2", kind)
    _synced(tmp_path / "broker2" / "data" / "kept", "broker2")

    def fail() -> None:
        raise LabError("no power here")

    first.cut()
    monkeypatch.setattr(first, "reattach", fail)
    with pytest.raises(LabError, match="no power here"):
        disks.close()
    assert (tmp_path / "broker2" / "data" / "kept").read_text() == "broker2"
    assert not mounted(first.mount)
    assert not mounted(second.mount)
