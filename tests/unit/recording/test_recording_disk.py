"""The room of a recording on its disk: looked at before it begins, and while it grows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from run.recording import disk
from run.recording.disk import Room, require_room
from run.recording.plan import RecordingPlan

PLAN = RecordingPlan(topic="acked-x", assignment=((0,),), rate=300.0, size_bytes=100, for_s=3600.0)


def free(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    usage: Any = shutil.disk_usage("/")._replace(free=count)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _place: usage)
    monkeypatch.setattr(disk, "_EVERY_S", 0.0)


def test_a_recording_that_would_fill_the_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, PLAN.most_own_bytes)
    with pytest.raises(UsageError, match=r"may need 2\.7 GB in .*, and 2\.4 GB are free; .*--runs"):
        require_room(tmp_path / "not" / "yet", PLAN)


def test_a_recording_ends_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(folder=tmp_path, most_bytes=10_000)
    (tmp_path / "journal.jsonl").write_bytes(bytes(8_000))
    free(monkeypatch, (1 << 28) + 4_000)
    assert room.lacking() == ""
    free(monkeypatch, (1 << 28) + 3_999)
    assert room.lacking() == "the disk of its folder has 268 MB left"


def test_a_recording_has_a_budget_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 1 << 40)
    room = Room(folder=tmp_path, most_bytes=2_000_000)
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "journal.jsonl").write_bytes(bytes(2_000_001))
    assert room.lacking() == "its folder has 2 MB, and may have 2"
