"""The name of a host means another address, which the host has, and the old one is nobody's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import InvalidRunError, LabError, UnfitError, UsageError
from harness.lab import host_names
from harness.lab.embedded import namespaces
from harness.lab.model import Result
from nemesis.fault import Injection
from nemesis.processes.address import AddressChange
from tests.unit.nemesis.nemesis_fakes import Rows

HOST: Any = SimpleNamespace(name="broker1", address="198.18.0.21")


class Lab:
    """Hosts whose interfaces are lists; commands fail with ``status``."""

    kind, shares_files = "embedded", True

    def __init__(self, run_dir: Path) -> None:
        self.run_dir, self.status, self.running = run_dir, 0, False
        self.interface = [HOST.address]
        self.topology = SimpleNamespace(hosts=[HOST], observer_address="198.18.0.254")

    def execute(self, host: str, argv: list[str]) -> Result:
        match argv:
            case ["ip", "addr", verb, address, "dev", "eth0"] if not self.status:
                plain = address.removesuffix("/24")
                self.interface.append(plain) if verb == "add" else self.interface.remove(plain)
        shown = "\n".join(f"2: eth0    inet {address}/24 scope global eth0" for address in self.interface)
        return Result(self.status, shown, "refused")

    def alive(self, host: str) -> bool:
        return self.running


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(namespaces, "own_hosts_file", lambda path: None)
    return Lab(tmp_path)


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


def fault(lab: Any) -> AddressChange:
    return AddressChange(SimpleNamespace(lab=lab), HOST)  # type: ignore[arg-type]


def test_a_name_means_one_address_after_the_other(lab: Any, rows: Rows) -> None:
    host_names.give_names(lab, ["broker1"])
    assert lab.interface == ["198.18.0.21", "198.18.0.253"]
    hosts = lab.run_dir / "hosts"
    inode = hosts.stat().st_ino
    injection = Injection(1, fault(lab), rows.journal).inject()
    assert injection.evidence == {"from": "198.18.0.253", "to": "198.18.0.252"}
    assert lab.interface == ["198.18.0.21", "198.18.0.252"]
    assert [line.split() for line in hosts.read_text().splitlines()] == [
        ["127.0.0.1", "localhost"],
        ["198.18.0.252", "broker1"],
    ]
    assert hosts.stat().st_ino == inode, "the file is mounted: another one would not be seen"
    Injection(2, fault(lab), rows.journal).inject()
    assert lab.interface == ["198.18.0.21", "198.18.0.253"]


def test_without_names_nothing_is_mounted(lab: Any) -> None:
    host_names.give_names(lab, [])
    assert not (lab.run_dir / "hosts").exists()


def test_a_host_without_a_name_keeps_its_address(lab: Any) -> None:
    with pytest.raises(UnfitError, match=r"broker1 cannot get another .*Setup\(named=\('broker1',\)\)"):
        fault(lab)


def test_an_address_changes_while_its_process_is_away(lab: Any) -> None:
    host_names.give_names(lab, ["broker1"])
    lab.running = True
    with pytest.raises(UsageError, match="kill or stop broker1 first"):
        fault(lab)


def test_a_change_without_effect_is_none(lab: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    host_names.give_names(lab, ["broker1"])
    monkeypatch.setattr(host_names, "_ip", lambda *_: None)
    with pytest.raises(InvalidRunError, match="had no effect: broker1 has the addresses 198.18.0.21, 198.18"):
        Injection(1, fault(lab), rows.journal).inject()


def test_a_refused_address_is_told(lab: Any) -> None:
    lab.status = 2
    with pytest.raises(LabError, match="`ip addr add 198.18.0.253` in broker1 ended with status 2: refused"):
        host_names.give_names(lab, ["broker1"])


def test_containers_have_names_that_others_keep(lab: Any) -> None:
    lab.kind, lab.shares_files = "compose", False
    with pytest.raises(UnfitError, match="only the embedded lab .* and this is the compose lab"):
        host_names.give_names(lab, ["broker1"])
