"""From the journals of consumers to the table `reads`."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadDataError
from harness.history.read_journal import ROW_BYTES, ReadJournal, ReceivedRecord
from harness.history.reads import write_reads
from harness.history.tables import read_table

ODD_TOPICS = ["../../outside", "/outside", "a/b", "..", "", "nul\0", "ü中", "x\ny"]


def received(topic: str = "t", ns: int = 1, offset: int = 0, **more: int) -> ReceivedRecord:
    """One record that a consumer received."""
    stated = {"epoch": None, "writer": None, "seq": None} | more
    return ReceivedRecord(
        topic=topic,
        partition=0,
        ns=ns,
        offset=offset,
        poll=1,
        **stated,  # type: ignore[arg-type]
    )


def journal(run: Path, topics: list[str], reader: int = 4, group: str | None = None) -> ReadJournal:
    """The journal of a consumer of a client."""
    (run / "journal").mkdir(exist_ok=True)
    lines = run / "journal" / "client1.jsonl"
    return ReadJournal(lines, reader, group=group, isolation="read_committed", topics=topics)


def test_a_row_has_what_was_received(tmp_path: Path) -> None:
    foreign, own = (
        received(ns=5),
        received(ns=6, offset=1, epoch=2, writer=3, seq=1 << 40, txn_writer=7, txn=0),
    )
    one = journal(tmp_path, ["t"], group="g")
    one.append([foreign, own])
    one.append([])
    assert write_reads(tmp_path) == 2
    columns = ("ns", "epoch", "writer", "seq", "txn_writer", "txn", "reader", "group", "isolation", "broker")
    rows = [tuple(row[name] for name in columns) for row in read_table(tmp_path, "reads").to_pylist()]
    assert rows == [
        (5, None, None, None, None, None, 4, "g", "read_committed", None),
        (6, 2, 3, 1 << 40, 7, 0, 4, "g", "read_committed", None),
    ]


def test_topics_are_values_and_never_paths(tmp_path: Path) -> None:
    journal(tmp_path, ODD_TOPICS).append([received(topic, ns) for ns, topic in enumerate(ODD_TOPICS)])
    write_reads(tmp_path)
    files = sorted((tmp_path / "history" / "reads.parquet").iterdir())
    assert [file.name for file in files] == [f"{number:05}.parquet" for number in range(len(ODD_TOPICS))]
    assert sorted(read_table(tmp_path, "reads")["topic"].to_pylist()) == sorted(ODD_TOPICS)


def test_rows_are_in_the_order_of_readers_and_times(tmp_path: Path) -> None:
    """Another process of the same consumer goes on in a file of its own."""
    journal(tmp_path, ["t"], reader=5).append([received(ns=1)])
    journal(tmp_path, ["t"]).append([received(ns=3, offset=0), received(ns=2, offset=1)])
    journal(tmp_path, ["t"]).append([received(ns=9, offset=2)])
    write_reads(tmp_path)
    rows = read_table(tmp_path, "reads").to_pylist()
    assert [(row["reader"], row["ns"], row["offset"]) for row in rows] == [
        (4, 2, 1),
        (4, 3, 0),
        (4, 9, 2),
        (5, 1, 0),
    ]


def test_a_kill_leaves_the_complete_rows(tmp_path: Path) -> None:
    journal(tmp_path, ["t"]).append([received(offset=0), received(offset=1)])
    (file,) = (tmp_path / "journal").glob("*.reads")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    file.with_name("client1.9-0.reads").write_bytes(whole[:20])
    assert write_reads(tmp_path) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"magic":"other","reader":1,"topics":[]}', "is no journal of a consumer"),
        (b'{"magic":"ackedrd1","reader":-1,"topics":[]}', "names the reader '-1'"),
        (b'{"magic":"ackedrd1","reader":1,"topics":[3]}', "names no topics"),
        (b'{"magic":"ackedrd1","reader":1,"topics":[],"group":3}', "no text"),
        (b"x" * (1 << 25), "its header has no end"),
    ],
)
def test_a_malformed_journal_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "c.1-0.reads").write_bytes(content.ljust(2 * ROW_BYTES - 1) + b"\n")
    with pytest.raises(BadDataError, match=message):
        write_reads(tmp_path)


@pytest.mark.parametrize(
    ("row", "message"), [(received(ns=-1), "negative time"), (received(offset=-1), "row 0 has a negative")]
)
def test_a_row_that_no_consumer_writes_is_named(tmp_path: Path, row: ReceivedRecord, message: str) -> None:
    journal(tmp_path, ["t"]).append([row])
    with pytest.raises(BadDataError, match=message):
        write_reads(tmp_path)


def test_a_topic_that_the_header_lacks_is_named(tmp_path: Path) -> None:
    journal(tmp_path, ["t"]).append([received()])
    (file,) = (tmp_path / "journal").glob("*.reads")
    file.write_bytes(file.read_bytes().replace(b'["t"]', b"[]   "))
    with pytest.raises(BadDataError, match="row 0 names a topic that its header has not"):
        write_reads(tmp_path)
