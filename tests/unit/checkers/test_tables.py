"""Tables on disk: every file is read or refused with one sentence; encodings do not matter."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.tables.source import open_source, partitions
from harness.errors import BadDataError
from harness.kafka.model import TopicPartition
from tests.blocks import blocks_of_rows
from tests.histories import History
from tests.property.test_checker import findings_of


def kept(count: int = 6, **more: Any) -> History:
    """Messages that are where they should be."""
    history = History()
    for seq in range(count):
        history.send(seq, offset=seq, **more)
    return history.logs(
        [(seq, seq) for seq in range(count)], **{k: v for k, v in more.items() if k == "topic"}
    )


def apart(folder: Path, table: str) -> Path:
    """The table as a folder of two files."""
    file = folder / f"{table}.parquet"
    rows = pq.read_table(file)
    file.unlink()
    file.mkdir()
    pq.write_table(rows.slice(0, 2), file / "one.parquet")
    pq.write_table(rows.slice(2), file / "two.parquet")
    return file


def test_a_folder_of_files_is_a_table(tmp_path: Path) -> None:
    folder = kept().write(tmp_path)
    apart(folder, "copies")
    assert findings_of(folder) == Counter()


def test_a_partition_that_was_only_followed_is_not_judged(tmp_path: Path) -> None:
    """The observer follows internal topics; no client sends to them, and nobody reads them at the end."""
    history = kept()
    for topic in ("t", "__transaction_state"):
        history.add("sightings", topic=topic, partition=0, broker=1, offset=0, seen_ns=1, epoch=0)
    assert set(partitions(open_source(history.write(tmp_path)))) == {TopicPartition("t", 0)}
    assert findings_of(tmp_path) == Counter()


def test_a_file_in_a_folder_below_is_refused(tmp_path: Path) -> None:
    table = apart(kept().write(tmp_path), "copies")
    (table / "more").mkdir()
    (table / "two.parquet").rename(table / "more" / "two.parquet")
    with pytest.raises(BadDataError, match=r"copies.parquet/more is a folder inside a table's folder"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "copies.parquet/two.parquet",
            "copies-2.parquet",
            "copies-2.parquet would not be read; put all files of copies into the folder",
        ),
        ("copies.parquet", "copies", "copies would not be read; rename it to copies.parquet"),
    ],
)
def test_what_looks_like_a_table_beside_the_tables_is_refused(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    """Its rows would be missing, and their messages lost."""
    apart(kept().write(tmp_path), "copies")
    (tmp_path / old).rename(tmp_path / new)
    with pytest.raises(BadDataError, match=sentence):
        open_source(tmp_path)


def test_other_files_beside_the_tables_may_lie_there(tmp_path: Path) -> None:
    folder = kept().write(tmp_path)
    for name in ("README.md", "_SUCCESS", ".copies.parquet.crc", "life.parquet", "findings.parquet"):
        (folder / name).touch()
    assert findings_of(folder) == Counter()


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    table = apart(kept().write(tmp_path), "copies")
    (table / "two.parquet").rename(table / "two.parq")
    with pytest.raises(BadDataError, match=r"two.parq lies in a table's folder and is not called \*.parquet"):
        open_source(tmp_path)


def test_what_other_programs_leave_beside_is_no_part_of_the_table(tmp_path: Path) -> None:
    table = apart(kept().write(tmp_path), "copies")
    (table / "_SUCCESS").touch()
    (table / "_temporary").mkdir()
    (table / ".one.parquet.crc").write_bytes(b"crc")
    assert findings_of(tmp_path) == Counter()


TEXTS = (
    pa.string(),
    pa.large_string(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int64(), pa.large_string()),
)


@pytest.mark.parametrize("table", ["sends", "copies", "reads", "writers"])
@pytest.mark.parametrize("one", TEXTS, ids=str)
def test_files_of_one_table_may_be_encoded_differently(tmp_path: Path, table: str, one: pa.DataType) -> None:
    history = kept().add("writers", writer=1, name="one", az="az1").add("writers", writer=2, name="two")
    for seq in range(4):
        history.read(seq, seq, 9000 + seq, group="g", isolation="read_committed")
    for row in history.rows["copies"]:
        row["home"] = "t/0"
    folder = history.write(tmp_path)
    two = apart(folder, table) / "two.parquet"
    rows = pq.read_table(two)
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type)]
    for name in texts:
        rows = rows.set_column(
            rows.schema.get_field_index(name), name, rows[name].cast(pa.string()).cast(one)
        )
    pq.write_table(rows, two)
    assert findings_of(folder) == Counter()


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    folder = kept().write(tmp_path)
    rows = pq.read_table(folder / "copies.parquet")
    pq.write_table(rows.append_column("offset", rows["offset"]), folder / "copies.parquet")
    with pytest.raises(BadDataError, match="has several columns offset"):
        open_source(folder)


def test_the_longest_topic_name(tmp_path: Path) -> None:
    """Kafka's longest: 249 characters; files are not named after topics."""
    folder = kept(topic="x" * 249).write(tmp_path)
    assert findings_of(folder, split_rows=3) == Counter()
    assert {len(path.name) < 64 for path in folder.rglob("*.parquet")} == {True}


