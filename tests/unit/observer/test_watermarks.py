"""Offsets of replicas: a row for every change, and none for a FETCH that tells nothing."""

from __future__ import annotations

from pathlib import Path

from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.tables import read_table
from harness.kafka.batches import parse
from harness.kafka.wire.logs import Fetched
from harness.observer.tail import FileSource, TailPoller
from harness.observer.watermarks import Watermarks
from tests.unit.observer.test_log_tail import KEY, Memory, answer, stored


def fetched(log: list[bytes], offset: int, high_watermark: int) -> Fetched:
    raw = b"".join(log[offset:])
    return Fetched(parsed=parse(raw, offset), high_watermark=high_watermark, log_start=0, size_bytes=len(raw))


def offsets(row: dict[str, object] | None) -> tuple[object, object] | None:
    return None if row is None else (row.get("high_watermark"), row.get("leo"))


def test_only_a_change_makes_a_row() -> None:
    known, log = Watermarks(1), [stored(0), stored(1)]
    assert offsets(known.update(KEY, 0, fetched(log, 0, 1), 10)) == (1, 2)
    assert known.update(KEY, 1, fetched(log, 1, 1), 20) is None
    assert offsets(known.update(KEY, 1, fetched(log, 1, 2), 30)) == (2, 2)
    log.append(stored(2))
    assert offsets(known.update(KEY, 1, fetched(log, 1, 2), 40)) == (2, 3)


def test_each_replica_has_its_own_offsets() -> None:
    known, other = Watermarks(1), KEY._replace(partition=1)
    assert known.update(KEY, 0, fetched([stored(0)], 0, 1), 10) is not None
    assert known.update(other, 0, fetched([stored(0)], 0, 1), 10) is not None


def test_log_that_was_truncated_to_the_offset_of_the_fetch() -> None:
    known = Watermarks(1)
    known.update(KEY, 0, fetched([stored(n) for n in range(5)], 0, 5), 10)
    assert offsets(known.update(KEY, 2, fetched([stored(0), stored(1)], 2, 2), 20)) == (2, 2)


def test_error_and_incomplete_read_tell_nothing() -> None:
    known, log = Watermarks(1), [stored(n) for n in range(5)]
    assert known.update(KEY, 0, Fetched(error=1), 10) is None
    size = len(stored(0))
    assert answer(log, 0, 2 * size).cut_short
    assert known.update(KEY, 0, answer(log, 0, 2 * size), 20) is None
    assert known.update(KEY, 0, answer(log, 0), 30) is not None


def test_files_have_no_high_watermark(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(stored(0) + stored(1))
    row = Watermarks(1).update(KEY, 0, FileSource(tmp_path).read({KEY: 0}, 1)[KEY], 10)
    assert row is not None
    assert (row.get("high_watermark"), row["leo"], row["log_start"]) == (None, 2, 0)


def test_poller_writes_the_offsets_of_a_replica_that_falls_back(tmp_path: Path) -> None:
    source = Memory()
    with Journal(tmp_path / "journal" / "observer.jsonl") as journal:
        poller = TailPoller("broker3", 3, source, lambda: (KEY,), journal)
        for length in (1, 4, 4, 2):
            source.log = [stored(n) for n in range(length)]
            poller.poll()
    assemble(tmp_path)
    rows = read_table(tmp_path, "watermarks").to_pylist()
    assert [row["leo"] for row in rows] == [1, 4, 2]
    assert {(row["topic"], row["partition"], row["broker"]) for row in rows} == {("t", 0, 3)}
    assert [row["ns"] for row in rows] == sorted(row["ns"] for row in rows)


def test_history_without_the_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    assert read_table(tmp_path, "watermarks").num_rows == 0
