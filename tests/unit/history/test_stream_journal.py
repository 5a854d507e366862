"""Journals of streams: what a kill leaves, the rows of `sends` that come of them, and damaged files."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import BadDataError
from harness.history import stream_journal, tables
from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.sends import stream_rows
from harness.history.stream_journal import (
    PAGE_BYTES,
    ROW_BYTES,
    ROWS_AT_ONCE,
    Counters,
    StreamJournal,
    read_counters,
    read_header,
)
from harness.history.tables import read_table

TARGETS = (("t", 0), ("t", 3), ("u", 1))
OUTCOMES = st.sampled_from(["ok", "fail", "info"])
ANSWERS = st.fixed_dictionaries(
    {
        "outcome": OUTCOMES,
        "error": st.integers(-200, 100),
        "offset": st.none() | st.integers(0, 2**62),
        "attempts": st.none() | st.integers(0, 2**15 - 1),
        "broker": st.none() | st.integers(0, 2**31 - 1),
        "after_ns": st.integers(0, 10**10),
    }
)
MESSAGE = st.tuples(st.integers(0, len(TARGETS) - 1), st.none() | ANSWERS)


def rows(file: Path, at_once: int = 7) -> list[dict[str, Any]]:
    blocks = stream_rows(file, read_header(file), at_once)
    return [row for block in blocks for row in block.to_pylist()]


@given(st.lists(st.lists(MESSAGE, max_size=30), min_size=1, max_size=3), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_rows_are_those_that_lines_would_give(
    tmp_path_factory: pytest.TempPathFactory, streams: list[list[Any]], shuffled: random.Random
) -> None:
    """The same messages and outcomes, once as lines and once as fixed rows, beside a scripted message."""
    by_lines, by_rows = tmp_path_factory.mktemp("lines"), tmp_path_factory.mktemp("rows")
    for run in (by_lines, by_rows):
        with Journal(run / "journal" / "client1.jsonl") as journal:
            journal.write("sent", topic="u", partition=1, writer=2, seq=0, sent_ns=5, label="c")
    lines = Journal(by_lines / "journal" / "client1.jsonl")
    for number, messages in enumerate(streams):
        writer = 1 + 2 * number
        stream = StreamJournal(by_rows / "journal" / f"client1.{writer}.sends", writer, TARGETS)
        for seq, (target, _) in enumerate(messages):
            topic, partition = TARGETS[target]
            stream.begin(seq, target, 1000 + seq)
            lines.write("sent", topic=topic, partition=partition, writer=writer, seq=seq, sent_ns=1000 + seq)
        answered = [(seq, dict(answer)) for seq, (_, answer) in enumerate(messages) if answer]
        shuffled.shuffle(answered)
        for seq, answer in answered:
            answer["done_ns"] = 1000 + seq + answer.pop("after_ns")
            stream.complete(seq, **answer)
            lines.write("done", writer=writer, seq=seq, **answer)
        stream.close()
    lines.close()
    assert assemble(by_rows)["sends"] == assemble(by_lines)["sends"]
    assert read_table(by_rows, "sends") == read_table(by_lines, "sends")


class Stores:
    """A structure that keeps what a kill would leave before each of its stores."""

    def __init__(self, real: struct.Struct, file: Path, left: list[bytes]) -> None:
        self._real, self._file, self._left = real, file, left

    def pack_into(self, *arguments: Any) -> None:
        with self._file.open("rb") as opened:
            self._left.append(opened.read(PAGE_BYTES + 20 * ROW_BYTES))
        self._real.pack_into(*arguments)


STORES = ("_SENT_NS", "_TARGET", "_ANSWER", "_PLACE", "_STATE")


@given(st.lists(MESSAGE, min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_kill_between_two_stores_tears_no_row(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Any], shuffled: random.Random
) -> None:
    """Rows are completed in any order, and the process is killed before each of its stores."""
    file = tmp_path_factory.mktemp("run") / "client1.1.sends"
    journal = StreamJournal(file, 1, TARGETS)
    left: list[bytes] = []
    answers = [(seq, dict(answer)) for seq, (_, answer) in enumerate(messages) if answer]
    shuffled.shuffle(answers)
    stated = {seq: {**answer, "done_ns": 1000 + seq + answer.pop("after_ns")} for seq, answer in answers}
    for answer in stated.values():
        del answer["after_ns"]
    real = {name: getattr(stream_journal, name) for name in STORES}
    with patch.multiple(stream_journal, **{name: Stores(one, file, left) for name, one in real.items()}):
        for seq, (target, _) in enumerate(messages):
            journal.begin(seq, target, 1000 + seq)
        for seq, _ in answers:
            journal.complete(seq, **stated[seq])
    assert len(left) == 3 * (len(messages) + len(answers))
    killed = file.with_name("client1.2.sends")
    for stores, content in enumerate(left):
        killed.write_bytes(content)
        found = rows(killed)
        assert len(found) == min(stores // 3, len(messages))
        ended = {seq for seq, _ in answers[: max(0, stores // 3 - len(messages))]}
        assert {row["seq"] for row in found if row["outcome"]} == ended
        for row in found:
            seq = row["seq"]
            begun = (row["topic"], row["partition"], row["sent_ns"])
            assert begun == (*TARGETS[messages[seq][0]], 1000 + seq)
            nothing = dict.fromkeys(("done_ns", "outcome", "error", "offset", "attempts", "broker"))
            assert {name: row[name] for name in nothing} == (stated[seq] if seq in ended else nothing)
    journal.close()


WRITER = """
import sys
from pathlib import Path
from harness.history.stream_journal import StreamJournal
journal = StreamJournal(Path(sys.argv[1]), 7, [("t", 0), ("t", 1)])
for seq in range(10**9):
    journal.begin(seq, seq % 2, 1 + seq)
    if seq >= 10:
        done = seq - 10
        answer = {"offset": 3 * done, "attempts": 1, "broker": done % 5}
        journal.complete(done, done_ns=2 * done + 1, outcome="ok", **answer)
        if done % 100 == 0:
            sys.stdout.write(f"{done}\\n")
            sys.stdout.flush()
