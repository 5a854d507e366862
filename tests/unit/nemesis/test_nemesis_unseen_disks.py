"""A host that does not see the disk that was mounted for it gets none, and its power cuts are emulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from nemesis_fakes import TOPOLOGY, Rows

from harness.errors import LabError, UnfitError
from harness.lab.model import SECOND_DATA, Lab, Result
from nemesis.fault import Injection
from nemesis.nemesis import Nemesis
from nemesis.storage import disks as module
from nemesis.storage.disk import DiskKind
from nemesis.storage.disks import Disks


class BlindLab:
    """A lab in which only some hosts see what is mounted after their start."""

    kind = "stub"
    topology = TOPOLOGY

    def __init__(self, folder: Path, *seeing: str) -> None:
        self.folder = folder
        self.seeing = seeing
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def data_dir(self, host: str) -> Path:
        return self.folder / host

    def inside(self, host: str, path: Path) -> str:
        return f"/host/{path.relative_to(self.data_dir(host))}"

    def execute(self, host: str, argv: Sequence[str], **_: Any) -> Result:
        self.asked.append((host, tuple(argv)))
        return Result(0 if host in self.seeing else 32, "", "")

    def execute_all(self, commands: Mapping[str, Any], **_: Any) -> dict[str, Result]:
        return {host: Result(0, "", "") for host in commands}

    def alive(self, _host: str) -> bool:
        return True

    def on_new_network(self, _callback: object) -> None:
        pass

    def on_start(self, _callback: object) -> None:
        pass


class FolderDisk:
    """A disk that is a plain folder, and remembers whether it is mounted."""

    powered = True

    def __init__(self, kind: DiskKind, mount: Path) -> None:
        self.kind, self.mount, self.attached = kind, mount, False

    def attach(self) -> None:
        self.mount.mkdir(parents=True)
        self.attached = True

    def detach(self) -> None:
        self.attached = False


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FolderDisk]:
    """All disks that were made, whatever this machine can mount."""
    disks: list[FolderDisk] = []

    def make(kind: DiskKind, mount: Path) -> FolderDisk:
        disks.append(FolderDisk(kind, mount))
        return disks[-1]

    monkeypatch.setattr(module, "misfit", lambda _kind: "")
    monkeypatch.setattr(module, "make_disk", make)
    return disks


def test_a_disk_that_the_host_does_not_see_is_refused_and_removed(
    tmp_path: Path, made: list[FolderDisk]
) -> None:
    lab = BlindLab(tmp_path)
    disks = Disks(cast(Lab, lab))
    with pytest.raises(UnfitError, match=r"^broker1 does not see file systems .* run the stub lab as root"):
        disks.make("broker1")
    assert lab.asked == [("broker1", ("mountpoint", "-q", "/host/disk"))]
    assert [disk.attached for disk in made] == [False]
    assert list(lab.data_dir("broker1").iterdir()) == [], "the broker makes its data folder itself"
    assert disks.get("broker1") is None


@pytest.mark.parametrize(
    "error", [LabError("broker1 is not up."), KeyboardInterrupt()], ids=["failed", "ended"]
)
def test_a_disk_is_removed_if_its_host_cannot_be_asked(
    tmp_path: Path, made: list[FolderDisk], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object) -> Result:
        raise error

    monkeypatch.setattr(BlindLab, "execute", fail)
    lab = BlindLab(tmp_path)
    disks = Disks(cast(Lab, lab))
    with pytest.raises(type(error)):
        disks.make("broker1")
    assert [disk.attached for disk in made] == [False]
    assert list(lab.data_dir("broker1").iterdir()) == []
    assert disks.get("broker1") is None


def test_only_the_power_cuts_of_hosts_that_do_not_see_their_disks_are_emulated(
    tmp_path: Path, made: list[FolderDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = BlindLab(tmp_path, "broker2")
    disks = Disks(cast(Lab, lab))
    (reason,) = disks.make_where_possible(["broker1", "broker2"]).items()
    assert reason[0] == "broker1" and "its power can only be cut by emulation" in reason[1]
    assert [(disk.mount.parent.name, disk.attached) for disk in made] == [
        ("broker1", False),
        ("broker2", True),
    ]
    assert (lab.data_dir("broker2") / "data").resolve() == made[1].mount / "d"

    monkeypatch.setattr(Injection, "inject", lambda injection: injection)
    storage = Nemesis(cast(Lab, lab), Rows(tmp_path).journal, disks=disks).storage
    cuts = [storage.power_cut(host).fault for host in ("broker1", "broker2")]
    assert [cut.name for cut in cuts] == ["power cut broker1 (emulated)", "power cut broker2"]
    assert [cut.targets()["disks"] for cut in cuts] == [{"broker1": "emulation"}, {"broker2": "fuse"}]
    with pytest.raises(UnfitError, match="The power of broker1 cannot be cut"):
        storage.power_cut("broker1", how="real")


def test_the_second_log_directory_has_a_disk_of_its_own(tmp_path: Path, made: list[FolderDisk]) -> None:
    lab = BlindLab(tmp_path, "broker2")
    disks = Disks(cast(Lab, lab))
    second = disks.make("broker2", folder=SECOND_DATA)
    assert disks.get("broker2") is None, "a power cut would take more than that disk"
    assert disks.get("broker2", SECOND_DATA) is second is disks.make("broker2", folder=SECOND_DATA)
    assert (lab.data_dir("broker2") / "data2").resolve() == second.mount / "d"
    assert disks.make("broker2").mount != second.mount
    assert [disk.mount.name for disk in made] == ["disk2", "disk"]