@pytest.mark.parametrize("topic", ["orders-keys-v2", "a-offset-b", "part-000000", "t%41", "sync-log"])
def test_names_of_topics_mean_nothing(tmp_path: Path, topic: str) -> None:
    """The same finding whatever the topic is called, also when files are split by partition."""
    history = kept(8, topic=topic)
    history.rows["copies"] = [
        row for row in history.rows["copies"] if row["broker"] != 3 or row["offset"] < 3
    ]
    history.log(1, [(8, None)], topic=topic)
    expected = Counter([("diverged", topic, 0, 3, 1, 3), ("foreign", topic, 0, 8, None, None)])
    for rows in (1_000_000, 2):
        assert findings_of(history.write(tmp_path / str(rows)), split_rows=rows) == expected


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("sends", name) for name in ("topic", "outcome", "label")),
        *(("copies", "home"), ("reads", "group"), ("faults", "name"), ("writers", "name")),
    ],
)
@pytest.mark.parametrize("split_rows", [1_000_000, 3])
def test_a_text_that_is_not_utf_8_is_refused(
    tmp_path: Path, table: str, column: str, split_rows: int
) -> None:
    """Half a surrogate pair, which some programs write."""
    history = kept().read(0, 0, 9000).add("writers", writer=1, name="one")
    history.add("faults", ns=1, fault=1, name="isolate az1", kind="link", moment="injected")
    folder = history.write(tmp_path)
    rows = pq.read_table(folder / f"{table}.parquet")
    place = rows.schema.get_field_index(column)
    half = pa.array([b"\xed\xa0\x80"] * len(rows), pa.binary()).view(pa.string())
    pq.write_table(rows.set_column(place, rows.schema.field(place), half), folder / f"{table}.parquet")
    with pytest.raises(BadDataError, match=rf"{table}.parquet: column {column} holds text that is not UTF-8"):
        findings_of(folder, split_rows=split_rows)


def test_a_message_sent_to_two_partitions_is_refused(tmp_path: Path) -> None:
    folder = kept().send(3, offset=0, partition=1).write(tmp_path)
    with pytest.raises(BadDataError, match=r"message 3 of writer 1 in t/0 and in t/1; an identity"):
        findings_of(folder)


@pytest.mark.parametrize("column", ["writer", "seq"])
def test_a_negative_number_of_a_writer_or_a_message_is_refused(tmp_path: Path, column: str) -> None:
    history = kept()
    history.rows["sends"][-1][column] = -1
    with pytest.raises(BadDataError, match=rf"^sends of t/0 hold {column} -1 in the row with .*, which is"):
        findings_of(history.write(tmp_path))


