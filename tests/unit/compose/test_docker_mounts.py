"""Mounts that containers share: found in the kernel's mount table, and unmounted again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.lab.docker import mounts as docker_mounts

_TABLE = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
70 27 8:1 /runs/a\040b/nodes /runs/a\040b/nodes rw,relatime shared:1 - ext4 /dev/sda1 rw
71 70 0:50 / /runs/a\040b/nodes/broker1/disk rw,nosuid shared:2 - fuse acked rw
72 70 0:50 / /runs/a\040b/nodes/broker1/disk rw,nosuid shared:2 - fuse acked rw
"""


def test_mount_points_are_read_with_their_blanks_and_once() -> None:
    assert docker_mounts.mount_points(_TABLE) == [
        Path("/proc"),
        Path("/runs/a b/nodes"),
        Path("/runs/a b/nodes/broker1/disk"),
    ]


def test_releasing_what_was_never_shared_does_nothing(tmp_path: Path) -> None:
    docker_mounts.release(tmp_path / "run")
    docker_mounts.detach(tmp_path / "run")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_shared_folder_is_found_by_its_mark_and_let_go_of(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    if docker_mounts.share(folder, "run-1", "machine:1:1") != "rslave":
        pytest.skip("mounting is refused here")
    try:
        assert docker_mounts.SharedFolder(folder, "run-1", "machine:1:1") in list(docker_mounts.shared())
    finally:
        docker_mounts.release(folder)
    assert folder not in [mount.path for mount in docker_mounts.shared()]
    assert not folder.is_mount()
    assert list(tmp_path.iterdir()) == [folder]
