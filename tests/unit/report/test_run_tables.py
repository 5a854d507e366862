"""Reading a run's tables for a page: a large file is read in part, a small one once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import BadDataError
from report.model import tables
from report.model.tables import RunTables

ROWS = [("t", 0, 5), ("t", 1, 6), ("u", 0, 7), ("t", 0, 8)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `watermarks` in two files: one per topic."""
    (tmp_path / "judgement.json").write_text("{}")
    parts = tmp_path / "history" / "watermarks.parquet"
    parts.mkdir(parents=True)
    for topic in ("t", "u"):
        of_topic = [row for row in ROWS if row[0] == topic]
        columns = zip(
            ("topic", "partition", "high_watermark"), map(list, zip(*of_topic, strict=True)), strict=True
        )
        pq.write_table(pa.table(dict(columns)), parts / f"{topic}.parquet")
    return tmp_path


@pytest.mark.parametrize("kept_rows", [0, 100])
def test_rows_of_one_topic_partition(folder: Path, kept_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_KEPT_ROWS", kept_rows)
    run = RunTables(folder)
    for _ in range(2):
        assert run.table("watermarks", ["high_watermark"], ("t", 0)).to_pydict() == {"high_watermark": [5, 8]}
        assert run.table("watermarks", ["high_watermark"], ("u", 0)).to_pydict() == {"high_watermark": [7]}
        assert run.table("watermarks", ["high_watermark"], ("u", 1)).to_pydict() == {"high_watermark": []}
        assert run.table("watermarks", ["high_watermark", "leo"]).to_pydict() == {
            "high_watermark": [5, 6, 8, 7],
            "leo": [None] * 4,
        }


DAMAGED_COLUMNS = [
    ("history/marks", {"ns": ["zz"], "name": ["a"]}, "column ns is no int64 .*; the run folder is damaged"),
    ("history/marks", {"ns": [None], "name": ["a"]}, "column ns is required, but a row has none; the run"),
    ("history/marks", {"ns": [1]}, "column name is required, but a row has none; the run folder is damaged"),
    (
        "life",
        {"topic": ["t"], "partition": ["zz"]},
        "column partition is no int32 .*; judge the run again with `acked check`",
    ),
    ("life", {"topic": ["t"], "partition": [0], "writer": [1]}, "column seq is required.*; judge the run"),
    ("findings", {"class": ["lost"]}, "column expected is required.*; judge the run again"),
]


@pytest.mark.parametrize(("name", "columns", "said"), DAMAGED_COLUMNS)
def test_columns_of_wrong_types_and_absent_values_are_bad_data(
    name: str, columns: dict[str, list[object]], said: str, folder: Path
) -> None:
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    with pytest.raises(BadDataError, match=f"{name}.parquet: {said}"):
        RunTables(folder).table(name.rpartition("/")[2])


def test_columns_that_earlier_versions_did_not_write_are_null(folder: Path) -> None:
    pq.write_table(pa.table({"class": ["lost"], "expected": [True]}), folder / "findings.parquet")
    (row,) = RunTables(folder).rows("findings", ["class", "cause_facts", "brokers"])
    assert row == {"class": "lost", "cause_facts": None, "brokers": None}


@pytest.mark.parametrize(("kept_rows", "reads"), [(0, ["t", "t"]), (100, ["t", "u"])])
def test_files_that_are_read(
    folder: Path, kept_rows: int, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of large files only those that may hold the partition, each time; small ones once each."""
    monkeypatch.setattr(tables, "_KEPT_ROWS", kept_rows)
    seen = []
    read = pq.ParquetFile.read

    def counted(file: pq.ParquetFile, *args: object, **options: object) -> pa.Table:
        seen.append(file.read_row_group(0)["topic"][0].as_py())
        return read(file, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", counted)
    run = RunTables(folder)
    run.table("watermarks", ["high_watermark"], ("t", 0))
    run.table("watermarks", ["high_watermark"], ("t", 0))
    assert seen == reads
