"""Reading a run's tables for a page: a large file is read in part, a small one once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import BadDataError
from report.model import tables
from report.model.tables import RunTables, by_az_and_acks

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


@pytest.mark.parametrize("kept_rows", [0, 100])
def test_rows_about_some_messages(folder: Path, kept_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_KEPT_ROWS", kept_rows)
    count = 12
    columns = {"topic": ["t"] * count, "partition": [0] * count, "fate": ["kept"] * count}
    numbers = {"writer": [n % 3 for n in range(count)], "seq": list(range(count)), "sent_ns": [1] * count}
    (folder / "life.parquet").mkdir()
    pq.write_table(pa.table(columns | numbers), folder / "life.parquet" / "0.parquet", row_group_size=3)
    run = RunTables(folder)
    rows = run.of_messages("life", {(1, 4), (2, 4), (2, 11), (0, 99)})
    assert [(row["writer"], row["seq"], row["fate"]) for row in rows] == [(1, 4, "kept"), (2, 11, "kept")]
    assert rows[0]["label"] is None, "a column that the file lacks"
    assert run.of_messages("life", set()) == run.of_messages("reads", {(1, 4)}) == []


def test_of_a_large_file_only_groups_of_rows_that_hold_a_message_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_rows_about_some_messages(folder, 0, monkeypatch)
    whole = list[int]()
    read = pq.ParquetFile.read_row_group

    def noting(self: pq.ParquetFile, group: int, columns: list[str] | None = None) -> pa.Table:
        if columns is None:
            whole.append(group)
        return read(self, group, columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noting)
    RunTables(folder).of_messages("life", {(1, 4), (2, 4), (2, 11)})
    assert whole == [1, 3]


def test_rows_by_az_and_acks() -> None:
    """Two chunks, whose dictionaries differ."""
    parts = [(["az2", None], [1, -1]), (["az1", "az2", "az2"], [None, -1, 1])]
    life = pa.concat_tables(
        pa.table({"az": pa.array(azs).dictionary_encode(), "acks": pa.array(acks, pa.int32())})
        for azs, acks in parts
    )
    found = {place: rows.tolist() for place, rows in by_az_and_acks(life).items()}
    assert [*found.items()] == [
        (("az2", 1), [0, 4]), (("", -1), [1]), (("az1", None), [2]), (("az2", -1), [3]),
    ]  # fmt: skip
    assert by_az_and_acks(life.slice(0, 0)) == {}


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
