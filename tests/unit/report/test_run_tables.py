"""Reading a run's tables for a page: a large file is read in part, a small one once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
