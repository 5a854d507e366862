"""Offsets that transactions commit, on real brokers: committed ones are the group's, aborted ones are not."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from harness.history.tables import read_table
from tests.cluster.conftest import run_by

pytestmark = [pytest.mark.cluster, pytest.mark.long]

UNSTABLE = 88
EXPECTED = [
    *(("sent", 2), ("fetched", None), ("committed", 2), ("fetched", 2)),
    *(("sent", 4), ("fetched", 2)),
    *(("sent", 3), ("fetched", 2), ("committed", 3), ("fetched", 3)),
]
"""Of each client: the old offset holds until the transaction is committed, and for good if it is aborted."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("version", "clients"), [("2.7.1", ("raw-v1", "java")), ("4.3.1", ("raw-v1", "raw-v2", "java"))]
)
def test_a_group_has_the_offset_that_was_committed(
    version: str, clients: tuple[str, ...], runs: Path
) -> None:
    folder = run_by("offsets_worker", runs, version, *clients, timeout_s=280)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(read_table(folder, "groups").to_pylist(), key=lambda row: row["ns"]):
        rows.setdefault(row["group"], []).append(row)
    assert set(rows) == {f"of-{client}" for client in clients}
    for of_group in rows.values():
        answered = [row for row in of_group if not row["error"]]
        steps = [step for step, _ in groupby((row["event"], row["offset"]) for row in answered)]
        assert steps == EXPECTED
        assert {row["error"] for row in of_group} <= {0, UNSTABLE, 15, 16, 14}
