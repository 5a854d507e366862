"""Journals of streams, read while they are written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from checkers.partition.messages import FAIL, INFO, OK
from harness.errors import BadDataError
from harness.history.stream_journal import StreamJournal
from harness.host_files import Folder
from harness.kafka.model import TopicPartition
from run.soak.streams import Streams

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def _journal(folder: Path, writer: int = 3) -> StreamJournal:
    return StreamJournal(folder / f"client.{writer}.sends", writer, [("t", 0), ("t", 1)])


def test_messages_are_taken_up_to_the_first_without_an_outcome(tmp_path: Path) -> None:
    journal, streams = _journal(tmp_path), Streams([Folder(tmp_path)])
    for seq in range(6):
        journal.begin(seq, seq % 2, 1000 + seq)
    journal.complete(0, done_ns=2000, outcome="ok", offset=7)
    journal.complete(1, done_ns=9000, outcome="fail", error=3)
    journal.complete(3, done_ns=2100, outcome="ok", offset=8)
    streams.look()
    found = streams.take()
    assert {key: rows[0].seq.tolist() for key, rows in found.items()} == {ZERO: [0], ONE: [1]}
    assert found[ZERO][0].outcome.tolist() == [OK] and found[ZERO][0].offset.tolist() == [7]
    assert found[ONE][0].outcome.tolist() == [FAIL] and found[ONE][0].offset.tolist() == [-1]
    assert dict(streams.taken) == {3: 2} and streams.oldest_ns == 1002
    assert streams.take() == {}
    journal.complete(2, done_ns=5000, outcome="ok", offset=9)
    assert {key: rows[0].seq.tolist() for key, rows in streams.take().items()} == {ZERO: [2], ONE: [3]}
    assert streams.acknowledged == 3 and streams.longest_gap_ns == 2900


class Between(Folder):
    """A folder in which a row is completed while it is copied: its state is that of after."""

    def read(self, path: str, start: int = 0, at_most: int = -1) -> bytes:
        before = super().read(path, start, at_most)
        if completing:
            completing.pop()()
        after = super().read(path, start, at_most)
        return before[:36] + after[36:]


completing: list[Callable[[], None]] = []


def test_a_row_that_is_completed_while_it_is_copied_is_whole(tmp_path: Path) -> None:
    journal, streams = _journal(tmp_path), Streams([Between(tmp_path)])
    for seq in range(2):
        journal.begin(seq, 0, 1000 + seq)
    journal.complete(0, done_ns=2000, outcome="ok", offset=7)
    streams.look()
    assert streams.take()[ZERO][0].offset.tolist() == [7]
    completing.append(partial(journal.complete, 1, done_ns=3000, outcome="ok", offset=8))
    (rows,) = streams.take()[ZERO]
    assert completing == [] and rows.offset.tolist() == [8] and streams.longest_gap_ns == 1000


def test_at_the_end_messages_without_an_outcome_are_unknown(tmp_path: Path) -> None:
    journal, streams = _journal(tmp_path), Streams([Folder(tmp_path)])
    journal.begin(0, 0, 1000)
    streams.look()
    assert streams.take() == {}
    (rows,) = streams.take(all_of_it=True)[ZERO]
    assert rows.outcome.tolist() == [INFO] and streams.taken == {3: 1}


def test_messages_are_found_again_by_number(tmp_path: Path) -> None:
    journal, streams = _journal(tmp_path), Streams([Folder(tmp_path)])
    for seq in range(100):
        journal.begin(seq, seq % 2, 1000 + seq)
        journal.complete(seq, done_ns=2000 + seq, outcome="ok", offset=seq // 2)
    streams.look()
    assert streams.of(ONE).between(3, 10, 15).seq.tolist() == [11, 13, 15]
    assert streams.of(ONE).between(3, 10, 15).offset.tolist() == [5, 6, 7]
    assert not len(streams.of(ONE).between(4, 0, 9)) and not len(streams.of(ONE).between(3, 9, 8))
    table = streams.table(np.array([3, 3, 3]), np.array([4, 5, 99]))
    rows = table.select(["topic", "partition", "writer", "seq", "sent_ns", "done_ns", "outcome", "offset"])
    assert rows.to_pylist()[2] == {
        **{"topic": "t", "partition": 1, "writer": 3, "seq": 99},
        **{"sent_ns": 1099, "done_ns": 2099, "outcome": "ok", "offset": 49},
    }
    assert table["seq"].to_pylist() == [4, 5, 99]


def test_a_second_journal_of_a_writer_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        _journal(tmp_path / name)
    streams = Streams([Folder(tmp_path / "one"), Folder(tmp_path / "two")])
    with pytest.raises(BadDataError, match="second journal of the stream of writer 3"):
        streams.look()