"""


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_process_leaves_every_acknowledged_row(tmp_path: Path, seed: int) -> None:
    """SIGKILL at a random moment: what the process said before is in the file, and no row is torn."""
    file = tmp_path / "client1.7.sends"
    lines = random.Random(seed).randrange(1, 1500)
    command = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(lines)]
        process.kill()
        said += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    found = rows(file, at_once=10_000)
    assert [row["seq"] for row in found] == list(range(len(found)))
    complete = [row for row in found if row["outcome"]]
    assert len(complete) > said[-1] and len(found) - len(complete) <= 11
    for row in complete:
        seq = row["seq"]
        stated = (row["done_ns"], row["offset"], row["attempts"], row["broker"], row["outcome"])
        assert stated == (2 * seq + 1, 3 * seq, 1, seq % 5, "ok")


def test_a_stream_that_ended_leaves_no_unused_rows(tmp_path: Path) -> None:
    file = tmp_path / "client1.7.sends"
    journal = StreamJournal(file, 7, TARGETS)
    for seq in range(ROWS_AT_ONCE + 3):
        journal.begin(seq, 0, 1)
    journal.complete(0, done_ns=2, outcome="ok")
    assert journal.counters() == read_counters(file) == Counters(begun=ROWS_AT_ONCE + 3, ok=1)
    assert file.stat().st_size == PAGE_BYTES + 2 * ROWS_AT_ONCE * ROW_BYTES
    journal.close()
    journal.close()
    assert file.stat().st_size == PAGE_BYTES + (ROWS_AT_ONCE + 3) * ROW_BYTES
    assert len(rows(file, at_once=ROWS_AT_ONCE)) == ROWS_AT_ONCE + 3


def test_a_journal_that_a_kill_left_empty_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "client1.1.sends").touch()
    assert assemble(tmp_path)["sends"] == 0


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    file = tmp_path / "journal" / "client1.1.sends"
    journal = StreamJournal(file, 1, TARGETS)
    for seq in range(4):
        journal.begin(seq, 1, 10)
        journal.complete(seq, done_ns=20, outcome="ok", offset=seq)
    journal.close()
    return file


def store(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


@pytest.mark.parametrize(
    ("at", "data", "message"),
    [
        (0, b"nonsense", "is no journal of a stream"),
        (8, b"\1\2\3\4", "has a header of"),
        (12, b"\xff\xff\xff\0", "has a header of"),
        (48, b"[", "header of .* is not valid JSON"),
        (48, b'{"writer":x', "is not valid JSON"),
        (PAGE_BYTES + ROW_BYTES + 38, b"\0\0", "message 1 is absent, and a later one is not"),
        (PAGE_BYTES + ROW_BYTES + 38, b"\5\0", "message 1 has a state that there is not"),
        (PAGE_BYTES + 2 * ROW_BYTES + 24, b"\3", "message 2 names a target that its stream has not"),
        (PAGE_BYTES + 2 * ROW_BYTES, bytes(8), "message 2 was never sent"),
        (PAGE_BYTES + 3 * ROW_BYTES + 8, b"\1", "message 3 ended before it was sent"),
    ],
)
def test_a_row_that_no_client_writes_is_named(damaged: Path, at: int, data: bytes, message: str) -> None:
    store(damaged, at, data)
    with pytest.raises(BadDataError, match=f"client1.1.sends.*{message}|{message}") as caught:
        assemble(damaged.parents[1])
    assert len(caught.value.message) <= 300 + len(str(damaged))
    assert not (damaged.parents[1] / "history" / "sends.parquet").exists()


def test_two_journals_of_a_writer_are_refused(damaged: Path) -> None:
    os.link(damaged, damaged.with_name("client2.1.sends"))
    with pytest.raises(BadDataError, match=r"client2\.1\.sends are both journals of the stream of writer 1"):
        assemble(damaged.parents[1])


def test_lines_of_a_stream_are_refused(damaged: Path) -> None:
    with Journal(damaged.with_name("client1.jsonl")) as journal:
        journal.write("sent", topic="t", partition=0, writer=1, seq=9, sent_ns=10)
    with pytest.raises(BadDataError, match="lines of messages of writer 1, and .* journal of its stream"):
        assemble(damaged.parents[1])


def test_a_table_that_is_written_in_pieces_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of two streams and of lines, in row groups of a few rows and in one."""
    with Journal(tmp_path / "journal" / "client1.jsonl") as journal:
        for seq in range(5):
            journal.write("sent", topic="u", partition=1, writer=2, seq=seq, sent_ns=5, label="c")
    for writer in (1, 3):
        stream = StreamJournal(tmp_path / "journal" / f"client1.{writer}.sends", writer, TARGETS)
        for seq in range(40):
            stream.begin(seq, seq % 3, 10 + seq)
        stream.close()
    assemble(tmp_path)
    whole = read_table(tmp_path, "sends")
    monkeypatch.setattr(tables, "_ROWS_AT_ONCE", 7)
    assert assemble(tmp_path)["sends"] == 85
    assert read_table(tmp_path, "sends") == whole
    first = pq.ParquetFile(tmp_path / "history" / "sends.parquet" / "00000.parquet")
    assert first.num_row_groups > 1