@pytest.mark.parametrize(
    ("table", "column", "value", "sentence"),
    [
        ("sends", "writer", -1, "sends of t/0 hold writer -1 in the row with seq 5, which is impossible."),
        ("sends", "offset", -7, "sends of t/0 hold offset -7 in the row with writer 1 and seq 5, which is"),
        (
            "sends",
            "done_ns",
            0,
            "hold done_ns 0 (before it was sent) in the row with writer 1 and seq 5, which",
        ),
        (
            "copies",
            "offset",
            -7,
            "copies of t/0 hold offset -7 in the row with broker 3, which is impossible.",
        ),
        (
            "copies",
            "broker",
            -1,
            "copies of t/0 hold broker -1 in the row with offset 5, which is impossible.",
        ),
        ("copies", "seq", -1, "hold seq -1 in the row with broker 3 and offset 5, which is impossible."),
        ("reads", "seq", -1, "reads of t/0 hold seq -1 in the row with reader 1 and offset 4, which is"),
    ],
)
@pytest.mark.parametrize("block_rows", [1_000_000, 1])
def test_an_impossible_row_is_named_by_its_place_whatever_the_block(
    tmp_path: Path, table: str, column: str, value: int, sentence: str, block_rows: int
) -> None:
    """A block does not know which row of the table it is."""
    history = kept().read(4, 4, 9000)
    history.rows[table][-1][column] = value
    with blocks_of_rows(block_rows), pytest.raises(BadDataError) as raised:
        findings_of(history.write(tmp_path))
    assert sentence in raised.value.message


@pytest.mark.parametrize("block_rows", [1_000_000, 1])
def test_a_missing_value_is_named_without_the_row_of_a_block(tmp_path: Path, block_rows: int) -> None:
    folder = kept().write(tmp_path)
    rows = pq.read_table(folder / "sends.parquet")
    place = rows.schema.get_field_index("sent_ns")
    rows = rows.set_column(place, "sent_ns", pa.array([1, 2, 3, 4, 5, None], pa.int64()))
    pq.write_table(rows, folder / "sends.parquet", row_group_size=2)
    sentence = r"sends.parquet: column sent_ns is required, but a row has none\."
    with blocks_of_rows(block_rows), pytest.raises(BadDataError, match=sentence):
        findings_of(folder)


@pytest.mark.parametrize("block_rows", [1_000_000, 1])
@pytest.mark.parametrize("column", ["writer", "seq"])
@pytest.mark.parametrize("table", ["copies", "reads"])
def test_a_record_that_names_a_negative_number_is_refused(
    tmp_path: Path, table: str, column: str, block_rows: int
) -> None:
    """Null says that a record names no message, not a negative number."""
    history = kept().read(4, 4, 9000)
    history.rows[table][-1][column] = -1
    with (
        blocks_of_rows(block_rows),
        pytest.raises(BadDataError, match=rf"^{table} of t/0 hold {column} -1 in the row with .*, which is"),
    ):
        findings_of(history.write(tmp_path))


def test_a_record_may_name_no_message(tmp_path: Path) -> None:
    history = kept().read(4, None, 9000)
    history.logs([(6, None)])
    findings = findings_of(history.write(tmp_path))
    assert findings == Counter([("foreign", "t", 0, 6, None, None), ("aborted_read", "t", 0, 4, None, None)])


def test_writers_and_messages_may_be_numbered_from_zero(tmp_path: Path) -> None:
    history = History().send(0, offset=0, writer=0).send(1, offset=1, writer=0)
    history.logs([(0, 0), (1, 1)], writer=0)
    assert findings_of(history.write(tmp_path)) == Counter()


def test_writers_of_several_partitions_are_fine(tmp_path: Path) -> None:
    history = History()
    for seq in range(10):
        history.send(seq, offset=seq // 2, partition=seq % 2)
    for partition in (0, 1):
        history.logs([(n, 2 * n + partition) for n in range(5)], partition=partition)
    assert findings_of(history.write(tmp_path)) == Counter()


def test_a_table_of_replicas_without_rows_says_that_no_log_was_read(tmp_path: Path) -> None:
    history = History().send(0, offset=0)
    history.rows["replicas"] = []
    findings = findings_of(history.write(tmp_path))
    assert [row[0] for row in findings.elements()] == ["undetermined"]


def test_brokers_may_have_any_number(tmp_path: Path) -> None:
    history = History().send(0, offset=0)
    for broker in (0, 2**31 - 1):
        history.log(broker, [(0, 0)])
    assert findings_of(history.write(tmp_path)) == Counter()


@pytest.mark.parametrize("column", ["isr", "replicas", "brokers"])
def test_a_list_with_a_null_in_it_is_refused(tmp_path: Path, column: str) -> None:
    view = {"ns": 5, "source": "zookeeper1", "subject": "partition", "topic": "t", "partition": 0}
    folder = kept().add("views", **view, **{column: [1, None]}).write(tmp_path)
    with pytest.raises(BadDataError, match=f"views.parquet: column {column} has a list with a null in it"):
        findings_of(folder)
