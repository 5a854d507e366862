"""The doctor tries everything, leaves nothing behind, and names in one sentence what is missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import typer

from cli import doctor as command
from harness import doctor
from harness.errors import EXIT_UNFIT, UnfitError
from harness.lab.docker import engine as docker_engine


def _state() -> tuple[str, ...]:
    """The things that probes could leave behind on this machine."""
    commands = (
        ("ip", "-br", "link"),
        ("ip", "netns", "list"),
        ("losetup", "--all"),
        ("cat", "/proc/self/mounts"),
    )
    path = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return tuple(
        subprocess.run(command, capture_output=True, text=True, env=path, check=False).stdout
        for command in commands
    )


def test_all_is_tried() -> None:
    checks = doctor.diagnose()
    assert tuple(check.name for check in checks) == doctor.CHECKS
    assert all(check.found and check.needed_for for check in checks)
    assert all(check.remedy for check in checks if not check.ok)


def test_probes_leave_nothing_behind() -> None:
    # Loop devices and interfaces of concurrent tests come and go: one moment without a difference is enough.
    for _ in range(5):
        before = _state()
        doctor.diagnose(("namespaces", "iproute2", "iptables", "tbf", "fuse", "ext4", "xfs"))
        if _state() == before:
            return
    assert _state() == before


def test_only_what_is_asked_for_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_engine, "connect", lambda: pytest.fail("asked the engine"))
    assert [check.name for check in doctor.diagnose(("memory", "python"))] == ["python", "memory"]


@pytest.mark.parametrize(("folder", "status"), [(None, 0), ("nothing", EXIT_UNFIT)])
def test_a_folder_of_kafka_that_cannot_run(
    folder: str | None, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--kafka-home` adds a check, which decides about the exit code as well."""
    fit = [
        doctor.Check(name=name, ok=True, found="works", remedy="", needed_for="runs")
        for name in doctor.CHECKS
    ]
    monkeypatch.setattr(command, "diagnose", lambda: list(fit))
    with pytest.raises(typer.Exit) as end:
        command.doctor(home=Path(folder) if folder else None, as_json=False)
    assert end.value.exit_code == status
    assert ("--kafka-home nothing does not exist" in capsys.readouterr().out) == (folder is not None)


def test_no_such_check() -> None:
    with pytest.raises(ValueError, match="no such check: iptabels"):
        doctor.diagnose(("iptabels",))


def test_require_says_it_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(names: list[str]) -> dict[str, tuple[bool, str, str]]:
        return dict.fromkeys(names, (False, "tc: Specified qdisc kind is unknown", "modprobe it"))

    monkeypatch.setattr(doctor, "_inside", probe)
    with pytest.raises(
        UnfitError, match=r"netem failed \(.*qdisc.*\), .* delays a link; remedy: modprobe it; `acked doctor`"
    ):
        doctor.require(("netem",))
    doctor.require(("python",))


def test_probe_process_that_dies_condemns_all_it_was_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys, "executable", "/bin/false")
    checks = {check.name: check for check in doctor.diagnose(("namespaces", "netem"))}
    assert not checks["namespaces"].ok
    assert checks["netem"].found == "not tried: this machine refuses namespaces"


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("user/max_user_namespaces", "0", ""),
        ("user/max_net_namespaces", "0", "sudo sysctl -w user.max_net_namespaces=10000"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", ""),
    ],
)
@pytest.mark.skipif(os.getuid() != 0, reason="remedies of root")
def test_remedies_for_root(tmp_path: Path, setting: str, value: str, remedy: str) -> None:
    file = tmp_path / setting
    file.parent.mkdir(parents=True)
    file.write_text(f"{value}\n")
    found = doctor._namespace_remedy(tmp_path)
    assert found == (remedy or "run as root; in a container, give it CAP_SYS_ADMIN and an unmasked /proc")


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=10000"),
    ],
)
def test_remedies_for_an_ordinary_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, remedy: str
) -> None:
    monkeypatch.setattr(doctor.os, "getuid", lambda: 1000)
    file = tmp_path / setting
    file.parent.mkdir(parents=True)
    file.write_text(f"{value}\n")
    assert doctor._namespace_remedy(tmp_path) == remedy


def test_lab_needs() -> None:
    checks = [
        doctor.Check(name=name, ok=name != "docker-engine", found="", remedy="", needed_for="")
        for name in doctor.CHECKS
    ]
    assert doctor.missing_for("embedded", checks) == []
    assert doctor.missing_for("compose", checks) == ["docker-engine"]
