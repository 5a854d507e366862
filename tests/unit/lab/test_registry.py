"""Kinds of labs: acked's own, and those of installed packages."""

from __future__ import annotations

from importlib import metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from harness import doctor
from harness.errors import UsageError
from harness.lab import registry
from harness.lab.layout import three_azs
from harness.lab.registry import GROUP, LabKind, lab_kind

SSH = LabKind(make=lambda topology, run_dir: pytest.fail("not made"), requires=("fuse",))
NO_KIND = "not a lab"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a lab, two wrong ones, and one that has the name of one of acked's."""
    values = {"ssh": f"{__name__}:SSH", "absent": "no_such_module:KIND", "text": f"{__name__}:NO_KIND"}
    points = [EntryPoint(name, value, GROUP) for name, value in {**values, "embedded": "other:KIND"}.items()]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points if group == GROUP else [])


def test_own_labs_make_hosts_that_are_not_up(tmp_path: Path) -> None:
    assert registry.names()[:2] == ["embedded", "compose"]
    for name in registry.names()[:2]:
        lab = lab_kind(name).make(three_azs("kraft"), tmp_path)
        assert (lab.kind, lab.shares_files) == (name, name == "embedded")
        assert lab_kind(name).enter is not None


def test_a_lab_without_an_entrance_runs_the_harness_as_it_is() -> None:
    assert lab_kind("compose").enter(lambda: 7) == 7


@pytest.mark.usefixtures("installed")
def test_a_package_offers_a_lab() -> None:
    assert registry.names() == ["embedded", "compose", "ssh", "absent", "text"]
    assert lab_kind("ssh") is SSH
    assert "fuse" in doctor.required("ssh") and "namespaces" not in doctor.required("ssh")
    assert "namespaces" in doctor.required("embedded"), "acked's own is not replaced"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("vagrant", "There is no lab 'vagrant'; use embedded or compose or ssh or"),
        ("absent", r"The lab 'absent' of an installed package \(no_such_module:KIND\) cannot be loaded"),
        ("text", "names no LabKind; correct it"),
    ],
)
def test_what_is_no_lab(name: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        lab_kind(name)
    assert len(caught.value.message) <= 300
