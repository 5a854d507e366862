"""Journals become tables. Malformed rows are named; a last line that a kill cut short is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import BadDataError
from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.schema import TABLES
from harness.history.sightings import ROW, SightingsJournal
from harness.history.tables import read_table, validate, write_table


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Journal(tmp_path / "journal" / "client1.jsonl") as journal:
        for seq, partition in ((2, 1), (0, 0), (1, 0)):
            journal.write("sent", topic="t", partition=partition, writer=1, seq=seq, sent_ns=10 + seq)
        journal.write("done", writer=1, seq=0, done_ns=20, outcome="ok", error=0, offset=5, broker=2)
    return tmp_path


def append(run: Path, text: str, file: str = "client1") -> None:
    with (run / "journal" / f"{file}.jsonl").open("a", errors="surrogateescape") as journal:
        journal.write(text)


def test_sent_and_done_become_sends(run: Path) -> None:
    assert assemble(run)["sends"] == 3
    rows = pq.read_table(run / "history" / "sends.parquet" / "00000.parquet").to_pylist()
    assert [(row["seq"], row["outcome"], row["offset"]) for row in rows] == [(0, "ok", 5), (1, None, None)]
    assert (run / "history" / "sends.parquet" / "00001.parquet").exists()


ODD_TOPICS = ["../../outside", "/outside", "a/b", "..", "", 300 * "t", "nul\0", "\u00fc\u4e2d", "x\ny", "t-1"]


def test_topics_are_values_and_never_paths(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "run"
    with Journal(run / "journal" / "client1.jsonl") as journal:
        for seq, topic in enumerate(ODD_TOPICS):
            journal.write("sent", topic=topic, partition=0, writer=1, seq=seq, sent_ns=seq)
    assemble(run)
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet") if path.is_file()}
    history = Path("runs/run/history")
    numbered = {history / "sends.parquet" / f"{n:05}.parquet" for n in range(10)}
    assert numbered < files
    assert {file.parts[3] for file in files} == {f"{name}.parquet" for name in TABLES}
    assert read_table(run, "sends")["topic"].to_pylist() == ODD_TOPICS


def test_every_table_is_written_with_its_schema(run: Path) -> None:
    assemble(run)
    assert set(validate(run)) == set(TABLES)
    for name in TABLES:
        assert read_table(run, name).schema == TABLES[name].arrow()


def test_assembling_twice_gives_the_same(run: Path) -> None:
    assemble(run)
    first = {name: read_table(run, name) for name in TABLES}
    assemble(run)
    assert {name: read_table(run, name) for name in TABLES} == first


@pytest.mark.parametrize(
    "line", ['{"table":"sent","topic":"t","part', '{"table":"sent","topic":' + "[" * 9**5]
)
def test_a_last_line_that_was_cut_short_is_left_out(run: Path, line: str) -> None:
    append(run, line)
    assert assemble(run)["sends"] == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"table":"sent","topic":\n', "line 5 is not valid JSON"),
        ("nonsense\n", "line 5 is not valid JSON"),
        ("[" * 9**5 + "\n", "line 5 is JSON that is nested too deeply"),
        ("[1]\n", "line 5 holds no JSON object"),
        ('{"table":"nothing"}\n', "line 5: there is no table 'nothing'"),
        ('{"table":"no\udcffthing"}\n', "line 5: there is no table 'no\ufffdthing'"),
        ('{"table":"vie\n', "line 5 is not valid JSON"),
        ('{"table":"done","writer":1,"seq":"one"}\n', "line 5: seq of done"),
        ('{"table":"sent","topic":"t","partition":0,"writer":1,"sent_ns":1}\n', "line 5.* has no seq"),
    ],
)
def test_a_malformed_line_is_named(run: Path, line: str, message: str) -> None:
    append(run, line + '{"table":"marks","ns":1,"name":"m"}\n')
    with pytest.raises(BadDataError, match=f"client1.jsonl.*{message}"):
        assemble(run)


def test_an_outcome_of_a_message_that_was_not_sent_is_rejected(run: Path) -> None:
    append(run, '{"table":"done","writer":1,"seq":99,"done_ns":1,"outcome":"ok"}\n')
    with pytest.raises(BadDataError, match="never recorded as sent"):
        assemble(run)


def test_a_message_that_was_sent_twice_is_rejected(run: Path) -> None:
    append(run, '{"table":"sent","topic":"t","partition":0,"writer":1,"seq":0,"sent_ns":1}\n', "client2")
    with pytest.raises(BadDataError, match="message 0 of writer 1"):
        assemble(run)


def test_sightings_of_records_that_disappeared(run: Path) -> None:
    with Journal(run / "journal" / "observer.jsonl") as journal:
        replica = SightingsJournal(journal.path, "t", 0, 1)
        replica.append(np.array([(3, 0, -1, 0, -1), (3, 1, 7, 0, 2)], dtype=ROW))
        where = {"topic": "t", "partition": 0, "broker": 1}
        journal.write("gone", **where, from_offset=1, to_offset=5, gone_ns=9)
        replica.append(np.array([(9, 1, -1, -1, -1)], dtype=ROW))
        journal.write("gone", **where, from_offset=0, to_offset=1, gone_ns=3)
        journal.write("gone", **where | {"broker": 2}, from_offset=0, to_offset=9, gone_ns=99)
    assemble(run)
    rows = read_table(run, "sightings").to_pylist()
    assert [tuple(row[name] for name in ("offset", "epoch", "writer", "seq", "gone_ns")) for row in rows] == [
        (0, 0, None, None, None),
        (1, 0, 2, 7, 9),
        (1, None, None, None, None),
    ]


def test_a_kill_leaves_the_complete_sightings(run: Path) -> None:
    """Another process goes on in a file of its own; a header that was cut short is of no replica."""
    journal = run / "journal" / "observer.jsonl"
    for seen_ns in (3, 4):
        replica = SightingsJournal(journal, "t", 0, 1)
        replica.append(np.array([(seen_ns, 0, -1, 0, -1), (seen_ns, 1, -1, 0, -1)], dtype=ROW))
        whole = replica.path.read_bytes()
        replica.path.write_bytes(whole[:-1])
    SightingsJournal(journal, "t", 0, 1).path.write_bytes(whole[:20])
    assemble(run)
    rows = read_table(run, "sightings").to_pylist()
    assert [(row["offset"], row["seen_ns"]) for row in rows] == [(0, 3), (0, 4)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"magic":"other","topic":"t","partition":0,"broker":1}', "is no journal of sightings"),
        (b'{"magic":"ackedse1","topic":"t","partition":"0","broker":1}', "names no replica"),
        (b"x" * (1 << 17), "its header has no end"),
    ],
)
def test_a_malformed_journal_of_sightings_is_named(run: Path, content: bytes, message: str) -> None:
    (run / "journal" / "observer.1-0.seen").write_bytes(content.ljust(63) + b"\n")
    with pytest.raises(BadDataError, match=message):
        assemble(run)


def test_a_row_that_the_observer_does_not_write_is_named(run: Path) -> None:
    SightingsJournal(run / "journal" / "o.jsonl", "t", 0, 1).append(np.array([(3, -1, 0, 0, 0)], dtype=ROW))
    with pytest.raises(BadDataError, match="t/0 on broker 1 hold a row"):
        assemble(run)


def test_log_events_are_added_to_those_of_the_journals(run: Path) -> None:
    append(run, '{"table":"log_events","ns":5,"host":"broker1","kind":"error"}\n')
    assert assemble(run, [{"ns": 3, "host": "broker2", "kind": "fatal"}])["log_events"] == 2
    assert [row["host"] for row in read_table(run, "log_events").to_pylist()] == ["broker2", "broker1"]


def test_the_tables_of_the_final_dump_are_kept(run: Path) -> None:
    copies = pa.Table.from_pylist(
        [{"topic": "t", "partition": 0, "broker": 1, "offset": 0}], schema=TABLES["copies"].arrow()
    )
    write_table(run, "copies", copies)
    assert "copies" not in assemble(run)
    assert read_table(run, "copies").num_rows == 1


def test_optional_columns_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    few = pa.table({"topic": ["t"], "partition": [0], "broker": [1], "offset": [0]})
    pq.write_table(few, tmp_path / "history" / "copies.parquet")
    assert read_table(tmp_path, "copies").to_pylist()[0]["writer"] is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"topic": ["t"], "partition": [0], "broker": [1]}, "column offset is required, but row 0"),
        ({"topic": ["t"], "partition": [0], "broker": ["b"], "offset": [0]}, "column broker is string"),
    ],
)
def test_a_table_that_does_not_follow_the_schema_is_named(
    tmp_path: Path, columns: dict[str, object], message: str
) -> None:
    (tmp_path / "history").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "history" / "copies.parquet")
    with pytest.raises(BadDataError, match=message):
        read_table(tmp_path, "copies")


def test_missing_and_damaged_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadDataError, match="sends.parquet is missing; a history needs sends and copies"):
        validate(tmp_path)
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "sends.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(BadDataError, match="cannot be read as Parquet"):
        read_table(tmp_path, "sends")


def test_rows_that_are_put_aside_meanwhile_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory holds one table at a time, and of the others the last rows."""
    with Journal(tmp_path / "journal" / "client1.jsonl") as journal:
        for seq in range(50):
            where = {"topic": "t", "partition": seq % 2}
            journal.write("sent", **where, writer=1, seq=seq, sent_ns=seq)
            journal.write("done", writer=1, seq=seq, done_ns=seq + 1, outcome="ok", error=0, offset=seq // 2)
            journal.write("watermarks", **where, broker=9 - seq % 3, leo=seq // 2, ns=seq)
    whole = {}
    for lines in (100_000, 7, 1):
        monkeypatch.setattr("harness.history.assemble._LINES_AT_ONCE", lines)
        assert (assemble(tmp_path)["sends"], sorted((tmp_path / "history").glob("*unfinished*"))) == (50, [])
        whole[lines] = {name: read_table(tmp_path, name) for name in ("sends", "watermarks")}
    assert whole[7] == whole[1] == whole[100_000]
    assert whole[1]["watermarks"].num_rows == 50
