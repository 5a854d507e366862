"""Run folders: one per run, `latest` points to the newest, and a manifest is never half written."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadDataError, UsageError
from run.folder import RunFolder


def test_latest_points_at_the_newest(tmp_path: Path) -> None:
    """Two runs within one second get folders of their own."""
    first = RunFolder.create(tmp_path, "x")
    second = RunFolder.create(tmp_path, "x")
    assert first.path != second.path
    assert (tmp_path / "x" / "latest").resolve() == second.path


def test_the_manifest_keeps_what_it_had(tmp_path: Path) -> None:
    """An update adds to the manifest."""
    folder = RunFolder.create(tmp_path, "x")
    folder.update(status="running", kafka="2.7.1")
    folder.update(status="complete")
    assert folder.manifest() == {"status": "complete", "kafka": "2.7.1"}


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """The error names the folder, and the option for another one."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--runs"):
        RunFolder.create(tmp_path / "file", "x")


def test_a_folder_without_a_manifest_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match=r"run\.json"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "is not valid JSON"),
        (b'{"status": "\xff"}', "is not valid JSON"),
        (b"[]", "holds no JSON object"),
        (b"[" * 9**5, "is JSON that is nested too deeply"),
        (b'{"a":' * 9**5, "is JSON that is nested too deeply"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(BadDataError, match=rf"run\.json {problem}.*; the run folder is damaged\.$"):
        RunFolder.open(tmp_path).manifest()


def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    folder = RunFolder.open(tmp_path)
    (tmp_path / "run.json").unlink()
    with pytest.raises(BadDataError, match=r"run\.json cannot be read \(No such file or directory\)"):
        folder.manifest()
