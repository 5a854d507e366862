"""Offsets of replicas: a row for every change, and none for a FETCH that tells nothing."""

from __future__ import annotations

from pathlib import Path

from harness.history.assemble import assemble
from harness.history.journal import Journal
from harness.history.tables import read_table
from harness.host_files import Folder
from harness.kafka.wire.logs import FetchResult
from harness.observer.replica_tail import ReplicaTail
from harness.observer.tail import FileSource, TailPoller
from harness.observer.watermarks import Watermarks
from tests.unit.observer.test_log_tail import KEY, Memory, answer, bodies, stored


def fetched(log: list[bytes], offset: int, high_watermark: int) -> FetchResult:
    raw = b"".join(log[offset:])
    return FetchResult(
        raw=raw, offset=offset, high_watermark=high_watermark, log_start=0, size_bytes=len(raw)
    )


def offsets(rows: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(row.get("high_watermark"), row.get("leo")) for row in rows]


def test_only_a_change_makes_a_row() -> None:
    watermarks, log = Watermarks(1), [stored(0), stored(1)]
    assert offsets(watermarks.update(KEY, 2, fetched(log, 0, 1), 10)) == [(1, 2)]
    assert watermarks.update(KEY, 2, fetched(log, 1, 1), 20) == []
    assert offsets(watermarks.update(KEY, 2, fetched(log, 1, 2), 30)) == [(2, 2)]
    log.append(stored(2))
    assert offsets(watermarks.update(KEY, 3, fetched(log, 1, 2), 40)) == [(2, 3)]


def test_each_replica_has_its_own_offsets() -> None:
    watermarks, other = Watermarks(1), KEY._replace(partition=1)
    assert watermarks.update(KEY, 1, fetched([stored(0)], 0, 1), 10)
    assert watermarks.update(other, 1, fetched([stored(0)], 0, 1), 10)


def test_an_answer_that_does_not_reach_the_end_proves_no_leo() -> None:
    log, size = [stored(n) for n in range(5)], len(stored(0))
    for fetched in (
        FetchResult(error=1),
        answer(log, 0, 2 * size),
        answer(log, 0, rolled=[2], high_watermark=3),
    ):
        tail = ReplicaTail(topic_partition=KEY, bodies=bodies())
        tail.update(fetched, 10)
        assert tail.leo is None
    tail.update(answer(log, tail.start, high_watermark=3), 10)
    assert tail.leo == 5


def test_files_have_no_high_watermark(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(stored(0) + stored(1))
    (row,) = Watermarks(1).update(KEY, 2, FileSource(Folder(tmp_path)).read({KEY: 0}, 1)[KEY], 10)
    assert (row.get("high_watermark"), row["leo"], row["log_start"]) == (None, 2, 0)


def test_poller_writes_the_offsets_of_a_replica_that_falls_back(tmp_path: Path) -> None:
    source = Memory()
    with Journal(tmp_path / "journal" / "observer.jsonl") as journal:
        poller = TailPoller("broker3", 3, source, lambda: (KEY,), journal, bodies())
        for length in (1, 4, 4, 2):
            source.log = [stored(n) for n in range(length)]
            poller.poll()
    assemble(tmp_path)
    rows = read_table(tmp_path, "watermarks").to_pylist()
    assert [row["leo"] for row in rows] == [1, 4, 2]
    assert {(row["topic"], row["partition"], row["broker"]) for row in rows} == {("t", 0, 3)}
    assert [row["ns"] for row in rows] == sorted(row["ns"] for row in rows)


def test_poller_follows_a_log_through_its_segments_and_its_retention(tmp_path: Path) -> None:
    source = Memory()
    with Journal(tmp_path / "journal" / "observer.jsonl") as journal:
        poller = TailPoller("broker3", 3, source, lambda: (KEY,), journal, bodies())
        for end, log_start in ((18, 0), (40, 0), (122, 60), (122, 122)):
            source.log = [stored(n) for n in range(end)]
            source.rolled, source.log_start, source.high_watermark = (18, 36, 54, 72, 90), log_start, end
            poller.poll()
    assemble(tmp_path)
    rows = read_table(tmp_path, "watermarks").to_pylist()
    assert [(row["leo"], row["log_start"]) for row in rows] == [(18, 0), (40, 0), (122, 60), (122, 122)]
    sightings = read_table(tmp_path, "sightings").to_pylist()
    assert [row["offset"] for row in sightings] == [*range(40), *range(60, 122)]
    assert all(row["gone_ns"] is not None for row in sightings)


def test_history_without_the_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    assert read_table(tmp_path, "watermarks").num_rows == 0
