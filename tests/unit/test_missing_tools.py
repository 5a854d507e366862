"""A missing program makes one feature unfit, with a sentence that names the program and its package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import tools
from harness.errors import UnfitError
from harness.lab.embedded.lab import EmbeddedLab
from harness.lab.layout import three_azs
from nemesis.storage import disk
from nemesis.storage.disk import DiskKind
from nemesis.storage.disks import KINDS, Disks, misfit

ALL = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
PROBE = """
import sys
from harness.lab.embedded import namespaces
namespaces._SBIN = ""  # programs are found only in the folder on the path
from harness.kernel_probes import main
sys.exit(main(sys.argv[1:]))
"""
LOOP = ("mount", "umount")


def _path_without(folder: Path, missing: str) -> dict[str, str]:
    """An environment whose path has all installed programs of `tools.PACKAGES` except one."""
    programs = folder / "programs"
    programs.mkdir()
    for program in set(tools.PACKAGES) - {missing}:
        if found := shutil.which(program, path=ALL):
            (programs / program).symlink_to(found)
    hidden = {"FUSE_LIBRARY_NAME": "no-such-library"} if missing == "libfuse" else {}
    return {**os.environ, "PATH": str(programs), **hidden}


def _probe(environment: dict[str, str], check: str) -> str:
    command = [sys.executable, "-c", PROBE, check]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)[check])


@pytest.mark.parametrize(
    ("check", "program"),
    [
        ("iproute2", "ip"),
        ("tbf", "tc"),
        ("iptables", "iptables-restore"),
        *((kind, program) for kind in ("ext4", "xfs") for program in (f"mkfs.{kind}", *LOOP)),
        *(("fuse", program) for program in ("libfuse", "mount", "umount")),
    ],
)
def test_doctor_names_program_and_package(tmp_path: Path, check: str, program: str) -> None:
    said = _probe(_path_without(tmp_path, program), check)
    assert f"{program} is not installed (package {tools.PACKAGES[program]})" in said


@pytest.mark.parametrize("check", ["iproute2", "tbf", "iptables", "ext4", "xfs", "fuse"])
def test_doctor_misses_nothing_that_is_there(tmp_path: Path, check: str) -> None:
    said = _probe(_path_without(tmp_path, "nothing"), check)
    absent = [program for program in tools.PACKAGES if not shutil.which(program, path=ALL)]
    assert "not installed" not in said or any(program in said for program in absent)


@pytest.mark.parametrize(
    ("kind", "program"),
    [
        *((kind, program) for kind in ("ext4", "xfs") for program in (f"mkfs.{kind}", *LOOP)),
        *(("fuse", program) for program in ("libfuse", "umount")),
    ],
)
def test_kind_of_disk_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: DiskKind, program: str
) -> None:
    environment = _path_without(tmp_path, program)
    monkeypatch.setenv("PATH", environment["PATH"])
    monkeypatch.setattr(tools, "_libfuse_loads", lambda: program != "libfuse")
    assert f"{program} is not installed (package {tools.PACKAGES[program]})" in misfit(kind)


def test_disk_that_no_kind_fits_is_refused_with_all_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run then emulates power cuts."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "_libfuse_loads", lambda: False)
    disks = Disks(EmbeddedLab(three_azs("zookeeper"), tmp_path))
    (reason,) = disks.make_where_possible(["broker1"]).values()
    assert reason.startswith("broker1 gets no disk whose power can be cut: fuse: ")
    assert all(tools.not_installed(name) in reason for name in ("libfuse", "mkfs.ext4", "mkfs.xfs"))
    assert disks.get("broker1") is None
    assert not (disks_folder := tmp_path / "nodes").exists(), list(disks_folder.rglob("*"))
    assert all(kind in reason for kind in KINDS)


def test_command_that_vanishes_between_probe_and_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnfitError, match=r"^mkfs\.xfs is not installed \(package xfsprogs\)\.$"):
        disk.run("mkfs.xfs", "-q", "image")
