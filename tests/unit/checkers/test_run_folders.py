"""Run folders that cannot be judged: said in one sentence, never passed. None of these needs Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from checkers.judge import judge
from harness.errors import BadDataError
from harness.history.schema import TABLES


def _folder(tmp_path: Path, status: str, *tables: str, problem: str | None = None) -> Path:
    (tmp_path / "run.json").write_text(json.dumps({"scenario": "s", "status": status, "problem": problem}))
    for name in tables:
        (tmp_path / "history").mkdir(exist_ok=True)
        pq.write_table(TABLES[name].arrow().empty_table(), tmp_path / "history" / f"{name}.parquet")
    return tmp_path


@pytest.mark.parametrize("status", ["invalid", "crashed"])
def test_a_run_that_ended_before_its_final_logs_has_no_fates(tmp_path: Path, status: str) -> None:
    """Its tables are there and empty; to call every acknowledged message lost would be false."""
    folder = _folder(tmp_path, status, "sends", "copies", "replicas", problem="broker1 did not lead")
    found = judge(None, folder)
    assert (found.verdict, dict(found.fates), found.findings) == (status, {}, ())
    assert found.reasons[0] == "broker1 did not lead"
    assert "never read" in found.reasons[1]


def test_a_run_without_history_keeps_its_status(tmp_path: Path) -> None:
    """What stopped it is the reason."""
    found = judge(None, _folder(tmp_path, "crashed", problem="no room"))
    assert (found.verdict, found.reasons) == ("crashed", ("no room",))


def test_a_run_that_never_ended_is_half_written(tmp_path: Path) -> None:
    """Nobody can tell what else it would have recorded."""
    with pytest.raises(BadDataError, match="half-written"):
        judge(None, _folder(tmp_path, "running"))


def test_an_unknown_status_is_refused(tmp_path: Path) -> None:
    """A manifest of another program, or of a later version."""
    with pytest.raises(BadDataError, match="status 'done'"):
        judge(None, _folder(tmp_path, "done"))


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """Cut off, or no object."""
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(BadDataError, match=r"run\.json"):
        judge(None, tmp_path)
