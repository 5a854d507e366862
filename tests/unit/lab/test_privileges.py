"""Processes of a lab have no capabilities."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.privileges import unprivileged

_STATUS = "print(*(l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd'))))"
NONE = ["0000000000000000"] * 2


def capabilities(command: list[str]) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_a_command_has_none(tmp_path: Path) -> None:
    effective, bounding = capabilities(unprivileged([sys.executable, "-c", _STATUS], Path("/")))
    assert int(effective, 16) == 0
    assert bounding == NONE[1] or os.geteuid() != 0


def test_a_process_gives_them_up_for_itself_and_what_it_starts() -> None:
    code = (
        "import subprocess, sys; from harness.privileges import give_up_capabilities; "
        f"give_up_capabilities(); {_STATUS}; sys.stdout.flush(); "
        f"subprocess.run([sys.executable, '-c', {_STATUS!r}])"
    )
    capability_sets = capabilities([sys.executable, "-c", code])
    assert {int(capability_sets[0], 16), int(capability_sets[2], 16)} == {0}
    assert capability_sets == NONE * 2 or os.geteuid() != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works in folders of others")
def test_root_still_reaches_the_folders_of_another_user(tmp_path: Path) -> None:
    private = tmp_path / "home"
    private.mkdir()
    (private / "file").write_text("content")
    os.chown(private, 12345, 12345)
    private.chmod(0o700)
    assert capabilities(unprivileged(["cat", str(private / "file")], private)) == ["content"]
    with pytest.raises(subprocess.CalledProcessError):
        capabilities(unprivileged(["cat", str(private / "file")], Path("/")))
