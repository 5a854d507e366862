"""Texts of the real kafka-dump-log of several versions, and texts that it would not print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadDataError, UsageError
from harness.history.imports.dump_log import DumpLog
from harness.history.imports.format import GivenFile
from harness.history.imports.recording import Recording

TEXTS = Path(__file__).with_name("texts")
HEAD = "Dumping /data/orders-0/00000000000000000000.log\nLog starting offset: 0\n"


def read(file: Path, broker: str = "1") -> Recording:
    return DumpLog().read([GivenFile(file, broker)])


def rows(file: Path) -> list[dict[str, Any]]:
    return list(read(file).tables["copies"].to_pylist())


def batch(base: int, count: int, *, epoch: int = 0, valid: str = "true") -> str:
    return (
        f"baseOffset: {base} lastOffset: {base + count - 1} count: {count} baseSequence: -1 lastSequence: -1 "
        f"producerId: -1 producerEpoch: -1 partitionLeaderEpoch: {epoch} isTransactional: false "
        f"isControl: false deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 5 size: 95 magic: 2 "
        f"compresscodec: none crc: 7 isvalid: {valid}\n"
    )


def record(offset: int, value: str, key: str | None = None) -> str:
    size = -1 if key is None else len(key.encode())
    named = "" if key is None else f" key: {key}"
    return (
        f"| offset: {offset} CreateTime: 5 keySize: {size} valueSize: {len(value)} sequence: -1 "
        f"headerKeys: []{named} payload: {value}\n"
    )


@pytest.mark.parametrize("version", ["0.10.2.2", "1.1.1"])
def test_texts_of_old_tools_have_a_line_for_each_record(version: str) -> None:
    read_rows = rows(TEXTS / f"t0-{version}.txt")
    assert [(row["topic"], row["partition"], row["broker"]) for row in read_rows] == [("t", 0, 1)] * 4
    assert [(row["offset"], row["writer"], row["seq"], row["epoch"]) for row in read_rows] == [
        (0, 4, 0, None),
        (1, 4, 1, None),
        (2, 4, 2, None),
        (3, 4, 3, None),
    ]
    assert read_rows[0]["timestamp_ms"] > 1_700_000_000_000


@pytest.mark.parametrize("version", ["2.7.1", "4.3.1"])
def test_transactions(version: str) -> None:
    read_rows = rows(TEXTS / f"transactions-{version}.txt")
    markers = [row for row in read_rows if row["control"]]
    assert {row["marker"] for row in markers} <= {"commit", "abort"} and markers
    assert all(row["writer"] is None and row["coordinator_epoch"] == 0 for row in markers)
    messages = [row for row in read_rows if not row["control"]]
    assert all(row["transactional"] and row["producer_id"] >= 0 and row["marker"] is None for row in messages)
    assert [row["offset"] for row in read_rows] == list(range(len(read_rows)))
    assert {row["epoch"] for row in read_rows} == {0}


def test_a_log_that_the_tool_could_not_read_is_incomplete() -> None:
    recording = read(TEXTS / "damaged-2.7.1.txt")
    (replica,) = recording.tables["replicas"].to_pylist()
    assert (replica["complete"], replica["error"]) == (False, "the batch at offset 1 is not valid")
    assert [row["offset"] for row in recording.tables["copies"].to_pylist()] == [0]


def test_several_segments_and_partitions(tmp_path: Path) -> None:
    file = tmp_path / "broker.txt"
    other = HEAD.replace("orders-0", "or-ders-12").replace("offset: 0", "offset: 40")
    later = HEAD.replace("00000.log", "00002.log").replace("offset: 0", "offset: 2")
    file.write_text(
        HEAD + batch(0, 2) + record(0, "7 0 x") + record(1, "7 1 x") + other + later
        + batch(2, 1, epoch=3) + record(2, "7 2 x")
    )  # fmt: skip
    recording = read(file, "broker11")
    assert [
        (one["topic"], one["partition"], one["broker"], one["log_start"], one["leo"])
        for one in recording.tables["replicas"].to_pylist()
    ] == [("orders", 0, 11, 0, 3), ("or-ders", 12, 11, 40, 40)]
    assert [(row["seq"], row["epoch"], row["batch_offset"]) for row in rows(file)] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 3, 2),
    ]


@pytest.mark.parametrize("key", ["a", "a payload: b", "ключ 1", ""])
def test_a_key_may_look_like_the_text_around_it(tmp_path: Path, key: str) -> None:
    file = tmp_path / "broker.txt"
    file.write_text(HEAD + batch(0, 1) + record(0, "7 3 x", key))
    assert [(row["writer"], row["seq"]) for row in rows(file)] == [(7, 3)]


def test_a_value_of_several_lines_is_one_record(tmp_path: Path) -> None:
    """Also if a line of it looks like a batch, while a record of this one is due."""
    file = tmp_path / "broker.txt"
    value = "7 0 first\nsecond\n" + batch(9, 1).rstrip("\n")
    file.write_text(HEAD + batch(0, 2) + record(0, value) + record(1, "7 1 x"))
    assert [(row["offset"], row["seq"]) for row in rows(file)] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no line begins with `Dumping`"),
        ("hello\n", "line 1: 'hello' is no line of such a text"),
        (HEAD + record(0, "x"), "is no line about a record"),
        (HEAD + batch(0, 2) + record(0, "x"), "the batch at offset 0 lacks 1 of its records"),
        (HEAD + batch(0, 1), "the batch at offset 0 lacks 1 of its records"),
        (HEAD + batch(0, 1) + record(5, "x"), "the record at offset 5 is not one of the batch from 0 to 0"),
        (HEAD + batch(0, 1).replace("lastOffset: 0", "lastOffset: 9999999999999999999"), "lastOffset is"),
        (HEAD + "baseOffset: x\n", "is no line about a batch"),
        ("Dumping /data/orders.log\n", "names no file in a folder TOPIC-PARTITION"),
        (batch(0, 1), "a record precedes the lines `Dumping`"),
    ],
    ids=ascii,
)
def test_what_the_tool_would_not_print(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "broker.txt"
    file.write_text(text)
    with pytest.raises(BadDataError) as refusal:
        read(file)
    assert says in refusal.value.message
    assert len(refusal.value.message) < 300 + len(str(file))


def test_a_broker_has_a_number() -> None:
    with pytest.raises(UsageError, match="'north' in 'north=x' is no broker's number"):
        DumpLog().read([GivenFile.parse("north=x")])
