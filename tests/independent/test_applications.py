"""Applications of Kafka Streams: the checker against a model that plants what it must find."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.applications.findings import APPLICATION_CLASSES, application_findings
from checkers.evidence import SMALL, evidence_of, gather
from checkers.judging.plan import judge_all
from checkers.judging.run import run_here
from checkers.judging.tasks import JudgingContext
from checkers.tables.files import parquet_files, read_parquet
from checkers.tables.output import FINDING
from checkers.tables.source import Source, TableFile, open_source
from harness.history.schema import TABLES
from harness.kafka.model import TopicPartition
from tests.independent import applications


def table(world: applications.World, name: str) -> pa.Table:
    """A table of the history."""
    return pa.Table.from_pylist(world.tables.get(name, []), TABLES[name].arrow())


def said(rows: Iterable[dict[str, Any]]) -> Counter[tuple[str, str, int, str]]:
    """What findings say about the application, counted as the model counts."""
    counts: Counter[tuple[str, str, int, str]] = Counter()
    for row in rows:
        if row["class"] in APPLICATION_CLASSES:
            topic = json.loads(row["detail"])["written_to"]
            counts[row["class"], topic, row["partition"], row["cause"]] += row["count"]
    return counts


def found(world: applications.World, folder: Path) -> Counter[tuple[str, str, int, str]]:
    """What the checker says about the application alone."""
    copies, path = table(world, "copies"), str(folder / "copies.parquet")
    pq.write_table(copies, path)
    file = TableFile(path=path, rows=copies.num_rows, topic_partition=None)
    # Only which replicas there are is asked of `replicas`.
    source = Source(str(folder), {"copies": (file,), "replicas": (file,)})
    evidence = evidence_of({name: table(world, name) for name in SMALL})
    sent: defaultdict[TopicPartition, set[tuple[int, int]]] = defaultdict(set)
    for row in world.tables["sends"]:
        sent[TopicPartition(row["topic"], row["partition"])].add((row["writer"], row["seq"]))
    return said(row for where in sent for row in application_findings(source, evidence, where, sent[where]))


def judged(world: applications.World, folder: Path) -> list[dict[str, Any]]:
    """All findings about the history."""
    for name in world.tables:
        pq.write_table(table(world, name), folder / f"{name}.parquet")
    source = open_source(folder)
    findings = folder / "findings"
    findings.mkdir()
    judge_all(
        run_here, JudgingContext(source=source, evidence=gather(source), life=None, findings=str(findings))
    )
    return [row for path in parquet_files(findings) for row in read_parquet(path, FINDING).to_pylist()]


def compare(numbers: range, folder: Path) -> Counter[str]:
    """Compare histories; returns in how many each class was to be found, and `none` for no finding."""
    seen: Counter[str] = Counter()
    for number in numbers:
        world = applications.make(number)
        assert found(world, folder) == world.expected, f"history {number}"
        seen.update({name for name, *_ in world.expected} or {"none"})
    return seen


def test_an_application_beside_other_messages(tmp_path: Path) -> None:
    """Nobody takes what it writes for messages that were sent elsewhere."""
    for number in range(4):
        world = applications.make(number)
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = judged(world, folder)
        assert said(rows) == world.expected
        assert {row["class"] for row in rows} <= {*APPLICATION_CLASSES, "lost", "duplicated"}


def test_planted_histories(tmp_path: Path) -> None:
    seen = compare(range(60), tmp_path)
    assert min(seen[name] for name in (*applications.CLASSES, "none")) >= 2, seen


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_thousand_planted_histories(tmp_path: Path) -> None:
    seen = compare(range(10_000), tmp_path)
    assert min(seen[name] for name in (*applications.CLASSES, "none")) > 200, seen
