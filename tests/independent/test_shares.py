"""Share groups: the checker against a model that plants what it must find, and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from checkers.evidence import SMALL, evidence_of
from checkers.shares.findings import KeptMessage, share_findings
from harness.history.schema import TABLES
from harness.kafka.model import TopicPartition
from tests.independent import shares


def found(world: shares.World) -> list[dict[str, Any]]:
    """What the checker says."""
    limit = {"scope": "group", "name": "g", "key": "share.delivery.count.limit", "asked": str(world.limit)}
    rows = {"shares": world.rows, "share_states": world.states, "configs": [limit]}
    tables = {name: pa.Table.from_pylist(list(rows.get(name, [])), TABLES[name].arrow()) for name in SMALL}
    kept = [KeptMessage(offset=offset, acked_ns=ns) for offset, ns in world.kept]
    return share_findings(evidence_of(tables), TopicPartition("t", 0), kept)


def disagreement(world: shares.World) -> str:
    """What checker and model say differently; empty if they agree."""
    said: Counter[str] = Counter()
    for row in found(world):
        said[row["class"]] += row["count"]
        if row["offset"] not in world.expected[row["class"]]:
            return f"{row['class']} at offset {row['offset']}, which is none: {row}"
    wanted = {name: len(offsets) for name, offsets in world.expected.items() if offsets}
    return "" if dict(said) == wanted else f"model {dict(world.expected)}, checker {dict(said)}"


def compare(count: int) -> Counter[str]:
    """Compare histories; returns in how many each class was to be found, and `none` for no finding."""
    seen: Counter[str] = Counter()
    for number in range(count):
        world = shares.make(number)
        assert disagreement(world) == "", f"history {number}"
        seen.update([name for name, offsets in world.expected.items() if offsets] or ["none"])
    return seen


def test_planted_histories() -> None:
    seen = compare(150)
    assert min(seen[name] for name in (*shares.CLASSES, "none")) >= 2, seen


@pytest.mark.long
def test_ten_thousand_planted_histories() -> None:
    seen = compare(10_000)
    assert min(seen[name] for name in (*shares.CLASSES, "none")) > 200, seen
