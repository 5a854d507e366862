"""Temporary folders of runs are removed at their end; the next run removes those of killed runs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from run.scratch import scratch_folder

HOLD = """
import sys
from run.scratch import scratch_folder

with scratch_folder() as folder:
    (folder / "spark").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_it_goes_at_the_end(tmp_path: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == tmp_path
        (folder / "file").write_text("")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_run_goes_and_that_of_a_live_one_stays(tmp_path: Path) -> None:
    """Folders of other programs stay as well."""
    (tmp_path / "acked-benchmark-1").mkdir()
    command = [sys.executable, "-c", HOLD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        left = Path(owner.stdout.readline().strip())
        with scratch_folder() as mine:
            assert left.is_dir()
            owner.kill()
            owner.wait(10)
            assert (left / "spark").is_dir()
            with scratch_folder() as other:
                assert set(tmp_path.iterdir()) == {mine, other, tmp_path / "acked-benchmark-1"}


def test_a_file_or_link_of_that_name_is_left_alone(tmp_path: Path) -> None:
    """The project creates only folders there."""
    (tmp_path / "acked-scratch-file").write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "acked-scratch-link").symlink_to(tmp_path / "elsewhere")
    with scratch_folder():
        pass
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"acked-scratch-file", "acked-scratch-link", "elsewhere"}
