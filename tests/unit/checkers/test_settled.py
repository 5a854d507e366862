"""Messages that a rolling judgement has counted, as `run.json` states them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.run_folder import Settled, read_manifest
from harness.errors import BadDataError
from harness.history.schema import SCHEMA_VERSION

ROW = {"writer": 3, "outcome": "ok", "fate": "kept", "count": 70}


def _manifest(folder: Path, settled: object) -> Path:
    manifest = {"schema_version": SCHEMA_VERSION, "status": "complete", "settled": settled}
    (folder / "run.json").write_text(json.dumps(manifest))
    return folder


def test_settled_messages_are_read(tmp_path: Path) -> None:
    settled = read_manifest(str(_manifest(tmp_path, [ROW]))).settled
    assert settled == (Settled(writer=3, outcome="ok", fate="kept", count=70),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": -1},
        {"count": "70"},
        {"writer": True},
        {"fate": "lost"},
        {"outcome": "done"},
        {"writer": None},
    ],
)
def test_what_no_rolling_judgement_writes_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(BadDataError, match="settled holds"):
        read_manifest(str(_manifest(tmp_path, [{**ROW, **wrong}])))
    with pytest.raises(BadDataError, match="settled"):
        read_manifest(str(_manifest(tmp_path, 7)))
